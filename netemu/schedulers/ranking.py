"""Shortest first that follows changes: only what a change can reach is worked out again.

Served one after the other, rows leave a link with nothing from some row on: its *cut*.  Shorter
rows are not limited by the link, the cut and its equals share what those have left (each gets the
link's *level*, or less where another link limits it), and longer ones get nothing.  A row's rate
is the least that the links on its way allow.  So cuts and levels are all there is to find: those at
which no link carries more than it can, and every link that has a cut is full.

As in ``netemu.schedulers.leveling``, links where that does not hold are given other cuts, as long
as their rows' other links stay as they are, until it holds everywhere.
"""

from __future__ import annotations

import numpy as np

from netemu.schedulers.base import Floats, Group, Numbers
from netemu.schedulers.crossing import Crossing
from netemu.schedulers.filling import Bools
from netemu.schedulers.leveling import change_rates, find_levels

#: Flows are equally long if what they have left differs by less than this: rounding.
SAME_SHARE = 1e-9
SAME_BYTES = 1e-3
#: How far what rows need may exceed a capacity: rounding.
_ROUNDING = 1 + 1e-12
_STAYS = 1e-13
#: If it takes more rounds, or if more than this share of the rows is new, greed is quicker.
_ROUNDS = 60
_MANY_NEW = 0.2
#: Instead of a cut: a link that limits nobody, and one that has had nothing to give.
_NO_CUT = -1
_NOTHING_LEFT = -2


class Ranking:
    """A group's cuts.  Rows of weight 0 have ended; the others keep their numbers."""

    def __init__(self) -> None:
        self._crossing = Crossing()
        self._limited = np.empty(0, dtype=bool)
        self._left_bytes: Floats = np.empty(0)  #: of each row
        self._cut: Numbers = np.empty(0, dtype=np.int64)  #: of each link: a row, or as below
        self._levels: Floats = np.empty(0)
        #: rows that have less (more) left than this are shorter (longer) than a link's cut
        self._shorter: Floats = np.empty(0)
        self._longer: Floats = np.empty(0)

    def share(self, group: Group, capacities: Floats, rounding: Floats) -> Floats | None:
        """Each row's rate (bytes/s for each unit of weight); None if it is up to ``start``."""
        if not len(group.weights):
            return group.rates
        limited = np.isfinite(capacities)
        if not np.array_equal(limited, self._limited):  # or for the first time
            self._limited = limited
            return None
        rates, room = group.rates.copy(), capacities - group.load
        new = self._crossing.update(group, len(capacities))
        check = np.flatnonzero((rates > 0) & (rates < np.inf))
        if new is None:
            self._start(group, rates, room <= rounding)
            check = np.flatnonzero(group.weights)
        else:
            if len(new):
                self._left_bytes = np.concatenate([self._left_bytes, group.remaining_bytes(new)])
            self._left_bytes[check] = group.remaining_bytes(check)
            self._place_cuts()
            check = np.concatenate([check, new])
        across = group.paths.take(check, axis=1)
        unlimited = (across.min(axis=0) == len(room) - 1) & (rates[check] == 0)
        allowed = self._allowed(self._left_bytes[check], across)
        differ = np.abs(allowed - rates[check]) > rates[check] * _STAYS
        if unlimited.any() or np.count_nonzero(differ) > len(rates) * _MANY_NEW:
            return None
        amiss = self._amiss(room, rounding)
        amiss[across[:, differ]] = True
        for _ in range(_ROUNDS):
            amiss[-1] = False  # stands for no link
            links = np.flatnonzero(amiss)
            if not len(links):
                return rates
            room -= self._round(group, links, rates, capacities)
            amiss = self._amiss(room, rounding)
        return None

    def start(self, group: Group, rates: Floats, left: Floats) -> None:
        """Go on from these rates, which leave that much of each link."""
        self._crossing.update(group, len(left))
        self._start(group, rates, left == 0)

    # Inside --------------------------------------------------------------------------------------
    def _start(self, group: Group, rates: Floats, full: Bools) -> None:
        """Find out which rows are the cuts of full links."""
        self._left_bytes = group.remaining_bytes()
        sending = np.flatnonzero((rates > 0) & (rates < np.inf))
        of = group.paths.take(sending, axis=1).ravel()
        rows = np.tile(sending, len(group.paths))
        order = np.lexsort((self._left_bytes[rows], of))
        longest = order[np.append(of[order][1:] != of[order][:-1], True)[: len(order)]]
        self._cut = np.full(len(full), _NOTHING_LEFT)
        self._cut[of[longest]] = rows[longest]
        self._cut[~full | ~self._limited] = _NO_CUT
        self._place_cuts()
        self._levels = np.where(self._cut == _NO_CUT, np.inf, 0.0)
        equal = self._left_bytes[rows] >= self._shorter[of]
        np.maximum.at(self._levels, of[equal], rates[rows[equal]])

    def _place_cuts(self) -> None:
        cut_bytes = self._left_bytes.take(np.maximum(self._cut, 0), mode="clip")
        same_bytes = cut_bytes * SAME_SHARE + SAME_BYTES
        others = np.where(self._cut == _NO_CUT, np.inf, -np.inf)
        self._shorter = np.where(self._cut >= 0, cut_bytes - same_bytes, others)
        self._longer = np.where(self._cut >= 0, cut_bytes + same_bytes, others)

    def _allowed(self, left_bytes: Floats, links: Numbers) -> Floats:
        """The least rate that links, [position, row], allow to rows with so much left."""
        levels = np.where(left_bytes > self._longer.take(links), 0.0, self._levels.take(links))
        levels[left_bytes < self._shorter.take(links)] = np.inf
        least: Floats = levels.min(axis=0)
        return least

    def _amiss(self, room: Floats, rounding: Floats) -> Bools:
        """The links that carry too much, or that should be full and are not."""
        amiss: Bools = (room < -rounding) | ((room > rounding) & (self._cut != _NO_CUT))
        return amiss

    def _round(self, group: Group, links: Numbers, rates: Floats, capacities: Floats) -> Floats:
        """Give these links their cuts; returns what that adds to the load of each link."""
        entries = self._crossing.entries(links)
        here = np.flatnonzero(self._limited[entries.of])
        rows, of, others = entries.rows[here], entries.of[here], entries.others[:, here]
        weights, left_bytes = group.weights[rows], self._left_bytes[rows]
        elsewhere = self._allowed(left_bytes, others)  # the rate that their other links allow
        elsewhere[weights == 0] = 0.0
        some = np.flatnonzero(elsewhere)
        some = some[np.lexsort((left_bytes[some], of[some]))]
        self._find_cuts(links, rows[some], of[some], elsewhere[some], weights[some], capacities)

        elsewhere = self._allowed(left_bytes, others)
        are = np.minimum(elsewhere, self._allowed(left_bytes, of[np.newaxis]))
        # two links may have left a row to one another
        most = np.divide(capacities[of], weights, out=np.zeros(len(of)), where=weights > 0)
        return change_rates(group, rows, np.minimum(are, most), rates)

    def _find_cuts(
        self,
        links: Numbers,
        rows: Numbers,
        of: Numbers,
        elsewhere: Floats,
        weights: Floats,
        capacities: Floats,
    ) -> None:
        """From rows by link, the shortest first, with the rates that other links allow."""
        stopped = capacities[links] == 0
        self._cut[links] = np.where(stopped, _NOTHING_LEFT, _NO_CUT)
        self._levels[links] = np.where(stopped, 0.0, np.inf)
        if len(rows):
            left_bytes = self._left_bytes[rows]
            before = left_bytes[:-1]
            longer = left_bytes[1:] > before * (1 + SAME_SHARE) + SAME_BYTES
            begins = np.append(True, longer | (of[1:] != of[:-1]))  # rows that are equally long
            heads = np.flatnonzero(begins)
            equals = np.cumsum(begins) - 1
            wanted = np.minimum(elsewhere * weights, 2 * capacities[of])  # more than there is
            sums = np.add.reduceat(wanted, heads)
            links_of = of[heads]
            total = np.cumsum(sums)
            firsts = np.flatnonzero(np.append(True, links_of[1:] != links_of[:-1]))
            counts = np.diff(np.append(firsts, len(heads)))
            total -= np.repeat(total[firsts] - sums[firsts], counts)
            over = np.flatnonzero(total > capacities[links_of] * _ROUNDING)
            over = over[np.append(True, links_of[over][1:] != links_of[over][:-1])[: len(over)]]
            over = over[np.isin(links_of[over], links)]

            number = np.full(len(heads), -1)
            number[over] = np.arange(len(over))
            number = number[equals]
            cut = np.flatnonzero(number >= 0)
            rest = np.maximum(capacities[links_of[over]] - (total[over] - sums[over]), 0.0)
            none = np.full(len(over), np.inf)
            levels = find_levels(elsewhere[cut], weights[cut], number[cut], rest, none)
            self._levels[links_of[over]] = levels
            self._cut[links_of[over]] = rows[heads[over]]
        self._place_cuts()
