"""A network's successor knows what it is told, by who sends and by the ResourceManager."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from railyard.benchmarks._faults.scenarios import Scenario
from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.fabric.orders import StartFlows
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.simulator.heap import EventHeap
from railyard.simulator.network.ends import daemons_of, sender_of
from railyard.simulator.silence.daemons import DaemonDown, DaemonStopped
from railyard.simulator.silence.network import FaultyNetwork
from tests.netemu.topologies import network_of
from tests.simulator.test_stopped_manager import seen, shuffling, with_faults

MB = 10**6
#: Its links carry 10 MB/s.
TOPOLOGY = network_of(2, 2, "80Mbps", "80Mbps")
COFLOW = CoflowId("j1.r")
FETCH = FlowSpec(
    flow=FlowId("j1.r0.0:r0n0:0"),
    src=NodeId("r0n0"),
    dst=NodeId("r1n0"),
    size_bytes=10 * MB,
    coflow=COFLOW,
)
READ = FlowSpec(flow=FlowId("read-1"), src=NodeId("r1n1"), dst=NodeId("r0n1"), size_bytes=10 * MB)
WRITE = FlowSpec(flow=FlowId("write-1"), src=NodeId("r1n1"), dst=NodeId("r0n1"), size_bytes=10 * MB)
COPY = FlowSpec(flow=FlowId("copy-1"), src=NodeId("r1n1"), dst=NodeId("r0n1"), size_bytes=10 * MB)


class World:
    """A network that carries a fetch and a read, and dies when half of each was sent."""

    def __init__(self) -> None:
        self.heap = EventHeap()
        self.network = FaultyNetwork(self.fabric, self.heap)
        self.network.open_coflow(COFLOW)
        self.ends_s: dict[FlowId, float] = {}
        self.network.carry_all([(spec, self.ending(spec)) for spec in (FETCH, READ)])
        self.at(0.5, lambda: self.network.go_down())

    def fabric(self) -> Fabric:
        return Fabric(TOPOLOGY, flow_scheduler("maxmin"))

    def ending(self, spec: FlowSpec) -> Callable[[int, str], None]:
        return lambda _, why: self.ends_s.update({spec.flow: self.heap.now_s} if not why else {})

    def at(self, at_s: float, *calls: Callable[[], object]) -> None:
        for call in calls:
            self.heap.at(at_s, call)

    def tells(self, sender: str) -> Callable[[], None]:
        return lambda: self.network.tells(sender)

    def resume(self) -> None:
        self.network.resume([COFLOW], [FETCH])

    def run(self) -> dict[FlowId, float]:
        until_s = 20.0
        self.heap.at(until_s, lambda: None)
        while self.heap.next_s() <= until_s:
            self.heap.now_s = min(self.network.next_s(), self.heap.next_s())
            self.network.advance()
            self.heap.run_due()
        return self.ends_s


def test_each_sender_tells_its_own_flows_at_its_own_moment():
    world, senders = World(), []
    world.at(1.0, lambda: senders.extend(world.network.come_back()), world.resume)
    world.at(2.0, world.tells("nodemanager-r0"))
    world.at(3.0, world.tells("datanode-r1"))
    assert world.run() == pytest.approx({FETCH.flow: 2.5, READ.flow: 3.5})
    assert senders == ["nodemanager-r0", "datanode-r1"]
    assert not world.network.is_down


def test_flows_of_jobs_wait_for_the_resourcemanager_and_others_do_not():
    world = World()
    world.at(1.0, world.network.come_back)
    world.at(2.0, world.tells("nodemanager-r0"), world.tells("datanode-r1"))
    world.at(4.0, world.resume)
    assert world.run() == pytest.approx({FETCH.flow: 4.5, READ.flow: 2.5})


def test_what_is_new_meanwhile_is_told_with_the_rest():
    world = World()
    world.at(0.7, lambda: world.network.carry_all([(COPY, world.ending(COPY))]))
    world.at(1.0, world.network.come_back, world.resume)
    world.at(1.5, lambda: world.network.carry_all([(WRITE, world.ending(WRITE))]))
    world.at(2.0, world.tells("nodemanager-r0"))
    world.at(3.0, world.tells("datanode-r1"))
    ends_s = world.run()
    assert ends_s[WRITE.flow] == pytest.approx(2.5)  # its sender has nothing else to tell
    assert ends_s[COPY.flow] > ends_s[READ.flow] > 3.5


def test_what_is_cancelled_before_it_is_told_is_never_told():
    world = World()
    world.at(1.0, world.network.come_back, world.resume)
    world.at(1.5, lambda: world.network.cancel(READ.flow))
    world.at(2.0, world.tells("nodemanager-r0"), world.tells("datanode-r1"))
    assert world.run() == pytest.approx({FETCH.flow: 2.5})
    assert (world.network.counts.cancelled, world.network.counts.lost_bytes) == (1, 5 * MB)


def test_a_sender_that_is_stopped_tells_when_it_goes_on():
    world = World()
    stop = DaemonStopped(daemon="nodemanager-r0", at_s=0.8, lasts_s=2.2)
    told = []
    world.at(0.8, lambda: world.network.daemon_stops(stop, lambda: told.append(world.heap.now_s)))
    world.at(1.0, world.network.come_back, world.resume)
    world.at(1.1, world.tells("nodemanager-r0"), world.tells("datanode-r1"))
    assert world.run() == pytest.approx({FETCH.flow: 3.5, READ.flow: 1.6})
    assert told == [3.0]


def test_one_that_dies_before_it_knows_all_loses_nothing():
    world = World()
    world.at(1.0, world.network.come_back)
    world.at(1.5, world.tells("datanode-r1"))
    world.at(1.7, lambda: world.network.go_down())
    world.at(2.0, world.network.come_back, world.resume)
    world.at(2.0, world.tells("nodemanager-r0"), world.tells("datanode-r1"))
    assert world.run() == pytest.approx({FETCH.flow: 2.5, READ.flow: 2.3})
    assert world.network.counts.arrived_bytes == 20 * MB


def test_a_flow_that_goes_on_from_less_than_it_was_granted_is_noticed(monkeypatch):
    monkeypatch.setattr(
        "railyard.netemu.emulator.grants.TakeUpFlow", lambda spec, _: StartFlows((spec,))
    )
    world = World()
    world.at(1.0, world.network.come_back, world.resume)
    world.at(2.0, world.tells("datanode-r1"))
    with pytest.raises(InvariantError, match="was granted 5000000 bytes, and goes on from 0"):
        world.run()


def test_who_holds_the_ends_of_a_flow():
    assert [sender_of(spec) for spec in (FETCH, READ, WRITE, COPY)] == [
        *("nodemanager-r0", "datanode-r1", "write-1", "datanode-r1")
    ]
    assert [daemons_of(spec) for spec in (FETCH, READ, WRITE, COPY)] == [
        *(("nodemanager-r0",), ("datanode-r1",)),
        *(("datanode-r0",), ("datanode-r1", "datanode-r0")),
    ]


def test_fetches_go_on_late_if_their_sender_is_stopped_when_the_network_is_back():
    death = DaemonDown(daemon="network", at_s=0.8, lasts_s=0.1)
    stop = DaemonStopped(daemon="nodemanager-r0", at_s=0.75, lasts_s=1.5)
    runs = [seen(shuffling(death)), seen(shuffling(death, stop))]
    ends_s = [max(at_s for at_s, _ in log.told) for log in runs]
    assert ends_s[1] > 2.25 + 0.9 * (ends_s[0] - 0.9)


def test_a_resourcemanager_that_is_dead_tells_it_when_it_is_back():
    kept = 0
    for seed in range(60):
        away = DaemonDown(daemon="resourcemanager", at_s=0.6, lasts_s=1.2)
        death = DaemonDown(daemon="network", at_s=0.8, lasts_s=0.1)
        scenario = Scenario(with_faults(seed, away, death))
        scenario.go()
        kept += scenario.run.network.deaths
    assert kept > 20
