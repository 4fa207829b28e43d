"""``netemu.circuits.plane`` for many flows: pairs on circuits are rows, and loops are compiled.

It has the same circuits, rates and ends, digit by digit, under Sunflow's policy, with one circuit
at a port, as long as nothing but circuits limits the flows on them and nobody records what becomes
of circuits.  When the capacity of a link changes, it gives everything back to the plane that it has
it from.  Pairs below the elephant threshold, which go by packets, are objects as there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from railyard.netemu.circuits.fast import changes, demands, events, pipes
from railyard.netemu.circuits.fast.coflows import CompiledCoflows
from railyard.netemu.circuits.fast.rows import (
    DST,
    FLOW_NEEDS,
    NONE,
    PAIR,
    REORDER,
    SRC,
    WEIGHT,
)
from railyard.netemu.circuits.moves import Attach, Detach, Move, SendByPackets
from railyard.netemu.circuits.plane import CircuitPlane, coflow_key, elephant_bytes_of
from railyard.netemu.circuits.policies.fast.matrices import find
from railyard.netemu.circuits.policies.fast.ports import HOLDER, OUT, PEER, new_work
from railyard.netemu.model.arrays import Floats, Numbers, floats
from railyard.netemu.model.circuits import CircuitState
from railyard.netemu.model.openflows import ALONE, CoflowDemand, Flow, RackPairDemand

#: Flows that ``run`` lets end at most.
_ENDS = 4096


class CompiledPlane:
    """The rack pairs, circuits and ports of one network; to the fabric, all flows are one carrier.

    It is made without pairs; see ``handover``.
    """

    key = ""
    as_group = None  #: flow schedulers do not see it

    def __init__(self, plain: CircuitPlane) -> None:
        self.plain = plain
        self.switch = switch = plain.switch
        self.coflows = CompiledCoflows(len(switch.racks))
        self.flows: list[Flow] = []  #: by row; those of free rows have ended
        self.small: dict[RackPairDemand, None] = {}  #: pairs by packets with more to send
        self.coming: dict[Flow, None] = {}  #: flows that nobody has looked at yet
        self._joining: list[Flow] = []  #: flows that will get rows
        self.grown: list[int] = []  #: pairs by circuit that have more, or less, to send
        self.limits_have_changed = False
        self.stale = False
        self.first_finish_s = math.inf
        self._policy = plain.policy
        self._network = plain.network
        self._context = plain.context
        self._ports = plain.ports
        self._port_bytes_per_s = plain.port_bytes_per_s
        self._elephant_bytes = plain.elephant_bytes
        self.free: list[int] = []  #: rows of flows
        self._kept: set[str] = set()  #: coflows with flows that have come before others ended
        racks = len(switch.racks)
        self._work = new_work(racks)
        self._ended = np.empty(_ENDS, dtype=np.int64)
        self._ended_s = np.empty(_ENDS)

    # What flows do -------------------------------------------------------------------------------
    def start(self, flow: Flow) -> None:
        """Take in a flow between racks that has bytes to send, and sends nothing yet."""
        if flow.circuit_row == NONE:
            self.coming[flow] = None
            return
        flow.flow_class = ALONE
        sizes = float(flow.size_bytes), flow.sent_bytes
        now_s = self._context.now_s
        self.grown.append(changes.enter_again(flow.circuit_row, *sizes, now_s, self.coflows.rows))

    def start_new(self, flows: Iterable[Flow]) -> None:
        """Take in new flows between racks that have bytes to send."""
        self.coming.update(dict.fromkeys(flows))

    def stop(self, flow: Flow) -> bool:
        """Forget a flow that has nothing to send, or is closed; whether it was known."""
        pair = flow.pair
        if flow.circuit_row != NONE:
            self._keep_coming()
            there, now_s = self.coflows, self._context.now_s
            waits = changes.forget(flow.circuit_row, now_s, there.rows, there.state, there.matrices)
            if waits != NONE:
                self.grown.append(waits)
            self.free.append(flow.circuit_row)
            flow.circuit_row = NONE
        elif pair is not None:
            self.coming.pop(flow, None)  # it may have grown just now
            flow.pair = None
            del pair.flows[flow]
            if not pair.flows:
                self.small.pop(pair, None)
                pair.demand.drop(pair)
                self.coflows.forget_if_idle(pair.demand)
        elif flow in self.coming:
            del self.coming[flow]
        else:
            return False
        return True

    def add(self, flow: Flow) -> None:
        """Let a flow go by circuit; ``fill`` must follow."""
        self._joining.append(flow)

    def add_all(self, flows: Iterable[Flow]) -> None:
        """Let flows go by circuit; ``fill`` must follow."""
        self._joining += flows

    def fill(self) -> None:
        """Take in the flows that have been added."""
        joining, self._joining = self._joining, []
        if joining:
            self._take_in(joining)

    def admit(self) -> None:
        """Nothing: flows have joined already."""

    def remove(self, flow: Flow) -> None:
        """Let a flow send nothing for now; it knows then what it has sent."""
        flow.sent_bytes = changes.leave(flow.circuit_row, self._context.now_s, self.coflows.rows)
        flow.flow_class = None

    def take_due(self, by_s: float) -> list[Flow]:
        """Remove and return the flows that have sent all by then."""
        there = self.coflows
        self.stale = True
        self._keep_coming()
        ended = np.empty(len(self.flows), dtype=np.int64)
        many = events.end_due(
            self._context.now_s,
            by_s,
            there.rows,
            there.state,
            there.matrices,
            ended,
        )
        return self._take(ended[:many])

    # Decisions -----------------------------------------------------------------------------------
    def limits_changed(self) -> None:
        """Note that links have other capacities: it can't go on."""
        self.limits_have_changed = True

    def decide(self, _capacities: Floats) -> Iterator[Move]:
        """Bring circuits, and the flows on them, up to now; see ``CircuitPlane``."""
        if self.coflows.rows.flags[REORDER]:
            self.coflows.forget_idle(self._kept)
        if self.coming or self.small:
            yield from self._sort_out()
            self._kept.clear()
        self._go_on(-math.inf, 0.0)
        self.report()

    def decide_again_s(self) -> float:
        """When the policy wants to choose again."""
        return float(self.coflows.rows.look_again_s[0])

    def run(self, before_s: float, together_s: float) -> tuple[int, list[Flow], list[float]]:
        """Go on from now, for which all is decided, until just before then, or some events less.

        Returns how many events there were, the flows that have ended, and when; the time is that
        of the last event.
        """
        happened, ended, ended_s = self._go_on(before_s, together_s)
        while self.coflows.rows.flags[REORDER]:
            self.coflows.forget_idle(())
            is_enough = len(ended) > _ENDS
            events, flows, at_s = self._go_on(-math.inf if is_enough else before_s, together_s)
            happened += events
            ended += flows
            ended_s += at_s
        self.report()
        return happened, ended, ended_s

    # What can be seen ----------------------------------------------------------------------------
    @property
    def is_empty(self) -> bool:
        """Whether no flow goes by circuit."""
        return len(self.free) == len(self.flows)

    @property
    def load(self) -> Floats:
        """[link]: bytes/s that flows on circuits put on each link."""
        load, context, racks = np.zeros(self._context.links), self._context, len(self._ports) // 2
        rows = self.coflows.rows
        for pair in rows.serving[rows.serving != NONE].tolist():
            rate = demands.rate_bytes_per_s(pair, context.now_s, rows) * rows.pairs[pair, WEIGHT]
            for port in (int(rows.pairs[pair, SRC]), racks + int(rows.pairs[pair, DST])):
                if int(self._ports[port]) not in context.unlimited:
                    load[self._ports[port]] += rate
        return load

    def circuits(self) -> list[CircuitState]:
        """All circuits, by the rack that sends."""
        state, racks = self.coflows.state, self.switch.racks
        found: list[CircuitState] = []
        for src, (dst, index) in enumerate(state.ports[OUT][[PEER, HOLDER]].T.tolist()):
            if dst != NONE:
                user = None if index == NONE else self.coflows.at(index).key
                ready_s = float(state.ready_s[src])
                found.append(CircuitState(racks[src], racks[dst], user, ready_s))
        return found

    def next_ready_s(self) -> float:
        """When the first dark circuit will carry, in seconds; inf if none is dark."""
        ready_s = self.coflows.state.ready_s[self.coflows.state.ports[OUT, PEER] != NONE]
        return float(ready_s[ready_s > self._context.now_s].min(initial=math.inf))

    def load_of_pipes(self) -> Floats:
        """[link]: the same."""
        return self.load

    @property
    def rate_bytes_per_s(self) -> float:
        """Bytes/s of all flows on circuits."""
        return float(self.load[self._ports].sum()) / 2

    def sent_bytes_of(self, flow: Flow) -> float:
        """Bytes that a flow in a row has sent by now."""
        if flow.flow_class is None:
            return flow.sent_bytes
        rows = self.coflows.rows
        pipes.settle(rows.pairs, int(rows.flows[flow.circuit_row, PAIR]), self._context.now_s)
        return float(pipes.sent_bytes(rows.pairs, rows.flows, flow.circuit_row))

    def rate_of(self, flow: Flow) -> float:
        """Bytes/s of a flow in a row."""
        rows = self.coflows.rows
        if flow.flow_class is None or rows.flows[flow.circuit_row, FLOW_NEEDS] == math.inf:
            return 0.0
        pair = int(rows.flows[flow.circuit_row, PAIR])
        return float(demands.rate_bytes_per_s(pair, self._context.now_s, rows)) * flow.weight

    # Inside --------------------------------------------------------------------------------------
    def _sort_out(self) -> Iterator[Move]:
        """Let pairs that have T_e to send wait for circuits, and the others go by packets."""
        coming, self.coming = list(self.coming), {}
        if self._are_elephants(coming):
            yield Attach(coming, self)
            return
        joining = [flow for flow in coming if not self._is_small(flow)]
        for pair in self.small:
            flows, demand = list(pair.flows), pair.demand
            if elephant_bytes_of(pair, self.switch, self._elephant_bytes):
                yield Detach([flow for flow in flows if flow.flow_class is not None])
                demand.drop(pair)
                for flow in flows:
                    flow.pair = None
                joining += flows
            else:
                yield SendByPackets([flow for flow in flows if flow.flow_class is None])
        self.small.clear()
        yield Attach(joining, self)

    def _are_elephants(self, flows: list[Flow]) -> bool:
        """Whether each of these is large enough for a circuit, and no pair goes by packets."""
        if self.small or any(demand.size for demand in self.coflows.by_key.values()):
            return False
        least_bytes = min(flow.size_bytes - flow.sent_bytes for flow in flows)
        return least_bytes >= self._elephant_bytes and bool(self.coflows.rows.bytes_per_s.all())

    def _is_small(self, flow: Flow) -> bool:
        """Add a flow that has come to its pair, unless that goes by circuit already."""
        demand, src, dst = self._ends_of(flow)
        there = self.coflows
        if demand.index != NONE and find(demand.index, src, dst, there.matrices) != NONE:
            return False
        pair = demand.rows[src].get(dst)
        if pair is None:
            pair = RackPairDemand(demand, src, dst)
            demand.add(pair)
        pair.flows[flow] = None
        flow.pair = pair
        self.small[pair] = None
        return True

    def _ends_of(self, flow: Flow) -> tuple[CoflowDemand, int, int]:
        """A flow's coflow and racks."""
        spec, rack = flow.spec, self._network.rack_number
        demand = self.coflows.named(coflow_key(spec), self._context.now_s)
        return demand, rack[spec.src], rack[spec.dst]

    def _take_in(self, flows: list[Flow]) -> None:
        """Give flows rows, and let them join the pairs that go by circuit."""
        there, now_s = self.coflows, self._context.now_s
        coming = self._columns(flows)
        there.reserve(coming)
        new, grown = np.empty((2, len(flows)), dtype=np.int64)
        many = changes.take_in(coming, now_s, there.rows, there.state, there.matrices, new, grown)
        self.grown += grown[:many].tolist()

    def _columns(self, flows: list[Flow]) -> Floats:
        """Give flows rows; returns the ``changes.COMING_COLUMNS`` of each."""
        there, rack, now_s = self.coflows, self._network.rack_number, self._context.now_s
        rows, in_rows = self._free_rows(flows), self.flows
        index, coflow, columns = NONE, None, list[float]()
        for flow, row in zip(flows, rows, strict=True):  # in one go: they are seldom in the cache
            spec = flow.spec
            if spec.coflow is None or spec.coflow != coflow:
                coflow = spec.coflow
                index = there.index_of(there.named(coflow_key(spec), now_s))
            in_rows[row] = flow
            flow.circuit_row, flow.flow_class = row, ALONE
            ends, numbers = (rack[spec.src], rack[spec.dst]), (flow.weight, flow.sequence)
            columns += (index, *ends, row, flow.size_bytes, flow.sent_bytes, *numbers)
        return floats(columns).reshape(len(flows), changes.COMING_COLUMNS)

    def rows_for(self, flows: list[Flow]) -> None:
        """Give rows to these flows; there is room for as many pairs, too."""
        for flow, row in zip(flows, self._free_rows(flows), strict=True):
            self.flows[row] = flow
            flow.circuit_row, flow.flow_class = row, ALONE

    def _free_rows(self, flows: list[Flow]) -> list[int]:
        """Take free rows for these flows; there is room for as many pairs, too."""
        many = len(flows)
        if len(self.free) < many:
            first = len(self.flows)
            self.free += range(first, first + many)
            self.flows += flows  # for now
        self.coflows.make_room(len(self.flows), many)
        numbers = self.free[-many:]
        del self.free[-many:]
        return numbers

    def _go_on(self, before_s: float, together_s: float) -> tuple[int, list[Flow], list[float]]:
        """Decide now, and go on as ``events.run`` does; see ``run``."""
        there, context, is_new_order = self.coflows, self._context, False
        rows, now_s = there.rows, context.now_s
        if self.grown:
            grown, self.grown = np.array(self.grown), []
            changes.note_grown(grown, now_s, rows, there.state, there.matrices)
        if rows.flags[REORDER]:
            events.count_serving(now_s, rows)
            is_new_order = there.put_in_order(self._policy, self._port_bytes_per_s, now_s)
        context.now_s, happened, many = events.run(
            now_s,
            before_s,
            together_s,
            self.switch.delta_s,
            there.order,
            is_new_order,
            rows,
            there.state,
            there.matrices,
            self._work,
            self._ended,
            self._ended_s,
        )
        return happened, self._take(self._ended[:many]), self._ended_s[:many].tolist()

    def report(self) -> None:
        """Report to the fabric when the first flow finishes, now that all is decided."""
        self.stale = False
        self.first_finish_s = float(self.coflows.rows.due_s.min())
        self._context.retimed.append(self)

    def _take(self, ended: Numbers) -> list[Flow]:
        """The flows of rows that have ended, which are free from now on."""
        numbers: list[int] = ended.tolist()
        self.free += numbers
        flows = list(map(self.flows.__getitem__, numbers))
        for flow in flows:
            flow.circuit_row = NONE
            if flow.more:
                flow.flow_class, flow.sent_bytes = None, float(flow.size_bytes)
        return flows

    def _keep_coming(self) -> None:
        """Note the coflows that have something to send even if all of their other flows end now."""
        self._kept.update(coflow_key(flow.spec) for flow in self.coming)
