"""Which circuits an optical switch should have: coflows in order, each unaware of later ones.

A port is one direction of a rack's link to the switch, and carries one circuit at a time (or W,
with wavelength-selective switching).  The rule is Sunflow's (Huang, Sun and Ng, CoNEXT 2016):
within a coflow nothing is preempted, so a pair keeps its circuit until it is done; a coflow sees
ports that a later one holds as free, so later ones send in the gaps that earlier ones leave, and
lose their circuits when those want the port.

Sunflow reserves all of that ahead of time.  Here it is decided when a port is freed, which needs no
repair when flows grow or ports fail, and is the same as long as it is known which gaps are too
short: a circuit that is to be set up is dark for δ, so in a gap of δ or less it would be cut before
it carries.  Such gaps are left alone, as by Sunflow's authors; a circuit that is up may use them.
So where circuits end within δ, ``gaps`` predicts who will take their ports, and those at the other
ends.  Where ports have several circuits, it does not: another one can nearly always go on.

The order within a coflow is not published.  This one reproduces Fig. 2 of the Co-scheduler paper:
pairs that find their circuit up, then by size, the largest first, then by distance (dst - src)
modulo racks, then by src.  A pair has at most one circuit.

An event costs what it changes: where no coflow is new, only pairs at ports that were freed can get
a circuit.
"""

from __future__ import annotations

import math
from heapq import heappop, heappush

import numpy as np

from railyard.netemu.circuits.policies.base import CircuitPolicy, CoflowsOnCircuits
from railyard.netemu.circuits.policies.gaps import Gaps
from railyard.netemu.circuits.policies.portqueues import first_in, first_out
from railyard.netemu.circuits.switch import OpticalSwitch
from railyard.netemu.model.arrays import Floats, places
from railyard.netemu.model.instants import instant_s
from railyard.netemu.model.openflows import Circuit, CoflowDemand, RackPairDemand, SortKey

#: Whether a pair's circuit would not carry at once, its sort key, whether this is a choice for the
#: port out of its rack (otherwise for the one into its other rack), and the pair.
_Choice = tuple[bool, SortKey, bool, RackPairDemand]


class SunflowCircuits(CircuitPolicy):
    """Circuits by ascending T(C).  Sets of ports, which are numbers of racks, are bits."""

    name = "sunflow"
    source = "Huang, Sun and Ng, Sunflow, CoNEXT 2016"

    def __init__(self, switch: OpticalSwitch) -> None:
        super().__init__(switch)
        self._room = switch.wavelengths
        racks = len(switch.racks)
        #: pairs that have circuits, by the rack that they leave from and by the one they go to
        self._at_out: list[list[RackPairDemand]] = [[] for _ in range(racks)]
        self._at_in: list[list[RackPairDemand]] = [[] for _ in range(racks)]
        #: ports that were freed since the last choice
        self.freed_out = self.freed_in = 0
        self._held = 0  #: how many circuits pairs have been given
        #: free ports that a coflow will want within δ
        self.booked_out = self.booked_in = 0
        self._gaps = Gaps([])
        self._cut: list[RackPairDemand] = []
        self._taken: list[RackPairDemand] = []

    def urgency(self, coflows: CoflowsOnCircuits) -> Floats:
        """T(C), equations 2 and 15 of Co-scheduler, from the sums at each port."""
        with np.errstate(divide="ignore", invalid="ignore"):
            needs_s = coflows.port_bytes / coflows.circuit_bytes_per_s
        if not coflows.circuit_bytes_per_s.all():
            needs_s[coflows.port_bytes == 0] = 0.0
        needs_s += coflows.port_pairs * coflows.delta_s
        ports_s = needs_s.reshape(len(needs_s), -1)
        longest: Floats = ports_s.max(axis=1) / coflows.wavelengths
        return longest

    def release(self, pair: RackPairDemand) -> None:
        """Take a pair's circuit: it needs it no more, or can't keep it."""
        pair.demand.give_up(pair)
        self._at_out[pair.src].remove(pair)
        self._at_in[pair.dst].remove(pair)
        self.freed_out |= pair.src_bit
        self.freed_in |= pair.dst_bit

    def set_port(self, rack: int, works: bool, *, is_out: bool) -> None:
        """Note that a port has failed, or works again; its pairs have been released."""
        super().set_port(rack, works, is_out=is_out)
        if is_out:
            self.freed_out |= 1 << rack
        else:
            self.freed_in |= 1 << rack

    def choose(
        self, now_s: float, fresh: dict[CoflowDemand, None], order: list[CoflowDemand] | None = None
    ) -> tuple[list[RackPairDemand], list[RackPairDemand]]:
        """See ``CircuitPolicy``; with another order of coflows, all pairs are looked at."""
        self.set_order(order)
        self._cut, self._taken = [], []
        room = _Room(self.works_out, self.works_in, self._room)
        if self.look_again_s <= now_s + instant_s(now_s):
            self.freed_out |= self.booked_out
            self.freed_in |= self.booked_in
            self._forget_gaps()
        if order is not None:
            self._forget_gaps()
        gaps = self._gaps = Gaps(self._ending_soon(now_s))
        news = len(fresh)
        for demand in self.order:
            if self._cut and self._room > 1:
                self._keep_after_all(demand)
            room.less_held(demand)
            is_fresh = demand in fresh
            news -= is_fresh
            if demand.out_bits & room.out and demand.in_bits & room.into:
                if order is not None or is_fresh:
                    self._serve(demand, room, now_s)
                else:
                    self._serve_freed(demand, room, now_s)
            gaps.book(demand, room.out, room.into)
            if order is None and not (news or self.freed_out or self.freed_in):
                break
        self.freed_out = self.freed_in = 0
        self.booked_out |= gaps.out
        self.booked_in |= gaps.into
        self.look_again_s = min(self.look_again_s, gaps.look_again_s)
        return self._cut, self._taken

    # Inside --------------------------------------------------------------------------------------
    def _forget_gaps(self) -> None:
        """Book no port any more."""
        self.booked_out = self.booked_in = 0
        self.look_again_s = math.inf

    def _ending_soon(self, now_s: float) -> list[RackPairDemand]:
        """Pairs that will have sent all within δ, the first one first."""
        if self._room > 1 or not self.switch.delta_s:
            return []
        until_s = now_s + self.switch.delta_s + instant_s(now_s)
        holders = [pair for port in self._at_out for pair in port]
        soon = [pair for pair in holders if now_s + instant_s(now_s) < pair.ends_s <= until_s]
        return sorted(soon, key=_end_of)

    def _keep_after_all(self, demand: CoflowDemand) -> None:
        """Give a coflow that lost circuits back those that it can keep, the oldest first.

        That happens only where ports have several circuits: a pair may have been cut for two ports
        where one of them was enough.
        """
        cut = [pair for pair in self._cut if pair.demand is demand]
        if not cut:
            return
        for pair in cut:
            self._cut.remove(pair)
        kept = list(demand.serving)
        for pair in kept:
            self.release(pair)
        for pair in sorted(cut + kept, key=lambda pair: pair.held_since):
            ports = self._at_out[pair.src], self._at_in[pair.dst]
            if all(self._has_room(holders, demand) for holders in ports):
                self._make_room(ports)
                self.hold(pair)
            else:
                self._cut.append(pair)

    def _has_room(self, holders: list[RackPairDemand], demand: CoflowDemand) -> bool:
        """Whether a port has a circuit to spare, or one of a coflow that comes after this one."""
        if len(holders) < self._room:
            return True
        return any(holder.demand.rank > demand.rank for holder in holders)

    def _make_room(self, ports: tuple[list[RackPairDemand], list[RackPairDemand]]) -> None:
        """Cut the last coflow's last circuit where a port is full."""
        for holders in ports:
            if len(holders) == self._room:
                self._lose(max(reversed(holders), key=_rank_of) if self._room > 1 else holders[0])

    def _serve(self, demand: CoflowDemand, room: _Room, now_s: float) -> None:
        """Give circuits to those of a coflow's pairs that can have one, in order."""
        wanted: list[tuple[bool, SortKey]] = []
        for src in places(demand.out_bits & room.out):
            row, lit = demand.rows[src], self._lit_from(src, demand, now_s)
            dsts = demand.dst_bits[src] & room.into
            dark = self._gaps.long_out(src, dsts)
            wanted += [
                (dst not in lit, row[dst].sort_key)
                for dst in places(dsts)
                if dst in lit or dark >> dst & 1
            ]
        wanted.sort()
        for _, sort_key in wanted:
            if room.out >> sort_key[2] & 1 and room.into >> sort_key[3] & 1:
                self._take(demand.rows[sort_key[2]][sort_key[3]], room)

    def _serve_freed(self, demand: CoflowDemand, room: _Room, now_s: float) -> None:
        """Give a coflow what it can have at ports that were freed, the first pair first.

        No port gets free meanwhile, so the first pair at a port stays the first until one of its
        two ports is taken.
        """
        open_out, open_in = demand.out_bits & room.out, demand.in_bits & room.into
        freed_out, freed_in = open_out & self.freed_out, open_in & self.freed_in
        # pairs out of freed ports need not be looked at again at their other ends
        others = open_out ^ freed_out
        choices: list[_Choice] = []
        for src in places(freed_out):
            self._push_out(choices, demand, src, demand.dst_bits[src] & open_in, now_s)
        if others:
            for dst in places(freed_in):
                self._push_in(choices, demand, dst, demand.src_bits[dst] & others, now_s)
        while choices:
            _, _, is_out, pair = heappop(choices)
            src, dst = pair.src, pair.dst
            if room.out & pair.src_bit and room.into & pair.dst_bit:
                self._take(pair, room)
            if is_out:
                if room.out & pair.src_bit:
                    dsts = demand.dst_bits[src] & room.into
                    self._push_out(choices, demand, src, dsts, now_s)
            elif room.into & pair.dst_bit:
                srcs = demand.src_bits[dst] & room.out & others
                self._push_in(choices, demand, dst, srcs, now_s)

    def _push_out(
        self, choices: list[_Choice], demand: CoflowDemand, src: int, dsts: int, now_s: float
    ) -> None:
        """Add the first of a coflow's pairs from a rack to these."""
        if not dsts:
            return
        first: RackPairDemand | None = None
        for circuit in self.switch.out[src]:
            if dsts >> circuit.dst & 1 and _would_carry(circuit, demand, now_s):
                pair = demand.rows[src][circuit.dst]
                if first is None or pair.sort_key < first.sort_key:
                    first = pair
        is_dark = first is None
        if first is None:
            dsts = self._gaps.long_out(src, dsts)
            if not dsts:
                return
            first = first_out(demand, src, dsts)
        heappush(choices, (is_dark, first.sort_key, True, first))

    def _push_in(
        self, choices: list[_Choice], demand: CoflowDemand, dst: int, srcs: int, now_s: float
    ) -> None:
        """Add the first of a coflow's pairs to a rack from these."""
        if not srcs:
            return
        first: RackPairDemand | None = None
        for circuit in self.switch.into[dst]:
            if srcs >> circuit.src & 1 and _would_carry(circuit, demand, now_s):
                pair = demand.rows[circuit.src][dst]
                if first is None or pair.sort_key < first.sort_key:
                    first = pair
        is_dark = first is None
        if first is None:
            srcs = self._gaps.long_in(dst, srcs)
            if not srcs:
                return
            first = first_in(demand, dst, srcs)
        heappush(choices, (is_dark, first.sort_key, False, first))

    def _lit_from(self, src: int, demand: CoflowDemand, now_s: float) -> set[int]:
        """Racks to which a circuit from this one would carry at once."""
        circuits = self.switch.out[src]
        return {c.dst for c in circuits if _would_carry(c, demand, now_s)}

    def _take(self, pair: RackPairDemand, room: _Room) -> None:
        at_out, at_in = self._at_out[pair.src], self._at_in[pair.dst]
        if len(at_out) == self._room or len(at_in) == self._room:
            self._make_room((at_out, at_in))
        pair.demand.stop_waiting(pair)
        self._held += 1
        pair.held_since = self._held
        self.hold(pair)
        room.less(pair)
        self._taken.append(pair)

    def hold(self, pair: RackPairDemand) -> None:
        """Note that a pair has a circuit."""
        pair.demand.hold(pair)
        at_out, at_in = self._at_out[pair.src], self._at_in[pair.dst]
        at_out.append(pair)
        at_in.append(pair)
        if len(at_out) == self._room:
            self.freed_out &= ~pair.src_bit
        if len(at_in) == self._room:
            self.freed_in &= ~pair.dst_bit

    def _lose(self, pair: RackPairDemand) -> None:
        self.release(pair)
        self._cut.append(pair)


def _end_of(pair: RackPairDemand) -> float:
    return pair.ends_s


def _rank_of(pair: RackPairDemand) -> int:
    return pair.demand.rank


def _would_carry(circuit: Circuit, demand: CoflowDemand, now_s: float) -> bool:
    """Whether a circuit is up, and no coflow before this one uses it."""
    user = circuit.user
    return circuit.ready_s <= now_s and (user is None or user.demand.rank > demand.rank)


class _Room:
    """Ports that work and have a circuit to spare after those of the coflows so far."""

    __slots__ = ("_count_in", "_count_out", "_wavelengths", "into", "out")

    def __init__(self, out: int, into: int, wavelengths: int) -> None:
        self.out = out
        self.into = into
        self._wavelengths = wavelengths
        self._count_out: dict[int, int] = {}
        self._count_in: dict[int, int] = {}

    def less_held(self, demand: CoflowDemand) -> None:
        """Count the circuits that a coflow holds."""
        if self._wavelengths == 1:
            self.out &= ~demand.held_out_bits
            self.into &= ~demand.held_in_bits
            return
        for pair in demand.serving:
            self.less(pair)

    def less(self, pair: RackPairDemand) -> None:
        """Count one circuit."""
        if self._wavelengths == 1:
            self.out ^= pair.src_bit
            self.into ^= pair.dst_bit
            return
        src, dst = pair.src, pair.dst
        self._count_out[src] = out = self._count_out.get(src, 0) + 1
        self._count_in[dst] = into = self._count_in.get(dst, 0) + 1
        if out == self._wavelengths:
            self.out &= ~pair.src_bit
        if into == self._wavelengths:
            self.into &= ~pair.dst_bit
