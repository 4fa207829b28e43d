"""Open flows, the classes in which they are served, and the circuits that they want.

All flows of a class have had the same service (bytes per unit of weight) since they joined, so the
class needs one number for its progress, and its flows finish in the order of the service at which
they will have sent all: O(log flows) in Python for each.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Protocol

import msgspec

from railyard.netemu.model.arrays import Floats
from railyard.netemu.model.flows import Coflow, FlowSpec
from railyard.netemu.model.links import Route
from railyard.netemu.model.traffic import Group, RowGroup

#: Flows of one class finish together if their needs differ by less, which is rounding.
ROUNDING = 1 + 1e-12
#: Where less than this share of a sum is left after a subtraction, it is made anew: weights may
#: be 10**12 times as large as others, and the rounding of a large sum would stay in a small one.
KEEPS = 0.75
#: A class counts its service from 0 again when a flow joins of which that service is worth more
#: bytes than this: their last digit is 2**-9 bytes.  Flows of a small weight have had a large one.
SERVICE_BYTES_MAX = 2.0**43
#: (-bytes, distance, src, dst): the order in which a coflow's pairs of racks get circuits
SortKey = tuple[float, int, int, int]


class Flow(msgspec.Struct, eq=False):  # as a struct, it is made in half the time
    """An open flow."""

    spec: FlowSpec
    route: Route
    sequence: int  #: flows are numbered as they come
    size_bytes: int  #: as far as it is known
    more: bool  #: whether it will grow
    group: Carrier  #: the one that it sends with, or did last
    coflow: Coflow | None
    weight: float  #: bytes that it sends per unit of its class's service
    #: what its coflow sends between the same racks, as long as it has something to send there by
    #: circuits or packets; None where there are no circuits
    pair: RackPairDemand | None = None
    booked_bytes: float = 0.0  #: what it sent on other routes than this one
    #: the flows that it shares a row with; ``ALONE`` if it has one of its own; None while it sends
    #: nothing
    flow_class: FlowClass | None = None
    row: int = -1  #: valid while it is alone in a row
    sent_bytes: float = 0.0  #: valid while it is in no class, and once it is cancelled
    #: flows of one route with different keys are in different classes; None: in one of its own
    class_key: Hashable = ()
    # Valid while it is in a class:
    row_key: Hashable = None  #: what flows that share its row have in common; None: none may
    joined_at: float = 0.0  #: the class's service when it joined
    #: the class's service when it will be finished; not noted if it was always alone in a row
    needs: float = 0.0
    sent_before: float = 0.0  #: bytes sent before it joined
    circuit_row: int = -1  #: its row in a compiled circuit plane; -1: it is in none

    def sent_at(self, service: float) -> float:
        """Bytes sent when its class has had that much service."""
        sent = self.sent_before + (service - self.joined_at) * self.weight
        return min(sent, float(self.size_bytes))


class Carrier(Protocol):
    """Flows that send together, as the fabric sees them: by packets, or through one circuit."""

    stale: bool  #: whether its rates must be set or kept, as its flows have changed
    first_finish_s: float  #: when the first of its flows ends; inf: none does; void while stale

    @property
    def key(self) -> str:
        """The coflow's name, or the flow's that has none."""

    @property
    def as_group(self) -> ScheduledGroup | None:
        """Itself, as flow schedulers see it; None if they don't, and it sets its own rates."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no flows."""

    @property
    def load(self) -> Floats:
        """Bytes/s that it puts on each link."""

    @property
    def rate_bytes_per_s(self) -> float:
        """Bytes/s of all its flows together."""

    def add(self, flow: Flow) -> None:
        """Let a flow that has bytes to send, and knows its weight, join."""

    def admit(self) -> None:
        """Give classes to the flows that have been added."""

    def remove(self, flow: Flow) -> None:
        """Let a flow leave; it knows then what it has sent."""

    def take_due(self, by_s: float) -> list[Flow]:
        """Remove and return the flows that have sent all by then."""

    def sent_bytes_of(self, flow: Flow) -> float:
        """Bytes that one of its flows has sent by now."""

    def rate_of(self, flow: Flow) -> float:
        """Bytes/s of one of its flows."""


class RowsOfFlows(RowGroup, Protocol):
    """Arrays, and the flows in their rows."""

    def end_rows(self, rows: Sequence[int]) -> list[Flow]:
        """Take the only flows of rows that have ended while the group went ahead."""


class ScheduledGroup(Group, Carrier, Protocol):
    """A group of which a flow scheduler sets the rates."""

    @property
    def as_rows(self) -> RowsOfFlows | None:
        """Itself, for compiled loops; None if it has no arrays of its own."""

    def service(self) -> list[float]:
        """Bytes for each unit of weight that each class has had by now, by row."""

    def quiet(self) -> None:
        """Note that no flow of it has anything to send."""

    def limits_changed(self) -> None:
        """Note that links have got limits, or lost them."""


class CircuitCarrier(Carrier, Protocol):
    """Flows on circuits, which set their own rates or ask a flow scheduler for them."""

    def add_all(self, flows: Collection[Flow]) -> None:
        """Let flows join; see ``add``."""

    def fill(self) -> None:
        """Note that flows have come or gone; without a flow scheduler, use all of the circuit."""


class OnCircuit(CircuitCarrier, Protocol):
    """The flows of a pair of racks on their circuit."""

    def carry(self, bytes_per_s: float, from_s: float) -> None:
        """Send through a circuit of this rate, which carries from then on."""

    def halt(self) -> bool:
        """Send nothing, as the circuit is gone; False if the flows must leave."""

    def left_bytes(self) -> float:
        """Bytes that all its flows have left to send."""


class FlowClass(msgspec.Struct, eq=False):
    """The flows of one row, as soon as it has had several."""

    route: Route
    class_key: Hashable = ()
    row_key: Hashable = ()  #: what its flows have in common
    row: int = 0
    only: Flow | None = None  #: the only one that came since there was none
    members: int = 0
    #: heap of (needs, sequence, flow) once there are several; may hold entries of flows that left
    #: or grew
    flows: list[tuple[float, int, Flow]] = []

    def first(self) -> Flow:
        """The member that will finish first."""
        if self.only is not None:
            return self.only
        while True:
            needs, _, flow = self.flows[0]
            if flow.flow_class is self and flow.needs == needs:
                return flow
            heappop(self.flows)

    def all(self) -> list[Flow]:
        """The members, if none has left since it was empty."""
        return [flow for _, _, flow in self.flows] if self.only is None else [self.only]

    def sums(self) -> tuple[float, float]:
        """The sums of weight and of weight * needs over the members, in the order they came in."""
        if self.only is not None:
            return self.only.weight, self.only.weight * self.only.needs
        weight = total = 0.0
        for _, flow in sorted(self._members().items()):
            weight += flow.weight
            total += flow.weight * flow.needs
        return weight, total

    def _members(self) -> dict[int, Flow]:
        return {
            sequence: flow
            for needs, sequence, flow in self.flows
            if flow.flow_class is self and flow.needs == needs
        }

    def begin_anew(self, served: float) -> None:
        """Count service from 0 again, which is ``served`` now."""
        members = [self.only] if self.only is not None else list(self._members().values())
        for flow in members:
            flow.joined_at -= served
            flow.needs -= served
        if self.only is None:
            self.flows = [(flow.needs, flow.sequence, flow) for flow in members]
            heapify(self.flows)

    def join(self, flow: Flow) -> None:
        """Take in a flow that knows what it needs."""
        self.members += 1
        if self.members == 1:
            self.only = flow
            return
        if self.only is not None:
            self.flows = [(self.only.needs, self.only.sequence, self.only)]
            self.only = None
        heappush(self.flows, (flow.needs, flow.sequence, flow))

    def release(self, flow: Flow) -> None:
        """Let a member go."""
        flow.flow_class = None
        self.members -= 1
        if flow is self.only:
            self.only = None

    def take_last(self) -> Flow:
        """Let the only member go."""
        flow = self.first()
        flow.flow_class = self.only = None
        self.members = 0
        return flow

    def take(self, enough: float) -> list[Flow]:
        """Let those members go that need no more service than that."""
        if self.only is not None:
            return [self.take_last()] if self.only.needs <= enough else []
        taken, flows = [], self.flows
        while self.members:
            needs, _, flow = flows[0]
            if flow.flow_class is self and flow.needs == needs:
                if needs > enough:
                    break
                self.release(flow)
                taken.append(flow)
            heappop(flows)
        return taken


#: Stands for the class of each flow that has a row of its own, as most do: they need none.
ALONE = FlowClass(Route(b"", ("local",)))


@dataclass(slots=True, eq=False)
class Circuit:
    """A circuit from one rack to another, as numbers; there may be several (wavelengths)."""

    src: int
    dst: int
    ready_s: float  #: dark until then
    user: RackPairDemand | None  #: the pair that uses it
    number: int = 0  #: circuits are numbered as they are set up
    is_gone: bool = False


class RackPairDemand:
    """The bytes that a coflow has to send from one rack to another; racks are numbers.

    If they are enough, all of them go by a circuit (c-Through groups bytes by rack pair as well).
    """

    __slots__ = (
        "by_circuit",
        "circuit",
        "counted_bytes",
        "demand",
        "dst",
        "dst_bit",
        "ends_s",
        "flows",
        "group",
        "held_since",
        "sort_key",
        "src",
        "src_bit",
        "waits",
    )

    def __init__(self, demand: CoflowDemand, src: int, dst: int) -> None:
        self.demand = demand
        self.src = src
        self.dst = dst
        self.src_bit = demand.bit[src]
        self.dst_bit = demand.bit[dst]
        self.flows: dict[Flow, None] = {}  #: those that have something to send
        self.by_circuit = False  #: whether it has a circuit, or waits for one
        self.circuit: Circuit | None = None
        #: when it will have sent all by its circuit, as far as is known
        self.ends_s = math.inf
        self.held_since = 0  #: circuits are numbered as they are given
        self.group: OnCircuit | None = None  #: its flows on the circuit
        self.waits = False  #: whether it is without a circuit and wants one
        self.sort_key: SortKey = (0.0, 0, src, dst)  #: orders it among those that wait
        self.counted_bytes = 0.0  #: what it has left to send, as the coflow's sums have it


class CoflowDemand:
    """All that a coflow has to send between racks, and by port the sums of what goes by circuits.

    Sets of racks are the bits of an int.
    """

    def __init__(self, key: str, arrived_s: float, racks: int) -> None:
        self.key = key
        self.arrived_s = arrived_s
        self.rank = -1  #: its place in the order of coflows
        #: what it is ordered by: urgency, arrival and name; None: out of date, as its sums changed
        self.place: tuple[float, float, str] | None = None
        self.index = -1  #: its index in compiled loops; -1: none
        self.bit = [1 << rack for rack in range(racks)]
        #: [src]: {dst: pair}
        self.rows: list[dict[int, RackPairDemand]] = [{} for _ in range(racks)]
        self.size = 0  #: how many pairs it has
        self.serving: dict[RackPairDemand, None] = {}  #: those that have circuits
        self.waiting = 0  #: how many want one
        #: racks that its waiting pairs leave from and go to, and where to or from
        self.out_bits = 0
        self.in_bits = 0
        self.dst_bits = [0] * racks
        self.src_bits = [0] * racks
        #: racks whose ports its circuits hold, where a port has one circuit at a time
        self.held_out_bits = 0
        self.held_in_bits = 0
        #: pairs that wait at each port, see ``portqueues``; None: not needed so far
        self.queues_out: list[list[RackPairDemand] | None] = [None] * racks
        self.queues_in: list[list[RackPairDemand] | None] = [None] * racks
        #: bytes and pairs at each port, of what takes circuits
        self.out_bytes, self.in_bytes = array("d", [0.0]) * racks, array("d", [0.0]) * racks
        self.out_pairs, self.in_pairs = array("q", [0]) * racks, array("q", [0]) * racks

    @property
    def by_circuit(self) -> bool:
        """Whether any of its pairs has a circuit, or waits for one."""
        return bool(self.waiting or self.serving)

    def add(self, pair: RackPairDemand) -> None:
        """Add a pair that has something to send."""
        self.rows[pair.src][pair.dst] = pair
        self.size += 1

    def drop(self, pair: RackPairDemand) -> None:
        """Forget a pair that has nothing to send any more."""
        del self.rows[pair.src][pair.dst]
        self.size -= 1

    def pairs(self) -> list[RackPairDemand]:
        """All its pairs, by source and as they came."""
        return [pair for row in self.rows for pair in row.values()]

    def count(self, pair: RackPairDemand, size_bytes: float) -> None:
        """Note what a pair has left to send by circuits; 0: it needs none any more."""
        src, dst, before = pair.src, pair.dst, pair.counted_bytes
        more = size_bytes - before
        self.place = None
        self.out_bytes[src] += more
        self.in_bytes[dst] += more
        pair.counted_bytes = size_bytes
        if before and size_bytes:
            return
        pairs = (size_bytes > 0) - (before > 0)
        self.out_pairs[src] += pairs
        self.in_pairs[dst] += pairs

    def hold(self, pair: RackPairDemand) -> None:
        """Note that a pair has a circuit."""
        self.serving[pair] = None
        self.held_out_bits |= pair.src_bit
        self.held_in_bits |= pair.dst_bit

    def give_up(self, pair: RackPairDemand) -> None:
        """Note that a pair has its circuit no more."""
        del self.serving[pair]
        self.held_out_bits &= ~pair.src_bit
        self.held_in_bits &= ~pair.dst_bit

    def wait(self, pair: RackPairDemand) -> None:
        """Note that a pair wants a circuit."""
        if pair.waits:
            return
        pair.waits = True
        self.waiting += 1
        src_bit, dst_bit = pair.src_bit, pair.dst_bit
        self.out_bits |= src_bit
        self.in_bits |= dst_bit
        self.dst_bits[pair.src] |= dst_bit
        self.src_bits[pair.dst] |= src_bit

    def stop_waiting(self, pair: RackPairDemand) -> None:
        """Note that a pair has got a circuit, or wants none any more."""
        src, dst, src_bit, dst_bit = pair.src, pair.dst, pair.src_bit, pair.dst_bit
        pair.waits = False
        self.waiting -= 1
        self.dst_bits[src] = dsts = self.dst_bits[src] ^ dst_bit
        if not dsts:
            self.out_bits ^= src_bit
        self.src_bits[dst] = srcs = self.src_bits[dst] ^ src_bit
        if not srcs:
            self.in_bits ^= dst_bit
