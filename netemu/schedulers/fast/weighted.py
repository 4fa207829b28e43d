"""``aalo+weighted`` with many open flows: each coflow is levelled twice, and sends at the sum.

First in its queue's part of the links, then in what all queues leave.  Each time its rows are on a
sheet of their own, so that what has not changed need not be worked out anew.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numba.typed import List

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.rows import COLUMNS, RATE, WEIGHT
from railyard.netemu.model.traffic import Traffic
from railyard.netemu.schedulers.fast.fairshares import Levels, Sheet
from railyard.netemu.schedulers.fast.loops.rows import change_rate, differs, load_links, sum_up
from railyard.netemu.schedulers.fast.loops.slots import (
    Slots,
    add_arrays,
    all_grown,
    grown,
    new_arrays,
    put_array,
)
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
    """Have the rows of slots that have changed weigh on a sheet what they do now.

    Those after the first ``known`` are new there.
    """
    for slot in np.flatnonzero(changed):
        table, ways, copy, load = tables[slot], paths[slot], copies[slot], loads[slot]
        for row in range(known[slot], counts[slot]):
            copy[:, row] = 0.0
            copy[WEIGHT, row] = table[WEIGHT, row]
        for row in range(known[slot]):
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
        known[slot] = counts[slot]


@njit(cache=True)
def add_up(
    slots: Numbers,
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
    """Have the rows of these slots send at the sum of what they have been given."""
    for slot in slots:
        table, part, rest, count = tables[slot], parts[slot], rests[slot], counts[slot]
        for row in range(count):
            rate = part[RATE, row] + rest[RATE, row]
            if differs(rate, table[RATE, row], _STAYS):
                change_rate(table, row, rate, now_s)
        load_links(table, paths[slot], count, loads[slot])
        bytes_per_s[slot], first_finish_s[slot] = sum_up(table, count)


class _Pass:
    """One of the two times."""

    def __init__(self, links: int) -> None:
        self._levels = Levels(links)
        tables, self._paths, entries = new_arrays(len(COLUMNS))
        self.sheet = Sheet(tables, entries, Slots(links).rates)
        self._known: Numbers = np.zeros(0, dtype=np.int64)  #: rows that are on the sheet, by slot

    def update(self, slots: Slots) -> None:
        """Have all that has changed on the sheet."""
        self._levels.update(slots)
        self._make_room(slots)
        sheet, known = self.sheet, self._known
        sheet.rates.fresh[slots.fresh] = True
        for slot in slots.moved:
            sheet.rates.fresh[slot] = True
            rows, positions = slots.room(slot)
            put_array(sheet.tables, slot, np.zeros((len(COLUMNS), rows)))
            put_array(sheet.entries, slot, np.empty((positions, 0), dtype=np.int64))
            sheet.rates.loads[slot], known[slot] = 0.0, 0
        follow_weights(
            slots.changed,
            slots.tables,
            slots.paths,
            slots.counts,
            known,
            sheet.tables,
            sheet.rates.loads,
        )

    def level(self, order: Numbers, slots: Slots, left: Floats, now_s: float) -> Numbers:
        """Let slots in this order share what is ``left``; returns those that are touched."""
        touched = self._levels.level(order, slots, self.sheet, left, now_s)
        return self.sheet.rates.touched[:touched].copy()

    def _make_room(self, slots: Slots) -> None:
        sheet = self.sheet
        while len(sheet.tables) < len(slots.tables):
            add_arrays(sheet.tables, self._paths, sheet.entries, len(COLUMNS))
        more = len(slots.counts) - len(self._known)
        if more:
            self._known = grown(self._known, more)
            rates = all_grown(sheet.rates, more)
            self.sheet = Sheet(sheet.tables, sheet.entries, rates)


class CompiledWeightedAalo(WeightedAalo):
    """The queues of Aalo, which share links by their weights."""

    rows_stay = True

    def __init__(self) -> None:
        self._queues = Queues()
        self._begin(0)

    def decide(self, traffic: Traffic) -> float:
        """Serve each queue from its part of the links, then all from what is left."""
        links, now_s = len(traffic.capacities), traffic.now_s
        if links != self._links:
            self._begin(links)
        queues, slots = self._queues, self._slots
        queues.update(traffic)
        slots.update(traffic)
        for each in (self._part, self._rest):
            each.update(slots)
        slots.fresh[:] = False
        order = slots.numbers(queues.order)
        spans = queues.spans()
        left, touched = self._share_parts(order, spans, traffic)
        left[left <= slots.rounding] = 0.0
        touched = np.union1d(touched, self._rest.level(order, slots, left, now_s))
        slots.touched[: len(touched)] = touched
        add_up(
            slots.touched[: len(touched)],
            slots.tables,
            slots.paths,
            slots.counts,
            self._part.sheet.tables,
            self._rest.sheet.tables,
            now_s,
            slots.loads,
            slots.bytes_per_s,
            slots.first_finish_s,
        )
        queues.take_rates(slots.hand_over(len(touched)), now_s)
        return queues.next_move_s()

    # Inside --------------------------------------------------------------------------------------
    def _begin(self, links: int) -> None:
        """Know nothing yet."""
        self._links = links
        self._slots, self._part, self._rest = Slots(links), _Pass(links), _Pass(links)

    def _share_parts(
        self, order: Numbers, spans: dict[int, slice], traffic: Traffic
    ) -> tuple[Floats, Numbers]:
        """Serve queues, of which each is a span of the order, from their parts.

        Returns what they leave, and the slots that are touched.
        """
        touched = [np.zeros(0, dtype=np.int64)]
        total, capacities = sum(QUEUES - queue for queue in spans), traffic.capacities
        left: Floats = np.zeros(len(capacities))
        for queue, span in spans.items():
            part = capacities * ((QUEUES - queue) / total)
            touched.append(self._part.level(order[span], self._slots, part, traffic.now_s))
            left += part
        return left, np.concatenate(touched)
