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
from railyard.netemu.schedulers.fast.loops.linklists import add_lists, new_lists, no_memory
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
        self._begin(0)

    def serve(self, order: Sequence[Group], traffic: Traffic) -> list[Group]:
        """Let groups share what those before them leave.

        Returns the groups that have changed, or have other rates.
        """
        indices = self._update(order, traffic)
        arrays = self.arrays
        touched = share_in_order(
            indices,
            arrays.tables,
            arrays.paths,
            self.lists,
            self.changes,
            self.memory,
            arrays.rates,
            traffic.capacities.copy(),
            arrays.rounding,
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
            ends,
            parts,
            traffic.capacities,
            arrays.tables,
            arrays.paths,
            self.lists,
            self.changes,
            self.memory,
            arrays.rates,
            arrays.rounding,
            traffic.now_s,
            self.work,
        )
        return arrays.hand_over(touched)

    # Inside --------------------------------------------------------------------------------------
    def _begin(self, links: int) -> None:
        """Start without groups, for so many links."""
        self.arrays, self.lists = GroupArrays(links), new_lists()
        self.memory = no_memory(self._passes, links)
        self.work: Floats = np.empty((3, 0))

    def _update(self, order: Sequence[Group], traffic: Traffic) -> Numbers:
        """Make room for all groups, and forget rows that have moved; returns their indices."""
        links = len(traffic.capacities)
        if links != self.memory.sizes.shape[1]:
            self._begin(links)
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
        if self.work.shape[1] < arrays.most_rows:
            self.work = np.empty((3, 2 * arrays.most_rows))
        self.changes = Changes(arrays.counts, arrays.changed, arrays.only_ended)
        return arrays.indices(order)
