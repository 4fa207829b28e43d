"""Which rows cross which links: looked up once, and kept as rows come."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.traffic import Group

#: If more than this share of the links is asked for, all are given: cheaper than to choose.
_MANY_LINKS = 0.3
#: So many rows, or this share, may come before all are looked up again.
_FEW_LATE = 50
_LATE = 0.02


@dataclass(frozen=True, slots=True)
class Entries:
    """Rows that cross links: a row is there once for each of the links that were asked for."""

    rows: Numbers
    of: Numbers  #: the link
    others: Numbers  #: [position, entry]: the other links on the row's way


class Crossing:
    """The rows of a group, by link."""

    def __init__(self) -> None:
        self._layout = -1
        self._paths = np.empty((1, 0), dtype=np.int64)
        self._known = 0  #: rows that are looked up; those after them are late
        self._all = Entries(*[np.empty((1, 0), dtype=np.int64)] * 3)
        self._begins: list[int] = []  #: where a link's entries begin
        self._numbers = np.empty(0, dtype=np.int64)

    def update(self, group: Group, links: int) -> Numbers | None:
        """Note the rows that have come; returns them, or None if all have other numbers now."""
        known, same = self._paths.shape[1], group.layout == self._layout
        self._layout, self._paths = group.layout, group.paths
        count = group.paths.shape[1]
        many_late = count - self._known > max(_FEW_LATE, count * _LATE)
        if not same or many_late or len(self._paths) != len(self._all.others):
            self._look_up(links)
        return np.arange(known, count) if same else None

    def entries(self, links: Numbers) -> Entries:
        """The rows that cross these links; maybe those of all links."""
        if len(links) > len(self._begins) * _MANY_LINKS:
            if self._paths.shape[1] > self._known:
                self._look_up(len(self._begins) - 1)
            return self._all
        begins, numbers = self._begins, self._numbers
        some = [numbers[begins[link] : begins[link + 1]] for link in links.tolist()]
        chosen = np.concatenate(some)
        found = self._all
        entries = Entries(found.rows[chosen], found.of[chosen], found.others.take(chosen, axis=1))
        if self._paths.shape[1] == self._known:
            return entries
        wanted = np.zeros(len(begins) - 1, dtype=bool)
        wanted[links] = True
        late = self._entries(np.arange(self._known, self._paths.shape[1]))
        those = np.flatnonzero(wanted[late.of])
        return Entries(
            np.concatenate([entries.rows, late.rows[those]]),
            np.concatenate([entries.of, late.of[those]]),
            np.concatenate([entries.others, late.others[:, those]], axis=1),
        )

    def _look_up(self, links: int) -> None:
        paths = self._paths
        self._known = paths.shape[1]
        flat = paths.ravel().astype(np.min_scalar_type(links))  # small numbers sort fast
        by_link = np.argsort(flat, kind="stable")
        rows, of = by_link % max(self._known, 1), paths.ravel()[by_link]
        across = paths.take(rows, axis=1)
        self._all = Entries(rows, of, np.where(across == of, links - 1, across))
        self._begins = [0, *np.cumsum(np.bincount(flat, minlength=links)).tolist()]
        self._numbers = np.arange(len(flat))

    def _entries(self, rows: Numbers) -> Entries:
        across = self._paths.take(rows, axis=1)
        of = across.ravel()
        repeated = np.tile(across, len(across))
        others = np.where(repeated == of, len(self._begins) - 2, repeated)
        return Entries(np.tile(rows, len(across)), of, others)
