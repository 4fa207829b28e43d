"""Which circuits an optical switch should have: coflows in order, each blind to those after it.

A port is one direction of a rack's link to the switch, and carries one circuit at a time (or W,
with wavelength-selective switching).  The rule is Sunflow's (Huang, Sun and Ng, CoNEXT 2016):
within a coflow nothing is preempted, so a batch keeps its circuit until it is done; a coflow sees
ports that a later one holds as free, so the later ones send in the gaps that the earlier leave, and
are cut when those want the port.

Sunflow reserves all of that ahead of time.  Here it is decided when a port falls free, which needs
no repair when flows grow or ports fail, and comes to the same as long as it is known which gaps are
too short: a circuit that is to be set up is dark for δ, so in a gap of δ or less it would be cut
before it carries.  Such gaps are left alone, as Sunflow's authors do; a circuit that is up may use
them.  So where circuits end within δ, it is looked ahead who will take their ports then, and those
at the other ends (``netemu.gaps``).  Where ports have several circuits, it is not: there is
nearly always another one to go on with.

The order within a coflow is not published.  This one reproduces Fig. 2 of the Co-scheduler paper:
batches whose circuit is up, then by size, the largest first, then by distance (dst - src) modulo
racks, then by src.  A batch has at most one circuit.

An event costs what it changes: where no coflow is new, only batches at ports that have fallen free
can gain a circuit.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from heapq import heappop, heappush

from railyard.netemu.circuits.demand import Batch, Demand, Turn
from railyard.netemu.circuits.gaps import Gaps
from railyard.netemu.circuits.switch import Circuit, OpticalSwitch
from railyard.netemu.model.arrays import places
from railyard.netemu.model.instants import instant_s

#: Whether a batch's circuit would not carry at once, its turn, whether it stands for the port that
#: it leaves from or for the one that it goes to, and the batch.
_Choice = tuple[bool, Turn, bool, Batch]


class Matching:
    """Who has a circuit.  Ports are numbers of racks; sets of them are the bits of a number."""

    def __init__(self, switch: OpticalSwitch) -> None:
        self.order: list[Demand] = []  #: coflows, the one that is served first first
        self._switch = switch
        self._room = switch.wavelengths
        racks = len(switch.racks)
        self._at_out: list[list[Batch]] = [[] for _ in range(racks)]  #: who has circuits from here
        self._at_in: list[list[Batch]] = [[] for _ in range(racks)]
        self._works_out = self._works_in = (1 << racks) - 1  #: ports that have not failed
        #: ports that have fallen free since the last choice
        self._freed_out = self._freed_in = 0
        self._held = 0  #: how often a batch has got a circuit
        #: ports that wait for the one who will want them within δ, and the first time one does
        self._booked_out = self._booked_in = 0
        self.look_again_s = math.inf
        self._gaps = Gaps([])
        self._cut: list[Batch] = []
        self._taken: list[Batch] = []

    def compiled(self, demands: Iterable[Demand]) -> Matching:
        """One that chooses the same for these coflows, quicker if they are crowds; or itself."""
        if self._room > 1:
            return self
        from railyard.netemu.circuits.fast.matching import CompiledMatching

        return CompiledMatching(self, self._switch, demands)

    def works(self) -> tuple[list[bool], list[bool]]:
        """Whether the ports out of each rack work, and those into it."""
        racks = range(len(self._switch.racks))
        out = [bool(self._works_out >> rack & 1) for rack in racks]
        return out, [bool(self._works_in >> rack & 1) for rack in racks]

    def wait(self, batch: Batch, size_bytes: float) -> None:
        """A batch wants a circuit, for so many bytes."""
        batch.demand.wait(batch, size_bytes)

    def stop_waiting(self, batch: Batch) -> None:
        """A batch wants none any more."""
        batch.demand.stop_waiting(batch)

    def release(self, batch: Batch) -> None:
        """A batch needs its circuit no more, or can't keep it."""
        batch.demand.give_up(batch)
        self._at_out[batch.src].remove(batch)
        self._at_in[batch.dst].remove(batch)
        self._freed_out |= batch.src_bit
        self._freed_in |= batch.dst_bit

    def expect_end(self, batch: Batch, at_s: float) -> None:
        """A batch that has a circuit will have sent all by then."""
        batch.ends_s = at_s

    def set_port(self, rack: int, works: bool, *, is_out: bool) -> None:
        """A port has failed, or works again.  Whoever holds it must have released it."""
        bit = 1 << rack
        if is_out:
            self._works_out = self._works_out | bit if works else self._works_out & ~bit
            self._freed_out |= bit
        else:
            self._works_in = self._works_in | bit if works else self._works_in & ~bit
            self._freed_in |= bit

    def choose(
        self, now_s: float, fresh: dict[Demand, None], order: list[Demand] | None = None
    ) -> tuple[list[Batch], list[Batch]]:
        """Who loses a circuit and who gains one, now; to be asked again at ``look_again_s``.

        ``fresh`` are coflows with batches that wait since the last choice; ``order`` is the order
        of coflows if it is another than before: then everything is looked at.
        """
        if order is not None:
            self.order = order
            for rank, demand in enumerate(order):
                demand.rank = rank
        self._cut, self._taken = [], []
        room = _Room(self._works_out, self._works_in, self._room)
        if self.look_again_s <= now_s + instant_s(now_s):
            self._freed_out |= self._booked_out
            self._freed_in |= self._booked_in
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
            if order is None and not (news or self._freed_out or self._freed_in):
                break
        self._freed_out = self._freed_in = 0
        self._booked_out |= gaps.out
        self._booked_in |= gaps.into
        self.look_again_s = min(self.look_again_s, gaps.look_again_s)
        return self._cut, self._taken

    # Inside --------------------------------------------------------------------------------------
    def _forget_gaps(self) -> None:
        """No port waits for anybody any more."""
        self._booked_out = self._booked_in = 0
        self.look_again_s = math.inf

    def _ending_soon(self, now_s: float) -> list[Batch]:
        """Who will leave its ports within δ, the first one first."""
        if self._room > 1 or not self._switch.delta_s:
            return []
        until_s = now_s + self._switch.delta_s + instant_s(now_s)
        holders = [batch for port in self._at_out for batch in port]
        soon = [batch for batch in holders if now_s + instant_s(now_s) < batch.ends_s <= until_s]
        return sorted(soon, key=_end_of)

    def _keep_after_all(self, demand: Demand) -> None:
        """Have a coflow that was cut keep as much as it can, the oldest circuits first.

        Only ports with several circuits know such cases: somebody may have been cut for two ports
        where one of them was enough.
        """
        cut = [batch for batch in self._cut if batch.demand is demand]
        if not cut:
            return
        for batch in cut:
            self._cut.remove(batch)
        kept = list(demand.serving)
        for batch in kept:
            self.release(batch)
        for batch in sorted(cut + kept, key=lambda batch: batch.held_since):
            ports = self._at_out[batch.src], self._at_in[batch.dst]
            if all(self._has_room(holders, demand) for holders in ports):
                self._make_room(ports)
                self._hold(batch)
            else:
                self._cut.append(batch)

    def _has_room(self, holders: list[Batch], demand: Demand) -> bool:
        """Whether a port would be free but for coflows that come after this one."""
        if len(holders) < self._room:
            return True
        return any(holder.demand.rank > demand.rank for holder in holders)

    def _make_room(self, ports: tuple[list[Batch], list[Batch]]) -> None:
        """Cut the last coflow's last circuit where a port is full."""
        for holders in ports:
            if len(holders) == self._room:
                self._lose(max(reversed(holders), key=_rank_of) if self._room > 1 else holders[0])

    def _serve(self, demand: Demand, room: _Room, now_s: float) -> None:
        """Give a coflow what it can have of all its batches, in order."""
        wanted: list[tuple[bool, Turn]] = []
        for src in places(demand.out_bits & room.out):
            row, lit = demand.rows[src], self._lit_from(src, demand, now_s)
            dsts = demand.dst_bits[src] & room.into
            dark = self._gaps.long_out(src, dsts)
            wanted += [
                (dst not in lit, row[dst].turn)
                for dst in places(dsts)
                if dst in lit or dark >> dst & 1
            ]
        wanted.sort()
        for _, turn in wanted:
            if room.out >> turn[2] & 1 and room.into >> turn[3] & 1:
                self._take(demand.rows[turn[2]][turn[3]], room)

    def _serve_freed(self, demand: Demand, room: _Room, now_s: float) -> None:
        """Give a coflow what it can have at ports that have fallen free, the most urgent first.

        What is free here only gets less meanwhile, so a port's most urgent batch stands until one
        of its two ports is taken.
        """
        open_out, open_in = demand.out_bits & room.out, demand.in_bits & room.into
        freed_out, freed_in = open_out & self._freed_out, open_in & self._freed_in
        # what leaves from freed ports need not be looked at again where it goes to
        others = open_out ^ freed_out
        choices: list[_Choice] = []
        for src in places(freed_out):
            self._push_out(choices, demand, src, demand.dst_bits[src] & open_in, now_s)
        if others:
            for dst in places(freed_in):
                self._push_in(choices, demand, dst, demand.src_bits[dst] & others, now_s)
        while choices:
            _, _, is_out, batch = heappop(choices)
            src, dst = batch.src, batch.dst
            if room.out & batch.src_bit and room.into & batch.dst_bit:
                self._take(batch, room)
            if is_out:
                if room.out & batch.src_bit:
                    dsts = demand.dst_bits[src] & room.into
                    self._push_out(choices, demand, src, dsts, now_s)
            elif room.into & batch.dst_bit:
                srcs = demand.src_bits[dst] & room.out & others
                self._push_in(choices, demand, dst, srcs, now_s)

    def _push_out(
        self, choices: list[_Choice], demand: Demand, src: int, dsts: int, now_s: float
    ) -> None:
        """Add the most urgent of a coflow's batches from a rack to these."""
        if not dsts:
            return
        first: Batch | None = None
        for circuit in self._switch.out[src]:
            if dsts >> circuit.dst & 1 and _would_carry(circuit, demand, now_s):
                batch = demand.rows[src][circuit.dst]
                if first is None or batch.turn < first.turn:
                    first = batch
        is_dark = first is None
        if first is None:
            dsts = self._gaps.long_out(src, dsts)
            if not dsts:
                return
            first = demand.first_out(src, dsts)
        heappush(choices, (is_dark, first.turn, True, first))

    def _push_in(
        self, choices: list[_Choice], demand: Demand, dst: int, srcs: int, now_s: float
    ) -> None:
        """Add the most urgent of a coflow's batches to a rack from these."""
        if not srcs:
            return
        first: Batch | None = None
        for circuit in self._switch.into[dst]:
            if srcs >> circuit.src & 1 and _would_carry(circuit, demand, now_s):
                batch = demand.rows[circuit.src][dst]
                if first is None or batch.turn < first.turn:
                    first = batch
        is_dark = first is None
        if first is None:
            srcs = self._gaps.long_in(dst, srcs)
            if not srcs:
                return
            first = demand.first_in(dst, srcs)
        heappush(choices, (is_dark, first.turn, False, first))

    def _lit_from(self, src: int, demand: Demand, now_s: float) -> set[int]:
        """Racks to which a circuit from this one would carry at once."""
        circuits = self._switch.out[src]
        return {c.dst for c in circuits if _would_carry(c, demand, now_s)}

    def _take(self, batch: Batch, room: _Room) -> None:
        at_out, at_in = self._at_out[batch.src], self._at_in[batch.dst]
        if len(at_out) == self._room or len(at_in) == self._room:
            self._make_room((at_out, at_in))
        batch.demand.stop_waiting(batch)
        self._held += 1
        batch.held_since = self._held
        self._hold(batch)
        room.less(batch)
        self._taken.append(batch)

    def _hold(self, batch: Batch) -> None:
        batch.demand.hold(batch)
        at_out, at_in = self._at_out[batch.src], self._at_in[batch.dst]
        at_out.append(batch)
        at_in.append(batch)
        if len(at_out) == self._room:
            self._freed_out &= ~batch.src_bit
        if len(at_in) == self._room:
            self._freed_in &= ~batch.dst_bit

    def _lose(self, batch: Batch) -> None:
        self.release(batch)
        self._cut.append(batch)


def _end_of(batch: Batch) -> float:
    return batch.ends_s


def _rank_of(batch: Batch) -> int:
    return batch.demand.rank


def _would_carry(circuit: Circuit, demand: Demand, now_s: float) -> bool:
    """Whether a circuit is up, and nobody's who comes before this coflow."""
    user = circuit.user
    return circuit.ready_s <= now_s and (user is None or user.demand.rank > demand.rank)


class _Room:
    """Ports that work and are not full with the circuits of the coflows so far."""

    __slots__ = ("_count_in", "_count_out", "_wavelengths", "into", "out")

    def __init__(self, out: int, into: int, wavelengths: int) -> None:
        self.out = out
        self.into = into
        self._wavelengths = wavelengths
        self._count_out: dict[int, int] = {}
        self._count_in: dict[int, int] = {}

    def less_held(self, demand: Demand) -> None:
        """Count what a coflow holds."""
        if self._wavelengths == 1:
            self.out &= ~demand.held_out_bits
            self.into &= ~demand.held_in_bits
            return
        for batch in demand.serving:
            self.less(batch)

    def less(self, batch: Batch) -> None:
        """Count one circuit."""
        if self._wavelengths == 1:
            self.out ^= batch.src_bit
            self.into ^= batch.dst_bit
            return
        src, dst = batch.src, batch.dst
        self._count_out[src] = out = self._count_out.get(src, 0) + 1
        self._count_in[dst] = into = self._count_in.get(dst, 0) + 1
        if out == self._wavelengths:
            self.out &= ~batch.src_bit
        if into == self._wavelengths:
            self.into &= ~batch.dst_bit
