"""A job whose graph has a diamond of single tasks, under every scheduler, in virtual time."""

from __future__ import annotations

from functools import cache

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.messages.execution import (
    AttemptSucceeded,
    BeginAttempt,
    FlowFinished,
    LaunchAttempt,
)
from railyard.cluster.messaging.wire import Event
from railyard.jobs.mixes.measured import measured_workload
from railyard.jobs.mixes.mixes import Defaults, read_mix
from railyard.jobs.workloads.model import Workload
from railyard.resourcemanager.schedulers import all_recipes
from railyard.simulator.cluster import Simulation
from tests.workloads import MB, topology

PLACE = topology(racks=2, nodes=3, scale=1000)


class Log:
    """When attempts got slots and ended, and the fetches of each that ended before it had one."""

    def __init__(self) -> None:
        self.begun_s: dict[str, float] = {}
        self.ended_s: dict[str, float] = {}  #: of each stage, the last
        self.ahead: dict[str, list[float]] = {}

    def write(self, at_s: float, event: Event, commands: tuple[object, ...] = ()) -> None:
        for command in commands:
            match command:
                case LaunchAttempt(begins=True) | BeginAttempt():
                    self.begun_s[command.attempt] = at_s
        if isinstance(event, AttemptSucceeded):
            self.ended_s[task_name(event.attempt)[:-1]] = at_s
        elif isinstance(event, FlowFinished):
            reader = event.flow.split(":")[0]
            if reader not in self.begun_s:
                self.ahead.setdefault(task_name(reader), []).append(at_s)


def task_name(attempt: str) -> str:
    """Stage and number of a task."""
    return attempt.split(".")[1]


@cache
def workload() -> Workload:
    mix = read_mix(["correlation"], Defaults(size_bytes=400 * MB), seed=1)
    return measured_workload(mix, PLACE, seed=1)


def simulate(scheduler: str) -> tuple[Simulation, Log]:
    log, config = Log(), ClusterConfig(topology=PLACE, scheduler=scheduler, seed=1)
    run = Simulation(config, workload(), log=log)
    run.run(lambda run: run.core.check_invariants())
    return run, log


@pytest.mark.parametrize("scheduler", [name for name in all_recipes() if name.isalpha()])
def test_it_ends_under_every_scheduler_each_stage_after_those_that_it_reads(scheduler: str):
    run, log = simulate(scheduler)
    [job] = run.summary()["jobs"]
    assert job["ok"]
    middle = log.ended_s["first"], log.ended_s["second"]
    assert log.ended_s["m"] < log.ended_s["rows"] < min(middle)
    assert max(middle) < log.ended_s["joined"]


def test_under_joint_data_is_sent_to_tasks_that_have_no_slot_yet():
    _, log = simulate("joint")
    assert {"rows0", "joined0"} <= log.ahead.keys()
