"""``maxmin``, ``aalo`` and ``aalo+weighted``, compiled: groups in order share links max-min.

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
from railyard.netemu.schedulers.fast.queues import Queues
from railyard.netemu.schedulers.reference.aalo import QUEUES, Aalo, WeightedAalo
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


class CompiledAalo(Aalo):
    """Aalo's queues, served strictly one after the other."""

    rows_stay = True

    def __init__(self) -> None:
        self._sharing = Sharing(passes=1)
        self._queues = Queues()

    def decide(self, traffic: Traffic) -> float:
        """Serve coflows by queue, then by arrival."""
        queues = self._queues
        queues.update(traffic)
        queues.take_rates(self._sharing.serve(queues.order, traffic), traffic.now_s)
        return queues.next_move_s()


class CompiledWeightedAalo(WeightedAalo):
    """Aalo's queues, which share links by their weights."""

    rows_stay = True

    def __init__(self) -> None:
        self._sharing = Sharing(passes=2)
        self._queues = Queues()

    def decide(self, traffic: Traffic) -> float:
        """Serve each queue from its part of the links, then all from what is left."""
        queues = self._queues
        queues.update(traffic)
        ends = queues.ends()
        parts = np.array([QUEUES - queue for queue in ends], dtype=float)
        served = self._sharing.serve_queues(
            queues.order, np.array(list(ends.values())), parts / parts.sum(), traffic
        )
        queues.take_rates(served, traffic.now_s)
        return queues.next_move_s()


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
        arrays = self._arrays
        touched = share_in_order(
            indices,
            arrays.tables,
            arrays.paths,
            self._lists,
            self._changes,
            self._memory,
            arrays.rates,
            traffic.capacities.copy(),
            arrays.rounding,
            traffic.now_s,
            self._work,
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
        arrays = self._arrays
        touched = share_by_parts(
            indices,
            ends,
            parts,
            traffic.capacities,
            arrays.tables,
            arrays.paths,
            self._lists,
            self._changes,
            self._memory,
            arrays.rates,
            arrays.rounding,
            traffic.now_s,
            self._work,
        )
        return arrays.hand_over(touched)

    # Inside --------------------------------------------------------------------------------------
    def _begin(self, links: int) -> None:
        """Start without groups, for so many links."""
        self._arrays, self._lists = GroupArrays(links), new_lists()
        self._memory = no_memory(self._passes, links)
        self._work: Floats = np.empty((3, 0))

    def _update(self, order: Sequence[Group], traffic: Traffic) -> Numbers:
        """Make room for all groups, and forget rows that have moved; returns their indices."""
        links = len(traffic.capacities)
        if links != self._memory.sizes.shape[1]:
            self._begin(links)
        arrays = self._arrays
        arrays.update(traffic)
        more = len(arrays.counts) - len(self._memory.linked)
        if more:
            self._memory = all_grown(self._memory, more)
            add_lists(self._lists, more)
        memory = self._memory
        for index in arrays.moved:
            memory.linked[index] = memory.begins[index] = memory.sizes[index] = 0
            memory.anew[index] = True
        if self._work.shape[1] < arrays.most_rows:
            self._work = np.empty((3, 2 * arrays.most_rows))
        self._changes = Changes(arrays.counts, arrays.changed, arrays.only_ended)
        return arrays.indices(order)
