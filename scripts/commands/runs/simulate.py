"""``railyard simulate``: the virtual clock.  Jobs under a scheduler, or coflows without tasks.

Standard output has the results; how far it is goes to standard error.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from railyard.cluster.errors import UsageError
from railyard.scripts.terminal.options import (
    COUNT,
    REDUCES,
    SEED,
    settings,
    size,
    topology_options,
    writable_file,
)

#: A workload of this kind is coflows alone, unless a scheduler for jobs is named.
_COFLOWS = "coflow-benchmark"


@click.command()
@click.option(
    "--workload",
    required=True,
    metavar="NAME[:FILE][,KEY=VALUE...]",
    help="One that railyard workloads lists, or jobs as railyard run takes them: terasort, "
    "wordcount,size=2GB,times=3, mix,jobs=20, jobs.toml.  coflow-benchmark:FILE without "
    "--scheduler is coflows alone.",
)
@click.option(
    "--scheduler",
    "schedulers",
    metavar="NAME",
    multiple=True,
    help="Default: fair; railyard schedulers lists them.  Repeat it to compare several.",
)
@click.option(
    "--flow-scheduler",
    "flow_schedulers",
    metavar="NAME",
    multiple=True,
    help="Default: maxmin.  Repeat it to compare several.",
)
@click.option(
    "--set",
    "scheduler_options",
    metavar="KEY=VALUE",
    callback=settings,
    multiple=True,
    help="A setting of the scheduler, such as delay.node_wait_s=3; repeatable.",
)
@click.option("--seed", type=SEED, help="The first seed.  Default: 1.")
@click.option("--seeds", type=COUNT, metavar="N", help="So many runs of each.")
@click.option(
    "--on",
    metavar="dask:ADDRESS|ray:ADDRESS",
    help="Simulate several runs there, rather than on this machine's cores.",
)
@click.option("--size", "size_bytes", callback=size, help="Input of each such job; default: 10GB.")
@click.option("--reduces", type=REDUCES, help="Theirs; default: half of the slots.")
@click.option(
    "--first",
    metavar="N",
    type=COUNT,
    help="Only the first N jobs or coflows.",
)
@click.option(
    "--behaviour",
    metavar="KEY=VALUE",
    callback=settings,
    multiple=True,
    help="How nodes differ from ideal ones: variance=0.3 (lognormal sigma of computing times), "
    "stragglers=0.05, straggler_factor=5, failures=0.01 (shares of attempts), launch_s=0.2, "
    "fetch_s, end_s (latencies), progress_s; to be quick and a bit off: shuffle_flows=2000 "
    "(merges larger shuffles), output_block=2000000000 (writes larger blocks), together_s=0.05 "
    "(flows that end so close end at once); repeatable.",
)
@click.option(
    "--faults",
    metavar="SPEC|SEED",
    help="What goes wrong: node:r0n1@10s+20s,rack:r2@30s+60s,slow:r1n0*4@5s+60s,"
    "link:r3.up*0.2@5s+60s,blocks:r0n0/3@10s, or a number: the seed of a schedule.",
)
@click.option("--json", "json_file", callback=writable_file, help="Write the summary to this file.")
@click.option(
    "--out", "results", metavar="DIR", help="Write summary, events and trace to a new folder."
)
@topology_options
def simulate(
    workload: str,
    flow_schedulers: tuple[str, ...],
    first: int | None,
    json_file: Path | None,
    topology: str | None,
    network: tuple[tuple[str, str], ...],
    **of_jobs: Any,
) -> int:
    """Run a workload in virtual time, under the same schedulers as real jobs.

    A trace of coflows runs alone, without tasks; by default on one port of 1 Gbps for each rack of
    the trace.  With several flow schedulers, the JSON file has a list of summaries.

    Several runs, of schedulers or seeds, are spread over this machine's cores, and told as
    railyard compare does.
    """
    if workload.split(":")[0] == _COFLOWS and not of_jobs["schedulers"]:
        for name, value in of_jobs.items():
            if value not in (None, ()):
                raise UsageError(f"{_OPTIONS[name]}: coflows alone have none: need --scheduler too")
        from railyard.scripts.simulating.coflows import simulate_coflows

        simulate_coflows(workload, flow_schedulers, first, json_file, topology, network)
        return 0
    seeds, on, schedulers = (of_jobs.pop(name) for name in ("seeds", "on", "schedulers"))
    if seeds is not None or on is not None or len(schedulers) > 1 or len(flow_schedulers) > 1:
        from railyard.scripts.commands.runs.simulate_many import Many, simulate_many

        return simulate_many(
            Many(
                workload=workload,
                schedulers=schedulers or ("fair",),
                flow_schedulers=flow_schedulers or ("maxmin",),
                first=first,
                json_file=json_file,
                topology=topology,
                network=network,
                seeds=seeds or 1,
                on=on,
                **of_jobs,
            )
        )
    from railyard.scripts.simulating.jobs import Wanted, simulate_jobs
    from railyard.scripts.terminal.options import ClusterChoice

    choice = ClusterChoice(
        topology=topology,
        network=network,
        scheduler=schedulers[0] if schedulers else None,
        flow_scheduler=flow_schedulers[0] if flow_schedulers else None,
        scheduler_options=of_jobs.pop("scheduler_options"),
        seed=of_jobs.pop("seed"),
        transport=None,
    )
    return simulate_jobs(choice.config(), Wanted(workload, first, json_file, **of_jobs))


_OPTIONS = {
    "seeds": "--seeds",
    "on": "--on",
    "scheduler_options": "--set",
    "seed": "--seed",
    "size_bytes": "--size",
    "reduces": "--reduces",
    "behaviour": "--behaviour",
    "faults": "--faults",
    "results": "--out",
}
