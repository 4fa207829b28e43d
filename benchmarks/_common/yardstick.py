"""The yardstick of bounds on CPU time: fixed loops of a third of a second, in the same run.

A bound in seconds says nothing on a faster or slower machine, so CPU seconds are held against a
multiple of the yardstick's.  A third of it is plain Python, a third numpy on small arrays and a
third a loop that numba compiles, as are the programs that are measured; nothing of theirs is in
it, so that they cannot make it quicker.  It takes three turns before them and three after.  The
least counts, with which ratios are largest, and a row says how far the turns are apart.
"""

from __future__ import annotations

import functools
import heapq
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.cluster.compiling import set_up_numba

#: CPU seconds of the yardstick on the machine that bounds in seconds were written on, which was
#: gone when there was a yardstick.  GNU sort (``benchmarks.engine``) took 1.32 s there and 2.04 s
#: where the yardstick took 0.323 s (2026-11-27, the median of 20 runs).
WRITTEN_AT_S = 0.323 * 1.32 / 2.04

_PER_S = {"s": 1.0, "ms": 1e3}
_PYTHON_TURNS, _NUMPY_TURNS, _COMPILED_TURNS = 170_000, 13_000, 2_000
_TURNS = 3
_FLOWS, _LINKS = 200, 300

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


def cpu_row(
    name: str, cpu_s: float, bound_s: float | None = None, *, unit: str = "s", note: str = ""
) -> Row:
    """CPU seconds, and how many they may be where the yardstick takes ``WRITTEN_AT_S``.

    Only for ``by_yardstick``, which makes a ratio of it.  Shown in s or ms.
    """
    return bench_row(name, cpu_s * _PER_S[unit], unit, note=note) | {"bound_s": bound_s}


def by_yardstick(
    measure: Callable[[], list[Row]], yardstick_s: Callable[[], float] | None = None
) -> list[Row]:
    """Rows that ``measure`` makes, those of ``cpu_row`` by the yardstick, and one of itself."""
    turn_s = yardstick_s or _turn_s
    turns_s = [turn_s() for _ in range(_TURNS)]
    rows = measure()
    turns_s += [turn_s() for _ in range(_TURNS)]
    least_s = min(turns_s)
    every = ", ".join(f"{each_s:.3f}" for each_s in turns_s)
    yardstick = bench_row(
        "yardstick: CPU",
        least_s,
        "s",
        note=f"{every}: up to {max(turns_s) / least_s - 1:.1%} more;"
        f" bounds were written at {WRITTEN_AT_S:.3f} s; load {os.getloadavg()[0]:.1f}",
    )
    return [*(_relative(row, least_s) for row in rows), yardstick]


def _relative(row: Row, yardstick_s: float) -> Row:
    if "bound_s" not in row:
        return row
    bound_s = row["bound_s"]
    return bench_row(
        row["name"],
        row["value"],
        row["unit"],
        reference=yardstick_s * _PER_S[row["unit"]],
        ratio_bound=None if bound_s is None else bound_s / WRITTEN_AT_S,
        note=row["note"],
    )


# The loop ----------------------------------------------------------------------------------------
def _turn_s() -> float:
    """CPU seconds of the yardstick, its loop compiled before."""
    filled = _compiled_filling()
    begun_s = time.process_time()
    in_python(_PYTHON_TURNS)
    in_numpy(_NUMPY_TURNS)
    in_turns(filled, _COMPILED_TURNS)
    return time.process_time() - begun_s


def in_python(turns: int) -> float:
    """Events of a heap that change objects in dictionaries; returns the time of the last one."""
    dice = random.Random(1)
    slots = {f"n{number}": [4, 0] for number in range(64)}
    names = list(slots)
    heap = [(dice.random(), number, names[number % 64]) for number in range(256)]
    heapq.heapify(heap)
    at_s = 0.0
    for number in range(turns):
        at_s, _, name = heapq.heappop(heap)
        slot = slots[name]
        if slot[0]:
            slot[0] -= 1
            slot[1] += number % 7
        else:
            slot[0] = sum(len(each) for each in (name, *names[:3]))
        heapq.heappush(heap, (at_s + dice.random(), number, names[slot[1] % 64]))
    return at_s


def in_numpy(turns: int) -> float:
    """Shares of links by arrays of some hundreds of rows; returns what the last turn left."""
    links, left = _drawn()
    for _ in range(turns):
        used = np.bincount(links[:, 0], minlength=_LINKS)
        shares = left / np.maximum(used, 1)
        rates = np.minimum(shares[links[:, 0]], shares[links[:, 1]])
        order = np.argsort(rates, kind="stable")
        left = left * 0.5 + 0.5 * rates[order[-1]]
    return float(left.sum())


def in_turns(filled: Callable[[Numbers, Floats], float], turns: int) -> float:
    """Fill the links so many times; returns the sum of all flows' rates."""
    links, left = _drawn()
    return sum(filled(links, left) for _ in range(turns))


def fill(links: Numbers, left: Floats) -> float:
    """Progressive filling, link by link; returns the sum of the rates of flows over two links."""
    rest, rates = left.copy(), np.full(len(links), -1.0)
    total = 0.0
    while True:
        rising = np.zeros(len(rest))
        for flow in range(len(links)):
            if rates[flow] < 0:
                rising[links[flow, 0]] += 1
                rising[links[flow, 1]] += 1
        lowest, share = -1, np.inf
        for link in range(len(rest)):
            if rising[link] > 0 and rest[link] / rising[link] < share:
                lowest, share = link, rest[link] / rising[link]
        if lowest < 0:
            return total
        for flow in range(len(links)):
            if rates[flow] < 0 and (links[flow, 0] == lowest or links[flow, 1] == lowest):
                rates[flow] = share
                rest[links[flow, 0]] -= share
                rest[links[flow, 1]] -= share
                total += share


@functools.cache
def _compiled_filling() -> Callable[[Numbers, Floats], float]:
    set_up_numba("yardstick", Path(__file__))
    from numba import njit

    filled = cast(Callable[[Numbers, Floats], float], njit(fill))
    in_turns(filled, 1)
    return filled


def _drawn() -> tuple[Numbers, Floats]:
    """Two links of each flow, and what each link has: ``(_FLOWS, 2)`` and ``(_LINKS,)``."""
    dice = np.random.default_rng(1)
    return dice.integers(0, _LINKS, (_FLOWS, 2)), dice.uniform(0.5, 1.0, _LINKS)
