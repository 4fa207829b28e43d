"""``railyard simulate`` of jobs: one workload under one scheduler, on simulated nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import click

from railyard.cluster.shown import printable
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_count, format_duration, format_number, format_share
from railyard.jobs.mixes.mixes import Defaults
from railyard.jobs.samples.sample import default_reduces
from railyard.jobs.workloads.model import Workload
from railyard.jobs.workloads.samples import is_sample, sample_workload
from railyard.scripts.clusters.config import (
    cluster_config,
    warn_of_idle_priorities,
    warn_of_missing_circuits,
)
from railyard.scripts.clusters.pairs import pairs_of
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.results.summary import (
    attempts_of,
    figure_rows,
    require_figures,
    schedulers_of,
    usage_rows,
)
from railyard.scripts.simulating.request import SimulateRequest
from railyard.scripts.simulating.virtual import VirtualRun, say_what_is_coarse, simulate
from railyard.scripts.simulating.workloads import (
    is_simulators,
    measured_jobs,
    require_known,
    require_no_sizes,
    simulators_workload,
)
from railyard.scripts.terminal.watching import State, Watch, watching
from railyard.simulator.cluster import Simulation


def simulate_jobs(request: SimulateRequest) -> int:
    """Run a workload to its end and print the results; 1 if a job failed."""
    pair = pairs_of(request.schedulers or ("fair",), request.flow_schedulers)[0]
    config = cluster_config(
        request.place,
        pair=pair,
        options=request.scheduler_options,
        seed=request.seed,
    )
    jobs = _workload(request, config.topology)
    warn_of_missing_circuits(config.topology, [config.flow_scheduler])
    warn_of_idle_priorities([pair])
    run = VirtualRun(
        config=config,
        workload=replace(jobs, jobs=jobs.jobs[: request.first]),
        behaviour=request.behaviour,
        faults=request.faults,
        results=request.results,
        name=request.workload,
    )
    if not request.exact:
        run = run.fitted()
        say_what_is_coarse([run])
    done = simulate(run, _shown)
    if request.json_file is not None:
        write_json(done.summary, request.json_file)
    for label, text in _rows(done.simulation, done.summary, done.cpu_s):
        click.echo(f"{label:<11}{printable(text)}")
    require_figures([done.summary])
    return 0 if all(job["ok"] for job in done.summary["jobs"]) else 1


def _workload(request: SimulateRequest, topology: Topology) -> Workload:
    """The jobs that were asked for."""
    word, size_bytes = request.workload, request.input_bytes
    if is_sample(word):
        block_bytes = topology.storage.block
        reduces = request.reduces or default_reduces(topology, -(-size_bytes // block_bytes))
        return sample_workload(word, size_bytes, block_bytes, reduces)
    if is_simulators(word):
        require_no_sizes(request, word)
        return simulators_workload(word, topology, request.seed)
    require_known(word)
    defaults = Defaults(size_bytes=size_bytes, reduces=request.reduces)
    return measured_jobs([word], defaults, topology, request.seed)


@contextmanager
def _shown(run: Simulation) -> Iterator[Watch]:
    """Show progress on the terminal while the block runs."""
    total = len(run.workload.jobs)

    def state() -> State:
        done, slots = run.jobs.ended, run.core.state.slots
        held = slots - run.core.state.free
        at = format_duration(run.heap.now_s)
        return State(done, total, f"{done}/{total} jobs  {held}/{slots} slots  at {at}")

    with watching(state) as watch:
        yield watch


def _rows(run: Simulation, summary: dict[str, Any], cpu_s: float) -> list[tuple[str, str]]:
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
