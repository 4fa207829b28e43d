"""``fifo`` with many open flows: rates that would come out the same are kept."""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.rows import RATE, WEIGHT
from railyard.netemu.model.traffic import Traffic
from railyard.netemu.schedulers.fast.loops.filling import fill, scratch
from railyard.netemu.schedulers.fast.loops.rows import (
    change_rate,
    load_links,
    remaining_bytes,
    sum_up,
)
from railyard.netemu.schedulers.fast.loops.slots import Rates, Slots, grown
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
    rates: Rates,
    left: Floats,
    rounding: Floats,
    now_s: float,
) -> int:
    """Let slots take what those before them have ``left``; returns how many are ``touched``.

    ``anew`` says which must get other rates, ``held`` which links limit each of them, and
    ``found`` what there was left of each link at the last decision.
    """
    those = 0
    _, loads, bytes_per_s, first_finish_s, touched = rates
    for slot in order:
        table, count, load = tables[slot], counts[slot], loads[slot]
        serve = anew[slot]
        opened = False
        for link in range(len(left)):
            was = found[slot, link]
            if abs(left[link] - was) <= rounding[link] or left[link] == was:
                left[link] = was
            else:
                serve |= held[slot, link]
                opened |= was == 0
                found[slot, link] = left[link]
            serve |= left[link] < load[link] - rounding[link]
        if serve or (opened and _opens(table, paths[slot], count, left)):
            _serve(table, paths[slot], count, left, held[slot], now_s)
            load_links(table, paths[slot], count, load)
            serve = True
        if serve or changed[slot]:
            bytes_per_s[slot], first_finish_s[slot] = sum_up(table, count)
            touched[those] = slot
            those += 1
        for link in range(len(left)):
            left[link] -= load[link]
            if left[link] <= rounding[link]:
                left[link] = 0.0
            else:
                held[slot, link] = False
    return those


@njit(cache=True)
def _opens(table: Floats, paths: Numbers, count: int, left: Floats) -> bool:
    """Whether a row that waits need not do so any more."""
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
    """Give a slot's rows what they can use, in proportion to what they have left to send."""
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
        self._slots = Slots(0)
        self._held = np.zeros((0, 0), dtype=np.bool_)
        self._found: Floats = np.zeros((0, 0))

    def decide(self, traffic: Traffic) -> float:
        """Serve in order."""
        links = len(traffic.capacities)
        if self._held.shape[1] != links:
            self._slots = Slots(links)
            self._held = np.zeros((0, links), dtype=np.bool_)
            self._found = np.zeros((0, links))
        slots = self._slots
        slots.update(traffic)
        more = len(slots.counts) - len(self._held)
        if more:
            self._held, self._found = grown(self._held, more), grown(self._found, more)
        left = traffic.capacities.copy()
        anew = slots.fresh | (slots.changed & ~slots.only_ended)
        slots.fresh[:] = False
        touched = serve_in_order(
            slots.numbers(sorted(traffic.groups, key=by_arrival)),
            slots.tables,
            slots.paths,
            slots.counts,
            slots.changed,
            anew,
            self._held,
            self._found,
            slots.rates,
            left,
            slots.rounding,
            traffic.now_s,
        )
        slots.hand_over(touched)
        return np.inf
