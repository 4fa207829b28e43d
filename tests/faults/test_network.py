"""A network that is stopped: nothing is granted meanwhile, and then all that would have been."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from railyard.cluster.errors import InvariantError
from railyard.cluster.faults import Fault
from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.cluster.messages import CancelFlow, FlowFinished, StartFlow
from railyard.cluster.messaging.wire import Command, Event
from railyard.netemu.fabric.fabric import Fabric, StartFlows
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.oracles.faults.daemons import DaemonDown, DaemonStopped, daemons_of, sender_of
from railyard.oracles.faults.driver import Journaled, RestartableDriver
from railyard.oracles.faults.network import FaultyNetwork
from railyard.oracles.faults.scenarios import Scenario
from railyard.oracles.faults.workers import FaultyWorkers
from railyard.simulator.clock import EventHeap
from tests.faults.test_stopped_daemons import seen, shuffling, with_faults
from tests.netemu.topologies import network_of

MB = 10**6
#: A network whose links carry 10 MB/s, so that a flow of 10 MB takes a second.
TOPOLOGY = network_of(2, 2, "80Mbps", "80Mbps")
STOP_S, LASTS_S = 0.5, 1.0


class World:
    """A network that is stopped from 0.5 s to 1.5 s, if it is, and when its flows end."""

    def __init__(self, *, stops: bool = True, orders_first: bool = False) -> None:
        self.heap = EventHeap()
        self.network = FaultyNetwork(self.fabric, self.heap)
        self.ended: dict[str, tuple[float, int, str]] = {}
        if stops:
            stop = DaemonStopped(
                target="network", at_s=STOP_S, lasts_s=LASTS_S, orders_first=orders_first
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

    def all_is_known(self) -> None:
        """There is a successor, and it learns at once what is open."""
        for sender in self.network.come_back():
            self.network.reregister(sender)
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


@pytest.mark.parametrize(("orders_first", "end_s"), [(True, 1.7), (False, 2.5)])
def test_a_flow_that_is_opened_meanwhile(orders_first: bool, end_s: float):
    world = World(orders_first=orders_first)
    world.carry_at(0.7, "one", 10 * MB)
    assert world.run() == pytest.approx({"one": end_s})


def test_a_flow_that_is_cancelled_meanwhile_holds_its_rate_until_that_arrives():
    world = World()
    world.carry_at(0.0, "one", 10 * MB)
    world.carry_at(0.0, "other", 30 * MB)
    world.heap.at(0.6, lambda: world.network.cancel(FlowId("other")))
    assert world.run() == pytest.approx({"one": 1.75})
    assert world.carried_bytes() == pytest.approx(17.5 * MB)
    assert world.network.cancelled == 1


def test_a_coflow_that_is_opened_and_closed_meanwhile_comes_to_nothing():
    world = World()
    coflow = CoflowId("c")
    world.heap.at(0.6, lambda: world.network.open_coflow(coflow))
    world.carry_at(0.7, "of it", 10 * MB, "c")
    world.heap.at(0.8, lambda: world.network.close_coflow(coflow))
    world.carry_at(0.9, "other", 10 * MB)
    assert world.run() == pytest.approx({"other": 2.5})
    assert world.network.coflows() == []


def test_a_link_changes_when_the_order_arrives():
    world = World()
    world.carry_at(0.0, "one", 20 * MB)
    world.heap.at(0.6, lambda: world.network.set_capacity("r0.up", 5 * MB))
    assert world.run() == pytest.approx({"one": 2.5})


def test_one_that_dies_while_it_is_stopped_has_granted_nothing_since():
    world = World()
    world.carry_at(0.0, "read-1", 10 * MB)
    world.carry_at(0.7, "read-2", 10 * MB)
    world.heap.at(1.0, lambda: world.network.go_down())
    world.heap.at(2.0, world.all_is_known)
    assert world.run() == pytest.approx({"read-1": 3.0, "read-2": 3.5})


def test_a_network_that_is_stopped_reports_nothing():
    stop = DaemonStopped(target="network", at_s=0.5, lasts_s=0.5)
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
        for orders_first in (False, True):
            stop = DaemonStopped(target="network", at_s=0.6, lasts_s=0.8, orders_first=orders_first)
            death = DaemonDown(target="network", at_s=0.9, lasts_s=0.2)
            Scenario(with_faults(seed, stop, death)).go()
            Scenario(with_faults(seed, stop)).go()


def test_a_fault_begins_with_the_flows_that_it_waits_for():
    begun = 0
    for seed in range(60):
        stop = DaemonStopped(target="network", at_s=0.2, lasts_s=0.3, flows=1, lag_s=0.05)
        scenario = Scenario(with_faults(seed, stop))
        run, opened, begins_s = scenario.run, 0, 1.2  # if no flow starts
        while run.jobs.ended < len(scenario.jobs.jobs) and not run.network.is_stopped:
            if run.heap.now_s < 0.2:
                opened = run.network.opened
            elif run.network.opened > opened and begins_s == 1.2:
                begins_s = run.heap.now_s + 0.05
            run.step()
        if run.network.is_stopped:
            assert run.heap.now_s == pytest.approx(begins_s)
            begun += begins_s < 1.2
    assert begun > 5


# A network's successor knows what senders and the ResourceManager register.


#: Its links carry 10 MB/s.

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


class RestartedWorld:
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

    def reregister(self, sender: str) -> Callable[[], None]:
        return lambda: self.network.reregister(sender)

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


def test_each_sender_registers_its_own_flows_at_its_own_moment():
    world, senders = RestartedWorld(), []
    world.at(1.0, lambda: senders.extend(world.network.come_back()), world.resume)
    world.at(2.0, world.reregister("nodemanager-r0"))
    world.at(3.0, world.reregister("datanode-r1"))
    assert world.run() == pytest.approx({FETCH.flow: 2.5, READ.flow: 3.5})
    assert senders == ["nodemanager-r0", "datanode-r1"]
    assert not world.network.is_down


def test_flows_of_jobs_wait_for_the_resourcemanager_and_others_do_not():
    world = RestartedWorld()
    world.at(1.0, world.network.come_back)
    world.at(2.0, world.reregister("nodemanager-r0"), world.reregister("datanode-r1"))
    world.at(4.0, world.resume)
    assert world.run() == pytest.approx({FETCH.flow: 4.5, READ.flow: 2.5})


def test_what_is_opened_meanwhile_is_registered_with_the_rest():
    world = RestartedWorld()
    world.at(0.7, lambda: world.network.carry_all([(COPY, world.ending(COPY))]))
    world.at(1.0, world.network.come_back, world.resume)
    world.at(1.5, lambda: world.network.carry_all([(WRITE, world.ending(WRITE))]))
    world.at(2.0, world.reregister("nodemanager-r0"))
    world.at(3.0, world.reregister("datanode-r1"))
    ends_s = world.run()
    assert ends_s[WRITE.flow] == pytest.approx(2.5)  # its sender has nothing else to register
    assert ends_s[COPY.flow] > ends_s[READ.flow] > 3.5


def test_what_is_cancelled_before_it_is_registered_never_is():
    world = RestartedWorld()
    world.at(1.0, world.network.come_back, world.resume)
    world.at(1.5, lambda: world.network.cancel(READ.flow))
    world.at(2.0, world.reregister("nodemanager-r0"), world.reregister("datanode-r1"))
    assert world.run() == pytest.approx({FETCH.flow: 2.5})
    assert (world.network.cancelled, world.network.lost_bytes) == (1, 5 * MB)


def test_a_sender_that_is_stopped_registers_when_it_goes_on():
    world = RestartedWorld()
    stop = DaemonStopped(target="nodemanager-r0", at_s=0.8, lasts_s=2.2)
    went_on_s = []
    world.at(
        0.8, lambda: world.network.daemon_stops(stop, lambda: went_on_s.append(world.heap.now_s))
    )
    world.at(1.0, world.network.come_back, world.resume)
    world.at(1.1, world.reregister("nodemanager-r0"), world.reregister("datanode-r1"))
    assert world.run() == pytest.approx({FETCH.flow: 3.5, READ.flow: 1.6})
    assert went_on_s == [3.0]


def test_one_that_dies_before_it_knows_all_loses_nothing():
    world = RestartedWorld()
    world.at(1.0, world.network.come_back)
    world.at(1.5, world.reregister("datanode-r1"))
    world.at(1.7, lambda: world.network.go_down())
    world.at(2.0, world.network.come_back, world.resume)
    world.at(2.0, world.reregister("nodemanager-r0"), world.reregister("datanode-r1"))
    assert world.run() == pytest.approx({FETCH.flow: 2.5, READ.flow: 2.3})
    assert world.network.arrived_bytes == 20 * MB


def test_a_flow_that_goes_on_from_less_than_it_was_granted_is_noticed(monkeypatch):
    monkeypatch.setattr(
        "railyard.netemu.emulator.grants.StartFlows", lambda specs, _: StartFlows(specs)
    )
    world = RestartedWorld()
    world.at(1.0, world.network.come_back, world.resume)
    world.at(2.0, world.reregister("datanode-r1"))
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
    death = DaemonDown(target="network", at_s=0.8, lasts_s=0.1)
    stop = DaemonStopped(target="nodemanager-r0", at_s=0.75, lasts_s=1.5)
    runs = [seen(shuffling(death)), seen(shuffling(death, stop))]
    ends_s = [max(at_s for at_s, _ in log.events) for log in runs]
    assert ends_s[1] > 2.25 + 0.9 * (ends_s[0] - 0.9)


def test_a_resourcemanager_that_is_dead_resumes_it_when_it_is_back():
    deaths = 0
    for seed in range(60):
        away = DaemonDown(target="resourcemanager", at_s=0.6, lasts_s=1.2)
        death = DaemonDown(target="network", at_s=0.8, lasts_s=0.1)
        scenario = Scenario(with_faults(seed, away, death))
        scenario.go()
        deaths += scenario.run.network.deaths
    assert deaths > 20


# Orders about fetches that the network has and the reader's NodeManager has not, or not it.
#
# A ResourceManager that dies has sent each of them some of its last orders.


#: All orders of an event; how long there is no ResourceManager; from when on it may die.
ALL, DOWN_S, DIES_FROM_S = 100, 10.0, 0.001
#: It dies much later than anything that is looked at.
LATE = DaemonDown(target="resourcemanager", at_s=900.0)


# In the network ----------------------------------------------------------------------------------
def held_from_the_start(world: World, size_bytes: int, coflow: str | None = None) -> None:
    world.carry_at(0.0, "f", size_bytes, coflow)
    world.heap.at(0.0, lambda: world.network.hold(FlowId("f")))


def test_a_flow_that_is_held_is_granted_and_ends_when_it_is_released():
    world = World(stops=False)
    held_from_the_start(world, 10 * MB)
    world.heap.at(3.0, lambda: world.network.release(FlowId("f")))
    assert world.run(2.0) == {}
    assert world.carried_bytes() == 10 * MB
    assert world.run() == {"f": 3.0}


def test_one_that_is_released_before_all_is_granted_ends_when_it_is():
    world = World(stops=False)
    held_from_the_start(world, 10 * MB)
    world.heap.at(0.5, lambda: world.network.release(FlowId("f")))
    assert world.run() == {"f": pytest.approx(1.0)}


def test_one_that_is_cancelled_gives_way_to_others():
    world = World(stops=False)
    held_from_the_start(world, 20 * MB)
    world.carry_at(0.0, "g", 10 * MB)
    world.heap.at(1.0, lambda: world.network.cancel(FlowId("f")))
    assert world.run() == {"g": pytest.approx(1.5)}  # half of it by 1.0 s, the rest alone
    assert not world.network.has_held


def test_one_that_was_granted_ends_with_its_coflow():
    world, coflow = World(stops=False), CoflowId("c")
    world.network.open_coflow(coflow)
    held_from_the_start(world, 10 * MB, "c")
    world.heap.at(2.0, lambda: world.network.close_coflow(coflow))
    world.run()
    assert not world.network.has_held
    assert not world.network.flows()


def test_a_successor_knows_nothing_of_it():
    world = World()
    held_from_the_start(world, 10 * MB)
    world.heap.at(0.8, lambda: world.network.go_down())
    world.heap.at(1.0, world.all_is_known)
    world.run()
    assert not world.network.flows()
    assert world.carried_bytes() == pytest.approx(5 * MB)  # until it was stopped, at 0.5 s


# By a ResourceManager that dies ------------------------------------------------------------------
class Steps:
    """Events and the commands that they led to."""

    def __init__(self) -> None:
        self.steps: list[tuple[float, Event, list[Command]]] = []

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        self.steps.append((at_s, event, list(commands)))


def is_about_fetch(order: Command, kind: type[StartFlow] | type[CancelFlow]) -> bool:
    """Whether an order is of a kind, and about a fetch between two nodes."""
    return isinstance(order, kind) and order.flow.split(":")[1] != order.dst


class Died:
    """A run whose ResourceManager dies at the first event that leads to orders of a kind."""

    def __init__(
        self,
        kind: type[StartFlow] | type[CancelFlow],
        sent: int,
        to_network: int,
        *others: Fault,
    ) -> None:
        before = Scenario(shuffling(LATE, *others))
        before.log = seen = Steps()
        before.go()
        led_to = [commands for at_s, _, commands in seen.steps if at_s >= DIES_FROM_S]
        after = next(
            number
            for number, commands in enumerate(led_to)
            if any(is_about_fetch(order, kind) for order in commands)
        )
        fault = DaemonDown(
            target="resourcemanager",
            at_s=DIES_FROM_S,
            after=after,
            lasts_s=DOWN_S,
            sent=sent,
            to_network=to_network,
        )
        self.scenario = Scenario(shuffling(fault, *others))
        self.scenario.log = self.seen = Steps()
        self.network = self.scenario.run.network
        self.carried_by_then_bytes = 0  #: between racks, when there is a successor
        driver = self.scenario.run.driver
        assert isinstance(driver, RestartableDriver)
        self._rebuilt, driver.on_rebuilt = driver.on_rebuilt, self._look

    def carried_bytes(self) -> int:
        return self.network.bytes_by_category()["cross_rack"]

    def _look(self, journal: Sequence[Journaled]) -> None:
        self.carried_by_then_bytes = self.carried_bytes()
        self._rebuilt(journal)


@pytest.mark.parametrize(
    ("sent", "to_network", "is_carried"), [(0, ALL, True), (ALL, 0, False), (ALL, ALL, True)]
)
def test_fetches_that_one_has_received_are_carried_once(sent, to_network, is_carried):
    died = Died(StartFlow, sent, to_network)
    died.scenario.go()
    assert (died.carried_by_then_bytes > 0) == is_carried
    # Of each map's 100 MB a half is for the other rack's reduces.
    assert died.carried_bytes() == pytest.approx(200_000_000, abs=10)
    ends = [event.flow for _, event, _ in died.seen.steps if isinstance(event, FlowFinished)]
    assert len(ends) == len(set(ends))


@pytest.mark.parametrize(("sent", "to_network"), [(0, ALL), (ALL, 0), (1, 2), (2, 1), (ALL, ALL)])
def test_cancelled_fetches_are_so_for_both_in_the_end(sent, to_network, monkeypatch):
    """A node is lost that reads, and that others read from."""
    halves = []
    for name in ("network_closes", "reader_forgets"):
        receive = getattr(FaultyWorkers, name)
        monkeypatch.setattr(
            FaultyWorkers,
            name,
            lambda workers, order, receive=receive, name=name: (
                halves.append(name),
                receive(workers, order),
            ),
        )
    died = Died(
        CancelFlow, sent, to_network, Fault(kind="node", target="r0n0", at_s=2.0, lasts_s=5.0)
    )
    run = died.scenario.go()
    assert not run.workers.has_half_delivered
    assert not run.network.flows()
    network_alone, reader_alone = to_network > sent, to_network < sent
    alone = {"network_closes"} if network_alone else {"reader_forgets"} if reader_alone else set()
    assert set(halves) == alone
