"""Orders about fetches that the network has heard, and the reader's NodeManager has not, or not it.

A ResourceManager that dies has sent each of them some of its last orders.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from railyard.benchmarks._faults.scenarios import Scenario
from railyard.cluster.ids import CoflowId, FlowId
from railyard.cluster.messages.execution import CancelFlow, FlowFinished, StartFlow
from railyard.cluster.messaging.wire import Command, Event
from railyard.simulator.faults.faults import NodeDown
from railyard.simulator.restarts.driver import RestartableDriver
from railyard.simulator.restarts.replay import Journaled
from railyard.simulator.restarts.workers import FaultyWorkers
from railyard.simulator.silence.daemons import DaemonDown, Fault
from tests.simulator.test_stopped_manager import shuffling
from tests.simulator.test_stopped_network import MB, World

#: All orders of an event; how long there is no ResourceManager; from when on it may die.
ALL, DOWN_S, DIES_FROM_S = 100, 10.0, 0.001
#: It dies much later than anything that is looked at.
LATE = DaemonDown(daemon="resourcemanager", at_s=900.0)


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
    world.heap.at(1.0, world.all_is_told)
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
            daemon="resourcemanager",
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
def test_fetches_that_one_has_heard_of_are_carried_once(sent, to_network, is_carried):
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
        heard = getattr(FaultyWorkers, name)
        monkeypatch.setattr(
            FaultyWorkers,
            name,
            lambda workers, order, heard=heard, name=name: (
                halves.append(name),
                heard(workers, order),
            ),
        )
    died = Died(CancelFlow, sent, to_network, NodeDown(node="r0n0", at_s=2.0, lasts_s=5.0))
    run = died.scenario.go()
    assert not run.workers.has_half_heard
    assert not run.network.flows()
    network_alone, reader_alone = to_network > sent, to_network < sent
    alone = {"network_closes"} if network_alone else {"reader_forgets"} if reader_alone else set()
    assert set(halves) == alone
