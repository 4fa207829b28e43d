"""``railyard run``: a job from its input to its checked output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from railyard.chaos.request import ChaosRequest
from railyard.cli.exitstatus import Status
from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import RailyardError
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.units import format_count
from railyard.runs.clusters import own_session
from railyard.runs.figures import require_trusted
from railyard.runs.home import current_folder
from railyard.runs.outputfile import say_written, write_json
from railyard.runs.requests import CompareRequest
from railyard.runs.summary import require_figures
from railyard.runs.work import RunRequest, require_well, run_on, session_for, work_for
from railyard.terminal.options import command
from railyard.terminal.progress import progress_view

if TYPE_CHECKING:
    from railyard.api.results import Comparison
    from railyard.chaos.plan import LiveFault
    from railyard.chaos.runs import Report
    from railyard.runs.requests import RunsRequest


@command(RunRequest)
def run(request: RunRequest) -> None:
    """Run a job, or several at once, and check the output.

    JOB is terasort, wordcount, topwords, query, or a Python file of yours: ./my_job.py, or
    ./my_job.py:MyJob if it has several.  It runs on the cluster that is up, or else on one that is
    started for it and removed afterwards.

    Of several jobs more can be said, each for itself: terasort,size=2GB,submit=5s,times=3 (also
    reduces, user, queue, param.NAME).  mix,jobs=20,sizes=1GB+2GB,window=30s draws jobs by the seed
    (also of=terasort+wordcount, users, queues, reduces), and a file jobs.toml has a table [[job]]
    for each.  Schedulers that plan ahead get forecasts of them, with their measured sizes:
    recurring=0.5 predicts half of them, size_error=0.1 wrongly; inputs=own makes one for each.
    skew=1.2 spreads generated input over the racks by Zipf's law, skew_ratio=8 so that the rack
    with most has 8 times as much as that with least.  docs/workloads.md has all of these words.
    """
    up = current_folder()
    config = request.config() if up is None else _config_of(up, request)
    work = work_for(request, config, up)
    with progress_view() as view, session_for(up, config, view) as session:
        ran = run_on(session, work, view, request.results)
    work.show(ran.summary, config.topology)
    if request.json_file is not None:
        write_json(ran.summary, request.json_file)
    if request.results is not None and ran.unwritten is None:
        from railyard.report.runpage import finish_folder

        finish_folder(request.results, ran.summary, config.topology)
    say_written(request.results, request.json_file)
    require_well(ran, work.name)
    if request.strict:
        require_trusted([ran.summary])
    require_figures([ran.summary])


def _config_of(up: RunFolder, request: RunRequest) -> ClusterConfig:
    """That of the cluster that is up; ``UsageError`` if another one was asked for."""
    config = ClusterConfig.load(up)
    request.require_like(config)
    return config


# ``railyard compare``: the same jobs under several schedulers, on either clock or on both.


class NotAllVerified(RailyardError):
    """A job failed, or its output is not what it should be."""


@command(CompareRequest)
def compare(request: CompareRequest) -> None:
    """Run the same jobs under several schedulers: what differs, beyond chance; with --out a page.

    JOB is what railyard run takes: terasort wordcount, or terasort,size=2GB,times=3, or
    mix,jobs=20,window=30s, or jobs.toml.  With --clock virtual it may be a workload for the
    simulator: railyard workloads lists them.
    """
    comparison = carry_out(request)
    bad = [run for run in comparison.runs if run.verified is False]
    if bad:
        runs = format_count(len(bad), "run")
        raise NotAllVerified(f"{runs} had jobs that failed or have wrong output")
    if request.strict:
        require_trusted(run.summary for run in comparison.runs)


def carry_out(request: RunsRequest) -> Comparison:
    """Carry out a comparison; print its table, write its files."""
    from railyard.api.studies import compared
    from railyard.runs.summary import require_figures

    comparison = compared(request)
    click.echo(str(comparison))
    if request.json_file is not None:
        comparison.save_json(request.json_file)
    if comparison.folder is not None:
        comparison.write_page()
    say_written(comparison.folder, request.json_file)
    require_figures(run.summary for run in comparison.runs)
    return comparison


# ``railyard chaos``: a job on a cluster of its own while faults come by seed.


@command(ChaosRequest)
def chaos(request: ChaosRequest) -> int:
    """Run a job while daemons, attempts, links and disks fail by seed, and compare its output.

    JOB is as railyard run takes it, or several of them.  It runs on a cluster of its own, first
    without faults; then again and again until all faults have been done and recovered from.  Each
    fault is a line: when, what, and how long it took until the daemon answered again, the block had
    its replicas again, or the task ran again.

    Each output is compared byte for byte with that of the run without faults.  Small files are
    stored meanwhile; one that was acknowledged must be there in the end.  The exit status is 6 if
    anything differs, 1 if a job failed or something did not recover.
    """
    from railyard.chaos.plan import plan_faults
    from railyard.chaos.report import as_json, show_report

    kinds = request.chosen_kinds()
    config = request.cluster(kinds)
    plan = plan_faults(config.seed, config.topology, kinds, request.kills, request.every_s)
    report = _under_faults(request.run(), config, plan)
    show_report(report)
    if request.json_file is not None:
        write_json({"seed": config.seed, "kinds": kinds} | as_json(report), request.json_file)
    if report.differing:
        return Status.DIFFERS
    return Status.FAILED if report.failures or report.unrecovered else Status.OK


def _under_faults(request: RunRequest, config: ClusterConfig, plan: Sequence[LiveFault]) -> Report:
    """Run it on a cluster of its own, and print each fault."""
    from railyard.chaos.report import heading, line_of
    from railyard.chaos.runs import run_under_faults, without_faults
    from railyard.runs.work import work_for

    work_for(request, config, None)  # mistakes are found before anything is started
    with own_session(config) as session:
        with progress_view() as view:
            kind = without_faults(session, request, view)
        click.echo(heading())
        return run_under_faults(
            session, [kind], plan, lambda one: click.echo(line_of(one)), config.seed
        )
