"""``maxmin`` and ``aalo`` for crowds: groups in an order, whose flows share what is left alike."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from netemu.schedulers.aalo import Aalo
from netemu.schedulers.base import Floats, Group, Numbers, Traffic
from netemu.schedulers.compiled.leveling import level_in_order
from netemu.schedulers.compiled.queues import Queues
from netemu.schedulers.compiled.slots import Slots, grown
from netemu.schedulers.maxmin import MaxMin


class CompiledMaxMin(MaxMin):
    """All flows are one group."""

    def __init__(self) -> None:
        super().__init__()
        self._line = _Line()

    def decide(self, traffic: Traffic) -> float:
        """Fill, as far as what has changed reaches."""
        self._line.serve(list(traffic.groups), traffic)
        return np.inf


class CompiledAalo(Aalo):
    """Coflows by queue, then by arrival."""

    def __init__(self) -> None:
        super().__init__()
        self._line = _Line()
        self._queues = Queues()

    def decide(self, traffic: Traffic) -> float:
        """Serve in order."""
        queues = self._queues
        queues.update(traffic)
        queues.take_rates(self._line.serve(queues.order, traffic), traffic.now_s)
        return queues.next_move_s()


class _Line:
    """Groups in an order, of which each shares what is left in a max-min way."""

    # By slot, see ``level_in_order``:
    _linked: Numbers
    _known: Numbers
    # By slot and link:
    _begins: Numbers
    _sizes: Numbers
    _crossing: Numbers
    _levels: Floats

    def __init__(self) -> None:
        self._begin(0)
        self._work: Floats = np.zeros((2, 0))

    def serve(self, order: Sequence[Group], traffic: Traffic) -> list[Group]:
        """Set their rates; returns those whose rates have changed, or been kept after others."""
        links = len(traffic.capacities)
        if self._begins.shape[1] != links:
            self._begin(links)
        slots = self._slots
        slots.update(traffic)
        more = len(slots.counts) - len(self._linked)
        if more:
            self._linked, self._known = grown(self._linked, more), grown(self._known, more)
            self._begins, self._sizes = grown(self._begins, more), grown(self._sizes, more)
            self._crossing = grown(self._crossing, more)
            self._levels = grown(self._levels, more)
        for slot in slots.moved:
            self._linked[slot] = self._known[slot] = 0
            self._begins[slot] = self._sizes[slot] = self._crossing[slot] = 0
        if self._work.shape[1] < slots.most_rows:
            self._work = np.empty((2, 2 * slots.most_rows))
        left = traffic.capacities.copy()
        touched = level_in_order(
            slots.numbers(order),
            slots.tables,
            slots.paths,
            slots.entries,
            self._begins,
            self._sizes,
            slots.counts,
            slots.changed,
            slots.fresh,
            self._linked,
            self._known,
            self._crossing,
            self._levels,
            slots.loads,
            left,
            slots.rounding,
            traffic.now_s,
            slots.bytes_per_s,
            slots.first_finish_s,
            slots.touched,
            self._work,
        )
        return slots.tell(touched)

    def _begin(self, links: int) -> None:
        """Know nothing yet."""
        self._slots = Slots(links)
        self._linked = np.zeros(0, dtype=np.int64)
        self._known = np.zeros(0, dtype=np.int64)
        self._begins = np.zeros((0, links), dtype=np.int64)
        self._sizes = np.zeros((0, links), dtype=np.int64)
        self._crossing = np.zeros((0, links), dtype=np.int64)
        self._levels = np.zeros((0, links))
