"""``maxmin`` and ``aalo``, compiled: groups in order, each sharing what is left in a max-min way.

Only rows that a change can reach get other rates (``loops.leveling``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba.typed import List

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.fast.loops.grouparrays import GroupArrays, GroupRates, all_grown
from railyard.netemu.schedulers.fast.loops.leveling import Memory, level_in_order
from railyard.netemu.schedulers.fast.queues import Queues
from railyard.netemu.schedulers.reference.aalo import Aalo
from railyard.netemu.schedulers.reference.maxmin import MaxMin


class CompiledMaxMin(MaxMin):
    """Max-min fair sharing of all flows, which are one group."""

    rows_stay = True

    def __init__(self) -> None:
        self._sharing = _MaxMinInOrder()

    def decide(self, traffic: Traffic) -> float:
        """Share all links among all flows; only what a change can reach is computed."""
        self._sharing.serve(list(traffic.groups), traffic)
        return np.inf


class CompiledAalo(Aalo):
    """Aalo's queues, served strictly one after the other."""

    rows_stay = True

    def __init__(self) -> None:
        self._sharing = _MaxMinInOrder()
        self._queues = Queues()

    def decide(self, traffic: Traffic) -> float:
        """Serve coflows by queue, then by arrival."""
        queues = self._queues
        queues.update(traffic)
        queues.take_rates(self._sharing.serve(queues.order, traffic), traffic.now_s)
        return queues.next_move_s()


class Allocation(NamedTuple):
    """The rates that groups are given."""

    tables: List  #: by index: Floats [column, row], see ``netemu.model.rows``
    entries: List  #: by index: Numbers, see ``linklists.link_rows``
    rates: GroupRates


class Levels:
    """The levels (see ``leveling``) of groups in one allocation, kept between decisions."""

    def __init__(self, links: int) -> None:
        rows, crossed = np.zeros(0, dtype=np.int64), np.zeros((0, links), dtype=np.int64)
        levels = np.zeros((0, links))
        self._memory = Memory(rows, rows, crossed, crossed, crossed, levels, levels)
        self._work: Floats = np.zeros((2, 0))

    def update(self, arrays: GroupArrays) -> None:
        """Make room for all groups, and forget the rows of groups that have moved."""
        more = len(arrays.counts) - len(self._memory.known)
        if more:
            self._memory = all_grown(self._memory, more)
        memory = self._memory
        for index in arrays.moved:
            memory.linked[index] = memory.known[index] = 0
            memory.begins[index] = memory.sizes[index] = memory.crossing[index] = 0
        if self._work.shape[1] < arrays.most_rows:
            self._work = np.empty((2, 2 * arrays.most_rows))

    def level(
        self,
        order: Numbers,
        arrays: GroupArrays,
        allocation: Allocation,
        left: Floats,
        now_s: float,
    ) -> int:
        """Let groups, by index, share what is ``left``; returns how many have other rates."""
        return level_in_order(
            order,
            allocation.tables,
            arrays.paths,
            allocation.entries,
            arrays.counts,
            arrays.changed,
            self._memory,
            allocation.rates,
            left,
            arrays.rounding,
            now_s,
            self._work,
        )


class _MaxMinInOrder:
    """Serves groups in an order, each from what those before it leave."""

    def __init__(self) -> None:
        self._arrays, self._levels, self._links = GroupArrays(0), Levels(0), 0

    def serve(self, order: Sequence[Group], traffic: Traffic) -> list[Group]:
        """Set their rates; returns the groups that have changed, or have other rates."""
        links = len(traffic.capacities)
        if self._links != links:
            self._arrays, self._levels, self._links = GroupArrays(links), Levels(links), links
        arrays = self._arrays
        arrays.update(traffic)
        self._levels.update(arrays)
        allocation = Allocation(arrays.tables, arrays.entries, arrays.rates)
        left, indices = traffic.capacities.copy(), arrays.indices(order)
        return arrays.hand_over(
            self._levels.level(indices, arrays, allocation, left, traffic.now_s)
        )
