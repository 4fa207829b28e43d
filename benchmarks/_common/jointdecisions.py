"""What Joint's decisions cost: Algorithms 1 and 2 at 336 servers and 200 jobs of 1,200 tasks.

All jobs come at once and have 900 maps and 300 reduces.  A simulation runs them for a while; the
CPU time of each go through the algorithms is taken, and of each event of the whole core.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.cluster.config import ClusterConfig
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.model import Recurrence, Workload, WorkloadJob
from railyard.jobs.workloads.shapes import map_reduce
from railyard.resourcemanager.schedulers.joint.scheduler import Joint
from railyard.simulator.simulation import Simulation

DECISION_S_BOUND = 2e-3
_JOBS, _MAPS, _REDUCES = 200, 900, 300
_SHUFFLE_BYTES = 1_300_000_000  # as workload joint,edges=jobs has on average
_BLOCK_BYTES = 10_000_000


class _Timed:
    """A method that keeps account of its CPU time."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.calls, self.total_s = 0, 0.0

    def __call__(self, *args: Any) -> Any:
        begun_s = time.process_time()
        try:
            return self._method(*args)
        finally:
            self.calls += 1
            self.total_s += time.process_time() - begun_s

    @property
    def mean_s(self) -> float:
        return self.total_s / max(1, self.calls)


def joint_decisions(quick: bool) -> list[Row]:
    """Rows for both algorithms, and for an event of the core beside ``fair`` and ``delay``."""
    run = _loaded("joint", "afap")
    joint = run.core.state.policies.tasks
    assert isinstance(joint, Joint)
    first, second = _Timed(joint._schedule), _Timed(joint.released)
    vars(joint).update(_schedule=first, released=second)
    events = 10_000 if quick else 20_000
    event_s = _event_s(run, events)
    real = sum(map(len, joint.flows.real.values()))
    there = f"{len(joint.flows.virtual):,} virtual and {real:,} real flows"
    event = "joint: an event of the core; reference: "
    rows = [
        _row(f"joint: {name}, {timed.calls:,} times", timed.mean_s, DECISION_S_BOUND)
        for name, timed in (("Algorithm 1", first), (f"Algorithm 2, {there}", second))
    ]
    for name in ("fair", "delay"):
        other_s = _event_s(_loaded(name, "maxmin"), events)
        rows.append(_row(event + name, event_s, None, other_s))
    return rows


def _loaded(scheduler: str, flows: str) -> Simulation:
    """All jobs have come."""
    topology = load_topology("joint-16x6", (("racks.nodes", "21"),))
    config = ClusterConfig(topology=topology, scheduler=scheduler, flow_scheduler=flows, seed=1)
    jobs = tuple(map(_job, range(_JOBS)))
    run = Simulation(config, Workload(name="crowd", jobs=jobs))
    while len(run.core.records) < _JOBS:
        run.step()
    return run


def _event_s(run: Simulation, events: int) -> float:
    """Mean CPU seconds of the core for one of the next events."""
    handle = _Timed(run.core._handle)
    vars(run.core)["_handle"] = handle
    while handle.calls < events:
        run.step()
    return handle.mean_s


def _job(number: int) -> WorkloadJob:
    shape = map_reduce(
        f"crowd-{number}",
        input_bytes=_MAPS * _BLOCK_BYTES,
        block_bytes=_BLOCK_BYTES,
        shuffle_bytes=_SHUFFLE_BYTES,
        output_bytes=0,
        reduces=_REDUCES,
        times_s=(0.2 + 0.1 * (number % 5),) * 2,  # so that many end among few events
        rates=(1e18, 1e18),
    )
    return WorkloadJob(
        name=shape.name,
        user="u",
        queue="default",
        submit_s=0.0,
        stages=shape.stages,
        files=shape.files,
        recurrence=Recurrence(name=shape.name),
    )


def _row(name: str, value_s: float, bound_s: float | None, reference_s: float | None = None) -> Row:
    reference_us = None if reference_s is None else reference_s * 1e6
    bound_us = None if bound_s is None else bound_s * 1e6
    return bench_row(name, value_s * 1e6, "us", reference=reference_us, bound=bound_us)
