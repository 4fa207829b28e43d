"""What compiled loops do to the rows of a group (see ``netemu.rowtable``)."""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.rows import FINISH_S, NEEDS, RATE, SERVED, SINCE_S, TOTAL, WEIGHT

#: What a row that differs from finished by rounding only still has to send.
_LEAST_BYTES = 1e-6


@njit(cache=True)
def sent_since(table: Floats, row: int, now_s: float) -> float:
    """Bytes for each unit of weight that a row has sent since its rate was set.

    0 if no time has passed: 0 s at an unlimited rate would be no number.
    """
    passed_s = now_s - table[SINCE_S, row]
    sent: float = table[RATE, row] * passed_s if passed_s > 0 else 0.0
    return sent


@njit(cache=True)
def differs(rate: float, before: float, rounding: float) -> bool:
    """Whether a rate is another than before, by more than a share that is rounding."""
    if before == np.inf:
        return rate < np.inf
    return abs(rate - before) > before * rounding


@njit(cache=True)
def change_rate(table: Floats, row: int, rate: float, now_s: float) -> None:
    """Serve a row at these bytes/s for each unit of weight from now on."""
    table[SERVED, row] += sent_since(table, row, now_s)
    table[SINCE_S, row] = now_s
    table[RATE, row] = rate
    if rate > 0:
        table[FINISH_S, row] = now_s + max(table[NEEDS, row] - table[SERVED, row], 0.0) / rate
    else:
        table[FINISH_S, row] = np.inf


@njit(cache=True)
def remaining_bytes(table: Floats, count: int, now_s: float) -> Floats:
    """What each row has left to send, more than 0; rows that have ended have nothing."""
    remaining = np.empty(count)
    for row in range(count):
        served, weight = table[SERVED, row] + sent_since(table, row, now_s), table[WEIGHT, row]
        remaining[row] = max(table[TOTAL, row] - served * weight, _LEAST_BYTES)
        if weight == 0:
            remaining[row] = 0.0
    return remaining


@njit(cache=True, fastmath={"reassoc", "nnan", "nsz"})  # several rows at a time: twice as fast
def sum_up(table: Floats, count: int) -> tuple[float, float]:
    """At how many bytes/s all rows send, and when the first of them finishes."""
    rates, weights, bytes_per_s = table[RATE, :count], table[WEIGHT, :count], 0.0
    for row in range(count):
        bytes_per_s += rates[row] * weights[row]
    return bytes_per_s, first_finish(table, count)


@njit(cache=True, fastmath={"reassoc", "nnan", "nsz"})
def first_finish(table: Floats, count: int) -> float:
    """When the first of all rows finishes."""
    finish_s, first_s = table[FINISH_S, :count], np.inf
    for row in range(count):
        first_s = min(first_s, finish_s[row])
    return first_s


@njit(cache=True)
def load_links(table: Floats, paths: Numbers, count: int, load: Floats) -> None:
    """Note what rows put on each link."""
    load[:] = 0.0
    for row in range(count):
        bytes_per_s = table[RATE, row] * table[WEIGHT, row]
        if bytes_per_s > 0:
            for position in range(len(paths)):
                load[np.uint32(paths[position, row])] += bytes_per_s  # never from the end
    load[-1] = 0.0  # stands for no link
