"""``railyard run``, ``compare`` and ``chaos``: jobs from their input to their checked output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from railyard.chaos.request import ChaosRequest
from railyard.cli.exitstatus import Status
from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import RailyardError, UsageError
from railyard.cluster.units import format_count
from railyard.runs.figures import require_trusted
from railyard.runs.home import current_folder
from railyard.runs.outputfile import say_written, write_json
from railyard.runs.requests import CLUSTER, FEW_SEEDS, INPUT, RunRequest, several_flow_schedulers
from railyard.terminal.options import COUNT, command, option
from railyard.terminal.progress import progress_view

if TYPE_CHECKING:
    from railyard.api.results import Comparison


def _names(_: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise UsageError(f"{option.opts[0]} {text}: need names with commas between")
    return names


@command(RunRequest, f"words output fetch_to params user queue strict {CLUSTER} results {INPUT}")
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
    from railyard.runs.summary import require_figures
    from railyard.runs.work import require_well, run_on, session_for, work_for

    up = current_folder()
    if up is None:
        config = request.config()
    else:
        config = ClusterConfig.load(up)
        request.require_like(config)
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


class NotAllVerified(RailyardError):
    """A job failed, or its output is not what it should be."""


@command(
    RunRequest,
    "words schedulers clocks seeds strict durability "
    f"flow_schedulers scheduler_options seed exact on results {INPUT}",
    schedulers=option(
        "--schedulers",
        default="fair,delay,capacity",
        metavar="NAME,...",
        callback=_names,
        help='The others are measured against the first.  "delay + sjf" is one with its flow '
        "scheduler.  Default: fair,delay,capacity.",
    ),
    flow_schedulers=several_flow_schedulers(),
    seeds=option(
        "--seeds",
        type=COUNT,
        metavar="N",
        help=f"Runs of each.  Default: 1 emulated, {FEW_SEEDS} simulated.",
    ),
)
def compare(request: RunRequest) -> None:
    """Run the same jobs under several schedulers: what differs, beyond chance; with --out a page.

    JOB is what railyard run takes: terasort wordcount, or terasort,size=2GB,times=3, or
    mix,jobs=20,window=30s, or jobs.toml.  With --clock virtual it may be a workload for the
    simulator: railyard workloads lists them.
    """
    comparison = carry_out(replace(request, simulated=FEW_SEEDS))
    bad = [run for run in comparison.runs if run.verified is False]
    if bad:
        runs = format_count(len(bad), "run")
        raise NotAllVerified(f"{runs} had jobs that failed or have wrong output")
    if request.strict:
        require_trusted(run.summary for run in comparison.runs)


def carry_out(request: RunRequest) -> Comparison:
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


@command(ChaosRequest, f"words kills every_s kinds params {CLUSTER} {INPUT}")
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
    from railyard.chaos.report import as_json, heading, line_of, show_report
    from railyard.chaos.runs import run_under_faults, without_faults
    from railyard.runs.session import own_session
    from railyard.runs.work import work_for

    kinds = request.chosen_kinds()
    config = request.cluster(kinds)
    plan = plan_faults(config.seed, config.topology, kinds, request.kills, request.every_s)
    work_for(request, config, None)  # mistakes are found before anything is started
    with own_session(config) as session:
        with progress_view() as view:
            kind = without_faults(session, request, view)
        click.echo(heading())
        report = run_under_faults(
            session, [kind], plan, lambda one: click.echo(line_of(one)), config.seed
        )
    show_report(report)
    if request.json_file is not None:
        write_json({"seed": config.seed, "kinds": kinds} | as_json(report), request.json_file)
    if report.differing:
        return Status.DIFFERS
    return Status.FAILED if report.failures or report.unrecovered else Status.OK
