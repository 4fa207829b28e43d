"""``fifo``, compiled: rates that would come out the same are kept."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.rows import RATE, WEIGHT
from railyard.netemu.model.traffic import Traffic
from railyard.netemu.schedulers.fast.loops.filling import fill, scratch
from railyard.netemu.schedulers.fast.loops.grouparrays import GroupArrays, GroupRates, grown
from railyard.netemu.schedulers.fast.loops.rows import (
    change_rate,
    load_links,
    remaining_bytes,
    sum_up,
)
from railyard.netemu.schedulers.filling import by_arrival
from railyard.netemu.schedulers.reference.fifo import Fifo


@njit(cache=True)
def serve_in_order(
    order: Numbers,
    tables: List,
    paths: List,
    counts: Numbers,
    changed: Bools,
    anew: Bools,
    held: Bools,
    found: Floats,
    rates: GroupRates,
    left: Floats,
    rounding: Floats,
    now_s: float,
) -> int:
    """Let groups, by index, take what those before them have ``left``.

    Returns how many are ``touched``.  ``anew`` marks those that must be served again; ``held``
    [index, link], the links that limit a group; ``found`` [index, link], the bytes/s that were
    left for it at the last decision.
    """
    touched_count = 0
    _, loads, bytes_per_s, first_finish_s, touched = rates
    for index in order:
        table, count, load = tables[index], counts[index], loads[index]
        serve = anew[index]
        opened = False
        for link in range(len(left)):
            was = found[index, link]
            if abs(left[link] - was) <= rounding[link] or left[link] == was:
                left[link] = was
            else:
                serve |= held[index, link]
                opened |= was == 0
                found[index, link] = left[link]
            serve |= left[link] < load[link] - rounding[link]
        if serve or (opened and _opens(table, paths[index], count, left)):
            _serve(table, paths[index], count, left, held[index], now_s)
            load_links(table, paths[index], count, load)
            serve = True
        if serve or changed[index]:
            bytes_per_s[index], first_finish_s[index] = sum_up(table, count)
            touched[touched_count] = index
            touched_count += 1
        for link in range(len(left)):
            left[link] -= load[link]
            if left[link] <= rounding[link]:
                left[link] = 0.0
            else:
                held[index, link] = False
    return touched_count


@njit(cache=True)
def _opens(table: Floats, paths: Numbers, count: int, left: Floats) -> bool:
    """Whether a row with rate 0 has something left on its whole path."""
    for row in range(count):
        if table[RATE, row] == 0:
            least = np.inf
            for position in range(len(paths)):
                least = min(least, left[paths[position, row]])
            if least > 0:
                return True
    return False


@njit(cache=True)
def _serve(
    table: Floats, paths: Numbers, count: int, left: Floats, held: Bools, now_s: float
) -> None:
    """Give a group's rows what they can use, in proportion to what they have left to send."""
    bytes_left = remaining_bytes(table, count, now_s)
    levels, rates = np.full(len(left), np.inf), np.empty(count)
    fill(paths, bytes_left, left.copy(), levels, rates, *scratch(len(left)))
    for link in range(len(left)):
        held[link] = 0 < levels[link] < np.inf
    for row in range(count):
        rate = rates[row] * bytes_left[row] / table[WEIGHT, row]
        if rate != table[RATE, row]:
            change_rate(table, row, rate, now_s)


class CompiledFifo(Fifo):
    """Coflows in the order in which their first flows came."""

    def __init__(self) -> None:
        self._arrays = GroupArrays(0)
        self._held = np.zeros((0, 0), dtype=np.bool_)
        self._found: Floats = np.zeros((0, 0))

    def decide(self, traffic: Traffic) -> float:
        """Serve coflows by arrival."""
        links = len(traffic.capacities)
        if self._held.shape[1] != links:
            self._arrays = GroupArrays(links)
            self._held = np.zeros((0, links), dtype=np.bool_)
            self._found = np.zeros((0, links))
        arrays = self._arrays
        arrays.update(traffic)
        more = len(arrays.counts) - len(self._held)
        if more:
            self._held, self._found = grown(self._held, more), grown(self._found, more)
        left = traffic.capacities.copy()
        anew = arrays.fresh | (arrays.changed & ~arrays.only_ended)
        arrays.fresh[:] = False
        touched = serve_in_order(
            arrays.indices(sorted(traffic.groups, key=by_arrival)),
            arrays.tables,
            arrays.paths,
            arrays.counts,
            arrays.changed,
            anew,
            self._held,
            self._found,
            arrays.rates,
            left,
            arrays.rounding,
            traffic.now_s,
        )
        arrays.hand_over(touched)
        return np.inf
