"""Sunflow as its authors have it: circuits that are reserved ahead, in exact fractions.

Source: Huang, Sun and Ng, Sunflow, CoNEXT 2016, algorithm 1.  For coflows that are all there at the
beginning and whose order stays: two of them, say.  The order of a coflow's own flows is that of
``netemu.circuits``; circuits that are up are not set up again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf

#: From one rack to another.
Pair = tuple[int, int]


@dataclass(frozen=True)
class Reservation:
    """A pair of ports is a coflow's for that time, of which the first part may be dark."""

    pair: Pair
    begin_s: Fraction
    end_s: Fraction


def lower_bound_s(sizes: Mapping[Pair, int], bytes_per_s: int, delta_s: Fraction) -> Fraction:
    """T(C): what the busiest port needs."""
    needs_s: dict[tuple[str, int], Fraction] = {}
    for (src, dst), size in sizes.items():
        for port in (("out", src), ("in", dst)):
            more_s = Fraction(size, bytes_per_s) + delta_s
            needs_s[port] = needs_s.get(port, Fraction(0)) + more_s
    return max(needs_s.values())


def reserve(
    coflows: Sequence[Mapping[Pair, int]], racks: int, bytes_per_s: int, delta_s: Fraction
) -> list[dict[Pair, Fraction]]:
    """When each pair of each coflow ends, the coflows being in their order."""
    table: list[Reservation] = []
    ends: list[dict[Pair, Fraction]] = []
    for sizes in coflows:
        left_s = {pair: Fraction(size, bytes_per_s) for pair, size in sizes.items()}
        now_s, ended = Fraction(0), dict[Pair, Fraction]()
        while left_s:
            lit = {pair for pair in left_s if _is_lit(table, pair, now_s)}

            def turn(pair: Pair, lit: set[Pair] = lit) -> tuple[bool, Fraction, int, int]:
                src, dst = pair
                return pair not in lit, -left_s[pair], (dst - src) % racks, src  # noqa: B023

            for pair in sorted(left_s, key=turn):
                set_up_s = Fraction(0) if pair in lit else delta_s
                room_s = _room_s(table, pair, now_s)
                takes_s = min(room_s, set_up_s + left_s[pair])
                if takes_s <= set_up_s:
                    continue
                assert isinstance(takes_s, Fraction)
                table.append(Reservation(pair, now_s, now_s + takes_s))
                left_s[pair] -= takes_s - set_up_s
                if not left_s[pair]:
                    ended[pair] = now_s + takes_s
                    del left_s[pair]
            if left_s:
                now_s = min(one.end_s for one in table if one.end_s > now_s)
        ends.append(ended)
    return ends


def _at(table: Sequence[Reservation], pair: Pair) -> list[list[Reservation]]:
    """What is reserved of each of a pair's two ports."""
    return [[one for one in table if one.pair[side] == pair[side]] for side in (0, 1)]


def _room_s(table: Sequence[Reservation], pair: Pair, now_s: Fraction) -> Fraction | float:
    """For how long both ports are free from now on."""
    room_s: Fraction | float = inf
    for port in _at(table, pair):
        for one in port:
            if one.end_s > now_s:
                room_s = min(room_s, max(one.begin_s - now_s, Fraction(0)))
    return room_s


def _is_lit(table: Sequence[Reservation], pair: Pair, now_s: Fraction) -> bool:
    """Whether the circuit that both ports had last is theirs."""
    for port in _at(table, pair):
        before = [one for one in port if one.begin_s < now_s]
        if not before or max(before, key=lambda one: one.begin_s).pair != pair:
            return False
    return True
