"""Jobs in virtual time: a workload under one scheduler, and a folder as an emulated run has it.

Everything a run is made of is in ``VirtualRun``, which can be sent to another process or machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.faults import Fault
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_duration
from railyard.jobs.plan import default_reduces
from railyard.jobs.workloads.catalog import SAMPLES, sample_workload
from railyard.jobs.workloads.mixes import Defaults
from railyard.jobs.workloads.model import Workload
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.runs.config import warn_of_missing_circuits
from railyard.runs.folder import EVENTS, NetworkRecord, save_results
from railyard.runs.requests import RunRequest
from railyard.runs.room import require_memory_for
from railyard.runs.workloads import (
    is_simulators,
    measured_jobs,
    require_known,
    require_no_sizes,
    simulators_workload,
)
from railyard.simulator.behaviour import Behaviour, Coarse, coarsened
from railyard.simulator.clock import few_collections
from railyard.simulator.faults import parse_faults
from railyard.simulator.simulation import Simulation
from railyard.terminal.notices import State, Watch, notice, watching

#: Random faults end at most so many seconds after the last job came.
_FAULTS_AFTER_S = 60.0


@dataclass(frozen=True, kw_only=True)
class VirtualRun:
    """A run to be simulated."""

    config: ClusterConfig
    workload: Workload
    behaviour: Behaviour | None = None  #: None: ideal nodes
    faults: str | None = None  #: as ``railyard simulate --faults`` takes them
    results: Path | None = None  #: a new folder for all that it leaves; None: nothing but a summary
    name: str | None = None  #: of the workload in the summary, if it is not its own
    coarse: Coarse | None = None  #: how it was made coarser, for the summary
    #: from how many open flows on compiled loops set the rates; None: as many as usual
    compiled_from: int | None = None

    def fitted(self) -> VirtualRun:
        """The same, coarser if it would have too many tasks."""
        behaviour = self.behaviour or Behaviour()
        coarse = coarsened(self.workload, self.config.topology, behaviour)
        if coarse is None:
            return self
        return replace(self, workload=coarse.workload, behaviour=coarse.behaviour, coarse=coarse)


@dataclass(frozen=True, kw_only=True)
class Simulated:
    """A simulation that has ended."""

    simulation: Simulation
    summary: dict[str, Any]
    cpu_s: float  #: CPU time from its first event to its last


def run_virtually(run: VirtualRun) -> dict[str, Any]:
    """Simulate; returns the summary, with the CPU time of all of it."""
    begun_s = time.process_time()
    summary = simulate(run).summary
    return summary | {"cpu_s": time.process_time() - begun_s}


def simulate(
    run: VirtualRun,
    shown: Callable[[Simulation], AbstractContextManager[Watch | None]] = lambda _: nullcontext(),
) -> Simulated:
    """Simulate; ``shown`` gives a function that is called after every event."""
    faults, log = _faults(run), None
    if run.results is not None:
        run.results.mkdir(parents=True)
        log = EventLog(run.results / EVENTS, run.config, buffered=True)
    behaviour = run.behaviour or Behaviour()
    try:
        simulation = Simulation(
            run.config, run.workload, behaviour, faults, log, compiled_from=run.compiled_from
        )
        simulation.driver.measure_with(time.perf_counter)
        network = None if log is None else VirtualWatch(simulation)
        with shown(simulation) as watch, few_collections():
            begun_s = time.process_time()
            simulation.run(_both(watch, None if network is None else network.sample))
            cpu_s = time.process_time() - begun_s
    finally:
        if log is not None:
            log.close()
    summary = simulation.summary() | ({} if run.name is None else {"workload": run.name})
    if run.coarse is not None:
        summary["coarse"] = run.coarse.as_row()
    if run.results is not None and network is not None:
        save_results(run.results, summary, network.finish())
    return Simulated(simulation=simulation, summary=summary, cpu_s=cpu_s)


def say_what_is_coarse(runs: Iterable[VirtualRun]) -> None:
    """Say how runs were made coarser, one line for all that are equally so."""
    for line in dict.fromkeys(str(run.coarse) for run in runs if run.coarse is not None):
        notice(line)


def require_faults(run: VirtualRun) -> None:
    """Raise ``UsageError`` for invalid faults."""
    _faults(run)


def _faults(run: VirtualRun) -> Sequence[Fault]:
    if run.faults is None:
        return ()
    end_s = max(job.submit_s for job in run.workload.jobs) + _FAULTS_AFTER_S
    return parse_faults(run.faults, run.config.topology, end_s)


def _both(first: Watch | None, second: Watch | None) -> Callable[[Simulation], None]:
    """A function that calls both, of which either may be missing."""

    def both(_: Simulation) -> None:
        for one in watches:
            one()

    watches = [one for one in (first, second) if one is not None]
    return both


class VirtualWatch:
    """Keeps a record of a simulation's network while it runs."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._record = NetworkRecord(simulation.config)
        self._changes_seen = 0

    def sample(self) -> None:
        """To be called after every event."""
        if self._record.has_circuits:
            fabric = self._simulation.network.fabric
            self._changes_seen, changes = fabric.circuit_changes(self._changes_seen)
            self._record.take_circuits(changes)
        if self._record.wants(self._simulation.heap.now_s):
            self._take_links()

    def finish(self) -> NetworkRecord:
        """The record, once all is over."""
        self._take_links()
        return self._record

    def _take_links(self) -> None:
        fabric = self._simulation.network.fabric
        carried, now = fabric.bytes_by_link(), fabric.changed_capacities()
        self._record.take_links(self._simulation.heap.now_s, carried, now)


def simulate_jobs(request: RunRequest) -> Simulated:
    """Run a workload to its end; raises ``UsageError`` for a request that makes no sense."""
    config = request.config()
    jobs = _workload(request, config.topology)
    jobs = replace(jobs, jobs=jobs.jobs[: request.first])
    warn_of_missing_circuits(config.topology, [config.flow_scheduler])
    run = VirtualRun(
        config=config,
        workload=jobs,
        behaviour=request.behaviour,
        faults=request.faults,
        results=request.results,
        name=" ".join(request.words),
    )
    if not request.exact:
        run = run.fitted()
        say_what_is_coarse([run])
    require_memory_for(run.workload)
    return simulate(run, _shown)


def _workload(request: RunRequest, topology: Topology) -> Workload:
    """The jobs that were asked for."""
    word, size_bytes = request.words[0], request.input_bytes
    is_single = len(request.words) == 1
    if is_single and word in SAMPLES and not request.inputs:
        block_bytes = topology.storage.block
        reduces = request.reduces or default_reduces(topology, -(-size_bytes // block_bytes))
        return sample_workload(word, size_bytes, block_bytes, reduces)
    if is_single and is_simulators(word):
        require_no_sizes(request, word)
        return simulators_workload(word, topology, request.first_seed)
    for each in request.words:
        require_known(each)
        if is_simulators(each):
            raise UsageError(f"{each}: is a whole workload: need nothing beside it")
    defaults = Defaults(size_bytes=size_bytes, reduces=request.reduces, inputs=request.inputs)
    return measured_jobs(request.words, defaults, topology, request.first_seed)


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
