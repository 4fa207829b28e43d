"""``maxmin`` and ``aalo`` with many open flows: groups in order share what is left alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numba.typed import List

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.fast.loops.leveling import Memory, level_in_order
from railyard.netemu.schedulers.fast.loops.slots import Rates, Slots, all_grown
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
    """What slots are given."""

    tables: List  #: by slot: Floats, [column, row], see ``netemu.model.rows``
    entries: List  #: by slot: Numbers, see ``linklists.link_rows``
    rates: Rates


class Levels:
    """What is known of the levels of slots on one sheet, from decision to decision."""

    def __init__(self, links: int) -> None:
        rows, crossed = np.zeros(0, dtype=np.int64), np.zeros((0, links), dtype=np.int64)
        levels = np.zeros((0, links))
        self._memory = Memory(rows, rows, crossed, crossed, crossed, levels, levels)
        self._work: Floats = np.zeros((2, 0))

    def update(self, slots: Slots) -> None:
        """Have room for all slots, and forget where the rows were of those that have moved."""
        more = len(slots.counts) - len(self._memory.known)
        if more:
            self._memory = all_grown(self._memory, more)
        memory = self._memory
        for slot in slots.moved:
            memory.linked[slot] = memory.known[slot] = 0
            memory.begins[slot] = memory.sizes[slot] = memory.crossing[slot] = 0
        if self._work.shape[1] < slots.most_rows:
            self._work = np.empty((2, 2 * slots.most_rows))

    def level(self, order: Numbers, slots: Slots, sheet: Sheet, left: Floats, now_s: float) -> int:
        """Let slots in this order share what is ``left``; returns how many are touched."""
        return level_in_order(
            order,
            sheet.tables,
            slots.paths,
            sheet.entries,
            slots.counts,
            slots.changed,
            self._memory,
            sheet.rates,
            left,
            slots.rounding,
            now_s,
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
        sheet = Sheet(slots.tables, slots.entries, slots.rates)
        left, numbers = traffic.capacities.copy(), slots.numbers(order)
        return slots.hand_over(self._levels.level(numbers, slots, sheet, left, traffic.now_s))
