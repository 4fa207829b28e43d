"""Rows of arrays that come and go: the links that flows cross, and numbers about them.

Rows have no lasting numbers: where some are dropped, others from the end take their places.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.links import Path, stack

#: The columns of a group's rows: the sum of the weights of a row's flows; the row's service (bytes
#: per unit of weight) and the time as of which that is; the service at which its first flow ends;
#: its rate (service/s); when that flow finishes; and the sum of weight * need over its flows.
WEIGHT, SERVED, SINCE_S, NEEDS, RATE, FINISH_S, TOTAL = COLUMNS = range(7)


class RowTable:
    """``columns`` numbers and a path for each row."""

    def __init__(self, columns: int, filler: int) -> None:
        self.count = 0
        self._filler = filler  #: the link that fills up short paths
        self._paths: Numbers = np.empty((1, 0), dtype=np.int64)
        self._table: Floats = np.empty((columns, 0))

    @property
    def paths(self) -> Numbers:
        """Numbers of the links of each row: [position, row]."""
        return self._paths[:, : self.count]

    @property
    def whole(self) -> tuple[Floats, Numbers]:
        """All numbers, [column, row], and paths, with room for more rows than there are."""
        return self._table, self._paths

    def column(self, number: int) -> Floats:
        """One of the numbers of each row; to be changed in place."""
        return self._table[number, : self.count]

    def append(self, paths: Sequence[Path]) -> None:
        """Add a row for each of these paths; all of its numbers are 0."""
        self.append_links(stack(paths, self._filler).T)

    def append_links(self, links: Numbers) -> None:
        """Add a row for each of these paths over links: [position, row]; see ``append``."""
        first = self.count
        self.count += links.shape[1]
        if self.count > self._table.shape[1]:
            self._make_room()
        self.set_links(first, links)
        self._table[:, first : self.count] = 0.0

    def set_paths(self, first: int, paths: Sequence[Path]) -> None:
        """Give the rows from the ``first`` on these paths."""
        self.set_links(first, stack(paths, self._filler).T)

    def set_links(self, first: int, links: Numbers) -> None:
        """Give the rows from the ``first`` on these paths over links: [position, row]."""
        most = len(links)
        if most > len(self._paths):
            more = np.full((most - len(self._paths), self._paths.shape[1]), self._filler)
            self._paths = np.concatenate([self._paths, more])
        rows = slice(first, first + links.shape[1])
        self._paths[:most, rows] = links
        self._paths[most:, rows] = self._filler

    def drop(self, rows: Numbers) -> tuple[list[int], list[int]]:
        """Forget rows, given in ascending order.

        Returns which of the others (ascending) have moved, and to which places.
        """
        if len(rows) == 1:
            return self._drop_one(int(rows[0]))
        left = self.count - len(rows)
        kept = np.ones(self.count - left, dtype=bool)  # of those that are beyond the new end
        kept[rows[np.searchsorted(rows, left) :] - left] = False
        moved = np.flatnonzero(kept) + left
        places = rows[: len(moved)]
        if len(moved):
            self._paths[:, places] = self._paths[:, moved]
            self._table[:, places] = self._table[:, moved]
        self.count = left
        return moved.tolist(), places.tolist()

    def _drop_one(self, row: int) -> tuple[list[int], list[int]]:
        self.count = last = self.count - 1
        if row == last:
            return [], []
        self._paths[:, row] = self._paths[:, last]
        self._table[:, row] = self._table[:, last]
        return [last], [row]

    def _make_room(self) -> None:
        more = max(4, self._table.shape[1], self.count - self._table.shape[1])
        table = np.empty((len(self._table), more))
        self._table = np.concatenate([self._table, table], axis=1)
        paths = np.full((len(self._paths), more), self._filler)
        self._paths = np.concatenate([self._paths, paths], axis=1)
