"""The optical part of the network: which flows ride circuits, and when their circuits carry.

A coflow's bytes from one rack to another (a batch, see ``netemu.batches``) ride a circuit when what
they have left to send is at least the elephant threshold T_e; it is looked at when flows arrive or
grow, and when a failed port works again.  A batch that rides does so until it has nothing left to
send: flows that join it ride as well.  All others go by packets.

    parked     waits for a circuit: its flows are in no group, or in one that has stopped
    riding     its flows are a group that begins to send once the circuit carries

Where nothing but circuits limits the nodes' flows, such a group is a *pipe* and knows its rate at
once.  Where NICs are limited, too, it joins the others (and the flow scheduler decides) when the
circuit carries.

A port fails when its capacity becomes 0: what rides there goes by packets at once, and comes back,
paying δ again, when the port works and it still has T_e to send.

Who gets a circuit: ``netemu.circuits``; the order of coflows is the flow scheduler's.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Callable, Collection
from itertools import chain, count
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from railyard.cluster.topology import Topology
from railyard.netemu.circuits.choosing import Matching
from railyard.netemu.circuits.demand import Batch, Demand
from railyard.netemu.circuits.group import CircuitGroup
from railyard.netemu.circuits.pipe import Pipe
from railyard.netemu.circuits.switch import Circuit, OpticalSwitch
from railyard.netemu.fabric.classes import Flow
from railyard.netemu.fabric.routes import Network
from railyard.netemu.fabric.world import World
from railyard.netemu.model.arrays import Floats
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.ties import ranks
from railyard.netemu.model.traffic import CoflowsOnCircuits

_NOWHERE = math.inf, math.inf, ""  # of a coflow whose place has not been looked for


class Carrier(Protocol):
    """The network, as far as flows change their ways."""

    def stop(self, flow: Flow) -> None:
        """Let it send nothing."""

    def send_by(self, flow: Flow, circuit: CircuitGroup | Pipe | None) -> None:
        """Let it send through a circuit, or by packets, from now on."""


class CircuitPlane:
    """Batches, circuits and ports of one network.  Racks are numbers."""

    def __init__(
        self,
        topology: Topology,
        switch: OpticalSwitch,
        network: Network,
        world: World,
        urgency: Callable[[CoflowsOnCircuits], Floats],
        carrier: Carrier,
    ) -> None:
        assert topology.ocs is not None
        self.switch = switch
        self._network = network
        self._world = world
        self._carrier = carrier
        self._urgency = urgency
        self._elephant_bytes = topology.ocs.elephant
        self._matching = Matching(switch)
        racks = len(switch.racks)
        self._racks = racks
        self._ports = np.array(
            [
                network.number[f"{rack}.ocs.{way}"]
                for way in ("up", "down")
                for rack in self.switch.racks
            ]
        )
        self._port_bytes_per_s: Floats = network.capacities[self._ports]
        self._alone = True  #: whether nothing but circuits limits flows on them
        self._limits_changed = True
        self._demands: dict[str, Demand] = {}
        self._riding: dict[Demand, None] = {}  #: those of them that ride
        self._small: dict[Batch, None] = {}  #: batches by packets that have grown
        self._grown: dict[Batch, None] = {}  #: batches that ride and have more, or less, to send
        self._fresh: dict[Demand, None] = {}  #: whose batches wait since the last decision
        self._reorder = False
        self._rematch = False
        #: heap of (when it will carry, number, batch, circuit), where groups are no pipes
        self._dark: list[tuple[float, int, Batch, Circuit]] = []
        self._numbers = count()

    # What flows do -------------------------------------------------------------------------------
    def wants(self, flow: Flow, now_s: float) -> None:
        """A flow between racks, which is in no group, has bytes to send; ``decide`` says how."""
        batch = flow.batch or self._batch_of(flow, now_s)
        batch.flows[flow] = None
        if not batch.rides:
            self._small[batch] = None
            return
        self._grown[batch] = None
        if batch.group is not None:
            self._carrier.send_by(flow, batch.group)

    def rests(self, flow: Flow, now_s: float) -> None:
        """A flow has nothing to send, or is closed; it is in no group."""
        batch = flow.batch
        if batch is None:
            return
        flow.batch = None
        del batch.flows[flow]
        if batch.flows:
            if isinstance(batch.group, Pipe):
                batch.group.fill()
            if batch.rides and batch.circuit is None:
                self._grown[batch] = None
            elif batch.circuit is not None and flow.sent_bytes < flow.size_bytes:
                self._expect_end(batch, batch.circuit, self._left_bytes(batch), now_s)
            return
        if batch.rides:
            self._grown.pop(batch, None)
            self._get_off(batch, now_s)
        else:
            self._small.pop(batch, None)
        demand = batch.demand
        demand.drop(batch)
        if not demand.size:
            del self._demands[demand.key]

    # Decisions -----------------------------------------------------------------------------------
    def limits_changed(self) -> None:
        """Links have other capacities."""
        self._limits_changed = True

    def compile(self) -> None:
        """Be quicker from now on, where there are thousands of flows."""
        self._matching = self._matching.compiled(self._demands.values())

    def decide(self, now_s: float, capacities: Floats) -> float:
        """Have the circuits that there should be now.

        Returns when one will begin to carry and the flow scheduler is to be asked.
        """
        if self._limits_changed:
            self._limits_changed = False
            self._look_at_limits(now_s, capacities)
        if self._small:
            self._sort_out()
        if self._grown:
            self._count_grown(now_s)
        look_again = self._matching.look_again_s <= now_s + instant_s(now_s)
        if self._reorder or self._rematch or look_again:
            self._match(now_s)
        return min(self._light_up(now_s), self._matching.look_again_s)

    def load_of_pipes(self) -> Floats:
        """Bytes/s that pipes, which no flow scheduler looks at, put on each link."""
        load = np.zeros(self._world.links)
        for demand in self._demands.values():
            for batch in demand.serving:
                if isinstance(batch.group, Pipe):
                    load += batch.group.load
        return load

    # Inside: batches -----------------------------------------------------------------------------
    def _batch_of(self, flow: Flow, now_s: float) -> Batch:
        spec, rack = flow.spec, self._network.rack_number
        key = spec.coflow if spec.coflow is not None else f"flow {spec.flow}"
        demand = self._demands.get(key)
        if demand is None:
            demand = self._demands[key] = Demand(key, now_s, self._racks)
        src, dst = rack[spec.src], rack[spec.dst]
        batch = demand.rows[src].get(dst)
        if batch is None:
            batch = Batch(demand, src, dst)
            demand.add(batch)
        flow.batch = batch
        return batch

    def _sort_out(self) -> None:
        """Let batches ride that are large enough now, and the others' flows go by packets."""
        carrier = self._carrier
        for batch in self._small:
            left_bytes = self._elephant_bytes_of(batch)
            if left_bytes:
                batch.rides = True
                for flow in batch.flows:
                    if flow.group is not None:
                        carrier.stop(flow)
                self._queue(batch, left_bytes)
            else:
                for flow in batch.flows:
                    if flow.group is None:
                        carrier.send_by(flow, None)
        self._small.clear()

    def _elephant_bytes_of(self, batch: Batch) -> float:
        """What a batch has left to send if it may ride; otherwise 0."""
        works = self.switch.out_bytes_per_s[batch.src] and self.switch.in_bytes_per_s[batch.dst]
        left_bytes = _left_bytes(batch) if works else 0.0
        return left_bytes if left_bytes >= self._elephant_bytes else 0.0

    def _count_grown(self, now_s: float) -> None:
        for batch in self._grown:
            if isinstance(batch.group, Pipe):
                batch.group.fill()
            if batch.circuit is None:
                self._queue(batch, _left_bytes(batch))
            else:
                self._count(batch)
                self._expect_end(batch, batch.circuit, batch.counted_bytes, now_s)
                self._reorder = True
        self._grown.clear()

    def _queue(self, batch: Batch, left_bytes: float) -> None:
        """Have a batch wait for a circuit from now on, or with more, or less, than before."""
        demand = batch.demand
        demand.count(batch, left_bytes)
        self._matching.wait(batch, round(left_bytes))  # rounding must not tell equals apart
        self._fresh[demand] = self._riding[demand] = None
        self._reorder = True

    def _count(self, batch: Batch) -> None:
        batch.demand.count(batch, self._left_bytes(batch))

    def _left_bytes(self, batch: Batch) -> float:
        return _left_bytes(batch) if batch.group is None else batch.group.left_bytes()

    def _expect_end(self, batch: Batch, circuit: Circuit, left_bytes: float, now_s: float) -> None:
        """Note when a batch will be done, if its circuit carries nothing else."""
        rate = self.switch.bytes_per_s(circuit)
        if isinstance(batch.group, CircuitGroup) and batch.group.rate_bytes_per_s:
            rate = batch.group.rate_bytes_per_s  # others use the nodes' links
        self._matching.expect_end(batch, max(circuit.ready_s, now_s) + left_bytes / rate)

    def _get_off(self, batch: Batch, now_s: float) -> None:
        """A batch rides no more."""
        demand = batch.demand
        batch.rides = False
        if batch.circuit is not None:
            self._matching.release(batch)
            self.switch.release(batch.circuit, now_s)
            batch.circuit = None
            self._rematch = True
        elif batch.waits:
            self._matching.stop_waiting(batch)
        self._disband(batch)
        demand.count(batch, 0.0)
        if not demand.rides:
            self._fresh.pop(demand, None)
            del self._riding[demand]
            self._reorder = True

    # Inside: circuits ----------------------------------------------------------------------------
    def _match(self, now_s: float) -> None:
        order = self._new_order(now_s) if self._reorder else None
        if not self._alone:
            self._expect_ends(now_s)
        cut, taken = self._matching.choose(now_s, self._fresh, order)
        self._reorder = self._rematch = False
        self._fresh.clear()
        for batch in cut:
            self._let_go(batch, now_s)
            self._count(batch)
            self._matching.wait(batch, round(batch.counted_bytes))
        if cut and self.switch.wavelengths > 1:  # spare circuits first, before others make them go
            taken.sort(key=lambda batch: self.switch.spare(batch.src, batch.dst) is None)
        for batch in taken:
            batch.circuit = self.switch.connect(batch, now_s)
            self._expect_end(batch, batch.circuit, batch.counted_bytes, now_s)
            self._board(batch, batch.circuit)

    def _expect_ends(self, now_s: float) -> None:
        """Note anew when batches will be done."""
        for demand in self._riding:
            for batch in demand.serving:
                if batch.circuit is not None:
                    self._expect_end(batch, batch.circuit, self._left_bytes(batch), now_s)

    def _new_order(self, now_s: float) -> list[Demand] | None:
        """The coflows that ride, in order; None if the order is as it was."""
        for demand in self._riding:
            for batch in demand.serving:
                self._count(batch)
        self._find_places([demand for demand in self._riding if demand.place is None])
        riding = _in_order(self._riding, now_s)
        return None if riding == self._matching.order else riding

    def _find_places(self, moved: list[Demand]) -> None:
        """Give coflows whose sums have changed their places in the order."""
        if not moved:
            return
        urgencies = self._urgency(
            CoflowsOnCircuits(
                self._by_port([d.out_bytes for d in moved], [d.in_bytes for d in moved]),
                self._by_port([d.out_batches for d in moved], [d.in_batches for d in moved]),
                self._circuit_bytes_per_s(),
                self.switch.delta_s,
                self.switch.wavelengths,
            )
        )
        for demand, urgency in zip(moved, urgencies.tolist(), strict=True):
            demand.place = urgency, demand.arrived_s, demand.key

    def _by_port(self, outs: list[array[Any]], ins: list[array[Any]]) -> NDArray[Any]:
        """[coflow, out or in, rack] of what coflows have at their ports."""
        both = b"".join(chain.from_iterable(zip(outs, ins, strict=True)))  # numbers as they are
        return np.frombuffer(both, outs[0].typecode).reshape(len(outs), 2, -1)

    def _circuit_bytes_per_s(self) -> Floats:
        return self._port_bytes_per_s.reshape(2, -1) / self.switch.wavelengths

    def _light_up(self, now_s: float) -> float:
        """Let batches send whose circuits carry now; returns when the next one will."""
        dark = self._dark
        while dark:
            ready_s, _, batch, circuit = dark[0]
            if batch.circuit is circuit:
                if ready_s > now_s:
                    return ready_s
                if batch.group is None:  # it is there twice if limits have changed meanwhile
                    self._group(batch, circuit)
            heapq.heappop(dark)
        return np.inf

    def _board(self, batch: Batch, circuit: Circuit) -> None:
        """Have a batch's flows on its circuit."""
        if self._alone:
            pipe = batch.group
            if pipe is None:
                spec = next(iter(batch.flows)).spec
                route = self._network.circuit(spec.src, spec.dst)
                pipe = batch.group = Pipe(route, key=batch.demand.key, world=self._world)
                for flow in batch.flows:
                    self._carrier.send_by(flow, pipe)
            pipe.carry(self.switch.bytes_per_s(circuit), circuit.ready_s)
        else:
            heapq.heappush(self._dark, (circuit.ready_s, next(self._numbers), batch, circuit))

    def _group(self, batch: Batch, circuit: Circuit) -> None:
        """Have a batch's flows among the others, as its circuit carries now."""
        group = batch.group = CircuitGroup(batch.demand.key, self._world)
        for flow in batch.flows:
            self._carrier.send_by(flow, group)
        group.carry(self.switch.bytes_per_s(circuit), circuit.ready_s)

    def _let_go(self, batch: Batch, now_s: float) -> None:
        """Have a batch without its circuit, its flows parked."""
        assert batch.circuit is not None
        self.switch.release(batch.circuit, now_s)
        batch.circuit = None
        if isinstance(batch.group, Pipe):
            batch.group.halt()  # it will go on where it stopped
        else:
            self._disband(batch)

    def _disband(self, batch: Batch) -> None:
        """Have a batch's flows in no group."""
        if batch.group is not None:
            for flow in batch.flows:
                self._carrier.stop(flow)
            batch.group = None

    # Inside: ports -------------------------------------------------------------------------------
    def _look_at_limits(self, now_s: float, capacities: Floats) -> None:
        if not np.array_equal(capacities[self._ports], self._port_bytes_per_s):
            self._ports_changed(now_s, capacities[self._ports])
        self._alone = not np.isfinite(capacities[list(self._network.nics)]).any()
        for demand in self._demands.values():
            for batch in demand.batches():
                self._disband(batch)  # in other lanes from now on, maybe, or with others
                if batch.circuit is not None:
                    self._board(batch, batch.circuit)
        self._expect_ends(now_s)

    def _ports_changed(self, now_s: float, bytes_per_s: Floats) -> None:
        before = self._port_bytes_per_s
        self._port_bytes_per_s = bytes_per_s
        for port in np.flatnonzero(bytes_per_s != before).tolist():
            is_out, rack = port < self._racks, port % self._racks
            works = bool(bytes_per_s[port] > 0)
            if not works:
                self._leave_port(rack, is_out, now_s)
            elif not before[port]:
                self._small |= dict.fromkeys(b for b in self._at(rack, is_out) if not b.rides)
            self.switch.set_port(rack, float(bytes_per_s[port]), now_s, is_out=is_out)
            self._matching.set_port(rack, works, is_out=is_out)
        for demand in self._riding:
            demand.place = None
        self._reorder = True

    def _leave_port(self, rack: int, is_out: bool, now_s: float) -> None:
        """What rides there goes by packets."""
        for batch in self._at(rack, is_out):
            if batch.rides:
                self._grown.pop(batch, None)
                self._get_off(batch, now_s)
                self._small[batch] = None

    def _at(self, rack: int, is_out: bool) -> list[Batch]:
        return [
            batch
            for demand in self._demands.values()
            for batch in demand.batches()
            if (batch.src if is_out else batch.dst) == rack
        ]


def _in_order(demands: Collection[Demand], now_s: float) -> list[Demand]:
    """By urgency, of which those that differ by rounding only are equal; by arrival; by name."""
    places = [demand.place or _NOWHERE for demand in demands]
    rank = ranks(np.array([urgency_s for urgency_s, _, _ in places]), instant_s(now_s)).tolist()
    line = [
        (number, came_s, key, demand)
        for number, (_, came_s, key), demand in zip(rank, places, demands, strict=True)
    ]
    return [demand for *_, demand in sorted(line)]


def _left_bytes(batch: Batch) -> float:
    left_bytes = 0.0
    for flow in batch.flows:
        sent = flow.sent_bytes if flow.group is None else flow.belongs.sent_bytes_of(flow)
        left_bytes += flow.size_bytes - sent
    return left_bytes
