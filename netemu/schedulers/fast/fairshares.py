"""``maxmin`` and ``aalo`` with many open flows: groups in order share what is left alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba.typed import List

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.fast.loops.leveling import level_in_order
from railyard.netemu.schedulers.fast.loops.slots import Slots, grown
from railyard.netemu.schedulers.fast.queues import Queues
from railyard.netemu.schedulers.reference.aalo import Aalo
from railyard.netemu.schedulers.reference.maxmin import MaxMin


class CompiledMaxMin(MaxMin):
    """All flows are one group."""

    rows_stay = True

    def __init__(self) -> None:
        self._line = _Line()

    def decide(self, traffic: Traffic) -> float:
        """Fill, as far as what has changed reaches."""
        self._line.serve(list(traffic.groups), traffic)
        return np.inf


class CompiledAalo(Aalo):
    """Coflows by queue, then by arrival."""

    rows_stay = True

    def __init__(self) -> None:
        self._line = _Line()
        self._queues = Queues()

    def decide(self, traffic: Traffic) -> float:
        """Serve in order."""
        queues = self._queues
        queues.update(traffic)
        queues.take_rates(self._line.serve(queues.order, traffic), traffic.now_s)
        return queues.next_move_s()


class Sheet(NamedTuple):
    """What slots are given, by slot."""

    tables: List  #: of Floats, [column, row], as of ``netemu.rowtable``
    entries: List  #: of Numbers: see ``linklists.link_rows``
    fresh: Bools  #: whether nothing is known of them
    loads: Floats  #: bytes/s: [slot, link]
    bytes_per_s: Floats
    first_finish_s: Floats
    touched: Numbers  #: room for the slots whose rates have changed


class Levels:
    """What is known of the levels of slots on one sheet, from decision to decision."""

    def __init__(self, links: int) -> None:
        # By slot, see ``level_in_order``:
        self._linked: Numbers = np.zeros(0, dtype=np.int64)
        self._known: Numbers = np.zeros(0, dtype=np.int64)
        # By slot and link:
        self._begins: Numbers = np.zeros((0, links), dtype=np.int64)
        self._sizes: Numbers = np.zeros((0, links), dtype=np.int64)
        self._crossing: Numbers = np.zeros((0, links), dtype=np.int64)
        self._levels: Floats = np.zeros((0, links))
        self._found: Floats = np.zeros((0, links))
        self._work: Floats = np.zeros((2, 0))

    def update(self, slots: Slots) -> None:
        """Have room for all slots, and forget where the rows were of those that have moved."""
        more = len(slots.counts) - len(self._linked)
        if more:
            self._linked, self._known = grown(self._linked, more), grown(self._known, more)
            self._begins, self._sizes = grown(self._begins, more), grown(self._sizes, more)
            self._crossing = grown(self._crossing, more)
            self._levels, self._found = grown(self._levels, more), grown(self._found, more)
        for slot in slots.moved:
            self._linked[slot] = self._known[slot] = 0
            self._begins[slot] = self._sizes[slot] = self._crossing[slot] = 0
        if self._work.shape[1] < slots.most_rows:
            self._work = np.empty((2, 2 * slots.most_rows))

    def level(self, order: Numbers, slots: Slots, sheet: Sheet, left: Floats, now_s: float) -> int:
        """Let slots in this order share what is ``left``; returns how many are touched."""
        return level_in_order(
            order,
            sheet.tables,
            slots.paths,
            sheet.entries,
            self._begins,
            self._sizes,
            slots.counts,
            slots.changed,
            sheet.fresh,
            self._linked,
            self._known,
            self._crossing,
            self._levels,
            sheet.loads,
            left,
            slots.rounding,
            now_s,
            sheet.bytes_per_s,
            sheet.first_finish_s,
            sheet.touched,
            self._found,
            self._work,
        )


class _Line:
    """Groups in an order, of which each shares what is left in a max-min way."""

    def __init__(self) -> None:
        self._slots, self._levels, self._links = Slots(0), Levels(0), 0

    def serve(self, order: Sequence[Group], traffic: Traffic) -> list[Group]:
        """Set their rates; returns those whose rates have changed, or been kept after others."""
        links = len(traffic.capacities)
        if self._links != links:
            self._slots, self._levels, self._links = Slots(links), Levels(links), links
        slots = self._slots
        slots.update(traffic)
        self._levels.update(slots)
        sheet = Sheet(
            slots.tables,
            slots.entries,
            slots.fresh,
            slots.loads,
            slots.bytes_per_s,
            slots.first_finish_s,
            slots.touched,
        )
        left, numbers = traffic.capacities.copy(), slots.numbers(order)
        return slots.tell(self._levels.level(numbers, slots, sheet, left, traffic.now_s))
