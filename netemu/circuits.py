"""Which circuits an optical switch should have: coflows in order, each blind to those after it.

A port is one direction of a rack's link to the switch, and carries one circuit at a time (or W,
with wavelength-selective switching).  The rule is Sunflow's (Huang, Sun and Ng, CoNEXT 2016):
within a coflow nothing is preempted, so a batch keeps its circuit until it is done; a coflow sees
ports that a later one holds as free, so the later ones send in the gaps that the earlier leave, and
are cut when those want the port.

Sunflow reserves all of that ahead of time; deciding when a port falls free comes to the same, as no
coflow's choices depend on those after it, and it needs no repair when flows grow or ports fail.

The order within a coflow is not published.  This one reproduces Fig. 2 of the Co-scheduler paper:
batches whose circuit is up, then by size, the largest first, then by distance (dst - src) modulo
racks, then by src.  A batch has at most one circuit.

An event costs what it changes: where no coflow is new, only batches at ports that have fallen free
can gain a circuit.
"""

from __future__ import annotations

import heapq

from netemu.batches import Batch, Demand, Turn, bits
from netemu.optical import Circuit, OpticalSwitch

#: Whether its circuit would not carry at once, and its turn.
_Urgency = tuple[bool, Turn]


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
        self._cut: list[Batch] = []
        self._taken: list[Batch] = []

    def release(self, batch: Batch) -> None:
        """A batch needs its circuit no more, or can't keep it."""
        src, dst = batch.src, batch.dst
        batch.demand.give_up(batch)
        self._at_out[src].remove(batch)
        self._at_in[dst].remove(batch)
        self._freed_out |= 1 << src
        self._freed_in |= 1 << dst

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
        """Who loses a circuit and who gains one, now.

        ``fresh`` are coflows with batches that wait since the last choice; ``order`` is the order
        of coflows if it is another than before: then everything is looked at.
        """
        if order is not None:
            self.order = order
            for rank, demand in enumerate(order):
                demand.rank = rank
        self._cut, self._taken = [], []
        taken = _Taken(self._room)
        news = len(fresh)
        for demand in self.order:
            if self._cut and self._room > 1:
                self._keep_after_all(demand)
            taken.add(demand)
            is_fresh = demand in fresh
            news -= is_fresh
            if demand.waiting:
                if order is not None or is_fresh:
                    self._serve(demand, taken, now_s)
                elif self._freed_out & demand.out_bits or self._freed_in & demand.in_bits:
                    self._serve_freed(demand, taken, now_s)
            if order is None and not (news or self._freed_out or self._freed_in):
                break
        self._freed_out = self._freed_in = 0
        return self._cut, self._taken

    # Inside --------------------------------------------------------------------------------------
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

    def _serve(self, demand: Demand, taken: _Taken, now_s: float) -> None:
        """Give a coflow what it can have of all its batches, in order."""
        out, into = self._works_out & ~taken.out, self._works_in & ~taken.into
        wanted = [
            self._urgent(demand, turn, now_s)
            for src in bits(demand.out_bits & out)
            if demand.dst_bits[src] & into
            for turn in demand.by_src[src]
            if into >> turn[3] & 1
        ]
        wanted.sort()
        for _, turn in wanted:
            if not (taken.out >> turn[2] & 1 or taken.into >> turn[3] & 1):
                self._take(demand.batches[turn[2], turn[3]], taken)

    def _serve_freed(self, demand: Demand, taken: _Taken, now_s: float) -> None:
        """Give a coflow what it can have at ports that have fallen free, the most urgent first.

        What is free here only gets less meanwhile, so a port's most urgent batch stands until one
        of its two ports is taken.
        """
        heap: list[tuple[_Urgency, int, bool]] = []
        out = self._freed_out & demand.out_bits & self._works_out & ~taken.out
        into = self._freed_in & demand.in_bits & self._works_in & ~taken.into
        for port in bits(out) if out else ():
            self._push_out(heap, demand, port, taken, now_s)
        for port in bits(into) if into else ():
            self._push_in(heap, demand, port, taken, now_s)
        while heap:
            (_, turn), port, is_out = heapq.heappop(heap)
            _, _, src, dst = turn
            if not (taken.out >> src & 1 or taken.into >> dst & 1):
                batch = demand.batches[src, dst]
                if batch.turn is not None:
                    self._take(batch, taken)
            if is_out:
                if not taken.out >> port & 1:
                    self._push_out(heap, demand, port, taken, now_s)
            elif not taken.into >> port & 1:
                self._push_in(heap, demand, port, taken, now_s)

    def _push_out(
        self,
        heap: list[tuple[_Urgency, int, bool]],
        demand: Demand,
        src: int,
        taken: _Taken,
        now_s: float,
    ) -> None:
        """Add the most urgent of a coflow's batches that can leave from a rack with room."""
        open_dst = demand.dst_bits[src] & self._works_in & ~taken.into
        if not open_dst:
            return
        first: _Urgency | None = None
        for circuit in self._switch.out[src]:
            if open_dst >> circuit.dst & 1 and _would_carry(circuit, demand, now_s):
                turn = demand.batches[src, circuit.dst].turn
                assert turn is not None
                if first is None or turn < first[1]:
                    first = False, turn
        if first is None:
            first = True, demand.first_out(src, open_dst)
        heapq.heappush(heap, (first, src, True))

    def _push_in(
        self,
        heap: list[tuple[_Urgency, int, bool]],
        demand: Demand,
        dst: int,
        taken: _Taken,
        now_s: float,
    ) -> None:
        """Add the most urgent of a coflow's batches that can go to a rack with room."""
        open_src = demand.src_bits[dst] & self._works_out & ~taken.out
        if not open_src:
            return
        first: _Urgency | None = None
        for circuit in self._switch.into[dst]:
            if open_src >> circuit.src & 1 and _would_carry(circuit, demand, now_s):
                turn = demand.batches[circuit.src, dst].turn
                assert turn is not None
                if first is None or turn < first[1]:
                    first = False, turn
        if first is None:
            first = True, demand.first_in(dst, open_src)
        heapq.heappush(heap, (first, dst, False))

    def _urgent(self, demand: Demand, turn: Turn, now_s: float) -> _Urgency:
        _, _, src, dst = turn
        for circuit in self._switch.out[src]:
            if circuit.dst == dst and _would_carry(circuit, demand, now_s):
                return False, turn
        return True, turn

    def _take(self, batch: Batch, taken: _Taken) -> None:
        demand, src, dst = batch.demand, batch.src, batch.dst
        if len(self._at_out[src]) == self._room or len(self._at_in[dst]) == self._room:
            self._make_room((self._at_out[src], self._at_in[dst]))
        demand.stop_waiting(batch)
        self._held += 1
        batch.held_since = self._held
        self._hold(batch)
        taken.add_one(src, dst)
        self._taken.append(batch)

    def _hold(self, batch: Batch) -> None:
        src, dst = batch.src, batch.dst
        batch.demand.hold(batch)
        at_out, at_in = self._at_out[src], self._at_in[dst]
        at_out.append(batch)
        at_in.append(batch)
        if len(at_out) == self._room:
            self._freed_out &= ~(1 << src)
        if len(at_in) == self._room:
            self._freed_in &= ~(1 << dst)

    def _lose(self, batch: Batch) -> None:
        self.release(batch)
        self._cut.append(batch)


def _rank_of(batch: Batch) -> int:
    return batch.demand.rank


def _would_carry(circuit: Circuit, demand: Demand, now_s: float) -> bool:
    """Whether a circuit is up, and nobody's who comes before this coflow."""
    user = circuit.user
    return circuit.ready_s <= now_s and (user is None or user.demand.rank > demand.rank)


class _Taken:
    """Ports that are full with the circuits of the coflows so far."""

    def __init__(self, room: int) -> None:
        self.out = self.into = 0
        self._room = room
        self._count_out: dict[int, int] = {}
        self._count_in: dict[int, int] = {}

    def add(self, demand: Demand) -> None:
        """Count what a coflow holds."""
        if self._room == 1:
            self.out |= demand.held_out_bits
            self.into |= demand.held_in_bits
            return
        for batch in demand.serving:
            self.add_one(batch.src, batch.dst)

    def add_one(self, src: int, dst: int) -> None:
        """Count one circuit."""
        if self._room == 1:
            self.out |= 1 << src
            self.into |= 1 << dst
            return
        self._count_out[src] = out = self._count_out.get(src, 0) + 1
        self._count_in[dst] = into = self._count_in.get(dst, 0) + 1
        if out == self._room:
            self.out |= 1 << src
        if into == self._room:
            self.into |= 1 << dst
