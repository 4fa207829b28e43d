"""Which ports are free for δ at most, since a coflow with a right to them will want them by then.

A port that is free is *booked* if a circuit elsewhere ends within δ and a coflow, which waits for
the two of them together, will have it then.  Coflows after that one leave the gap alone, unless
they find a circuit that is up.  What circuits that are yet to be set up will lead to is not looked
at: they carry after δ at the earliest.

Sets of racks are the bits of a number.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from railyard.netemu.model.arrays import places
from railyard.netemu.model.openflows import CoflowDemand, RackPairDemand, Turn


class Gaps:
    """What coflows, in order, will do with the ports of pairs that end soon, in their order."""

    def __init__(self, ending: Sequence[RackPairDemand]) -> None:
        self.out = self.into = 0  #: ports that are booked
        self.look_again_s = inf  #: when the first of them will be taken, if any has been refused
        self._first_s = inf
        self._ending = ending
        self._seen: set[CoflowDemand] = set()

    def long_out(self, src: int, dsts: int) -> int:
        """Those of these racks to which a dark circuit from there is worth its while."""
        return self._noting(dsts, 0 if self.out >> src & 1 else dsts & ~self.into)

    def long_in(self, dst: int, srcs: int) -> int:
        """Those of these racks from which one to there is."""
        return self._noting(srcs, 0 if self.into >> dst & 1 else srcs & ~self.out)

    def book(self, demand: CoflowDemand, out: int, into: int) -> None:
        """Have the next coflow take what it will, as pairs of those so far end.

        ``out`` and ``into`` are the ports that neither it nor those before it hold.
        """
        if not self._ending:
            return
        self._seen.add(demand)
        for pair in self._ending:
            if (
                pair.demand in self._seen and pair in pair.demand.serving
            ):  # others' ports are this one's already, if it wants them
                out |= pair.src_bit
                into |= pair.dst_bit
                self._book_at(demand, pair, out & ~self.out, into & ~self.into)

    # Inside --------------------------------------------------------------------------------------
    def _noting(self, wanted: int, found: int) -> int:
        if found != wanted:
            self.look_again_s = self._first_s
        return found

    def _book_at(self, demand: CoflowDemand, ended: RackPairDemand, out: int, into: int) -> None:
        """What a coflow takes of the two ports of a pair when that has ended."""
        rows, src, dst = demand.rows, ended.src, ended.dst
        choices: list[tuple[bool, Turn, RackPairDemand]] = []
        if out & ended.src_bit:
            choices += [_choice(rows[src][to], ended) for to in places(demand.dst_bits[src] & into)]
        if into & ended.dst_bit:
            choices += [_choice(rows[of][dst], ended) for of in places(demand.src_bits[dst] & out)]
        for _, _, pair in sorted(choices, key=_turn_of):
            if out & pair.src_bit and into & pair.dst_bit:
                out ^= pair.src_bit
                into ^= pair.dst_bit
                self.out |= pair.src_bit
                self.into |= pair.dst_bit
                self._first_s = min(self._first_s, ended.ends_s)


def _choice(pair: RackPairDemand, ended: RackPairDemand) -> tuple[bool, Turn, RackPairDemand]:
    """Whether a pair would find its circuit dark, and its turn."""
    return (pair.src, pair.dst) != (ended.src, ended.dst), pair.turn, pair


def _turn_of(choice: tuple[bool, Turn, RackPairDemand]) -> tuple[bool, Turn]:
    return choice[:2]
