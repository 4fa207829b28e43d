"""``railyard simulate`` of coflows alone, without tasks: a row for each flow scheduler."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.units import format_duration, format_size
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.simulating.request import SimulateRequest
from railyard.scripts.terminal.options import TextPairs
from railyard.scripts.terminal.watching import State, watching

if TYPE_CHECKING:
    from railyard.jobs.workloads.traces.coflows import CoflowTrace
    from railyard.simulator.coflows import CoflowRun

#: The set-up of the literature: a port of 1 Gbps for each of the trace's racks.
_PORTS = "ports-150x1"


def simulate_coflows(request: SimulateRequest) -> None:
    """Run a trace of coflows under each of the flow schedulers; print a table."""
    from railyard.jobs.workloads import coflow_trace
    from railyard.netemu.schedulers import flow_scheduler
    from railyard.scripts.clusters.config import warn_of_missing_circuits
    from railyard.simulator.coflows import CoflowRun

    schedulers = [flow_scheduler(name) for name in request.flow_schedulers or ("maxmin",)]
    trace = coflow_trace(request.workload)
    if request.first is not None:
        trace = trace.first(request.first)
    place = _topology(request, trace)
    warn_of_missing_circuits(place, [scheduler.name for scheduler in schedulers])
    summaries = []
    for scheduler in schedulers:
        run = CoflowRun(trace, place, scheduler)
        cpu_s = _run(run, scheduler.name)
        summaries.append(run.summary() | {"workload": request.workload, "cpu_s": cpu_s})
    _show(trace, place, summaries)
    if request.json_file is not None:
        write_json(summaries[0] if len(summaries) == 1 else summaries, request.json_file)


def _run(run: CoflowRun, name: str) -> float:
    """Run to the end with progress shown; returns CPU seconds."""

    def state() -> State:
        done, total = run.finished, len(run.records)
        flows, now_s = run.fabric.open_flows, run.fabric.now_s
        words = f"{name}  {done}/{total} coflows  {flows} flows  at {now_s:.0f} s"
        return State(done, total, words)

    with watching(state) as watch:
        begun_s = time.process_time()
        run.run(lambda _: watch())
        return time.process_time() - begun_s


def _topology(request: SimulateRequest, trace: CoflowTrace) -> Topology:
    """The topology that was asked for, or else a port for each of the trace's racks."""
    if request.topology is not None:
        return request.place
    network: TextPairs = request.network
    racks = load_topology(_PORTS).racks.count
    if racks != trace.racks and not any(key == "racks.count" for key, _ in network):
        network = (("racks.count", str(trace.racks)), *network)
    return load_topology(_PORTS, network)


def _show(trace: CoflowTrace, topology: Topology, summaries: list[dict[str, Any]]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from railyard.scripts.terminal.tables import cell, plain_console

    sent = format_size(sum(coflow.size_bytes for coflow in trace.coflows))
    title = f"{trace.name}: {len(trace.coflows)} coflows, {trace.width} flows, {sent}"
    table = Table(title=cell(f"{title}, on {topology.name}"), title_justify="left", box=SIMPLE)
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
    plain_console().print(table)
