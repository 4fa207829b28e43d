"""``railyard simulate`` of coflows alone, without tasks: a row for each flow scheduler."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from railyard.cluster.errors import UsageError, require_once
from railyard.cluster.overrides import SHORT
from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.units import PERCENT, format_count, format_duration, format_size, time_unit
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.simulating.request import SimulateRequest
from railyard.scripts.terminal.options import TextPairs
from railyard.scripts.terminal.watching import State, watching

if TYPE_CHECKING:
    from railyard.jobs.workloads.traces.coflows import CoflowTrace
    from railyard.simulator.coflows import CoflowRun

#: The set-up of the literature: a port of 1 Gbps for each of the trace's racks.
_PORTS = "ports-150x1"
#: What only jobs use of a topology.
_OF_TASKS = ("compute.", "storage.", "client.")


def simulate_coflows(request: SimulateRequest) -> None:
    """Run a trace of coflows under each of the flow schedulers; print a table."""
    from railyard.jobs.workloads import coflow_trace
    from railyard.netemu.schedulers import flow_scheduler
    from railyard.scripts.clusters.config import warn_of_missing_circuits
    from railyard.simulator.coflows import CoflowRun

    schedulers = [flow_scheduler(name) for name in request.flow_schedulers or ("maxmin",)]
    require_once((scheduler.name for scheduler in schedulers), "--flow-scheduler")
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
        words = f"{name}  {done}/{total} coflows  {flows} flows  at {format_duration(now_s)}"
        return State(done, total, words)

    with watching(state) as watch:
        begun_s = time.process_time()
        run.run(lambda _: watch())
        return time.process_time() - begun_s


def _topology(request: SimulateRequest, trace: CoflowTrace) -> Topology:
    """The topology that was asked for, or else a port for each of the trace's racks."""
    for key, _ in request.network:
        full = SHORT.get(key, key)
        if full.startswith(_OF_TASKS) or full.endswith(".slots"):
            right = "need --scheduler too"
            raise UsageError(f"--network {key}: coflows alone have no tasks and files: {right}")
    if request.topology is not None:
        return request.place
    network: TextPairs = request.network
    racks = load_topology(_PORTS).racks.count
    if racks != trace.racks and not any(key == "racks.count" for key, _ in network):
        network = (("racks.count", str(trace.racks)), *network)
    return load_topology(_PORTS, network)


def _show(trace: CoflowTrace, topology: Topology, summaries: list[dict[str, Any]]) -> None:
    from railyard.scripts.terminal.tables import Column, plain_console, show_table

    sent = format_size(sum(coflow.size_bytes for coflow in trace.coflows))
    coflows, flows = format_count(len(trace.coflows), "coflow"), format_count(trace.width, "flow")
    title = f"{trace.name}: {coflows}, {flows}, {sent}"
    of_cct = time_unit(max(summary["cct_s"]["p99"] or 0.0 for summary in summaries))
    columns = [
        Column("flow scheduler"),
        Column("CCT mean", lambda _: of_cct),
        Column("CCT median", lambda _: of_cct, rank=1),
        Column("CCT p95", lambda _: of_cct),
        Column("CCT p99", lambda _: of_cct, rank=2),
        Column("last end", time_unit, rank=3),
        Column("network used", lambda _: PERCENT, rank=4),
        Column("CPU time", time_unit, rank=5),
    ]
    rows = [
        [
            summary["flow_scheduler"],
            *(summary["cct_s"][key] for key in ("mean", "p50", "p95", "p99")),
            summary["makespan_s"],
            summary["network_utilization"],
            summary["cpu_s"],
        ]
        for summary in summaries
    ]
    title = f"{title}, on {topology.name}"
    show_table(plain_console(), columns, rows, title=title, elsewhere="--json")
