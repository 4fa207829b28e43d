"""``maxmin``, compiled; and how groups share links max-min one after the other, as in ``aalo``.

Only rows that a change can reach get other rates (``loops.leveling``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.fast.loops.grouparrays import GroupArrays, all_grown
from railyard.netemu.schedulers.fast.loops.levelorder import (
    Changes,
    share_by_parts,
    share_in_order,
)
from railyard.netemu.schedulers.fast.loops.linklists import (
    add_lists,
    new_lists,
    no_memory,
    work_for,
)
from railyard.netemu.schedulers.filling import rounding_of
from railyard.netemu.schedulers.reference.maxmin import MaxMin


class CompiledMaxMin(MaxMin):
    """Max-min fair sharing of all flows, which are one group."""

    rows_stay = True

    def __init__(self) -> None:
        self._sharing = Sharing(passes=1)

    def decide(self, traffic: Traffic) -> float:
        """Share all links among all flows; only what a change can reach is computed."""
        self._sharing.serve(list(traffic.groups), traffic)
        return np.inf


class Sharing:
    """Groups that share links in some order, in one pass or in two; see ``levelorder``."""

    def __init__(self, passes: int) -> None:
        self._passes = passes
        self._known: Floats | None = None  #: the capacities, of all links, at the last decision
        #: bytes/s of the links up to the last that has a limit, and of one that stands for no link:
        #: those of nodes come last, and where they have none, loops look at half of the links
        self.capacities: Floats = np.zeros(0)
        self.rounding: Floats = np.zeros(0)  #: bytes/s of each of these that count as none
        self._begin(0)

    def serve(self, order: Sequence[Group], traffic: Traffic) -> list[Group]:
        """Let groups share what those before them leave.

        Returns the groups that have changed, or have other rates.
        """
        indices = self._update(order, traffic)
        arrays = self.arrays
        touched = share_in_order(
            indices,
            False,
            arrays.tables,
            arrays.paths,
            self.lists,
            self.changes,
            self.memory,
            arrays.rates,
            self.capacities.copy(),
            self.rounding,
            traffic.now_s,
            self.work,
        )
        return arrays.hand_over(touched)

    def serve_queues(
        self, order: Sequence[Group], ends: Numbers, parts: Floats, traffic: Traffic
    ) -> list[Group]:
        """Let groups share their queue's part of the links, then all of them what is left.

        ``ends`` says up to where each queue has the groups in the order, and ``parts`` its share
        of the links.  Returns the groups that have changed, or have other rates.
        """
        indices = self._update(order, traffic)
        arrays = self.arrays
        touched = share_by_parts(
            indices,
            False,
            ends,
            parts,
            self.capacities,
            arrays.tables,
            arrays.paths,
            self.lists,
            self.changes,
            self.memory,
            arrays.rates,
            self.rounding,
            traffic.now_s,
            self.work,
        )
        return arrays.hand_over(touched)

    # Inside --------------------------------------------------------------------------------------
    def _begin(self, links: int) -> None:
        """Start without groups, for so many links."""
        self.arrays, self.lists = GroupArrays(links), new_lists()
        self.memory = no_memory(self._passes, len(self.capacities))
        self.work = work_for(0, len(self.capacities))

    def _update(self, order: Sequence[Group], traffic: Traffic) -> Numbers:
        """Make room for all groups, and forget rows that have moved; returns their indices."""
        if traffic.capacities is not self._known:
            self._take_capacities(traffic.capacities)
        arrays = self.arrays
        arrays.update(traffic)
        more = len(arrays.counts) - len(self.memory.linked)
        if more:
            self.memory = all_grown(self.memory, more)
            add_lists(self.lists, more)
        memory = self.memory
        for index in arrays.moved:
            memory.linked[index] = memory.begins[index] = memory.sizes[index] = 0
            memory.anew[index] = True
        if len(self.work.rows) < arrays.most_rows:
            self.work = work_for(2 * arrays.most_rows, len(self.capacities))
        self.changes = Changes(arrays.counts, arrays.changed, arrays.only_ended)
        return arrays.indices(order)

    def _take_capacities(self, capacities: Floats) -> None:
        """Follow the capacities of all links."""
        self._known, before = capacities, len(self.capacities)
        limited = np.flatnonzero(np.isfinite(capacities))
        shared = limited[-1] + 1 if len(limited) else 0
        self.capacities = np.append(capacities[:shared], np.inf)
        self.rounding = rounding_of(self.capacities)
        if len(self.capacities) != before:
            self._begin(len(capacities))
