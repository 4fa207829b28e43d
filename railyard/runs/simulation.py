"""Jobs in virtual time: a workload under one scheduler, and a folder as an emulated run has it.

Everything a run is made of is in ``VirtualRun``, which can be sent to another process or machine:
``sweep`` spreads many runs over this machine's cores, or over a cluster of Dask's or Ray's.
Results come back in the order of the runs.  Runs share nothing, so where they ran and how many at a
time changes no result.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.faults import Fault
from railyard.cluster.processes import die_with_parent
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_duration
from railyard.jobs.plan import default_reduces
from railyard.jobs.workloads.catalog import SAMPLES, sample_workload
from railyard.jobs.workloads.mixes import Defaults
from railyard.jobs.workloads.model import Workload
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.runs.config import warn_of_missing_circuits
from railyard.runs.folder import EVENTS, save_results
from railyard.runs.networkwatch import VirtualWatch
from railyard.runs.requests import RunRequest, Workers
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
from railyard.terminal import interrupts
from railyard.terminal.notices import State, Watch, notice, steps_done, watching

T = TypeVar("T")
R = TypeVar("R")
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

    def all_faults(self) -> Sequence[Fault]:
        """Its faults; raises ``UsageError`` for invalid ones."""
        if self.faults is None:
            return ()
        end_s = max(job.submit_s for job in self.workload.jobs) + _FAULTS_AFTER_S
        return parse_faults(self.faults, self.config.topology, end_s)


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
    faults, log = run.all_faults(), None
    if run.results is not None:
        run.results.mkdir(parents=True)
        log = EventLog(run.results / EVENTS, run.config, buffered=True)
    behaviour = run.behaviour or Behaviour()
    try:
        simulation = Simulation(
            run.config, run.workload, behaviour, faults, log, compiled_from=run.compiled_from
        )
        simulation.driver.stopwatch = time.perf_counter
        network = None if log is None else VirtualWatch(simulation)
        with shown(simulation) as watch, few_collections():
            calls = [] if watch is None else [watch]
            if network is not None:
                calls.append(network.sample)

            def after_each(_: Simulation) -> None:
                for call in calls:
                    call()

            begun_s = time.process_time()
            simulation.run(after_each)
            cpu_s = time.process_time() - begun_s
    finally:
        if log is not None:
            log.close()
    summary = simulation.summary() | ({} if run.name is None else {"workload": run.name})
    if run.coarse is not None:
        summary["coarse"] = run.coarse.as_row()
    if run.results is not None and network is not None:
        network.sample_links()
        save_results(run.results, summary, network)
    return Simulated(simulation=simulation, summary=summary, cpu_s=cpu_s)


def say_what_is_coarse(runs: Iterable[VirtualRun]) -> None:
    """Say how runs were made coarser, one line for all that are equally so."""
    for line in dict.fromkeys(str(run.coarse) for run in runs if run.coarse is not None):
        notice(line)


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


def _shown(run: Simulation) -> AbstractContextManager[Watch]:
    """Show progress on the terminal while the block runs."""
    total = len(run.workload.jobs)

    def state() -> State:
        done, slots = run.jobs.ended, run.core.state.slots
        held = slots - run.core.state.free
        at = format_duration(run.heap.now_s)
        return State(done, total, f"{done}/{total} jobs  {held}/{slots} slots  at {at}")

    return watching(state)


# Many runs ----------------------------------------------------------------------------------------
def sweep(
    run: Callable[[T], R],
    items: Sequence[T],
    *,
    on: Workers | None = None,
    workers: int | None = None,
) -> list[R]:
    """Do ``run(item)`` for all, on this machine unless ``on`` says where.

    Raises ``UsageError`` for a library that is missing and for an address that nobody answers at;
    whatever a run raises.
    """
    if on is None and (len(items) == 1 or workers == 1):
        with steps_done("simulating", "simulated", len(items), "run") as advance:
            return [_counted(run(item), advance) for item in items]
    from joblib import Parallel, delayed

    progress = steps_done("simulating", "simulated", len(items), "run")
    with _backend(on), progress as advance, warnings.catch_warnings():
        # joblib warns when it replaces a worker that has grown, which users need not know
        warnings.filterwarnings("ignore", message="A worker stopped while some jobs were given")
        found: dict[int, R] = {}
        parallel = Parallel(n_jobs=workers or -1, return_as="generator_unordered", batch_size=1)
        try:
            here = os.getpid()
            made = parallel(delayed(_one)(run, n, item, here) for n, item in enumerate(items))
            for number, result in made:
                interrupts.check()
                found[number] = result
                advance()
        except BaseException:
            _kill_local_workers()
            raise
    return [found[number] for number in range(len(items))]


def _one(run: Callable[[T], R], number: int, item: T, asked_by: int) -> tuple[int, R]:
    if os.getpid() != asked_by:
        # Ctrl-C on a terminal reaches all processes of a command; only its first one acts on it.
        with contextlib.suppress(ValueError):  # in a thread, as Dask's workers have them
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        if os.getppid() == asked_by:
            die_with_parent(asked_by)
    return number, run(item)


def _counted(result: R, advance: Callable[[], None]) -> R:
    interrupts.check()
    advance()
    return result


@contextmanager
def _backend(on: Workers | None) -> Iterator[None]:
    """Have joblib send its work to ``on`` while the block runs."""
    if on is None:
        yield
        return
    from joblib import parallel_config

    connect = _connect_dask if on.kind == "dask" else _connect_ray
    with connect(on.address), parallel_config(backend=on.kind):
        yield


@contextmanager
def _connect_dask(address: str) -> Iterator[None]:
    try:
        from distributed import Client as DaskClient
    except ImportError:
        raise UsageError('--on dask: needs Dask: pip install "dask[distributed]"') from None
    try:
        connect: Any = DaskClient  # has no types
        client = connect(address, timeout="10s")
    except (OSError, ValueError) as error:
        raise UsageError(f"--on dask:{address}: nobody answers there: {error}") from None
    with client:
        yield


@contextmanager
def _connect_ray(address: str) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError:
        raise UsageError("--on ray: needs Ray: pip install ray") from None
    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError) as error:
        raise UsageError(f"--on ray:{address}: nobody answers there: {error}") from None
    register_ray()
    try:
        yield
    finally:
        ray.shutdown()


def _kill_local_workers() -> None:
    """End joblib's processes on this machine, which would finish what they do otherwise."""
    import psutil

    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):  # it has ended by itself
            if any("popen_loky" in word for word in child.cmdline()):
                child.kill()
