"""What compiled loops do to the rows of a group (see ``netemu.model.rows``)."""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import FINISH_S, NEEDS, RATE, SERVED, SINCE_S, TOTAL, WEIGHT
from railyard.netemu.model.ties import SAME_BYTES, SAME_SHARE
from railyard.netemu.schedulers.fast.loops.borrowing import borrows

#: Bytes that a row still has to send at least, as long as it has not ended.
_LEAST_BYTES = 1e-6


@borrows
def sent_since(table: Floats, row: int, now_s: float) -> float:
    """Bytes per unit of weight that a row has sent since its rate was set.

    0 if no time has passed: 0 s times an unlimited rate would be nan.
    """
    passed_s = now_s - table[SINCE_S, row]
    sent: float = table[RATE, row] * passed_s if passed_s > 0 else 0.0
    return sent


@borrows
def differs(rate: float, before: float, rounding: float) -> bool:
    """Whether a rate differs from the one before by more than this share of it."""
    if before == np.inf:
        return rate < np.inf
    return abs(rate - before) > before * rounding


@borrows
def change_rate(table: Floats, row: int, rate: float, now_s: float) -> None:
    """Serve a row at these bytes/s per unit of weight from now on; see ``ServedRows._finish_s``."""
    sent, slower = sent_since(table, row, now_s), rate < table[RATE, row]
    table[SERVED, row] += sent
    table[SINCE_S, row] = now_s
    table[RATE, row] = rate
    needed = max(table[NEEDS, row] - table[SERVED, row], 0.0)
    if slower and needed <= sent * SAME_SHARE and needed * table[WEIGHT, row] <= SAME_BYTES:
        table[FINISH_S, row] = now_s
    elif rate > 0:
        table[FINISH_S, row] = now_s + needed / rate
    else:
        table[FINISH_S, row] = np.inf


@njit(cache=True)
def remaining_bytes(table: Floats, count: int, now_s: float) -> Floats:
    """Bytes that each row has left to send: more than 0, but for rows that have ended."""
    remaining = np.empty(count)
    for row in range(count):
        served, weight = table[SERVED, row] + sent_since(table, row, now_s), table[WEIGHT, row]
        remaining[row] = max(table[TOTAL, row] - served * weight, _LEAST_BYTES)
        if weight == 0:
            remaining[row] = 0.0
    return remaining


@njit(cache=True, fastmath={"reassoc", "nnan", "nsz"})  # several rows at a time: twice as fast
def sum_up(table: Floats, count: int) -> tuple[float, float]:
    """Bytes/s of all rows together, and the time at which the first of them finishes."""
    return total_rate(table, count), first_finish(table, count)


@njit(cache=True, fastmath={"reassoc", "nnan", "nsz"})
def total_rate(table: Floats, count: int) -> float:
    """Bytes/s of all rows together."""
    rates, weights, bytes_per_s = table[RATE, :count], table[WEIGHT, :count], 0.0
    for row in range(count):
        bytes_per_s += rates[row] * weights[row]
    return bytes_per_s


@njit(cache=True, fastmath={"reassoc", "nnan", "nsz"})
def first_finish(table: Floats, count: int) -> float:
    """The time at which the first row finishes, in seconds; inf if none does."""
    finish_s, first_s = table[FINISH_S, :count], np.inf
    for row in range(count):
        first_s = min(first_s, finish_s[row])
    return first_s


@njit(cache=True)
def load_links(table: Floats, paths: Numbers, count: int, load: Floats) -> None:
    """Sum up the bytes/s that rows put on each link, into ``load``."""
    load[:] = 0.0
    for row in range(count):
        bytes_per_s = table[RATE, row] * table[WEIGHT, row]
        if bytes_per_s > 0:
            for position in range(len(paths)):
                load[np.uint32(paths[position, row])] += (
                    bytes_per_s  # unsigned: numba checks for no negative index
                )
    load[-1] = 0.0  # stands for no link
