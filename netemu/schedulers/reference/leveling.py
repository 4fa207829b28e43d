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

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.links import load_of
from railyard.netemu.model.traffic import Group
from railyard.netemu.schedulers.filling import fill
from railyard.netemu.schedulers.reference.crossing import Crossing

#: How far what rows need may exceed a capacity: rounding.
_ROUNDING = 1 + 1e-12
#: A rate that would change by less than this share stays.
_STAYS = 1e-13
#: If it takes more rounds, or if more than this share of the rows is new, all rows are filled.
_ROUNDS = 40
_MANY_NEW = 0.2
#: Steps towards a link's level; what is missing then is made up for in the next round.
_STEPS = 6


class Leveling:
    """A group's levels.  Rows of weight 0 have ended; the others keep their numbers."""

    def __init__(self) -> None:
        self.levels: Floats = np.empty(0)
        self._limited = np.empty(0, dtype=bool)
        self._crossing = Crossing()

    def share(self, group: Group, capacities: Floats, rounding: Floats) -> tuple[Floats, Floats]:
        """Each row's rate (bytes/s for each unit of weight), and what is left of each link."""
        limited = np.isfinite(capacities)
        if not np.array_equal(limited, self._limited):  # or for the first time
            self._limited = limited
            return self._fill(group, capacities)
        room = capacities - group.load
        amiss = self._amiss(room, rounding)
        new = group.paths.take(self._new(group), axis=1)
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
        entries = self._crossing.entries(links)
        rows, of, others = entries.rows, entries.of, entries.others
        weights = group.weights[rows]
        elsewhere = self.levels.take(others).min(axis=0)  # the rate that their other links allow
        self.levels[links] = find_levels(elsewhere, weights, of, capacities, self.levels)[links]

        elsewhere = self.levels.take(others).min(axis=0)
        are = np.minimum(self.levels[of], elsewhere)
        are[weights == 0] = 0.0
        if are.max(initial=0.0) == np.inf:  # two links have left a row to one another
            return None
        return change_rates(group, rows, are, rates)

    def _fill(self, group: Group, capacities: Floats) -> tuple[Floats, Floats]:
        """Work all of it out."""
        left, rates = capacities.copy(), np.zeros(len(group.rates))
        self.levels = np.full(len(capacities), np.inf)
        rows = np.flatnonzero(group.weights)
        paths, weights = group.paths.take(rows, axis=1), group.weights[rows]
        rates[rows] = fill(paths, weights, left, self.levels)
        return rates, left

    def _new(self, group: Group) -> Numbers:
        """The rows that have come."""
        rows = self._crossing.update(group, len(self.levels))
        if rows is None:
            rows = np.flatnonzero((group.rates == 0) & (group.weights > 0))
        held: Bools = self.levels.take(group.paths.take(rows, axis=1)).min(axis=0) == 0
        return np.compress(~held, rows)


def find_levels(
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


def change_rates(group: Group, rows: Numbers, are: Floats, rates: Floats) -> Floats:
    """Put new rates of rows, some of which are there twice, in their place in ``rates``.

    Returns what that adds to the load of each link.
    """
    were = rates[rows]
    change = np.flatnonzero(np.abs(are - were) > were * _STAYS)
    place = np.empty(len(rates), dtype=np.int64)
    place[rows[change]] = change
    change = change[place[rows[change]] == change]
    rows = rows[change]
    rates[rows] = are[change]
    more = (are[change] - were[change]) * group.weights[rows]
    return load_of(group.paths.take(rows, axis=1), more, len(group.load))
