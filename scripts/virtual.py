"""One run in virtual time, and the folder that it leaves: the same files as an emulated run's.

Everything a run is made of is in ``VirtualRun``, which can be sent to another process or machine.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.config import ClusterConfig
from jobs.workloads.model import Workload
from netemu.linklog import LinkLog
from resourcemanager.eventlog import EventLog, replay
from resourcemanager.trace import chrome_trace
from simulator.behaviour import Behaviour
from simulator.cluster import Simulation
from simulator.faultspec import parse_faults
from simulator.memory import few_collections

#: By when the faults of a seed are over: so long after the last job came.
_FAULTS_AFTER_S = 60.0


@dataclass(frozen=True, kw_only=True)
class VirtualRun:
    """What is simulated."""

    config: ClusterConfig
    workload: Workload
    behaviour: Behaviour
    faults: str | None = None  #: as ``railyard simulate --faults`` takes them
    results: Path | None = None  #: a new folder for all that it leaves; None: nothing but a summary


def run_virtually(run: VirtualRun) -> dict[str, Any]:
    """Simulate; the summary, with the CPU time that it took."""
    begun_s = time.process_time()
    if run.results is None:
        summary = _simulate(run, None)[0].summary()
    else:
        summary = _with_results(run, run.results)
    return summary | {"cpu_s": time.process_time() - begun_s}


def faults_end_s(workload: Workload) -> float:
    """By when the faults of a seed are over."""
    return max(job.submit_s for job in workload.jobs) + _FAULTS_AFTER_S


def _with_results(run: VirtualRun, results: Path) -> dict[str, Any]:
    results.mkdir(parents=True)
    events = results / "events.jsonl"
    log = EventLog(events, run.config, buffered=True)
    try:
        simulation, links = _simulate(run, log)
    finally:
        log.close()
    network = simulation.network.fabric.network
    capacities = {name: network.capacities[network.number[name]] for name in network.cross_rack}
    links.write(results / "network.jsonl", capacities)
    summary = simulation.summary()
    (results / "summary.json").write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    with (results / "trace.json").open("w", encoding="utf-8") as file:
        json.dump(chrome_trace(replay(events)), file)
    return summary


def _simulate(run: VirtualRun, log: EventLog | None) -> tuple[Simulation, LinkLog]:
    faults = []
    if run.faults is not None:
        faults = parse_faults(run.faults, run.config.topology, faults_end_s(run.workload))
    simulation = Simulation(run.config, run.workload, run.behaviour, faults, log, time.perf_counter)
    links = LinkLog()
    fabric = simulation.network.fabric
    cross_rack = fabric.network.cross_rack

    def look(now: Simulation) -> None:
        carried = fabric.bytes_by_link()
        links.take(now.heap.now_s, {name: carried[name] for name in cross_rack})

    def watch(now: Simulation) -> None:
        if links.wants(now.heap.now_s):
            look(now)

    with few_collections():
        simulation.run(watch if log is not None else lambda _: None)
    look(simulation)
    return simulation, links
