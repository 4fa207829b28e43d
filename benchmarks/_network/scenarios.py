"""Transfers for ``benchmarks.fidelity``, on any topology, and how long they take in the model.

A batch is a list of transfers that run together.  Sizes are such that a batch takes a given time
in the model, whatever the topology's figures.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from railyard.benchmarks._network.emulated import Arrival, Transfer
from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.cluster.topology import Topology
from railyard.netemu.fabric.fabric import Fabric, StartFlows
from railyard.netemu.messages import RegisterCoflow
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import flow_scheduler

Batch = list[Transfer]


def predict(
    topology: Topology, arrivals: Sequence[Arrival], scheduler: str = "maxmin"
) -> list[float]:
    """How long each of these transfers takes in the model, started when they were."""
    fabric = Fabric(topology, flow_scheduler(scheduler))
    for coflow in {arrival.transfer.coflow: None for arrival in arrivals}:
        if coflow is not None:
            fabric.handle(RegisterCoflow(coflow=coflow), 0.0)
    finished_s: dict[FlowId, float] = {}
    began_s = min(arrival.started_s for arrival in arrivals)
    order = sorted(range(len(arrivals)), key=lambda number: arrivals[number].started_s)
    for number in order:
        arrival = arrivals[number]
        transfer = arrival.transfer
        spec = FlowSpec(
            flow=FlowId(str(number)),
            src=transfer.src,
            dst=transfer.dst,
            size_bytes=transfer.stored_bytes * topology.scale,
            coflow=transfer.coflow,
        )
        for ended in fabric.handle(StartFlows((spec,)), arrival.started_s - began_s):
            finished_s[ended.flow] = ended.finished_s
    while fabric.open_flows:
        for ended in fabric.handle(None, fabric.next_event_s()):
            finished_s[ended.flow] = ended.finished_s
    return [
        finished_s[FlowId(str(number))] - (arrival.started_s - began_s)
        for number, arrival in enumerate(arrivals)
    ]


# Packets -----------------------------------------------------------------------------------------
def packet_batches(topology: Topology, rounds: int) -> list[Batch]:
    """Single flows, several that share a rack's way out, and a shuffle."""
    dice = random.Random(2)
    batches: list[Batch] = []
    for _ in range(rounds):
        batches += [_alone(topology, dice, seconds) for seconds in (0.25, 0.5)]
        batches += [_shared(topology, dice, flows) for flows in (3, 8)]
        batches.append(_shuffle(topology, dice))
    return batches


def _alone(topology: Topology, dice: random.Random, seconds: float) -> Batch:
    """One flow between two racks."""
    near, far = dice.sample(topology.rack_list(), 2)
    flow = _transfer("alone", dice.choice(near.nodes).id, dice.choice(far.nodes).id, 1.0)
    return _sized(topology, [flow], seconds)


def _shared(topology: Topology, dice: random.Random, flows: int) -> Batch:
    """Flows that leave one rack; they start and end at different times."""
    near, *others = dice.sample(topology.rack_list(), topology.racks.count)
    transfers = [
        _transfer(
            "shared",
            dice.choice(near.nodes).id,
            dice.choice(others[flow % len(others)].nodes).id,
            dice.uniform(0.5, 1.5),
            start_s=dice.uniform(0, 0.3),
        )
        for flow in range(flows)
    ]
    return _sized(topology, transfers, 1.0)


def _shuffle(topology: Topology, dice: random.Random) -> Batch:
    """Up to 32 nodes send to a reader in each of eight racks; sizes and starts differ."""
    racks = dice.sample(topology.rack_list(), min(8, topology.racks.count))
    readers = [dice.choice(rack.nodes).id for rack in racks]
    nodes = [node.id for node in topology.nodes()]
    transfers = [
        _transfer("shuffle", node, reader, dice.uniform(0.5, 3.0), start_s=dice.uniform(0, 0.5))
        for node in dice.sample(nodes, min(32, len(nodes)))
        for reader in readers
        if node != reader
    ]
    return _sized(topology, transfers, 2.0)


def _sized(topology: Topology, transfers: Batch, seconds: float) -> Batch:
    """The same with sizes so that all would take ``seconds`` if they began at once."""
    at_once = [Arrival(transfer=t, started_s=0.0, began_s=0.0, finished_s=0.0) for t in transfers]
    factor = seconds / max(predict(topology, at_once))
    return [replace(t, stored_bytes=int(t.stored_bytes * factor)) for t in transfers]


# Circuits ----------------------------------------------------------------------------------------
def circuit_batches(topology: Topology, rounds: int) -> list[Batch]:
    """Two coflows, each with a circuit from every rack; the second waits for the first's ports.

    The first goes from each rack to the next, the second to the one after that: each circuit of
    the second is set up when two of the first are done.  Orders come at other times than those at
    which circuits light: all that happens at one time waits for the same two cores.
    """
    dice = random.Random(3)
    racks = topology.rack_list()
    nic_stored = racks[0].nodes[0].nic_bytes_per_s / topology.scale
    coflows = ((1, (0.25, 0.5), 0.0), (2, (0.6, 0.8), 0.06))
    return [
        [
            _transfer(
                "circuit",
                dice.choice(rack.nodes).id,
                dice.choice(racks[(number + step) % len(racks)].nodes).id,
                dice.uniform(*seconds) * nic_stored / _SHARE_BYTES,
                start_s + number * _ORDERS_APART_S,
                CoflowId(f"batch{batch}.{step}"),
            )
            for step, seconds, start_s in coflows
            for number, rack in enumerate(racks)
        ]
        for batch in range(2 * rounds)
    ]


def dark_times_s(arrivals: Sequence[Arrival]) -> list[float]:
    """How long each circuit of such a batch was dark, by the bytes that its readers saw.

    From the order to start the transfer, or from the last byte of what had its ports before, until
    its own first byte.
    """
    racks = len(arrivals) // 2
    first, second = arrivals[:racks], arrivals[racks:]
    ordered = [arrival.began_s - arrival.started_s for arrival in first]
    changed = [
        arrival.began_s - max(first[rack].finished_s, first[(rack + 1) % racks].finished_s)
        for rack, arrival in enumerate(second)
    ]
    return ordered + changed


#: Neither 1, nor 10, nor 100 ms are a multiple of it, nor nearly so.
_ORDERS_APART_S = 0.0074
#: What a transfer's share is in stored bytes, before it is given its size.
_SHARE_BYTES = 1e6


def _transfer(
    name: str,
    src: NodeId,
    dst: NodeId,
    share: float,
    start_s: float = 0.0,
    coflow: CoflowId | None = None,
) -> Transfer:
    return Transfer(
        name=name,
        src=src,
        dst=dst,
        stored_bytes=int(share * _SHARE_BYTES),
        start_s=start_s,
        coflow=coflow,
    )
