"""A NodeManager that is stopped for a while: it hears and tells nothing, and its attempts go on."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from railyard.benchmarks._faults.running import broken_law, named
from railyard.benchmarks._faults.scenarios import Scenario
from railyard.benchmarks._faults.schedules import Schedule, small_schedule
from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import rack_of
from railyard.cluster.messages.execution import (
    FACTS,
    AttemptStarted,
    AttemptSucceeded,
    FlowFinished,
    LaunchAttempt,
    StartFlow,
)
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.topologies.tables import Compute, Links, Liveness, RackShape
from railyard.cluster.topology import Topology
from railyard.jobs.workloads.model import WorkloadJob, WorkStage
from railyard.simulator.nodes.behaviour import Behaviour
from railyard.simulator.silence.daemons import DaemonDown, DaemonStopped

NAME = "nodemanager-r0"
STOP_S, LASTS_S = 0.8, 0.5


class Seen:
    """What the core was told and what it ordered, with the times."""

    def __init__(self) -> None:
        self.told: list[tuple[float, Event]] = []
        self.ordered: list[tuple[float, Command]] = []

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        self.told.append((at_s, event))
        self.ordered += [(at_s, command) for command in commands]

    def where(self) -> dict[str, str]:
        """{attempt: its rack}"""
        launches = [order for _, order in self.ordered if isinstance(order, LaunchAttempt)]
        return {launch.attempt: rack_of(launch.node) for launch in launches}


def with_faults(seed: int, *faults: DaemonStopped | DaemonDown) -> Schedule:
    drawn = small_schedule("fair", seed)
    return Schedule(
        name="stopped",
        config=drawn.config,
        jobs=drawn.jobs,
        faults=faults,
        behaviour=drawn.behaviour,
        ends_s=4.0,
    )


def seen(schedule: Schedule) -> Seen:
    """What is seen of a run that keeps all laws."""
    scenario, log = Scenario(schedule), Seen()
    scenario.log = log
    run = scenario.go()
    assert not getattr(run.driver, "stopped", None)
    return log


def of_rack(log: Seen, rack: str) -> list[tuple[float, Event]]:
    """What attempts of a rack have told."""
    where = log.where()
    return [
        (at_s, event)
        for at_s, event in log.told
        if isinstance(event, FACTS) and where.get(getattr(event, "attempt", "")) == rack
    ]


def is_from_r0(order: Command) -> bool:
    """Whether it starts a fetch from r0 by an attempt elsewhere."""
    return isinstance(order, StartFlow) and rack_of(order.src) == "r0" != rack_of(order.dst)


def rack_for(order: Command) -> str:
    """The rack whose NodeManager carries an order out; "" if none does."""
    match order:
        case LaunchAttempt(node=node) | StartFlow(dst=node):
            return rack_of(node)
    return ""


def test_what_it_has_to_tell_is_told_when_it_goes_on():
    end_s, told, late = STOP_S + LASTS_S, 0, 0
    for seed in range(60):
        log = seen(with_faults(seed, DaemonStopped(daemon=NAME, at_s=STOP_S, lasts_s=LASTS_S)))
        facts = of_rack(log, "r0")
        assert not [event for at_s, event in facts if STOP_S < at_s < end_s]
        told += len(facts)
        late += sum(at_s == end_s for at_s, _ in facts)
    assert told > late > 20


def test_its_orders_are_heard_when_it_goes_on():
    end_s, launched = STOP_S + LASTS_S, 0
    for seed in range(60):
        log = seen(with_faults(seed, DaemonStopped(daemon=NAME, at_s=STOP_S, lasts_s=LASTS_S)))
        ordered = [o for at_s, o in log.ordered if STOP_S < at_s < end_s and rack_for(o) == "r0"]
        launches = {order.attempt for order in ordered if isinstance(order, LaunchAttempt)}
        started_s = {e.attempt: at_s for at_s, e in log.told if isinstance(e, AttemptStarted)}
        assert all(started_s.get(name, end_s) >= end_s for name in launches)
        launched += len(launches)
    assert launched > 20


def shuffling(*faults: DaemonStopped) -> Schedule:
    """Two maps and two reduces on two nodes, one in each rack; a fetch takes 0.5 s or more."""
    drawn = with_faults(0, *faults)
    topology = Topology(
        name="two racks",
        racks=RackShape(count=2, nodes=1, slots=2),
        links=Links(nic=5e7, uplink=5e7),
        compute=Compute(map_rate=5e7, reduce_rate=5e7),
        liveness=Liveness(heartbeat=0.2, expiry_s=2.0),
    )
    maps = WorkStage(name="m", tasks=4, task_s=0.1, output_bytes=400_000_000)
    reduces = WorkStage(name="r", reads=("m",), tasks=4, output_bytes=0)
    job = WorkloadJob(
        name="job", user="a", queue="default", submit_s=0.1, stages=(maps, reduces), files=()
    )
    return msgspec.structs.replace(
        drawn,
        config=ClusterConfig(topology=topology, scheduler="fair", flow_scheduler="maxmin", seed=1),
        jobs=(job,),
        behaviour=Behaviour(),
    )


def test_its_map_output_is_fetched_when_it_goes_on():
    without = seen(shuffling())
    begin_s = {order.flow: at_s for at_s, order in without.ordered if is_from_r0(order)}
    end_s = {e.flow: at_s for at_s, e in without.told if isinstance(e, FlowFinished)}
    first = next(iter(begin_s))
    assert end_s[first] > begin_s[first] + 0.3
    stop = DaemonStopped(daemon=NAME, at_s=begin_s[first] + 0.1, lasts_s=1.5)
    log, goes_on_s = seen(shuffling(stop)), stop.at_s + stop.lasts_s
    ends_s = {e.flow: at_s for at_s, e in log.told if isinstance(e, FlowFinished)}
    assert ends_s[first] == goes_on_s
    assert not [flow for flow in begin_s if stop.at_s < ends_s[flow] < goes_on_s]


def test_its_attempts_go_on_meanwhile():
    ended = 0
    for seed in range(60):
        without = seen(with_faults(seed))
        stop = DaemonStopped(daemon=NAME, at_s=STOP_S, lasts_s=LASTS_S)
        log, end_s = seen(with_faults(seed, stop)), STOP_S + LASTS_S
        first = {
            event.attempt: at_s
            for at_s, event in of_rack(without, "r0")
            if isinstance(event, AttemptSucceeded) and STOP_S < at_s < end_s
        }
        started = {e.attempt: at_s for at_s, e in without.told if isinstance(e, AttemptStarted)}
        for at_s, event in of_rack(log, "r0"):
            name = event.attempt
            if (
                name in first
                and started.get(name, end_s) < STOP_S
                and isinstance(event, AttemptSucceeded)
            ):
                assert at_s == end_s
                ended += 1
    assert ended > 3


def test_one_that_dies_while_it_is_stopped_takes_all_with_it():
    stop = DaemonStopped(daemon=NAME, at_s=STOP_S, lasts_s=LASTS_S)
    death = DaemonDown(daemon=NAME, at_s=STOP_S + 0.2, lasts_s=0.1)
    for seed in range(60):
        log = seen(with_faults(seed, stop, death))
        assert not [at_s for at_s, _ in of_rack(log, "r0") if STOP_S < at_s < STOP_S + 0.3]


def test_an_attempt_of_a_job_that_ended_meanwhile_is_ended_too():
    assert not broken_law(named("small", "dice", 18159))


def test_a_stop_is_shorter_than_what_counts_as_lost():
    with pytest.raises(UsageError, match="after which it counts as lost"):
        seen(with_faults(0, DaemonStopped(daemon=NAME, at_s=1.0, lasts_s=60.0)))
