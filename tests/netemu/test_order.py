"""Places of flows in the order of priorities, as numbers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.benchmarks._network.emulated import EmulatedNetwork
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Links, RackShape, SwitchTree
from railyard.netemu.circuits.policies import CIRCUIT_POLICIES, SunflowCircuits
from railyard.netemu.client import NetworkClient
from railyard.netemu.fabric.coflows import Key, Places
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import OpenFlow, SetCapacity
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.netemu.schedulers.sunflow import Sunflow
from railyard.oracles.orders import carry_out, open_flows
from railyard.simulator.clock import EventHeap
from railyard.simulator.network import SimulatedNetwork
from tests.netemu.circuit_events import GB, Run, a_moment, fabric


def key(priority: float, name: int) -> Key:
    return (priority,), f"f{name:06d}"


def test_numbers_are_in_the_order_of_keys_whenever_they_come() -> None:
    rng, places, numbers = random.Random(3), Places(), np.zeros(2000)
    keys = rng.sample(range(10**6), 2000)
    first = 0
    while first < len(keys):
        flows = range(first, min(first + rng.randint(1, 60), len(keys)))
        places.add([(key(1.0, keys[flow]), flow) for flow in flows], numbers)
        first = flows.stop
        assert np.array_equal(np.argsort(keys[:first]), np.argsort(numbers[:first]))


def test_where_no_number_is_left_between_two_all_are_numbered_anew() -> None:
    places, numbers = Places(), np.zeros(100)
    first = [(key(-1.0, 0), 0), (key(0.0, 1), 1), (key(1.0, 2), 2)]
    assert not places.add(first, numbers)
    said = [places.add([(key(0.5**flow, flow), flow)], numbers) for flow in range(3, 100)]
    assert any(said), "each is between the second and the one before"
    assert numbers[0] < numbers[1] == numbers[1:].min()
    assert (np.diff(numbers[2:]) < 0).all()


def test_numbers_of_flows_that_ended_are_not_given_to_those_that_took_theirs() -> None:
    open_flows: dict[int, Key] = {}
    places = Places()
    rng, numbers = random.Random(5), np.zeros(20)
    for name in range(3000):
        flow = rng.randrange(20)
        if flow in open_flows:  # the flow that had this number has ended
            places.remove([flow])
        open_flows[flow] = key(rng.choice([1.0, 2.0, 0.5**name]), name)
        places.add([(open_flows[flow], flow)], numbers)
        inside = sorted(open_flows, key=lambda flow: open_flows[flow])
        assert (np.diff(numbers[inside]) > 0).all()


# The order of coflows on circuits: only those whose bytes have changed get another place in it.


def forgetting(run):
    """The same network, but every coflow gets its place anew whenever they are put in order."""
    optics = run.fabric._optics
    put_in_order = optics._put_in_order

    def all_anew():
        optics.state.coflows.is_moved[:] = True
        return put_in_order()

    optics._put_in_order = all_anew
    return run


@given(moments=st.lists(a_moment, min_size=3, max_size=20))
@settings(max_examples=60)
def test_circuits_are_those_of_an_order_that_is_made_anew(moments):
    kept, anew = Run(fabric(Sunflow())), forgetting(Run(fabric(Sunflow())))
    for events, tenths in moments:
        for event in events:
            kept.do(event)
            anew.do(event)
        assert kept.fabric.circuits() == anew.fabric.circuits()
        kept.wait(tenths / 10)
        anew.wait(tenths / 10)
    kept.finish()
    anew.finish()
    assert kept.ends == anew.ends


def test_coflows_that_wait_are_looked_at_once(monkeypatch):
    """Ten for one port, which has two circuits; one after the other ends."""
    looked_at = []

    class Noting(SunflowCircuits):
        """Notes how many coflows each decision has looked at."""

        def urgency(self, coflows):
            looked_at.append(len(coflows.port_bytes))
            return super().urgency(coflows)

    monkeypatch.setitem(CIRCUIT_POLICIES, "sunflow", Noting)
    f = fabric(Sunflow())
    for number in range(10):
        spec = FlowSpec(flow=f"f{number}", src="r0n0", dst="r1n0", size_bytes=(2 + number) * GB)
        open_flows(f, spec)
    f.next_event_s()
    assert looked_at == [10]
    ended = 0
    while ended < 10:
        ended += len(f.handle(None, f.next_event_s()))
    assert max(looked_at[1:]) <= 2


def test_a_port_that_carries_more_gives_those_who_wait_for_it_another_place():
    f = fabric(Sunflow())
    carry_out(f, SetCapacity(link="r2.ocs.down", bytes_per_s=GB / 2))
    for flow, dst, size in (("A", "r1n0", 4), ("B", "r1n1", 5), ("C", "r2n0", 3)):
        open_flows(f, FlowSpec(flow=flow, src="r0n0", dst=dst, size_bytes=size * GB))

    def served():
        return {circuit.coflow for circuit in f.circuits()} - {None}

    assert served() == {"flow A", "flow B"}
    carry_out(f, SetCapacity(link="r2.ocs.down", bytes_per_s=4 * GB))
    assert served() == {"flow A", "flow C"}


# Flows through one switch end in the same order in real processes and in virtual time.


RATE = 10e9
#: Of each flow, in bytes of the model, and as it is stored.
SIZE, STORED = 10**9, 10**6
SWITCH = Topology(
    name="one switch",
    scale=SIZE // STORED,
    racks=RackShape(count=1, nodes=2),
    links=Links(nic=math.inf),
    tree=SwitchTree(tor=RATE, aggregation=math.inf, root=math.inf, racks_per_aggregation=1),
)
OFF, ON = (SetCapacity(link="r0.tor", bytes_per_s=rate) for rate in (0.0, RATE))


def ends_in_processes(script):
    """The flows of a script, as they end: all wait for a switch that is off, then on."""
    ended = []
    with EmulatedNetwork(SWITCH, flow_scheduler="afap") as network:
        client = NetworkClient(network.transport, network.topology)
        network.link.call(OFF, Done)
        for flow, priority in script.items():
            order = OpenFlow(flow=flow, src="r0n0", dst="r0n1", size_bytes=SIZE, priority=priority)
            network.link.call(order, Done)
            client.attach(flow, STORED, lambda sent, of=flow: sent == STORED and ended.append(of))
        network.link.call(ON, Done)
        all_ended = network.transport.reactor.run_until(lambda: len(ended) == len(script), 20)
        assert all_ended, "waited in vain"
        client.close()
    return ended


def ends_in_virtual_time(script):
    """The same in the simulator's network."""
    ended, heap, fabric = [], EventHeap(), Fabric(SWITCH, flow_scheduler("afap"))
    network = SimulatedNetwork(fabric, heap)
    carry_out(fabric, SetCapacity(link=OFF.link, bytes_per_s=OFF.bytes_per_s))
    for flow, priority in script.items():
        spec = FlowSpec(flow=flow, src="r0n0", dst="r0n1", size_bytes=SIZE, priority=priority)
        network.carry_all([(spec, lambda missing, _, of=flow: ended.append((of, missing)))])
    carry_out(fabric, SetCapacity(link=ON.link, bytes_per_s=ON.bytes_per_s))
    while len(ended) < len(script):
        heap.now_s = network.next_s()
        network.advance()
    return [flow for flow, missing in ended if missing == 0]


@pytest.mark.usefixtures("run_folders")
@pytest.mark.parametrize(
    ("script", "order"),
    [
        pytest.param(
            {"b": (2.0,), "a": (3.0,), "d": (1.0, -5.0), "e": (1.0, -4.0), "c": (3.0,)},
            "debac",
            id="three priorities",
        ),
        pytest.param(dict.fromkeys("badec", ()), "abcde", id="none"),
    ],
)
def test_flows_end_one_after_the_other_in_the_same_order(script, order):
    """As whole flows one by one; equal priorities go by name."""
    assert ends_in_processes(script) == ends_in_virtual_time(script) == list(order)
