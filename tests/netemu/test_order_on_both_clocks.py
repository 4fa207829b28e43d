"""Flows through one switch end in the same order in real processes and in virtual time."""

from __future__ import annotations

import math

import pytest

from railyard.benchmarks._network.emulated import EmulatedNetwork
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topologies.tables import Links, RackShape, SwitchTree
from railyard.cluster.topology import Topology
from railyard.netemu.client.client import NetworkClient
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import OpenFlow, SetCapacity
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.oracles.orders import carry_out
from railyard.simulator.heap import EventHeap
from railyard.simulator.network.network import SimulatedNetwork

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
