"""Ports that are free now, but that an earlier coflow will want within δ.

A free port is *booked* if a circuit elsewhere ends within δ and a coflow waits for a circuit
between the port that this frees and the free one.  Coflows after that one leave the gap alone,
unless a circuit that is up can carry in it.  Circuits that are yet to be set up are not
considered: they carry after δ at the earliest.

Sets of racks are the bits of an int.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from railyard.netemu.model.arrays import places
from railyard.netemu.model.openflows import CoflowDemand, RackPairDemand, SortKey


class Gaps:
    """The ports that coflows, in order, will take as pairs end, in the order of their ends."""

    def __init__(self, ending: Sequence[RackPairDemand]) -> None:
        self.out = self.into = 0  #: ports that are booked
        self.look_again_s = inf  #: when the first of them will be taken, if any has been refused
        self._first_s = inf
        self._ending = ending
        self._seen: set[CoflowDemand] = set()

    def long_out(self, src: int, dsts: int) -> int:
        """Those of ``dsts`` to which a circuit from ``src`` would carry before it is cut."""
        return self._noting(dsts, 0 if self.out >> src & 1 else dsts & ~self.into)

    def long_in(self, dst: int, srcs: int) -> int:
        """Those of ``srcs`` from which a circuit to ``dst`` would carry before it is cut."""
        return self._noting(srcs, 0 if self.into >> dst & 1 else srcs & ~self.out)

    def book(self, demand: CoflowDemand, out: int, into: int) -> None:
        """Book what the next coflow will take as pairs of coflows so far end.

        ``out`` and ``into`` are the ports that neither it nor a coflow before it holds.
        """
        if not self._ending:
            return
        self._seen.add(demand)
        for pair in self._ending:
            if (
                pair.demand in self._seen and pair in pair.demand.serving
            ):  # later ones' ports are its own already, if it wants them
                out |= pair.src_bit
                into |= pair.dst_bit
                self._book_at(demand, pair, out & ~self.out, into & ~self.into)

    # Inside --------------------------------------------------------------------------------------
    def _noting(self, wanted: int, found: int) -> int:
        if found != wanted:
            self.look_again_s = self._first_s
        return found

    def _book_at(self, demand: CoflowDemand, ended: RackPairDemand, out: int, into: int) -> None:
        """Book what a coflow takes of the two ports of a pair when that has ended."""
        rows, src, dst = demand.rows, ended.src, ended.dst
        choices: list[tuple[bool, SortKey, RackPairDemand]] = []
        if out & ended.src_bit:
            choices += [_choice(rows[src][to], ended) for to in places(demand.dst_bits[src] & into)]
        if into & ended.dst_bit:
            choices += [_choice(rows[of][dst], ended) for of in places(demand.src_bits[dst] & out)]
        for _, _, pair in sorted(choices, key=_sort_key_of):
            if out & pair.src_bit and into & pair.dst_bit:
                out ^= pair.src_bit
                into ^= pair.dst_bit
                self.out |= pair.src_bit
                self.into |= pair.dst_bit
                self._first_s = min(self._first_s, ended.ends_s)


def _choice(pair: RackPairDemand, ended: RackPairDemand) -> tuple[bool, SortKey, RackPairDemand]:
    """Whether a pair would find its circuit dark, and its sort key."""
    return (pair.src, pair.dst) != (ended.src, ended.dst), pair.sort_key, pair


def _sort_key_of(choice: tuple[bool, SortKey, RackPairDemand]) -> tuple[bool, SortKey]:
    return choice[:2]
