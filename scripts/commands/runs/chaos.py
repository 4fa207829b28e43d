"""``railyard chaos``: a job on a cluster of its own while faults come by seed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from railyard.cluster.config import ClusterConfig
from railyard.scripts.chaos.request import ChaosRequest
from railyard.scripts.clusters.session import own_session
from railyard.scripts.exitstatus import Status
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.running.request import RunRequest
from railyard.scripts.terminal.progress import progress_view
from railyard.scripts.terminal.request import command

if TYPE_CHECKING:
    from railyard.scripts.chaos.plan import Fault
    from railyard.scripts.chaos.underfaults import Report


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
    from railyard.scripts.chaos.plan import plan_faults
    from railyard.scripts.chaos.shown import as_json, show_report

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


def _under_faults(request: RunRequest, config: ClusterConfig, plan: Sequence[Fault]) -> Report:
    """Run it on a cluster of its own, and print each fault."""
    from railyard.scripts.api.running import work_for
    from railyard.scripts.chaos.shown import heading, line_of
    from railyard.scripts.chaos.underfaults import run_under_faults, without_faults

    work_for(request, config, None)  # mistakes are found before anything is started
    with own_session(config) as session:
        with progress_view() as view:
            kind = without_faults(session, request, view)
        click.echo(heading())
        return run_under_faults(
            session, [kind], plan, lambda one: click.echo(line_of(one)), config.seed
        )
