"""``railyard simulate`` of jobs: one workload under one scheduler, on simulated nodes."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.shown import printable
from railyard.cluster.tomlfile import build
from railyard.cluster.units import format_count, format_duration, format_size
from railyard.jobs.mixes.mixes import Defaults, read_mix
from railyard.jobs.samples.sample import default_reduces
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.model import Workload
from railyard.jobs.workloads.samples import is_sample, sample_workload
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.driving.trace import chrome_trace
from railyard.scripts.results.outputfile import write_json
from railyard.scripts.running.request import DEFAULT_SIZE_BYTES
from railyard.scripts.running.trial import planned
from railyard.scripts.simulating.virtual import VirtualWatch, faults_end_s
from railyard.scripts.simulating.workloadnames import is_simulators, require_known
from railyard.scripts.terminal.options import as_number, new_folder, tell_of_missing_circuits
from railyard.scripts.terminal.watching import State, watching
from railyard.simulator.cluster import Simulation
from railyard.simulator.faults.faultspec import parse_faults
from railyard.simulator.memory import few_collections
from railyard.simulator.nodes.behaviour import Behaviour


@dataclass(frozen=True)
class Wanted:
    """What was typed, besides the cluster; None and empty where nothing was."""

    workload: str
    first: int | None
    json_file: Path | None
    results: str | None
    size_bytes: int | None
    reduces: int | None
    behaviour: tuple[tuple[str, str], ...]
    faults: str | None


def simulate_jobs(config: ClusterConfig, wanted: Wanted) -> int:
    """Run a workload to its end and tell the results; 1 if a job failed."""
    folder = new_folder("--out", wanted.results)
    jobs = _workload(config, wanted)
    tell_of_missing_circuits(config.topology, [config.flow_scheduler])
    settings = {key: as_number(value) for key, value in wanted.behaviour}
    behaviour = build(settings, Behaviour, "--behaviour")
    faults = []
    if wanted.faults is not None:
        faults = parse_faults(wanted.faults, config.topology, faults_end_s(jobs))
    log = None
    if folder is not None:
        folder.mkdir()
        log = EventLog(folder / "events.jsonl", config, buffered=True)
    try:
        run = Simulation(config, jobs, behaviour, faults, log, time.perf_counter)
        network = None if folder is None else VirtualWatch(run)
        cpu_s = _run(run, network)
    finally:
        if log is not None:
            log.close()
    summary = run.summary() | {"workload": wanted.workload}
    if wanted.json_file is not None:
        write_json(summary, wanted.json_file)
    if folder is not None and network is not None:
        write_json(summary, folder / "summary.json")
        record = network.finish()
        record.write(folder)
        trace = chrome_trace(replay(folder / "events.jsonl"), record.circuits())
        write_json(trace, folder / "trace.json", indent=None)
    for label, text in _rows(run, summary, cpu_s):
        click.echo(f"{label:<11}{printable(text)}")
    return 0 if all(job["ok"] for job in summary["jobs"]) else 1


def _workload(config: ClusterConfig, wanted: Wanted) -> Workload:
    """The jobs that were asked for."""
    topology = config.topology
    if is_sample(wanted.workload):
        size_bytes = DEFAULT_SIZE_BYTES if wanted.size_bytes is None else wanted.size_bytes
        reduces = wanted.reduces or default_reduces(topology)
        made = sample_workload(wanted.workload, size_bytes, topology.storage.block, reduces)
    elif not is_simulators(wanted.workload):
        made = _measured(config, wanted)
    else:
        for option, value in (("--size", wanted.size_bytes), ("--reduces", wanted.reduces)):
            if value is not None:
                raise UsageError(f"{option}: {wanted.workload} says that itself: need none")
        made = workload(wanted.workload, config.seed)
    racks = topology.racks.count
    if made.sites > racks:
        right = f"at least the {made.sites} sites of {made.name}"
        raise UsageError(f"topology {topology.name} has {racks} racks: need {right}")
    return made if wanted.first is None else replace(made, jobs=made.jobs[: wanted.first])


def _measured(config: ClusterConfig, wanted: Wanted) -> Workload:
    """Jobs that a cluster could run as well: they are run here, in this process, to know them."""
    require_known(wanted.workload)
    from railyard.jobs.mixes.measured import measured_workload

    size_bytes = DEFAULT_SIZE_BYTES if wanted.size_bytes is None else wanted.size_bytes
    defaults = Defaults(size_bytes=size_bytes, reduces=wanted.reduces)
    mix = read_mix([wanted.workload], defaults, config.seed)
    planned(mix, config.topology, config.seed)
    return measured_workload(mix, config.topology, config.seed)


def _run(run: Simulation, network: VirtualWatch | None) -> float:
    """Run to the end, shown and maybe recorded; the CPU time that it took."""
    total = len(run.workload.jobs)

    def state() -> State:
        done, slots = run.jobs.ended, run.core.state.slots
        held = slots - run.core.state.free
        at = format_duration(run.heap.now_s)
        return State(done, total, f"{done}/{total} jobs  {held}/{slots} slots  at {at}")

    def look(now: Simulation) -> None:
        watch()
        if network is not None:
            network.look(now)

    with watching(state) as watch, few_collections():
        begun_s = time.process_time()
        run.run(look)
        return time.process_time() - begun_s


def _rows(run: Simulation, summary: dict[str, Any], cpu_s: float) -> list[tuple[str, str]]:
    jobs, tasks = summary["jobs"], summary["tasks"]
    failed = sum(not job["ok"] for job in jobs)
    topology, moved = run.config.topology, summary["bytes"]
    schedulers = f"scheduler {summary['scheduler']}, flows {summary['flow_scheduler']}"
    odd = [f"{tasks[name]} {name}" for name in ("failed", "killed", "copies") if tasks[name]]
    attempts = ", ".join([format_count(tasks["launched"], "attempt"), *odd])
    ratio = summary["makespan_s"] / cpu_s if cpu_s else 0.0
    locality = summary["locality"]
    maps = sum(locality.values()) or 1
    words = {"node": "on the map's node", "rack": "in its rack", "remote": "further away"}
    rows = [
        ("workload", f"{summary['workload']} on {topology.name}, {schedulers}"),
        ("jobs", format_count(len(jobs), "job") + (f", {failed} failed" if failed else "")),
        ("makespan", format_duration(summary["makespan_s"])),
        ("job time", _spread(summary["jct_s"])),
        ("shuffles", _spread(summary["cct_s"])),
        ("tasks", attempts),
        ("map input", ", ".join(f"{locality[k] / maps:.0%} {words[k]}" for k in words)),
        ("moved", ", ".join(f"{format_size(n)} {way}" for way, n in moved.items() if n)),
        ("slots", f"{summary['slot_utilization']:.0%} used"),
        ("simulated", f"in {format_duration(cpu_s)} of CPU time, {ratio:.0f} times as fast"),
    ]
    broken = [job for job in run.core.records.values() if job.ok is False]
    rows += [("FAILED", f"{job.name}: {job.reason}") for job in broken[:5]]
    return rows


def _spread(values: dict[str, float | None]) -> str:
    """Mean and percentiles, for people; what there is none of is left out."""
    told = [(name, value) for name, value in values.items() if value is not None]
    return ", ".join(f"{name} {format_duration(value)}" for name, value in told) or "none"
