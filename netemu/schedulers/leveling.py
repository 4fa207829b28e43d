"""Max-min shares that follow changes: only what a change can reach is worked out again.

An allocation is max-min fair if each row crosses a bottleneck: a full link on which no row has a
higher rate.  That rate is the link's *level* (inf if it is no bottleneck), and a row's rate is the
least level on its way.  So levels are all there is to find: those at which no link carries more
than it can, and every link that has a level is full.  Where that no longer holds after a change,
links get the level at which it does, as long as their rows' other links stay as they are; what
this changes for other links is next; and so on until it holds everywhere.
"""

from __future__ import annotations

import numpy as np

from netemu.schedulers.base import Floats, Group, Numbers
from netemu.schedulers.filling import Bools, fill, load_of

#: How far what rows need may exceed a capacity: rounding.
_ROUNDING = 1 + 1e-12
#: A rate that would change by less than this share stays.
_STAYS = 1e-13
#: If it takes more rounds, or if more than this share of the rows is new, all rows are filled.
_ROUNDS = 40
_MANY_NEW = 0.2
#: If more than this share of the links is amiss, all are worked out.
_MANY_LINKS = 0.3
#: Steps towards a link's level; what is missing then is made up for in the next round.
_STEPS = 6


class Leveling:
    """A group's levels.  Rows of weight 0 have ended; the others keep their numbers."""

    def __init__(self) -> None:
        self.levels: Floats = np.empty(0)
        self._limited = np.empty(0, dtype=bool)
        self._layout = -1  #: of the group's rows when they were last looked up
        #: the rows of one link after the other, the links, and the others on the rows' ways
        self._rows = self._of = self._others = self._numbers = np.empty(0, dtype=np.int64)
        self._begins: list[int] = []  #: where those of a link begin

    def share(self, group: Group, capacities: Floats, rounding: Floats) -> tuple[Floats, Floats]:
        """Each row's rate (bytes/s for each unit of weight), and what is left of each link."""
        limited = np.isfinite(capacities)
        if not np.array_equal(limited, self._limited):  # or for the first time
            self._limited = limited
            return self._fill(group, capacities)
        room = capacities - group.load
        amiss = self._amiss(room, rounding)
        if group.layout != self._layout:
            new = group.paths.take(self._look_up(group), axis=1)
            many = new.shape[1] > len(group.rates) * _MANY_NEW
            if many or (new.min(axis=0) == len(amiss) - 1).any():  # or unlimited
                return self._fill(group, capacities)
            amiss[new] = True
        rates = group.rates.copy()
        for _ in range(_ROUNDS):
            amiss[-1] = False  # stands for no link
            links = np.flatnonzero(amiss)
            if not len(links):
                room[np.abs(room) <= rounding] = 0.0
                return rates, room
            more = self._level(group, links, rates, capacities)
            if more is None:
                break
            room -= more
            amiss = self._amiss(room, rounding)
        return self._fill(group, capacities)

    # Inside --------------------------------------------------------------------------------------
    def _amiss(self, room: Floats, rounding: Floats) -> Bools:
        """The links that carry too much, or that should be full and are not."""
        amiss: Bools = (room < -rounding) | ((room > rounding) & (self.levels < np.inf))
        return amiss

    def _level(
        self, group: Group, links: Numbers, rates: Floats, capacities: Floats
    ) -> Floats | None:
        """Give these links their levels; returns what that adds to the load of each link.

        None if it leads nowhere.
        """
        rows, of, others = self._crossing(links)
        weights = group.weights[rows]
        elsewhere = self.levels.take(others).min(axis=0)  # the rate that their other links allow
        self.levels[links] = _find(elsewhere, weights, of, capacities, self.levels)[links]

        elsewhere = self.levels.take(others).min(axis=0)
        are, were = np.minimum(self.levels[of], elsewhere), rates[rows]
        are[weights == 0] = 0.0
        if are.max(initial=0.0) == np.inf:  # two links have left a row to one another
            return None
        change = np.flatnonzero(np.abs(are - were) > were * _STAYS)
        place = np.empty(len(rates), dtype=np.int64)
        place[rows[change]] = change
        change = change[place[rows[change]] == change]  # a row of two of the links counts once
        rates[rows[change]] = are[change]
        more = (are[change] - were[change]) * weights[change]
        return load_of(group.paths.take(rows[change], axis=1), more, len(capacities))

    def _crossing(self, links: Numbers) -> tuple[Numbers, Numbers, Numbers]:
        """Rows that cross these links, the link of each, and the other links on its way."""
        if len(links) > len(self.levels) * _MANY_LINKS:
            return self._rows, self._of, self._others  # of all links: cheaper than to choose
        begins, numbers = self._begins, self._numbers
        some = [numbers[begins[link] : begins[link + 1]] for link in links.tolist()]
        chosen = np.concatenate(some)
        return self._rows[chosen], self._of[chosen], self._others.take(chosen, axis=1)

    def _fill(self, group: Group, capacities: Floats) -> tuple[Floats, Floats]:
        """Work all of it out."""
        left, rates = capacities.copy(), np.zeros(len(group.rates))
        self.levels = np.full(len(capacities), np.inf)
        rows = np.flatnonzero(group.weights)
        paths, weights = group.paths.take(rows, axis=1), group.weights[rows]
        rates[rows] = fill(paths, weights, left, self.levels)
        return rates, left

    def _look_up(self, group: Group) -> Numbers:
        """Note the rows of each link; returns those that are new."""
        paths, links = group.paths, len(self.levels)
        flat = paths.ravel().astype(np.min_scalar_type(links))  # small numbers sort fast
        by_link = np.argsort(flat, kind="stable")
        self._rows = by_link % paths.shape[1]
        self._of = paths.ravel()[by_link]
        across = paths.take(self._rows, axis=1)
        self._others = np.where(across == self._of, links - 1, across)
        self._begins = [0, *np.cumsum(np.bincount(flat, minlength=links)).tolist()]
        self._numbers = np.arange(len(flat))
        self._layout = group.layout
        new = np.flatnonzero((group.rates == 0) & (group.weights > 0))
        held: Bools = self.levels.take(paths.take(new, axis=1)).min(axis=0) == 0
        return np.compress(~held, new)


def _find(
    elsewhere: Floats, weights: Floats, of: Numbers, capacities: Floats, levels: Floats
) -> Floats:
    """The levels at which links are full; inf for those that never are.

    Rows: the rate that the other links on its way allow, its weight, and the number of its link.
    """
    # Newton's method: what a link carries is a concave function of its level
    count = len(capacities)
    total = np.bincount(of, weights, count)
    least = np.divide(capacities, total, out=np.full(count, np.inf), where=total > 0)
    levels = np.where(levels < np.inf, levels, least)
    held = elsewhere >= levels[of]
    for _ in range(_STEPS):
        weight = np.bincount(of, weights * held, count)
        others = np.bincount(of, np.where(held, 0.0, elsewhere) * weights, count)
        enough = (weight == 0) & (others <= capacities * _ROUNDING)
        levels = np.where(enough, np.inf, least)
        np.divide(capacities - others, weight, out=levels, where=weight > 0)
        np.maximum(levels, least, out=levels)
        before, held = held, elsewhere >= levels[of]
        if np.array_equal(held, before):
            break
    return levels
