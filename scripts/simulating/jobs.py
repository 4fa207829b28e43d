"""Simulating jobs: one workload under one scheduler, on simulated nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_duration
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
from railyard.scripts.simulating.request import SimulateRequest
from railyard.scripts.simulating.room import require_memory_for
from railyard.scripts.simulating.virtual import (
    Simulated,
    VirtualRun,
    say_what_is_coarse,
    simulate,
)
from railyard.scripts.simulating.workloads import (
    is_simulators,
    measured_jobs,
    require_known,
    require_no_sizes,
    simulators_workload,
)
from railyard.scripts.terminal.watching import State, Watch, watching
from railyard.simulator.cluster import Simulation


def simulate_jobs(request: SimulateRequest) -> Simulated:
    """Run a workload to its end; raises ``UsageError`` for a request that makes no sense."""
    pair = pairs_of(request.schedulers or ("fair",), request.flow_schedulers)[0]
    config = cluster_config(
        request.place,
        pair=pair,
        options=request.scheduler_options,
        seed=request.seed,
    )
    jobs = _workload(request, config.topology)
    jobs = replace(jobs, jobs=jobs.jobs[: request.first])
    warn_of_missing_circuits(config.topology, [config.flow_scheduler])
    warn_of_idle_priorities([pair])
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


def _workload(request: SimulateRequest, topology: Topology) -> Workload:
    """The jobs that were asked for."""
    word, size_bytes = request.words[0], request.input_bytes
    is_single = len(request.words) == 1
    if is_single and is_sample(word) and not request.inputs:
        block_bytes = topology.storage.block
        reduces = request.reduces or default_reduces(topology, -(-size_bytes // block_bytes))
        return sample_workload(word, size_bytes, block_bytes, reduces)
    if is_single and is_simulators(word):
        require_no_sizes(request, word)
        return simulators_workload(word, topology, request.seed)
    for each in request.words:
        require_known(each)
        if is_simulators(each):
            raise UsageError(f"{each}: is a whole workload: need nothing beside it")
    defaults = Defaults(size_bytes=size_bytes, reduces=request.reduces, inputs=request.inputs)
    return measured_jobs(request.words, defaults, topology, request.seed)


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
