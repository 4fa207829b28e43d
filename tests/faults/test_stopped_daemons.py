"""A NodeManager that is stopped for a while: it sends and receives nothing; its attempts go on."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import NodeId, RackId, rack_of, task_of
from railyard.cluster.messages import (
    FACTS,
    AttemptStarted,
    AttemptSucceeded,
    FlowFailed,
    FlowFinished,
    LaunchAttempt,
    NodeRestarted,
    StartFlow,
)
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute, Links, Liveness, RackShape, Storage
from railyard.jobs.workloads.model import InputFile, WorkloadJob, WorkStage
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.schedulers import flow_scheduler
from railyard.oracles.faults.blockstore import FaultyBlockStore
from railyard.oracles.faults.daemons import DaemonDown, DaemonStopped
from railyard.oracles.faults.scenarios import Scenario, broken_law, named
from railyard.oracles.faults.schedules import Schedule, small_schedule
from railyard.simulator.behaviour import Behaviour
from railyard.simulator.clock import EventHeap
from railyard.simulator.network import SimulatedNetwork

NAME = "nodemanager-r0"
STOP_S, LASTS_S = 0.8, 0.5


class Seen:
    """What the core received and what it ordered, with the times."""

    def __init__(self) -> None:
        self.events: list[tuple[float, Event]] = []
        self.ordered: list[tuple[float, Command]] = []

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        self.events.append((at_s, event))
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
    """What attempts of a rack have reported."""
    where = log.where()
    return [
        (at_s, event)
        for at_s, event in log.events
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


def test_what_it_has_to_report_is_sent_when_it_goes_on():
    end_s, reported, late = STOP_S + LASTS_S, 0, 0
    for seed in range(60):
        log = seen(with_faults(seed, DaemonStopped(target=NAME, at_s=STOP_S, lasts_s=LASTS_S)))
        facts = of_rack(log, "r0")
        assert not [event for at_s, event in facts if STOP_S < at_s < end_s]
        reported += len(facts)
        late += sum(at_s == end_s for at_s, _ in facts)
    assert reported > late > 20


def test_its_orders_are_received_when_it_goes_on():
    end_s, launched = STOP_S + LASTS_S, 0
    for seed in range(60):
        log = seen(with_faults(seed, DaemonStopped(target=NAME, at_s=STOP_S, lasts_s=LASTS_S)))
        ordered = [o for at_s, o in log.ordered if STOP_S < at_s < end_s and rack_for(o) == "r0"]
        launches = {order.attempt for order in ordered if isinstance(order, LaunchAttempt)}
        started_s = {e.attempt: at_s for at_s, e in log.events if isinstance(e, AttemptStarted)}
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
    end_s = {e.flow: at_s for at_s, e in without.events if isinstance(e, FlowFinished)}
    first = next(iter(begin_s))
    assert end_s[first] > begin_s[first] + 0.3
    stop = DaemonStopped(target=NAME, at_s=begin_s[first] + 0.1, lasts_s=1.5)
    log, goes_on_s = seen(shuffling(stop)), stop.at_s + stop.lasts_s
    ends_s = {e.flow: at_s for at_s, e in log.events if isinstance(e, FlowFinished)}
    assert ends_s[first] == goes_on_s
    assert not [flow for flow in begin_s if stop.at_s < ends_s[flow] < goes_on_s]


def test_its_attempts_go_on_meanwhile():
    ended = 0
    for seed in range(60):
        without = seen(with_faults(seed))
        stop = DaemonStopped(target=NAME, at_s=STOP_S, lasts_s=LASTS_S)
        log, end_s = seen(with_faults(seed, stop)), STOP_S + LASTS_S
        first = {
            event.attempt: at_s
            for at_s, event in of_rack(without, "r0")
            if isinstance(event, AttemptSucceeded) and STOP_S < at_s < end_s
        }
        started = {e.attempt: at_s for at_s, e in without.events if isinstance(e, AttemptStarted)}
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
    stop = DaemonStopped(target=NAME, at_s=STOP_S, lasts_s=LASTS_S)
    death = DaemonDown(target=NAME, at_s=STOP_S + 0.2, lasts_s=0.1)
    for seed in range(60):
        log = seen(with_faults(seed, stop, death))
        assert not [at_s for at_s, _ in of_rack(log, "r0") if STOP_S < at_s < STOP_S + 0.3]


def test_an_attempt_of_a_job_that_ended_meanwhile_is_ended_too():
    assert not broken_law(named("small", "dice", 18159))


def test_a_stop_is_shorter_than_what_counts_as_lost():
    with pytest.raises(UsageError, match="after which it counts as lost"):
        seen(with_faults(0, DaemonStopped(target=NAME, at_s=1.0, lasts_s=60.0)))


# What a NodeManager finds of map output when it is started again: all, or what was not damaged.


def first_fetch_s() -> float:
    """When the first fetch from r0 by the other rack begins."""
    return next(at_s for at_s, order in seen(shuffling()).ordered if is_from_r0(order))


def maps_run(log: Seen) -> list[str]:
    """The maps that were launched, as often as they were."""
    launches = [order for _, order in log.ordered if isinstance(order, LaunchAttempt)]
    return [task_of(order.attempt) for order in launches if ".m" in order.attempt]


def test_what_it_finds_is_not_run_again_and_what_was_damaged_is():
    for lost in (0, 1, 5):
        down = DaemonDown(target=NAME, at_s=first_fetch_s() + 0.1, lasts_s=0.3, lost=lost)
        log = seen(shuffling(down))
        [back] = [event for _, event in log.events if isinstance(event, NodeRestarted)]
        again = [task for task in set(maps_run(log)) if maps_run(log).count(task) > 1]
        assert len(again) == min(lost, 2)
        assert len(back.outputs) == 2 - len(again)
        assert not {task_of(output) for output in back.outputs} & set(again)


def test_readers_of_damaged_output_learn_of_it():
    """The ResourceManager, which would have cancelled the fetch, is stopped meanwhile."""
    at_s = first_fetch_s() + 0.1
    down = DaemonDown(target=NAME, at_s=at_s, lasts_s=0.3, lost=1)
    stopped = DaemonStopped(target="resourcemanager", at_s=at_s + 0.1, lasts_s=1.0)
    log = seen(shuffling(down, stopped))
    damaged = [
        output for _, event in log.events if isinstance(event, FlowFailed) for output in event.lost
    ]
    assert len(set(damaged)) == 1
    assert maps_run(log).count(task_of(damaged[0])) == 2


# A DataNode that is stopped: what it sends and receives stands still, what it reports is late.


BLOCK_BYTES = 50_000_000
#: When maps have begun to read, or to write, which takes a second or more.
BEGAN_S, DATANODE_LASTS_S = 0.5, 1.7


def topology(replication: int) -> Topology:
    """Two racks of a node each; their links carry a block in a second."""
    return Topology(
        name="two racks",
        racks=RackShape(count=2, nodes=1, slots=2),
        links=Links(nic=BLOCK_BYTES, uplink=BLOCK_BYTES),
        compute=Compute(map_rate=1e15, reduce_rate=1e15),
        storage=Storage(block=BLOCK_BYTES, replication=replication),
        liveness=Liveness(heartbeat=0.2, expiry_s=2.0),
    )


def schedule(job: WorkloadJob, replication: int, *faults: DaemonStopped | DaemonDown) -> Schedule:
    return msgspec.structs.replace(
        with_faults(0, *faults),
        config=ClusterConfig(
            topology=topology(replication), scheduler="fair", flow_scheduler="maxmin", seed=1
        ),
        jobs=(job,),
        behaviour=Behaviour(),
    )


def reading(*faults: DaemonStopped | DaemonDown) -> Schedule:
    """Four maps whose blocks are all in r0: two of them run in r1."""
    data = InputFile(
        path="/in", size_bytes=4 * BLOCK_BYTES, block_bytes=BLOCK_BYTES, shares=(1.0, 0.0)
    )
    maps = WorkStage(name="m", files=("/in",), tasks=4, output_bytes=0)
    job = WorkloadJob(
        name="job", user="a", queue="default", submit_s=0.1, stages=(maps,), files=(data,)
    )
    return schedule(job, 1, *faults)


def writing(*faults: DaemonStopped | DaemonDown) -> Schedule:
    """A map whose output goes to both racks."""
    maps = WorkStage(name="m", tasks=1, task_s=0.1, output_bytes=BLOCK_BYTES)
    job = WorkloadJob(name="job", user="a", queue="default", submit_s=0.1, stages=(maps,), files=())
    return schedule(job, 2, *faults)


def ends(of: Schedule) -> list[tuple[str, float]]:
    """(rack, seconds) of the attempts that succeeded."""
    log = seen(of)
    racks = {o.attempt: rack_of(o.node) for _, o in log.ordered if isinstance(o, LaunchAttempt)}
    return [
        (racks[event.attempt], at_s)
        for at_s, event in log.events
        if isinstance(event, AttemptSucceeded)
    ]


def stop(daemon: str, at_s: float = BEGAN_S) -> DaemonStopped:
    return DaemonStopped(target=daemon, at_s=at_s, lasts_s=DATANODE_LASTS_S)


def test_blocks_are_read_from_it_when_it_goes_on():
    without = [at_s for rack, at_s in ends(reading()) if rack == "r1"]
    assert len(without) == 2
    assert all(BEGAN_S < at_s < BEGAN_S + DATANODE_LASTS_S + 0.1 for at_s in without)
    stopped = ends(reading(stop("datanode-r0")))
    assert [at_s for rack, at_s in stopped if rack == "r1"] == pytest.approx(
        [max(at_s, BEGAN_S + DATANODE_LASTS_S) for at_s in without]
    )
    assert max(at_s for rack, at_s in stopped if rack == "r0") < BEGAN_S


def test_a_read_that_begins_meanwhile_is_served_when_it_goes_on():
    late = [at_s for rack, at_s in ends(reading(stop("datanode-r0", 0.05))) if rack == "r1"]
    assert late == pytest.approx([0.05 + DATANODE_LASTS_S + 2.0] * 2)


def test_a_read_goes_elsewhere_if_it_dies_instead():
    death = DaemonDown(target="datanode-r0", at_s=0.5, lasts_s=0.3)
    late = [at_s for rack, at_s in ends(reading(stop("datanode-r0", 0.05), death)) if rack == "r1"]
    assert late
    assert max(late) < 0.05 + DATANODE_LASTS_S + 2.0


@pytest.mark.parametrize("daemon", ["datanode-r0", "datanode-r1"])
def test_a_pipeline_stands_still_with_each_of_its_nodes(daemon: str):
    [(_, without_s)] = ends(writing())
    assert BEGAN_S < without_s < BEGAN_S + DATANODE_LASTS_S
    [(_, end_s)] = ends(writing(stop(daemon)))
    assert end_s == pytest.approx(BEGAN_S + DATANODE_LASTS_S)


def test_it_receives_orders_and_registers_when_it_goes_on():
    heap = EventHeap()
    network = SimulatedNetwork(Fabric(topology(2), flow_scheduler("maxmin")), heap)
    store = FaultyBlockStore(topology(2), 1, heap, network)
    store.stop_datanode(RackId("r0"))
    [block] = store.put("/one", [BLOCK_BYTES], at=[(NodeId("r0n0"),)])
    store.tick()  # the order to copy it goes to the DataNode of r0
    assert network.opened == 0
    store.down.begin(NodeId("r0n0"))
    store.send_heartbeat(RackId("r0"))
    assert store.locate(block) == ("r0n0",)  # the NameNode has no report of it
    store.down.end(NodeId("r0n0"))
    store.datanode_goes_on(RackId("r0"))
    assert network.opened == 1
    assert store.locate(block) == ("r0n0",)


def test_one_that_was_silent_for_too_long_registers_again():
    heap = EventHeap()
    network = SimulatedNetwork(Fabric(topology(1), flow_scheduler("maxmin")), heap)
    store = FaultyBlockStore(topology(1), 1, heap, network)
    [block] = store.put("/one", [BLOCK_BYTES], at=[(NodeId("r0n0"),)])
    store.stop_datanode(RackId("r0"))
    heap.now_s = 5.0  # as its NameNode was stopped, too
    store.tick()
    assert store.locate(block) == ()
    store.datanode_goes_on(RackId("r0"))
    assert store.locate(block) == ("r0n0",)
