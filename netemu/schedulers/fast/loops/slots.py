"""Groups as compiled loops see them: by number, in lists of arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

import numpy as np
from numba import njit
from numba.typed import List
from numpy.typing import NDArray

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.rows import COLUMNS
from railyard.netemu.model.traffic import Group, RowGroup, Traffic
from railyard.netemu.schedulers.filling import rounding_of

T = TypeVar("T", bound=np.generic)
N = TypeVar("N", bound=NamedTuple)


class Rates(NamedTuple):
    """What each slot sends at, by slot.

    Arrays only: a tuple that has a list in it takes 17 µs to get into a loop, and this takes 1.
    """

    fresh: Bools  #: whether nothing is known of its last decision
    loads: Floats  #: bytes/s on each link: [slot, link]
    bytes_per_s: Floats
    first_finish_s: Floats
    touched: Numbers  #: room for the slots whose rates have changed


@njit(cache=True)
def new_arrays(columns: int) -> tuple[List, List, List]:
    """Tables, paths and entries of one slot without rows.

    Made here, since what does it from Python is compiled anew in each process.
    """
    tables, paths, entries = List(), List(), List()
    tables.append(np.empty((columns, 0)))
    paths.append(np.empty((0, 0), np.int64))
    entries.append(np.empty((0, 0), np.int64))
    return tables, paths, entries


@njit(cache=True)
def add_arrays(tables: List, paths: List, entries: List, columns: int) -> None:
    """Make room for one slot more."""
    tables.append(np.empty((columns, 0)))
    paths.append(np.empty((0, 0), np.int64))
    entries.append(np.empty((0, 0), np.int64))


@njit(cache=True)
def put_array(arrays: List, place: int, array: NDArray[np.generic]) -> None:
    """Have another array at this place of a list."""
    arrays[place] = array  # from Python, this takes twenty times as long


class Slots:
    """A slot for each group that has something to send."""

    def __init__(self, links: int) -> None:
        #: of Floats, [column, row]; of Numbers, [position, row]; and of Numbers: see
        #: ``linklists.link_rows``
        self.tables, self.paths, self.entries = new_arrays(len(COLUMNS))
        self.counts: Numbers = np.zeros(0, dtype=np.int64)  #: of rows
        self.most_rows = 0  #: that any slot has had
        self.rounding: Floats = np.zeros(links)  #: how many bytes/s of each link are rounding
        self.changed = np.zeros(0, dtype=np.bool_)  #: since the last decision
        self.only_ended = np.zeros(0, dtype=np.bool_)  #: whether all that happened is that
        #: whether nothing is known of a slot's last decision
        self.fresh = np.zeros(0, dtype=np.bool_)
        self.loads: Floats = np.zeros((0, links))  #: bytes/s that each puts on each link
        # what a decision comes to
        self.bytes_per_s: Floats = np.zeros(0)
        self.first_finish_s: Floats = np.zeros(0)
        self.touched: Numbers = np.zeros(0, dtype=np.int64)
        self._slot_of: dict[Group, int] = {}
        self._groups: list[RowGroup | None] = []
        #: their tables and paths, as Python sees them
        self._known: list[tuple[Floats, Numbers] | None] = []
        self._free: list[int] = []
        self._layouts: list[int] = []
        self._capacities: Floats = np.zeros(0)
        #: slots whose rows have other numbers than before, or other places
        self.moved: list[int] = []

    def update(self, traffic: Traffic) -> None:
        """Note what groups there are now, and which have changed."""
        self.changed[:] = False
        self.moved.clear()
        for group in traffic.changed:
            self._note(group)
        if len(self._slot_of) != len(traffic.groups):
            for group in traffic.groups:  # all of them, when this begins
                if group not in self._slot_of:
                    self._note(group)
            for group in [group for group in self._slot_of if group not in traffic.groups]:
                self._free_slot(group)
        before, self._capacities = self._capacities, traffic.capacities
        if not np.array_equal(before, traffic.capacities):
            self.rounding = rounding_of(traffic.capacities)
            if not np.array_equal(np.isfinite(before), np.isfinite(traffic.capacities)):
                self.fresh[:] = True

    @property
    def rates(self) -> Rates:
        """What slots send at, for loops."""
        return Rates(self.fresh, self.loads, self.bytes_per_s, self.first_finish_s, self.touched)

    def numbers(self, groups: Iterable[Group]) -> Numbers:
        """The slots of groups."""
        return np.array([self._slot_of[group] for group in groups], dtype=np.int64)

    def room(self, slot: int) -> tuple[int, int]:
        """For how many rows a slot's arrays have room, and links on the way of each."""
        known = self._known[slot]
        assert known is not None
        return known[0].shape[1], len(known[1])

    def hand_over(self, touched: int) -> list[Group]:
        """Give the groups of the first slots in ``touched`` what was decided; returns them."""
        slots = self.touched[:touched]
        totals, finishes = self.bytes_per_s[slots].tolist(), self.first_finish_s[slots].tolist()
        groups: list[Group] = []
        decided = zip(slots.tolist(), totals, finishes, self.loads[slots], strict=True)
        for slot, total, finish_s, load in decided:
            group = self._groups[slot]
            assert group is not None
            group.timed(total, finish_s, load)
            groups.append(group)
        return groups

    # Inside --------------------------------------------------------------------------------------
    def _note(self, group: Group) -> None:
        rows = group.as_rows
        assert rows is not None
        slot = self._slot_of.get(group)
        if slot is None:
            slot = self._slot_of[group] = self._free.pop() if self._free else self._add_slot()
            self._groups[slot], self.fresh[slot] = rows, True
            self._layouts[slot] = -1
        table, paths = rows.rows.whole
        known = self._known[slot]
        if known is None or known[0] is not table or known[1] is not paths:
            self._known[slot] = (table, paths)
            put_array(self.tables, slot, table)
            put_array(self.paths, slot, paths)
            put_array(self.entries, slot, np.empty((len(paths), 0), dtype=np.int64))
            self._layouts[slot] = -1
        if self._layouts[slot] != group.layout:
            self._layouts[slot] = group.layout
            self.moved.append(slot)
        self.changed[slot] = True
        self.only_ended[slot] = group.only_ended
        self.counts[slot] = count = rows.rows.count
        self.most_rows = max(self.most_rows, count)
        self.loads[slot] = group.load
        self.bytes_per_s[slot] = group.rate_bytes_per_s

    def _free_slot(self, group: Group) -> None:
        slot = self._slot_of.pop(group)
        self._groups[slot] = self._known[slot] = None
        self.bytes_per_s[slot] = 0.0
        self._free.append(slot)
        self.counts[slot] = 0

    def _add_slot(self) -> int:
        slot = len(self._groups)
        self._groups.append(None)
        self._known.append(None)
        self._layouts.append(-1)
        if slot:
            add_arrays(self.tables, self.paths, self.entries, len(COLUMNS))
        if slot == len(self.counts):
            more = max(16, slot)
            self.counts = grown(self.counts, more)
            self.changed, self.fresh = grown(self.changed, more), grown(self.fresh, more)
            self.only_ended = grown(self.only_ended, more)
            self.loads = grown(self.loads, more)
            self.bytes_per_s = grown(self.bytes_per_s, more)
            self.first_finish_s = grown(self.first_finish_s, more)
            self.touched = grown(self.touched, more)
        return slot


def grown(values: NDArray[T], more: int) -> NDArray[T]:
    """With room for more slots, filled with 0."""
    return np.concatenate([values, np.zeros((more, *values.shape[1:]), dtype=values.dtype)])


def all_grown(arrays: N, more: int) -> N:
    """A tuple of arrays by slot with room for more slots, filled with 0."""
    return arrays._make(grown(values, more) for values in arrays)
