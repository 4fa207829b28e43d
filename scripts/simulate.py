"""``railyard simulate``: the virtual clock.  Coflow traces, under one flow scheduler or several.

Standard output has the table of completion times; how far it is goes to standard error.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from cluster.topology import Topology, load_topology
from cluster.units import format_duration, format_size
from scripts import interrupts
from scripts.options import topology_options, writable_file

if TYPE_CHECKING:
    from jobs.workloads.coflows import CoflowTrace
    from simulator.coflows import CoflowRun

#: The set-up of the literature: a port of 1 Gbps for each of the trace's racks.
_PORTS = "ports-150x1"
_SHOW_EVERY_S = 0.1
_LINE_EVERY_S = 5.0

Watch = Callable[["CoflowRun"], None]


@click.command()
@click.option(
    "--workload",
    required=True,
    metavar="KIND:FILE",
    help="A trace of coflows: coflow-benchmark:FILE.",
)
@click.option(
    "--flow-scheduler",
    "flow_schedulers",
    metavar="NAME",
    multiple=True,
    help="Default: maxmin; railyard schedulers lists them.  Repeat it to compare several.",
)
@click.option(
    "--first",
    metavar="N",
    type=click.IntRange(min=1),
    help="Only the first N coflows.",
)
@click.option("--json", "json_file", callback=writable_file, help="Write the summary to this file.")
@topology_options
def simulate(
    workload: str,
    flow_schedulers: tuple[str, ...],
    first: int | None,
    json_file: Path | None,
    topology: str | None,
    network: tuple[tuple[str, str], ...],
) -> None:
    """Run a workload in virtual time.

    A trace of coflows runs alone, without tasks; by default on one port of 1 Gbps for each rack of
    the trace.  With several flow schedulers, the JSON file has a list of summaries.
    """
    from jobs.workloads import coflow_trace
    from netemu.schedulers import flow_scheduler
    from simulator.coflows import CoflowRun

    names = flow_schedulers or ("maxmin",)
    schedulers = [flow_scheduler(name) for name in names]
    trace = coflow_trace(workload)
    if first is not None:
        trace = trace.first(first)
    place = _topology(topology, network, trace)
    summaries = []
    for scheduler in schedulers:
        run = CoflowRun(trace, place, scheduler)
        with _progress(scheduler.name) as watch:
            begun_s = time.process_time()
            run.run(watch)
            cpu_s = time.process_time() - begun_s
        summaries.append(run.summary() | {"workload": workload, "cpu_s": cpu_s})
    _show(trace, place, summaries)
    if json_file is not None:
        told = summaries[0] if len(summaries) == 1 else summaries
        json_file.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


def _topology(
    topology: str | None, network: Sequence[tuple[str, str]], trace: CoflowTrace
) -> Topology:
    if topology is not None:
        return load_topology(topology, network)
    ports = load_topology(_PORTS)
    if ports.racks.count != trace.racks and not any(key == "racks.count" for key, _ in network):
        network = [("racks.count", str(trace.racks)), *network]
    return load_topology(_PORTS, network)


def _show(trace: CoflowTrace, topology: Topology, summaries: list[dict[str, Any]]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    sent = format_size(sum(coflow.size_bytes for coflow in trace.coflows))
    title = f"{trace.name}: {len(trace.coflows)} coflows, {trace.width} flows, {sent}"
    table = Table(title=f"{title}, on {topology.name}", title_justify="left", box=SIMPLE)
    table.add_column("flow scheduler")
    columns = ("CCT mean", "median", "p95", "p99", "last ended after", "network used", "CPU")
    for column in columns:
        table.add_column(column, justify="right")
    for summary in summaries:
        cct_s = summary["cct_s"]
        table.add_row(
            summary["flow_scheduler"],
            *(format_duration(cct_s[key]) for key in ("mean", "p50", "p95", "p99")),
            format_duration(summary["makespan_s"]),
            f"{summary['network_utilization']:.0%}",
            format_duration(summary["cpu_s"]),
        )
    console = Console()
    if not console.is_terminal:
        console.width = 200  # whoever reads it wants whole lines
    console.print(table)


@contextmanager
def _progress(name: str) -> Iterator[Watch]:
    """What to call to show how far a run is: a bar on a terminal, now and then a line elsewhere."""
    if not sys.stderr.isatty():
        yield _seldom(_LINE_EVERY_S, lambda run: print(_words(name, run), file=sys.stderr))
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name)

        def show(run: CoflowRun) -> None:
            total = len(run.records)
            words = _words(name, run)
            progress.update(task, completed=run.finished, total=total, description=words)

        yield _seldom(_SHOW_EVERY_S, show)


def _seldom(every_s: float, show: Watch) -> Watch:
    """The same, but only so often; an interrupt is taken up each time."""
    next_s = time.monotonic() + every_s

    def watch(run: CoflowRun) -> None:
        nonlocal next_s
        interrupts.check()
        if time.monotonic() >= next_s:
            show(run)
            next_s = time.monotonic() + every_s

    return watch


def _words(name: str, run: CoflowRun) -> str:
    coflows = f"{run.finished}/{len(run.records)} coflows"
    return f"{name}  {coflows}  {run.fabric.open_flows} flows  at {run.fabric.now_s:.0f} s"
