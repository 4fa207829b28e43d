"""For how long simulated attempts read and compute, as they report it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.messages.execution import AttemptSucceeded
from railyard.cluster.messaging.wire import Command, Event
from railyard.jobs.workloads.model import InputFile, WorkStage
from railyard.simulator.cluster import Simulation
from railyard.simulator.nodes.behaviour import Behaviour
from tests.workloads import MB, job_of, topology, workload


class Events:
    """A log that keeps the events."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, Event]] = []

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        self.seen.append((at_s, event))

    def times(self) -> dict[str, tuple[float, float]]:
        """{attempt: (read_s, computed_s)}"""
        return {
            event.attempt: (event.read_s, event.computed_s)
            for _, event in self.seen
            if isinstance(event, AttemptSucceeded)
        }


def times(
    blocks: Sequence[str], reduces: int = 0, shuffle: int = 0, **settings: object
) -> dict[str, tuple[float, float]]:
    """A job with a map for each block of 100 MB, on r0n0 and r1n0.

    One slot each, NICs and links of 100 MB/s, tasks of 50 MB/s.
    """
    file = InputFile(
        path="/in",
        size_bytes=len(blocks) * 100 * MB,
        block_bytes=100 * MB,
        nodes=tuple((node,) for node in blocks),
    )
    stages = [WorkStage(name="m", files=("/in",), tasks=len(blocks), output_bytes=shuffle)]
    if reduces:
        stages.append(WorkStage(name="r", reads=("m",), tasks=reduces, output_bytes=0))
    options = {name: value for name, value in settings.items() if "." in name}
    behaviour = {name: value for name, value in settings.items() if "." not in name}
    config = ClusterConfig(topology=topology(racks=2, nodes=1), scheduler_options=options)
    log = Events()
    jobs = workload(job_of(*stages, files=(file,)))
    run = Simulation(config, jobs, Behaviour(**behaviour), log=log)
    run.run()
    ((_, record),) = run.core.records.items()
    assert record.ok, record.reason
    return log.times()


def test_a_map_reads_for_as_long_as_its_block_takes_over_the_network():
    found = times(["r0n0", "r0n0"])
    assert found == {
        "j1.m0.0": (0.0, pytest.approx(2.0)),
        "j1.m1.0": (pytest.approx(1.0), pytest.approx(2.0)),
    }


def test_a_slow_attempt_computes_for_longer():
    found = times(["r0n0"], stragglers=1.0, straggler_factor=3.0)
    assert found == {"j1.m0.0": (0.0, pytest.approx(6.0))}


def test_a_reduce_fetches_then_computes():
    """200 MB of map output; half of it is on each node, and half of that goes to each reduce."""
    found = times(["r0n0", "r1n0"], reduces=2, shuffle=200 * MB)
    assert found["j1.r0.0"] == (pytest.approx(0.5), pytest.approx(2.0))
    assert found["j1.r1.0"] == (pytest.approx(0.5), pytest.approx(2.0))


def test_waiting_for_maps_is_not_reading():
    """One reduce holds a slot from the first map's end on, while two more maps go by."""
    found = times(["r0n0"] * 4, reduces=1, shuffle=400 * MB)
    read_s, computed_s = found["j1.r0.0"]
    assert computed_s == pytest.approx(8.0)
    # r1n0 gets it: three maps' output of 100 MB each comes at 100 MB/s, once each is done
    assert read_s == pytest.approx(3.0)
