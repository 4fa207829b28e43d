"""A network that is stopped: nothing is granted meanwhile, and then all that would have been."""

from __future__ import annotations

import pytest

from railyard.benchmarks._faults.scenarios import Scenario
from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.simulator.heap import EventHeap
from railyard.simulator.silence.daemons import DaemonDown, DaemonStopped
from railyard.simulator.silence.network import FaultyNetwork
from tests.netemu.topologies import network_of
from tests.simulator.test_stopped_manager import with_faults

MB = 10**6
#: A network whose links carry 10 MB/s, so that a flow of 10 MB takes a second.
TOPOLOGY = network_of(2, 2, "80Mbps", "80Mbps")
STOP_S, LASTS_S = 0.5, 1.0


class World:
    """A network that is stopped from 0.5 s to 1.5 s, if it is, and when its flows end."""

    def __init__(self, *, stops: bool = True, hears_first: bool = False) -> None:
        self.heap = EventHeap()
        self.network = FaultyNetwork(self.fabric, self.heap)
        self.ended: dict[str, tuple[float, int, str]] = {}
        if stops:
            stop = DaemonStopped(
                daemon="network", at_s=STOP_S, lasts_s=LASTS_S, hears_first=hears_first
            )
            self.heap.at(STOP_S, lambda: self.network.stop(stop))

    def fabric(self) -> Fabric:
        return Fabric(TOPOLOGY, flow_scheduler("maxmin"))

    def carry_at(self, at_s: float, flow: str, size_bytes: int, coflow: str | None = None) -> None:
        def carry() -> None:
            spec = FlowSpec(
                flow=FlowId(flow),
                src=NodeId("r0n0"),
                dst=NodeId("r1n0"),
                size_bytes=size_bytes,
                coflow=None if coflow is None else CoflowId(coflow),
            )
            self.network.carry_all([(spec, ended)])

        def ended(missing: int, why: str) -> None:
            self.ended[flow] = self.heap.now_s, missing, why

        self.heap.at(at_s, carry)

    def carried_bytes(self) -> int:
        return self.network.bytes_by_category()["cross_rack"]

    def all_is_told(self) -> None:
        """There is a successor, and it is told at once what there is."""
        for sender in self.network.come_back():
            self.network.tells(sender)
        self.network.resume((), ())

    def run(self, until_s: float = 20.0) -> dict[str, float]:
        """{flow that has sent all: when}"""
        self.heap.at(until_s, lambda: None)
        while self.heap.next_s() <= until_s:
            self.heap.now_s = min(self.network.next_s(), self.heap.next_s())
            self.network.advance()
            self.heap.run_due()
        return {flow: at_s for flow, (at_s, _, why) in self.ended.items() if not why}


def test_nothing_is_granted_meanwhile_and_its_clock_goes_on():
    world = World()
    world.carry_at(0.0, "short", 10 * MB)
    world.carry_at(0.0, "long", 10 * MB)
    seen = []
    for at_s in (0.51, 1.0, 1.49):
        world.heap.at(at_s, lambda: seen.append(world.carried_bytes()))
    world.heap.at(1.51, lambda: seen.append(world.carried_bytes()))
    assert world.run() == pytest.approx({"short": 2.0, "long": 2.0})
    assert seen == pytest.approx([5 * MB, 5 * MB, 5 * MB, 15.1 * MB], rel=1e-6)


def test_a_flow_that_would_have_ended_meanwhile_ends_when_it_goes_on():
    world = World()
    world.carry_at(0.0, "one", 9 * MB)
    assert world.run() == {"one": STOP_S + LASTS_S}


@pytest.mark.parametrize(("hears_first", "end_s"), [(True, 1.7), (False, 2.5)])
def test_a_flow_that_is_opened_meanwhile(hears_first: bool, end_s: float):
    world = World(hears_first=hears_first)
    world.carry_at(0.7, "one", 10 * MB)
    assert world.run() == pytest.approx({"one": end_s})


def test_a_flow_that_is_cancelled_meanwhile_holds_its_rate_until_that_is_heard():
    world = World()
    world.carry_at(0.0, "one", 10 * MB)
    world.carry_at(0.0, "other", 30 * MB)
    world.heap.at(0.6, lambda: world.network.cancel(FlowId("other")))
    assert world.run() == pytest.approx({"one": 1.75})
    assert world.carried_bytes() == pytest.approx(17.5 * MB)
    assert world.network.counts.cancelled == 1


def test_a_coflow_that_is_opened_and_closed_meanwhile_comes_to_nothing():
    world = World()
    coflow = CoflowId("c")
    world.heap.at(0.6, lambda: world.network.open_coflow(coflow))
    world.carry_at(0.7, "of it", 10 * MB, "c")
    world.heap.at(0.8, lambda: world.network.close_coflow(coflow))
    world.carry_at(0.9, "other", 10 * MB)
    assert world.run() == pytest.approx({"other": 2.5})
    assert world.network.coflows() == []


def test_a_link_changes_when_that_is_heard():
    world = World()
    world.carry_at(0.0, "one", 20 * MB)
    world.heap.at(0.6, lambda: world.network.set_capacity("r0.up", 5 * MB))
    assert world.run() == pytest.approx({"one": 2.5})


def test_one_that_dies_while_it_is_stopped_has_granted_nothing_since():
    world = World()
    world.carry_at(0.0, "read-1", 10 * MB)
    world.carry_at(0.7, "read-2", 10 * MB)
    world.heap.at(1.0, lambda: world.network.go_down())
    world.heap.at(2.0, world.all_is_told)
    assert world.run() == pytest.approx({"read-1": 3.0, "read-2": 3.5})


def test_nobody_hears_of_the_network_while_it_is_stopped():
    stop = DaemonStopped(daemon="network", at_s=0.5, lasts_s=0.5)
    carried = 0
    for seed in range(120):
        scenario = Scenario(with_faults(seed, stop))
        run, before = scenario.run, 0
        while run.jobs.ended < len(scenario.jobs.jobs):
            if run.network.is_stopped:
                assert run.network.fabric.now_s <= 0.5
                now = sum(run.network.bytes_by_link().values())
                assert before in (0, now)
                before = now
            run.step()
        carried += before > 0
    assert carried > 5


def test_laws_are_kept_where_it_dies_while_it_is_stopped():
    for seed in range(40):
        for hears_first in (False, True):
            stop = DaemonStopped(daemon="network", at_s=0.6, lasts_s=0.8, hears_first=hears_first)
            death = DaemonDown(daemon="network", at_s=0.9, lasts_s=0.2)
            Scenario(with_faults(seed, stop, death)).go()
            Scenario(with_faults(seed, stop)).go()


def test_a_fault_begins_with_the_flows_that_it_waits_for():
    begun = 0
    for seed in range(60):
        stop = DaemonStopped(daemon="network", at_s=0.2, lasts_s=0.3, flows=1, lag_s=0.05)
        scenario = Scenario(with_faults(seed, stop))
        run, opened, begins_s = scenario.run, 0, 1.2  # if no flow starts
        while run.jobs.ended < len(scenario.jobs.jobs) and not run.network.is_stopped:
            if run.heap.now_s < 0.2:
                opened = run.network.counts.opened
            elif run.network.counts.opened > opened and begins_s == 1.2:
                begins_s = run.heap.now_s + 0.05
            run.step()
        if run.network.is_stopped:
            assert run.heap.now_s == pytest.approx(begins_s)
            begun += begins_s < 1.2
    assert begun > 5
