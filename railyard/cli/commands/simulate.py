"""``railyard simulate``: jobs under a scheduler in virtual time, or coflows without tasks.

Standard output has the results; how far it is goes to standard error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from railyard.cluster.errors import UsageError, printable, require_once
from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.topologyfile import SHORT
from railyard.cluster.units import (
    PERCENT,
    format_count,
    format_duration,
    format_number,
    format_share,
    format_size,
    time_unit,
)
from railyard.runs.outputfile import say_written, write_json
from railyard.runs.requests import INPUT, RunRequest, one, several_flow_schedulers
from railyard.terminal.notices import State, watching
from railyard.terminal.options import TextPairs, command, option

if TYPE_CHECKING:
    from railyard.jobs.workloads.coflows import CoflowTrace
    from railyard.runs.simulation import Simulated
    from railyard.simulator.coflows import CoflowRun
    from railyard.simulator.simulation import Simulation


#: The set-up of the literature: a port of 1 Gbps for each of the trace's racks.
_PORTS = "ports-150x1"
#: What only jobs use of a topology.
_OF_TASKS = ("compute.", "storage.", "client.")


def simulate_coflows(request: RunRequest) -> None:
    """Run a trace of coflows under each of the flow schedulers; print a table."""
    from railyard.jobs.workloads.coflows import coflow_trace
    from railyard.netemu.schedulers import flow_scheduler
    from railyard.runs.config import warn_of_missing_circuits
    from railyard.simulator.coflows import CoflowRun

    schedulers = [flow_scheduler(name) for name in request.flow_schedulers or ("maxmin",)]
    require_once((scheduler.name for scheduler in schedulers), "--flow-scheduler")
    trace = coflow_trace(request.words[0])
    if request.first is not None:
        trace = trace.first(request.first)
    place = _topology(request, trace)
    warn_of_missing_circuits(place, [scheduler.name for scheduler in schedulers])
    summaries = []
    for scheduler in schedulers:
        run = CoflowRun(trace, place, scheduler)
        cpu_s = _run(run, scheduler.name)
        summaries.append(run.summary() | {"workload": request.words[0], "cpu_s": cpu_s})
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


def _topology(request: RunRequest, trace: CoflowTrace) -> Topology:
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
    from railyard.terminal.tables import Column, plain_console, show_table

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


def show(done: Simulated) -> None:
    """Print the table that ends ``railyard simulate``."""
    for label, text in _rows(done.simulation, done.summary, done.cpu_s):
        click.echo(f"{label:<11}{printable(text)}")


def _rows(run: Simulation, summary: dict[str, Any], cpu_s: float) -> list[tuple[str, str]]:
    from railyard.runs.summary import attempts_of, figure_rows, schedulers_of, usage_rows

    jobs, topology = summary["jobs"], run.config.topology
    failed = sum(not job["ok"] for job in jobs)
    ratio = summary["makespan_s"] / cpu_s if cpu_s else 0.0
    locality = summary["locality"]
    maps = sum(locality.values()) or 1
    words = {"node": "on the map's node", "rack": "in its rack", "remote": "further away"}
    rows = [
        ("workload", f"{summary['workload']} on {topology.name}, {schedulers_of(summary)}"),
        ("jobs", format_count(len(jobs), "job") + (f", {failed} failed" if failed else "")),
        ("makespan", format_duration(summary["makespan_s"])),
        ("job time", _spread(summary["jct_s"])),
        ("shuffles", _spread(summary["cct_s"])),
        ("tasks", attempts_of(summary["tasks"], "copies")),
        ("map input", ", ".join(f"{format_share(locality[k] / maps)} {words[k]}" for k in words)),
        ("skew", _spread(summary["shuffle_skew"], format_number)),
        *usage_rows(summary),
        *figure_rows(summary),
        (
            "simulated",
            f"in {format_duration(cpu_s)} of CPU time, {format_number(ratio)} times as fast",
        ),
    ]
    broken = [job for job in run.core.records.values() if job.ok is False]
    rows += [("FAILED", f"{job.name}: {job.reason}") for job in broken[:5]]
    return rows


def _spread(values: dict[str, float | None], show: Callable[[float], str] = format_duration) -> str:
    """Mean and percentiles as text, without unknown ones."""
    known = [(name, value) for name, value in values.items() if value is not None]
    return ", ".join(f"{name} {show(value)}" for name, value in known) or "none"


#: A workload of this kind is coflows alone, unless a scheduler for jobs is named.
_COFLOWS = "coflow-benchmark"
#: What can be said of coflows alone.
_OF_COFLOWS = ("words", "flow_schedulers", "first", "json_file", "topology", "network")


@command(
    RunRequest,
    "words schedulers first behaviour faults "
    f"flow_schedulers scheduler_options seed seeds exact on results {INPUT}",
    words=option(
        "--workload",
        required=True,
        metavar="NAME[:FILE][,KEY=VALUE...]",
        callback=one,
        help="One that railyard workloads lists, or jobs as railyard run takes them: terasort, "
        "wordcount,size=2GB,times=3, mix,jobs=20, jobs.toml.  coflow-benchmark:FILE without "
        "--scheduler is coflows alone.",
    ),
    schedulers=option(
        "--scheduler",
        metavar="NAME",
        multiple=True,
        help='Default: fair; railyard schedulers lists them.  "delay + sjf" names a flow '
        "scheduler, too.  Repeat it to compare several.",
    ),
    flow_schedulers=several_flow_schedulers(),
)
def simulate(request: RunRequest) -> int:
    """Run a workload in virtual time, under the same schedulers as real jobs.

    A trace of coflows runs alone, without tasks; by default on one port of 1 Gbps for each rack of
    the trace.  With several flow schedulers, the JSON file has a list of summaries.

    Several runs, of schedulers or seeds, are spread over this machine's cores, and shown as
    railyard compare does.
    """
    if request.words[0].split(":")[0] == _COFLOWS and not request.schedulers:
        _require_only(_OF_COFLOWS)
        simulate_coflows(request)
        return 0
    several = len(request.schedulers) > 1 or len(request.flow_schedulers) > 1
    if several or request.seeds is not None or request.on is not None:
        from railyard.cli.commands.runs import carry_out

        return 0 if carry_out(request).ok else 1
    from railyard.api.studies import simulated
    from railyard.runs.summary import require_figures

    done, run = simulated(request)
    if request.json_file is not None:
        write_json(run.summary, request.json_file)
    show(done)
    say_written(run.folder, request.json_file)
    require_figures([run.summary])
    return 0 if run.ok else 1


def _require_only(names: tuple[str, ...]) -> None:
    """Raise ``UsageError`` if another option was typed."""
    context = click.get_current_context()
    for param in context.command.params:
        name = param.name or ""
        typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if typed and name not in names:
            raise UsageError(f"{param.opts[0]}: coflows alone have none: need --scheduler too")
