"""One run in virtual time, and the folder that it leaves: the same files as an emulated run's.

Everything a run is made of is in ``VirtualRun``, which can be sent to another process or machine.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.jobs.workloads.model import Workload
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.driving.trace import chrome_trace
from railyard.scripts.results.networkrecord import NetworkRecord
from railyard.scripts.results.outputfile import write_json
from railyard.simulator.cluster import Simulation
from railyard.simulator.faults.faultspec import parse_faults
from railyard.simulator.memory import few_collections
from railyard.simulator.nodes.behaviour import Behaviour

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
        simulation, network = _simulate(run, log)
    finally:
        log.close()
    network.write(results)
    summary = simulation.summary()
    write_json(summary, results / "summary.json")
    write_json(chrome_trace(replay(events), network.circuits()), results / "trace.json", None)
    return summary


def _simulate(run: VirtualRun, log: EventLog | None) -> tuple[Simulation, NetworkRecord]:
    faults = []
    if run.faults is not None:
        faults = parse_faults(run.faults, run.config.topology, faults_end_s(run.workload))
    simulation = Simulation(run.config, run.workload, run.behaviour, faults, log, time.perf_counter)
    watch = VirtualWatch(simulation)
    with few_collections():
        simulation.run(watch.look if log is not None else lambda _: None)
    return simulation, watch.finish()


class VirtualWatch:
    """Keeps a record of a simulation's network while it runs."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._record = NetworkRecord(simulation.config)
        self._changes_seen = 0

    def look(self, _: Simulation) -> None:
        """To be called each time that things have happened."""
        if self._record.has_circuits:
            fabric = self._simulation.network.fabric
            self._changes_seen, changes = fabric.circuit_changes(self._changes_seen)
            self._record.take_circuits(changes)
        if self._record.wants(self._simulation.heap.now_s):
            self._look_at_links()

    def finish(self) -> NetworkRecord:
        """The record, once all is over."""
        self._look_at_links()
        return self._record

    def _look_at_links(self) -> None:
        simulation = self._simulation
        self._record.take_links(simulation.heap.now_s, simulation.network.fabric.bytes_by_link())
