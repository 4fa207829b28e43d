"""The problem of ``exact`` as a table, [ROWS, sites], and its bounds for a given time T.

Names of rows are those of the formula there.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from railyard.netemu.model.arrays import Floats, Numbers

SLOTS, OUT, UP, IN, DOWN, LEAST, MOST, LOCAL, HOME = range(9)
ROWS = 9
#: A sum of shares, which should be 1, may be off by this much for rounding.
ROUNDING = 1e-13


@njit(cache=True)
def bounds_at(table: Floats, time_s: float) -> tuple[Floats, Floats, Floats, Floats]:
    """The least and the most share of each site at T, and by how much these change per second."""
    count = table.shape[1]
    low, high, falls, rises = np.empty(count), np.empty(count), np.empty(count), np.empty(count)
    for site in range(count):
        keeps = table[OUT, site] - table[UP, site] * time_s
        low[site] = max(0.0, table[LEAST, site], keeps)
        falls[site] = table[UP, site] if keeps >= low[site] and keeps > 0 else 0.0
        gets = table[IN, site] + table[DOWN, site] * time_s
        most = min(1.0, table[MOST, site]) if table[SLOTS, site] > 0 else 0.0
        high[site] = min(most, gets)
        rises[site] = table[DOWN, site] if gets <= most else 0.0
    return low, high, falls, rises


@njit(cache=True)
def loosest_s(table: Floats) -> float:
    """A time from which on the bounds get no wider."""
    last_s = 0.0
    for site in range(table.shape[1]):
        if table[UP, site] > 0:
            last_s = max(last_s, table[OUT, site] / table[UP, site])
        if table[DOWN, site] > 0:
            last_s = max(last_s, (1.0 - table[IN, site]) / table[DOWN, site])
    return last_s


@njit(cache=True)
def local_share(
    table: Floats,
    order: Numbers,
    bounds: tuple[Floats, Floats, Floats, Floats],
    load: float,
) -> tuple[float, float, float]:
    """The largest share of all bytes that can be read where it lies, at T and w = ``load``.

    With it, by how much it grows per second of T and per unit of w.  ``order``: the sites,
    that with the largest ``LOCAL`` first.
    """
    low, high, falls, rises = bounds
    left, value = 1.0, 0.0
    for site in range(len(low)):
        left -= low[site]
        value += table[LOCAL, site] * min(low[site], table[HOME, site])
    last, price = len(order), 0.0
    for rank in range(len(order)):
        site = order[rank]
        top = min(high[site], load * table[SLOTS, site], table[HOME, site])
        room = max(0.0, top - low[site])
        if room >= left:
            last, price = rank, table[LOCAL, site]
            value += price * left
            break
        left -= room
        value += table[LOCAL, site] * room
    by_time, by_load = 0.0, 0.0
    for rank in range(len(order)):
        site = order[rank]
        more, home = table[LOCAL, site] - price, table[HOME, site]
        takes = load * table[SLOTS, site]
        if low[site] > home:  # as little as it may: it reads from elsewhere
            by_time += price * falls[site]
        elif rank < last and takes < min(home, high[site]):
            by_load += more * table[SLOTS, site]
        elif rank < last and high[site] < home:
            by_time += more * rises[site]
        elif rank > last:
            by_time -= more * falls[site]
    return value, by_time, by_load


@njit(cache=True)
def shares_at(
    table: Floats, order: Numbers, bounds: tuple[Floats, Floats, Floats, Floats], load: float
) -> Floats:
    """The shares at T and w that have the most bytes read where they lie.

    What is left open goes where the load of a slot is least.
    """
    low, high = bounds[0], bounds[1]
    count = len(low)
    shares, caps = np.minimum(low, high), np.empty(count)
    for site in range(count):
        caps[site] = max(shares[site], min(high[site], load * table[SLOTS, site]))
    left = 1.0 - shares.sum()
    begin = 0
    while begin < count and left > 0:
        end = begin
        while end < count and table[LOCAL, order[end]] == table[LOCAL, order[begin]]:
            end += 1
        equals = order[begin:end]
        left -= _raise(table, equals, shares, np.minimum(caps, table[HOME]), left)
        begin = end
    if left > 0:
        _raise(table, order, shares, caps, left)
    return shares


@njit(cache=True)
def _raise(table: Floats, sites: Numbers, shares: Floats, caps: Floats, total: float) -> float:
    """Raise shares of these sites by ``total`` together, if the caps allow; returns by how much.

    All that are raised, and not to their cap, end at the same load of a slot.
    """
    room = 0.0
    for site in sites:
        room += max(0.0, caps[site] - shares[site])
    if room <= total + ROUNDING:
        for site in sites:
            shares[site] = max(shares[site], caps[site])
        return room
    loads, slopes, count = np.empty(2 * len(sites)), np.empty(2 * len(sites)), 0
    for site in sites:
        slots = table[SLOTS, site]
        if caps[site] > shares[site]:
            loads[count], slopes[count] = shares[site] / slots, slots
            loads[count + 1], slopes[count + 1] = caps[site] / slots, -slots
            count += 2
    ranks = np.argsort(loads[:count])
    slope, filled, level = 0.0, 0.0, loads[ranks[0]]
    for rank in ranks:
        if filled + slope * (loads[rank] - level) >= total:
            break
        filled += slope * (loads[rank] - level)
        level = loads[rank]
        slope += slopes[rank]
    level += (total - filled) / slope
    for site in sites:
        shares[site] = max(shares[site], min(caps[site], level * table[SLOTS, site]))
    return total
