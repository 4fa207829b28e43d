"""Which circuits there should be, all at once: a simple version of ``policies.sunflow``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from railyard.netemu.model.arrays import Floats

#: A circuit: the rack that sends and the rack that receives.
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Ports:
    """How many circuits each rack's port can carry now: W, or 0 if it has failed."""

    out: Sequence[int]
    into: Sequence[int]


@dataclass(frozen=True, slots=True)
class Circuits:
    """When those that there are carry, in seconds; and which pairs send all within δ."""

    now_s: float
    ready_s: Mapping[Pair, float]
    #: (seconds, the place of its coflow, pair), the first one first; only where W is 1
    ending: Sequence[tuple[float, int, Pair]] = field(default=())


def match(
    demands: Sequence[Floats],
    held: Sequence[Mapping[Pair, None]],
    ports: Ports,
    circuits: Circuits,
) -> list[dict[Pair, None]]:
    """The pairs that each coflow should have a circuit for, in the order in which they are taken.

    ``demands[k][src, dst]`` is what the k-th coflow has left to send; ``held[k]`` are the pairs it
    has circuits for, or is setting up.  A pair takes at most one circuit of each coflow.

    Within a coflow: pairs whose circuit carries, then by size, the largest first, then by distance
    (dst - src) modulo racks, then by src.  Ports that a coflow before it will take within δ are
    booked: only a circuit that carries may use them.
    """
    out, into = np.array(ports.out), np.array(ports.into)
    chosen: list[dict[Pair, None]] = []
    for demand, holds in zip(demands, held, strict=True):
        taken: dict[Pair, None] = {}
        for pair in holds:
            if demand[pair] > 0 and out[pair[0]] > 0 and into[pair[1]] > 0:
                _take(pair, taken, out, into)
        booked_out, booked_into = _booked(demands, chosen, ports, circuits)
        for pair, is_dark in _wanted(demand, out, into, circuits.ready_s, circuits.now_s):
            src, dst = pair
            is_booked = src in booked_out or dst in booked_into
            if pair in taken or (is_dark and is_booked) or not (out[src] > 0 and into[dst] > 0):
                continue
            _take(pair, taken, out, into)
        chosen.append(taken)
        if not (out.any() and into.any()):
            break
    chosen += [{} for _ in range(len(demands) - len(chosen))]
    return chosen


def _take(pair: Pair, taken: dict[Pair, None], out: Floats, into: Floats) -> None:
    taken[pair] = None
    out[pair[0]] -= 1
    into[pair[1]] -= 1


def _wanted(
    demand: Floats, out: Floats, into: Floats, ready_s: Mapping[Pair, float], at_s: float
) -> list[tuple[Pair, bool]]:
    """Pairs with bytes to send and free ports, the ones to serve first first, and who is dark."""
    sources, sinks = np.flatnonzero(out > 0), np.flatnonzero(into > 0)
    rows, columns = np.nonzero(demand[np.ix_(sources, sinks)])
    src, dst = sources[rows], sinks[columns]
    pairs = list(zip(src.tolist(), dst.tolist(), strict=True))
    dark = np.array([ready_s.get(pair, inf) > at_s for pair in pairs], bool)
    order = np.lexsort((src, (dst - src) % len(demand), -demand[src, dst], dark))
    return [(pairs[at], bool(dark[at])) for at in order]


def _booked(
    demands: Sequence[Floats],
    chosen: Sequence[Mapping[Pair, None]],
    ports: Ports,
    circuits: Circuits,
) -> tuple[set[int], set[int]]:
    """The ports, out and in, that coflows which have chosen will take within δ.

    They do so in order, each as if only pairs of those so far ended, and it got a port then.
    """
    booked: tuple[set[int], set[int]] = set(), set()
    for place, demand in enumerate(demands[: len(chosen)]):
        holding = [pair for taken in chosen[: place + 1] for pair in taken]
        left = demand.copy()
        for pair in chosen[place]:
            left[pair] = 0
        for end_s, coflow, ended in circuits.ending:
            if coflow > place or ended not in chosen[coflow]:
                continue
            holding.remove(ended)
            for _ in range(2):  # two ports are free
                free = np.array(ports.out), np.array(ports.into)
                for side in (0, 1):
                    free[side][[pair[side] for pair in holding] + list(booked[side])] = 0
                wanted = _wanted(left, *free, circuits.ready_s, end_s)
                there = [pair for pair, _ in wanted if pair[0] == ended[0] or pair[1] == ended[1]]
                for pair in there[:1]:
                    booked[0].add(pair[0])
                    booked[1].add(pair[1])
    return booked
