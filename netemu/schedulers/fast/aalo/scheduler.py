"""``aalo`` and ``aalo+weighted``, compiled: coflows in queues share links max-min."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.traffic import Ahead, Group, RowGroup, Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.fast.aalo.ahead import Ends, Progress, Reached, Span, go_ahead
from railyard.netemu.schedulers.fast.aalo.queues import Queues
from railyard.netemu.schedulers.fast.fairshares import Sharing
from railyard.netemu.schedulers.filling import by_arrival
from railyard.netemu.schedulers.reference.aalo import QUEUES, Aalo, WeightedAalo

#: So many rows may end in one call of ``go_ahead``.
_ENDS = 2**14


class _InQueues(FlowScheduler):
    """Coflows in Aalo's queues, which share links in some way."""

    rows_stay = True
    is_weighted: ClassVar[bool]

    def __init__(self) -> None:
        self._sharing = Sharing(passes=2 if self.is_weighted else 1)
        self._queues = Queues()
        many = np.empty(_ENDS, dtype=np.int64)
        self._ends = Ends(np.empty(_ENDS), many, many.copy())

    def decide(self, traffic: Traffic) -> float:
        """Bring the queues up to now, and serve them."""
        self._queues.update(traffic)
        self._queues.take_rates(self._serve(traffic), traffic.now_s)
        return self._queues.next_move_s()

    def go_ahead(self, traffic: Traffic, before_s: float, together_s: float) -> Ahead | None:
        """End rows and move coflows to their next queues, as long as no coflow ends."""
        order, groups = self._queues.order, _simple(traffic)
        if not groups:
            return None
        sharing = self._sharing
        arrays = sharing.arrays
        arrays.changed[:] = False
        indices = arrays.indices(order)
        progress = self._progress(order, indices, groups)
        reached = Reached(
            *go_ahead(
                Span(traffic.now_s, before_s, together_s),
                self.is_weighted,
                indices,
                progress,
                self._ends,
                arrays.tables,
                arrays.paths,
                sharing.lists,
                sharing.changes,
                sharing.memory,
                arrays.rates,
                sharing.capacities,
                sharing.rounding,
                sharing.work,
            )
        )
        if reached.steps == 0:
            return None
        return self._take_over(reached, indices, progress, groups)

    @abstractmethod
    def _serve(self, traffic: Traffic) -> Sequence[Group]:
        """Serve queues; returns the coflows that have changed, or have other rates."""

    # Inside --------------------------------------------------------------------------------------
    def _progress(
        self, order: Sequence[Group], indices: Numbers, groups: dict[Group, RowGroup]
    ) -> Progress:
        """How far each coflow is, by index."""
        room = len(self._sharing.arrays.counts)
        whole, numbers = np.zeros((3, room), dtype=np.int64), np.zeros((4, room))
        progress = Progress(
            queue=whole[0],
            rank=whole[1],
            near_s=numbers[0],
            moves_s=numbers[1],
            sent_bytes=numbers[2],
            sent_s=numbers[3],
            open_rows=whole[2],
            touched=np.zeros(room, dtype=np.bool_),
        )
        ranks = {group: rank for rank, group in enumerate(sorted(order, key=by_arrival))}
        for index, group in zip(indices.tolist(), order, strict=True):
            progress.rank[index], progress.open_rows[index] = ranks[group], groups[group].open_rows
            queue, near_s, moves_s = self._queues.of(group)
            progress.queue[index], progress.near_s[index] = queue, near_s
            progress.moves_s[index] = moves_s
            progress.sent_bytes[index], progress.sent_s[index] = groups[group].sent_as_of()
        return progress

    def _take_over(
        self, reached: Reached, order: Numbers, progress: Progress, groups: dict[Group, RowGroup]
    ) -> Ahead:
        """Have queues and coflows where they are now; ``order`` has their indices."""
        arrays, ends = self._sharing.arrays, self._ends
        place_of = np.empty(len(arrays.counts), dtype=np.int64)
        place_of[arrays.indices(groups)] = np.arange(len(groups))
        in_places = list(groups.values())
        ordered = [in_places[place] for place in place_of[order].tolist()]
        times_s = zip(
            progress.near_s[order].tolist(), progress.moves_s[order].tolist(), strict=True
        )
        self._queues.have_moved(ordered, progress.queue[order].tolist(), times_s)
        for index, group in zip(order.tolist(), ordered, strict=True):
            if progress.touched[index]:
                group.went_ahead(
                    progress.sent_bytes.item(index),
                    progress.sent_s.item(index),
                    arrays.bytes_per_s.item(index),
                    arrays.first_finish_s.item(index),
                    arrays.loads[index].copy(),
                )
        ended = slice(reached.ended)
        return Ahead(
            now_s=reached.now_s,
            events=reached.steps,
            decide_s=reached.next_move_s,
            ends_s=ends.at_s[ended],
            groups=place_of[ends.indices[ended]],
            rows=ends.rows[ended],
        )


class CompiledAalo(_InQueues, Aalo):
    """Aalo's queues, served strictly one after the other."""

    is_weighted = False

    def _serve(self, traffic: Traffic) -> Sequence[Group]:
        return self._sharing.serve(self._queues.order, traffic)


class CompiledWeightedAalo(_InQueues, WeightedAalo):
    """Aalo's queues, which share links by their weights: first their parts, then what is left."""

    is_weighted = True

    def _serve(self, traffic: Traffic) -> Sequence[Group]:
        ends = self._queues.ends()
        parts: Floats = np.array([QUEUES - queue for queue in ends], dtype=float)
        places = np.array(list(ends.values()), dtype=np.int64)  # also if there is none
        return self._sharing.serve_queues(self._queues.order, places, parts / parts.sum(), traffic)


def _simple(traffic: Traffic) -> dict[Group, RowGroup]:
    """All groups, if each of their rows has one flow at most; otherwise none."""
    groups: dict[Group, RowGroup] = {}
    for group in traffic.groups:
        rows = group.as_rows
        if rows is None or rows.has_shared_rows:
            return {}
        groups[group] = rows
    return groups
