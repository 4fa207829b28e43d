"""``aalo+weighted``, compiled: each coflow gets two allocations, and sends at their sum.

The first is from its queue's part of the links, the second from what all queues leave.  Each has
tables of its own, so that what has not changed is not computed again.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.rows import COLUMNS, RATE, WEIGHT
from railyard.netemu.model.traffic import Traffic
from railyard.netemu.schedulers.fast.fairshares import Allocation, Levels
from railyard.netemu.schedulers.fast.loops.grouparrays import (
    GroupArrays,
    add_arrays,
    all_grown,
    grown,
    new_arrays,
    put_array,
)
from railyard.netemu.schedulers.fast.loops.rows import change_rate, differs, load_links, sum_up
from railyard.netemu.schedulers.fast.queues import Queues
from railyard.netemu.schedulers.reference.aalo import QUEUES, WeightedAalo

#: A rate that would change by less than this share stays.
_STAYS = 1e-12


@njit(cache=True)
def follow_weights(
    changed: Bools,
    tables: List,
    paths: List,
    counts: Numbers,
    known: Numbers,
    copies: List,
    loads: Floats,
) -> None:
    """Copy the weights of changed groups' rows into an allocation (``copies`` and ``loads``).

    Rows after the first ``known`` are new there.
    """
    for index in np.flatnonzero(changed):
        table, ways, copy, load = tables[index], paths[index], copies[index], loads[index]
        for row in range(known[index], counts[index]):
            copy[:, row] = 0.0
            copy[WEIGHT, row] = table[WEIGHT, row]
        for row in range(known[index]):
            more = table[WEIGHT, row] - copy[WEIGHT, row]
            if more == 0:
                continue
            for position in range(len(ways)):
                link = ways[position, row]
                load[link] = max(load[link] + more * copy[RATE, row], 0.0)
            copy[WEIGHT, row] = table[WEIGHT, row]
            if table[WEIGHT, row] == 0:
                copy[RATE, row] = 0.0
        load[-1] = 0.0  # stands for no link
        known[index] = counts[index]


@njit(cache=True)
def add_up(
    indices: Numbers,
    tables: List,
    paths: List,
    counts: Numbers,
    parts: List,
    rests: List,
    now_s: float,
    loads: Floats,
    bytes_per_s: Floats,
    first_finish_s: Floats,
) -> None:
    """Have the rows of these groups send at the sum of their two rates."""
    for index in indices:
        table, part, rest, count = tables[index], parts[index], rests[index], counts[index]
        for row in range(count):
            rate = part[RATE, row] + rest[RATE, row]
            if differs(rate, table[RATE, row], _STAYS):
                change_rate(table, row, rate, now_s)
        load_links(table, paths[index], count, loads[index])
        bytes_per_s[index], first_finish_s[index] = sum_up(table, count)


class _Pass:
    """One of the two allocations."""

    def __init__(self, links: int) -> None:
        self._levels = Levels(links)
        tables, self._paths, entries = new_arrays(len(COLUMNS))
        self.allocation = Allocation(tables, entries, GroupArrays(links).rates)
        self._known: Numbers = np.zeros(0, dtype=np.int64)  #: by index: rows in the allocation

    def update(self, arrays: GroupArrays) -> None:
        """Follow what has changed of groups, their rows and weights."""
        self._levels.update(arrays)
        self._make_room(arrays)
        allocation, known = self.allocation, self._known
        allocation.rates.fresh[arrays.fresh] = True
        for index in arrays.moved:
            allocation.rates.fresh[index] = True
            rows, positions = arrays.room(index)
            put_array(allocation.tables, index, np.zeros((len(COLUMNS), rows)))
            put_array(allocation.entries, index, np.empty((positions, 0), dtype=np.int64))
            allocation.rates.loads[index], known[index] = 0.0, 0
        follow_weights(
            arrays.changed,
            arrays.tables,
            arrays.paths,
            arrays.counts,
            known,
            allocation.tables,
            allocation.rates.loads,
        )

    def level(self, order: Numbers, arrays: GroupArrays, left: Floats, now_s: float) -> Numbers:
        """Let groups share what is ``left`` in this order; returns those with other rates.

        Both are indices of groups.
        """
        touched = self._levels.level(order, arrays, self.allocation, left, now_s)
        return self.allocation.rates.touched[:touched].copy()

    def _make_room(self, arrays: GroupArrays) -> None:
        allocation = self.allocation
        while len(allocation.tables) < len(arrays.tables):
            add_arrays(allocation.tables, self._paths, allocation.entries, len(COLUMNS))
        more = len(arrays.counts) - len(self._known)
        if more:
            self._known = grown(self._known, more)
            rates = all_grown(allocation.rates, more)
            self.allocation = Allocation(allocation.tables, allocation.entries, rates)


class CompiledWeightedAalo(WeightedAalo):
    """Aalo's queues, which share links by their weights."""

    rows_stay = True

    def __init__(self) -> None:
        self._queues = Queues()
        self._begin(0)

    def decide(self, traffic: Traffic) -> float:
        """Serve each queue from its part of the links, then all from what is left."""
        links, now_s = len(traffic.capacities), traffic.now_s
        if links != self._links:
            self._begin(links)
        queues, arrays = self._queues, self._arrays
        queues.update(traffic)
        arrays.update(traffic)
        for each in (self._part, self._rest):
            each.update(arrays)
        arrays.fresh[:] = False
        order = arrays.indices(queues.order)
        spans = queues.spans()
        left, touched = self._share_parts(order, spans, traffic)
        left[left <= arrays.rounding] = 0.0
        touched = np.union1d(touched, self._rest.level(order, arrays, left, now_s))
        arrays.touched[: len(touched)] = touched
        add_up(
            arrays.touched[: len(touched)],
            arrays.tables,
            arrays.paths,
            arrays.counts,
            self._part.allocation.tables,
            self._rest.allocation.tables,
            now_s,
            arrays.loads,
            arrays.bytes_per_s,
            arrays.first_finish_s,
        )
        queues.take_rates(arrays.hand_over(len(touched)), now_s)
        return queues.next_move_s()

    # Inside --------------------------------------------------------------------------------------
    def _begin(self, links: int) -> None:
        """Start without groups, for so many links."""
        self._links = links
        self._arrays, self._part, self._rest = GroupArrays(links), _Pass(links), _Pass(links)

    def _share_parts(
        self, order: Numbers, spans: dict[int, slice], traffic: Traffic
    ) -> tuple[Floats, Numbers]:
        """Serve each queue, a span of the order, from its part of the links.

        Returns the bytes/s that they leave of each link, and the indices of groups with other
        rates.
        """
        touched = [np.zeros(0, dtype=np.int64)]
        total, capacities = sum(QUEUES - queue for queue in spans), traffic.capacities
        left: Floats = np.zeros(len(capacities))
        for queue, span in spans.items():
            part = capacities * ((QUEUES - queue) / total)
            touched.append(self._part.level(order[span], self._arrays, part, traffic.now_s))
            left += part
        return left, np.concatenate(touched)
