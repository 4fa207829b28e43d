"""Which circuits there should be, all at once: a simple version of ``policies.sunflow``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from railyard.netemu.model.arrays import Floats

#: A circuit: the rack that sends and the rack that receives.
Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Ports:
    """How many circuits each rack's port can carry now: W, or 0 if it has failed."""

    out: Sequence[int]
    into: Sequence[int]


def match(
    demands: Sequence[Floats],
    held: Sequence[Mapping[Pair, None]],
    up: Mapping[Pair, None],
    ports: Ports,
) -> list[dict[Pair, None]]:
    """The pairs that each coflow should have a circuit for, in the order in which they are taken.

    ``demands[k][src, dst]`` is what the k-th coflow has left to send; ``held[k]`` are the pairs it
    has circuits for, or is setting up; ``up`` are all circuits that would carry at once.  A pair
    takes at most one circuit of each coflow.

    Within a coflow: pairs whose circuit is up, then by size, the largest first, then by distance
    (dst - src) modulo racks, then by src.
    """
    out, into = np.array(ports.out), np.array(ports.into)
    chosen: list[dict[Pair, None]] = []
    for demand, holds in zip(demands, held, strict=True):
        taken: dict[Pair, None] = {}
        for pair in holds:
            if demand[pair] > 0 and out[pair[0]] > 0 and into[pair[1]] > 0:
                _take(pair, taken, out, into)
        for pair in _wanted(demand, out, into, up):
            if pair not in taken and out[pair[0]] > 0 and into[pair[1]] > 0:
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


def _wanted(demand: Floats, out: Floats, into: Floats, up: Mapping[Pair, None]) -> list[Pair]:
    """Pairs with bytes to send and free ports, the ones to serve first first."""
    sources, sinks = np.flatnonzero(out > 0), np.flatnonzero(into > 0)
    rows, columns = np.nonzero(demand[np.ix_(sources, sinks)])
    src, dst = sources[rows], sinks[columns]
    size = demand[src, dst]
    dark = np.array([pair not in up for pair in zip(src.tolist(), dst.tolist(), strict=True)], bool)
    order = np.lexsort((src, (dst - src) % len(demand), -size, dark))
    return list(zip(src[order].tolist(), dst[order].tolist(), strict=True))
