"""The open groups as compiled loops see them: lists of arrays, with an index for each group.

An index that a group leaves free is given to a later one.
"""

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


class GroupRates(NamedTuple):
    """What each group sends at, by index.

    Arrays only: a tuple that has a list in it takes 17 µs to get into a loop, and this takes 1.
    """

    fresh: Bools  #: whether the group has no earlier decision to start from
    loads: Floats  #: bytes/s on each link: [index, link]
    bytes_per_s: Floats  #: of all rows of the group together
    first_finish_s: Floats  #: when its first row will have sent all; inf: never at these rates
    touched: Numbers  #: indices of the groups with other rates than before; room for all


@njit(cache=True)
def new_arrays(columns: int) -> tuple[List, List]:
    """Lists of tables and paths, for one group without rows.

    Made in a compiled loop: from Python, numba would compile it again in each process.
    """
    tables, paths = List(), List()
    tables.append(np.empty((columns, 0)))
    paths.append(np.empty((0, 0), np.int64))
    return tables, paths


@njit(cache=True)
def add_arrays(tables: List, paths: List, columns: int) -> None:
    """Make room for one more group."""
    tables.append(np.empty((columns, 0)))
    paths.append(np.empty((0, 0), np.int64))


@njit(cache=True)
def put_array(arrays: List, place: int, array: NDArray[np.generic]) -> None:
    """Replace the array at this place of a list: from Python, this takes twenty times as long."""
    arrays[place] = array


class GroupArrays:
    """An index, and arrays, for each group that has something to send."""

    def __init__(self, links: int) -> None:
        #: by index: Floats [column, row], see ``netemu.model.rows``; and Numbers [position, row],
        #: the links on each row's path
        self.tables, self.paths = new_arrays(len(COLUMNS))
        self.counts: Numbers = np.zeros(0, dtype=np.int64)  #: rows of each group
        self.most_rows = 0  #: of any group so far
        self.rounding: Floats = np.zeros(links)  #: bytes/s of each link that count as none
        self.changed = np.zeros(
            0, dtype=np.bool_
        )  #: whether its flows have, since the last decision
        self.only_ended = np.zeros(0, dtype=np.bool_)  #: whether nothing else has happened to it
        #: whether the group has no earlier decision to start from
        self.fresh = np.zeros(0, dtype=np.bool_)
        self.loads: Floats = np.zeros((0, links))  #: bytes/s: [index, link]
        # what a decision comes to, see ``GroupRates``
        self.bytes_per_s: Floats = np.zeros(0)
        self.first_finish_s: Floats = np.zeros(0)
        self.touched: Numbers = np.zeros(0, dtype=np.int64)
        self._index_of: dict[Group, int] = {}
        self._groups: list[RowGroup | None] = []
        #: by index: the table and the paths, as Python sees them
        self._known: list[tuple[Floats, Numbers] | None] = []
        self._free: list[int] = []
        self._layouts: list[int] = []
        self._capacities: Floats = np.zeros(0)
        #: indices of groups that have other row numbers than before, or other arrays
        self.moved: list[int] = []

    def update(self, traffic: Traffic) -> None:
        """Note which groups there are now, and which have changed."""
        self.changed[:] = False
        self.moved.clear()
        for group in traffic.changed:
            self._note(group)
        if len(self._index_of) != len(traffic.groups):
            for group in traffic.groups:  # all of them at the first decision
                if group not in self._index_of:
                    self._note(group)
            for group in [group for group in self._index_of if group not in traffic.groups]:
                self._free_index(group)
        before, self._capacities = self._capacities, traffic.capacities
        if before is not traffic.capacities:
            self.rounding = rounding_of(traffic.capacities)
            if not np.array_equal(np.isfinite(before), np.isfinite(traffic.capacities)):
                self.fresh[:] = True

    @property
    def rates(self) -> GroupRates:
        """What groups send at, for compiled loops."""
        return GroupRates(
            self.fresh, self.loads, self.bytes_per_s, self.first_finish_s, self.touched
        )

    def indices(self, groups: Iterable[Group]) -> Numbers:
        """The indices of these groups."""
        return np.array([self._index_of[group] for group in groups], dtype=np.int64)

    def hand_over(self, touched_count: int) -> list[Group]:
        """Report their rates to the first ``touched_count`` groups in ``touched``; returns them."""
        groups: list[Group] = []
        for index in self.touched[:touched_count].tolist():  # most often one or two
            group = self._groups[index]
            assert group is not None
            total, finish_s = self.bytes_per_s.item(index), self.first_finish_s.item(index)
            group.timed(total, finish_s, self.loads[index].copy())
            groups.append(group)
        return groups

    # Inside --------------------------------------------------------------------------------------
    def _note(self, group: Group) -> None:
        rows = group.as_rows
        assert rows is not None
        index = self._index_of.get(group)
        if index is None:
            index = self._index_of[group] = self._free.pop() if self._free else self._add_group()
            self._groups[index], self.fresh[index] = rows, True
            self._layouts[index] = -1
        table, paths = rows.rows.whole
        known = self._known[index]
        if known is None or known[0] is not table or known[1] is not paths:
            self._known[index] = (table, paths)
            put_array(self.tables, index, table)
            put_array(self.paths, index, paths)
            self._layouts[index] = -1
        if self._layouts[index] != group.layout:
            self._layouts[index] = group.layout
            self.moved.append(index)
        self.changed[index] = True
        self.only_ended[index] = group.only_ended
        self.counts[index] = count = rows.rows.count
        self.most_rows = max(self.most_rows, count)
        self.loads[index] = group.load
        self.bytes_per_s[index] = group.rate_bytes_per_s

    def _free_index(self, group: Group) -> None:
        index = self._index_of.pop(group)
        self._groups[index] = self._known[index] = None
        self.bytes_per_s[index] = 0.0
        self._free.append(index)
        self.counts[index] = 0

    def _add_group(self) -> int:
        index = len(self._groups)
        self._groups.append(None)
        self._known.append(None)
        self._layouts.append(-1)
        if index:
            add_arrays(self.tables, self.paths, len(COLUMNS))
        if index == len(self.counts):
            more = max(16, index)
            self.counts = grown(self.counts, more)
            self.changed, self.fresh = grown(self.changed, more), grown(self.fresh, more)
            self.only_ended = grown(self.only_ended, more)
            self.loads = grown(self.loads, more)
            self.bytes_per_s = grown(self.bytes_per_s, more)
            self.first_finish_s = grown(self.first_finish_s, more)
            self.touched = grown(self.touched, more)
        return index


def grown(values: NDArray[T], more: int) -> NDArray[T]:
    """The same values and room for ``more`` of them, filled with 0."""
    return np.concatenate([values, np.zeros((more, *values.shape[1:]), dtype=values.dtype)])


def all_grown(arrays: N, more: int) -> N:
    """A tuple of arrays by index, each with room for more groups, filled with 0."""
    return arrays._make(grown(values, more) for values in arrays)
