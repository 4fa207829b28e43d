"""The optical part of the network: which flows go by circuit, and when circuits carry.

A coflow's bytes from one rack to another (a pair) go by circuit if they are at least the elephant
threshold T_e; that is checked when flows arrive or grow, and when a failed port works again.  A
pair that goes by circuit does so until it has nothing left to send, flows that join it included.
All others go by packets.

    waiting    for a circuit: its flows send nothing
    attached   its flows are a group, which begins to send once the circuit carries

Where nothing but circuits limits the nodes' flows, such a group is a *pipe* and sets its own rate.
Where NICs are limited, too, it is a group like others, and the flow scheduler sets its rates, as
soon as the circuit carries.

A port fails when its capacity becomes 0: pairs attached there go by packets at once, and return to
circuits, after another δ, if they still have T_e to send when the port works again.

Which pairs get circuits is up to a ``CircuitPolicy``.  How flows go is returned as moves, which the
fabric applies.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from itertools import count

import numpy as np

from railyard.cluster.topology import Topology
from railyard.netemu.circuits.group import CircuitGroup
from railyard.netemu.circuits.moves import Attach, Detach, Move, SendByPackets
from railyard.netemu.circuits.order import in_order
from railyard.netemu.circuits.pipe import Pipe
from railyard.netemu.circuits.policies import circuit_policy, compiled
from railyard.netemu.circuits.policies.sunflow import SunflowCircuits
from railyard.netemu.circuits.switch import OpticalSwitch
from railyard.netemu.model.arrays import Floats
from railyard.netemu.model.circuits import CircuitState
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.network import Network
from railyard.netemu.model.openflows import Circuit, CoflowDemand, Flow, OnCircuit, RackPairDemand


class CircuitPlane:
    """The rack pairs, circuits and ports of one network.  Racks are numbers."""

    def __init__(
        self,
        topology: Topology,
        policy: str,
        network: Network,
        context: GroupContext,
        *,
        has_log: bool = True,
    ) -> None:
        assert topology.ocs is not None
        self.switch = OpticalSwitch(topology, has_log=has_log)
        self.policy = circuit_policy(policy, self.switch)
        self.network = network
        self.context = context
        self.elephant_bytes = topology.ocs.elephant_bytes
        racks = self.switch.racks
        names = [f"{rack}.ocs.{way}" for way in ("up", "down") for rack in racks]
        #: numbers of links: the ports out of the racks, then those into them
        self.ports = np.array([network.number[name] for name in names])
        self.port_bytes_per_s: Floats = network.capacities[self.ports]
        self.alone = True  #: whether nothing but their circuit limits flows on circuits
        self.limits_have_changed = True
        self.demands: dict[str, CoflowDemand] = {}
        self.on_circuits: dict[CoflowDemand, None] = {}  #: those that have, or want, circuits
        self._small: dict[RackPairDemand, None] = {}  #: pairs by packets with more to send
        #: pairs by circuit that have more, or less, to send
        self.grown: dict[RackPairDemand, None] = {}
        #: coflows with pairs that began to wait since the last choice
        self._fresh: dict[CoflowDemand, None] = {}
        self.reorder = False  #: whether the order of coflows may have changed
        self.rematch = False  #: whether other pairs may get circuits now
        #: heap of (when it will carry, number, pair, circuit), where groups are no pipes
        self._dark: list[tuple[float, int, RackPairDemand, Circuit]] = []
        self._numbers = count()

    # What flows do -------------------------------------------------------------------------------
    def start(self, flow: Flow) -> OnCircuit | None:
        """Take in a flow between racks that has bytes to send, and sends nothing yet.

        Returns the group on a circuit that it joins; None if ``decide`` will move it.
        """
        pair = flow.pair or self._pair_of(flow)
        pair.flows[flow] = None
        if not pair.by_circuit:
            self._small[pair] = None
            return None
        self.grown[pair] = None
        return pair.group

    def stop(self, flow: Flow) -> bool:
        """Forget a flow that has nothing to send, or is closed; it is in no class.

        Returns whether the flow was known here.
        """
        pair = flow.pair
        if pair is None:
            return False
        flow.pair = None
        del pair.flows[flow]
        if pair.flows:
            if pair.group is not None:
                pair.group.fill()
            if pair.by_circuit and pair.circuit is None:
                self.grown[pair] = None
            elif pair.circuit is not None and flow.sent_bytes < flow.size_bytes:
                self._expect_end(pair, pair.circuit, _left_bytes(pair))
            return True
        pair.group = None
        if pair.by_circuit:
            self.grown.pop(pair, None)
            self._take_off(pair)
        else:
            self._small.pop(pair, None)
        demand = pair.demand
        demand.drop(pair)
        if not demand.size:
            del self.demands[demand.key]
        return True

    # Decisions -----------------------------------------------------------------------------------
    def limits_changed(self) -> None:
        """Note that links have other capacities."""
        self.limits_have_changed = True

    def compile(self) -> None:
        """Choose circuits by compiled loops from now on."""
        self.policy = compiled(self.policy, self.demands.values())

    def may_be_compiled(self) -> bool:
        """Whether ``netemu.circuits.fast`` can take over, now that all has been decided."""
        is_sunflow = type(self.policy) is SunflowCircuits and self.switch.wavelengths == 1
        return is_sunflow and self.alone and not self.switch.has_log

    def decide(self, capacities: Floats) -> Iterator[Move]:
        """Bring circuits, and the flows on them, up to now.

        Each move must be applied before the next one is requested.
        """
        now_s = self.context.now_s
        if self.limits_have_changed:
            self.limits_have_changed = False
            yield from self._look_at_limits(capacities)
        if self._small:
            yield from self._sort_out()
        if self.grown:
            self._count_grown()
        look_again = self.policy.look_again_s <= now_s + instant_s(now_s)
        if self.reorder or self.rematch or look_again:
            yield from self._match()
        yield from self._light_up()

    def decide_again_s(self) -> float:
        """When a circuit will begin to carry, or the policy wants to choose again."""
        return min(self._dark[0][0] if self._dark else math.inf, self.policy.look_again_s)

    def circuits(self) -> list[CircuitState]:
        """All circuits, by the rack that sends."""
        return self.switch.circuits()

    def next_ready_s(self) -> float:
        """When the first dark circuit will carry, in seconds; inf if none is dark."""
        return self.switch.next_ready_s(self.context.now_s)

    def load_of_pipes(self) -> Floats:
        """[link]: bytes/s of the pipes, which no flow scheduler looks at."""
        load = np.zeros(self.context.links)
        for demand in self.demands.values() if self.alone else ():
            for pair in demand.serving:
                if pair.group is not None:
                    load += pair.group.load
        return load

    # Inside: pairs -------------------------------------------------------------------------------
    def _pair_of(self, flow: Flow) -> RackPairDemand:
        spec, rack = flow.spec, self.network.rack_number
        key = coflow_key(spec)
        demand = self.demands.get(key)
        if demand is None:
            now_s, racks = self.context.now_s, len(self.switch.racks)
            demand = self.demands[key] = CoflowDemand(key, now_s, racks)
        src, dst = rack[spec.src], rack[spec.dst]
        pair = demand.rows[src].get(dst)
        if pair is None:
            pair = RackPairDemand(demand, src, dst)
            demand.add(pair)
        flow.pair = pair
        return pair

    def _sort_out(self) -> Iterator[Move]:
        """Let pairs that have T_e to send wait for circuits, and the others go by packets."""
        for pair in self._small:
            left_bytes = elephant_bytes_of(pair, self.switch, self.elephant_bytes)
            if left_bytes:
                pair.by_circuit = True
                yield Detach([flow for flow in pair.flows if flow.flow_class is not None])
                self._queue(pair, left_bytes)
            else:
                yield SendByPackets([flow for flow in pair.flows if flow.flow_class is None])
        self._small.clear()

    def _count_grown(self) -> None:
        for pair in self.grown:
            if pair.group is not None:
                pair.group.fill()
            if pair.circuit is None:
                self._queue(pair, _left_bytes_of(pair.flows))
            else:
                self._count(pair)
                self._expect_end(pair, pair.circuit, pair.counted_bytes)
                self.reorder = True
        self.grown.clear()

    def _queue(self, pair: RackPairDemand, left_bytes: float) -> None:
        """Let a pair wait for a circuit, with so many bytes left to send."""
        demand = pair.demand
        demand.count(pair, left_bytes)
        self.policy.wait(pair, round(left_bytes))  # equals must not differ by rounding
        self._fresh[demand] = self.on_circuits[demand] = None
        self.reorder = True

    def _count(self, pair: RackPairDemand) -> None:
        pair.demand.count(pair, _left_bytes(pair))

    def _expect_end(self, pair: RackPairDemand, circuit: Circuit, left_bytes: float) -> None:
        """Report to the policy when a pair will have sent all."""
        rate, now_s, group = self.switch.bytes_per_s(circuit), self.context.now_s, pair.group
        if not self.alone and group is not None:  # other flows use the nodes' links
            carried = now_s - circuit.ready_s > instant_s(now_s) and not group.stale
            if carried and not group.rate_bytes_per_s:  # a node's link is shut: no end is known
                self.policy.expect_end(pair, math.inf)
                return
            rate = group.rate_bytes_per_s or rate
        self.policy.expect_end(pair, max(circuit.ready_s, now_s) + left_bytes / rate)

    def _take_off(self, pair: RackPairDemand) -> None:
        """Take a pair that is in no group off circuits: it has none, and wants none."""
        demand = pair.demand
        pair.by_circuit = False
        if pair.circuit is not None:
            self.policy.release(pair)
            self.switch.release(pair.circuit, self.context.now_s)
            pair.circuit = None
            self.rematch = True
        elif pair.waits:
            self.policy.stop_waiting(pair)
        demand.count(pair, 0.0)
        if not demand.by_circuit:
            self._fresh.pop(demand, None)
            del self.on_circuits[demand]
            self.reorder = True

    # Inside: circuits ----------------------------------------------------------------------------
    def _match(self) -> Iterator[Move]:
        """Change the pairs that have circuits, as the policy chooses."""
        now_s = self.context.now_s
        order = self._new_order() if self.reorder else None
        if not self.alone:
            self._expect_ends()
        cut, taken = self.policy.choose(now_s, self._fresh, order)
        self.reorder = self.rematch = False
        self._fresh.clear()
        for pair in cut:
            yield from self._cut(pair)
            self._count(pair)
            self.policy.wait(pair, round(pair.counted_bytes))
        if cut and self.switch.wavelengths > 1:  # spare circuits first: others may take them down
            taken.sort(key=lambda pair: self.switch.spare(pair.src, pair.dst) is None)
        for pair in taken:
            pair.circuit = circuit = self.switch.connect(pair, now_s)
            self._expect_end(pair, circuit, pair.counted_bytes)
            if move := self._attach(pair, circuit):
                yield move

    def _expect_ends(self) -> None:
        """Report to the policy when all pairs with circuits will have sent all."""
        for demand in self.on_circuits:
            for pair in demand.serving:
                if pair.circuit is not None:
                    self._expect_end(pair, pair.circuit, _left_bytes(pair))

    def _new_order(self) -> list[CoflowDemand] | None:
        """The coflows that have, or want, circuits, in order; None if the order has not changed."""
        for demand in self.on_circuits:
            for pair in demand.serving:
                self._count(pair)
        now_s = self.context.now_s
        order = in_order(self.on_circuits, self.policy, self.port_bytes_per_s, now_s)
        return None if order == self.policy.order else order

    def _light_up(self) -> Iterator[Move]:
        """Let pairs send when their circuits begin to carry."""
        dark, now_s = self._dark, self.context.now_s
        while dark:
            ready_s, _, pair, circuit = dark[0]
            if pair.circuit is circuit:
                if ready_s > now_s:
                    return
                if pair.group is None:  # a pair is in the heap twice if limits have changed
                    group = pair.group = CircuitGroup(pair.demand.key, self.context)
                    group.carry(self.switch.bytes_per_s(circuit), circuit.ready_s)
                    yield Attach(pair.flows, group)
            heapq.heappop(dark)

    def _attach(self, pair: RackPairDemand, circuit: Circuit) -> Attach | None:
        """Attach a pair's flows to its circuit, at once or when it carries.

        A pipe goes on with the flows that it has, so that nothing moves.
        """
        if not self.alone:
            heapq.heappush(self._dark, (circuit.ready_s, next(self._numbers), pair, circuit))
            return None
        group, move = pair.group, None
        if group is None:
            group = pair.group = Pipe(key=pair.demand.key, context=self.context)
            move = Attach(pair.flows, group)
        group.carry(self.switch.bytes_per_s(circuit), circuit.ready_s)
        return move

    def _cut(self, pair: RackPairDemand) -> Iterator[Move]:
        """Take a pair's circuit."""
        assert pair.circuit is not None
        self.switch.release(pair.circuit, self.context.now_s)
        pair.circuit = None
        if pair.group is not None and not pair.group.halt():
            yield from self._detach(pair)

    def _detach(self, pair: RackPairDemand) -> Iterator[Move]:
        """Detach a pair's flows from its group on a circuit, if it has one."""
        if pair.group is not None:
            yield Detach(pair.flows)
            pair.group = None

    # Inside: ports -------------------------------------------------------------------------------
    def _look_at_limits(self, capacities: Floats) -> Iterator[Move]:
        if not np.array_equal(capacities[self.ports], self.port_bytes_per_s):
            yield from self._change_ports(capacities[self.ports])
        self.alone = not np.isfinite(capacities[list(self.network.nics)]).any()
        for demand in self.demands.values():
            for pair in demand.pairs():
                yield from self._detach(pair)  # other links may limit them now
                if pair.circuit is not None and (move := self._attach(pair, pair.circuit)):
                    yield move
        self._expect_ends()

    def _change_ports(self, bytes_per_s: Floats) -> Iterator[Move]:
        before, racks = self.port_bytes_per_s, len(self.switch.racks)
        self.port_bytes_per_s = bytes_per_s
        for port in np.flatnonzero(bytes_per_s != before).tolist():
            is_out, rack = port < racks, port % racks
            works = bool(bytes_per_s[port] > 0)
            there = self._pairs_at(rack, is_out)
            if not works:
                yield from self._leave(there)
            elif not before[port]:
                self._small |= dict.fromkeys(pair for pair in there if not pair.by_circuit)
            now_s = self.context.now_s
            self.switch.set_port(rack, float(bytes_per_s[port]), now_s, is_out=is_out)
            self.policy.set_port(rack, works, is_out=is_out)
        for demand in self.on_circuits:
            demand.place = None
        self.reorder = True

    def _leave(self, pairs: list[RackPairDemand]) -> Iterator[Move]:
        """Let these pairs go by packets."""
        for pair in pairs:
            if pair.by_circuit:
                self.grown.pop(pair, None)
                yield from self._detach(pair)
                self._take_off(pair)
                self._small[pair] = None

    def _pairs_at(self, rack: int, is_out: bool) -> list[RackPairDemand]:
        return [
            pair
            for demand in self.demands.values()
            for pair in demand.pairs()
            if (pair.src if is_out else pair.dst) == rack
        ]


def coflow_key(spec: FlowSpec) -> str:
    """What a flow's coflow is known by; a flow without one is one of its own."""
    return spec.coflow if spec.coflow is not None else f"flow {spec.flow}"


def elephant_bytes_of(pair: RackPairDemand, switch: OpticalSwitch, least_bytes: float) -> float:
    """Bytes that a pair has left to send if they are enough to go by circuit; otherwise 0."""
    works = switch.out_bytes_per_s[pair.src] and switch.in_bytes_per_s[pair.dst]
    # most pairs never have enough, and sizes cost a tenth of what is left of each flow
    if not works or sum([flow.size_bytes for flow in pair.flows]) < least_bytes:
        return 0.0
    left_bytes = _left_bytes_of(pair.flows)
    return left_bytes if left_bytes >= least_bytes else 0.0


def _left_bytes(pair: RackPairDemand) -> float:
    """Bytes that a pair has left to send."""
    return _left_bytes_of(pair.flows) if pair.group is None else pair.group.left_bytes()


def _left_bytes_of(flows: dict[Flow, None]) -> float:
    left_bytes = 0.0
    for flow in flows:
        sent = flow.sent_bytes if flow.flow_class is None else flow.group.sent_bytes_of(flow)
        left_bytes += flow.size_bytes - sent
    return left_bytes
