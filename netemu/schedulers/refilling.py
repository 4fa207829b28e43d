"""Progressive filling once more, after a change: only what the change can reach.

What makes an allocation max-min fair is that every row crosses a bottleneck: a full link on which
no row has a higher rate.  That rate is the link's *level*.  Whoever's bottleneck is still one may
keep its rate.  So the rows whose bottlenecks have changed are filled anew, beside all others; where
the outcome breaks a bottleneck of others they join them; and so on until every row has one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from netemu.schedulers.base import Floats, Group, Numbers
from netemu.schedulers.filling import fill, load_of

#: What is left of a link is rounding if it is less than this share of its capacity.
_ROUNDING = 1e-12
#: Rates are equal if they differ by no more than this share, and stay as they are if by less
#: than this one.
_SAME = 1e-12
_STAYS = 1e-13
#: If more than this share of the rows is reached, all are filled: that is cheaper.
_MOST = 0.5
_NO_ROWS: Numbers = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Filled:
    """What progressive filling came to."""

    rates: Floats  #: bytes/s for each unit of weight, by row
    levels: Floats  #: by link; inf if it is no bottleneck
    left: Floats  #: bytes/s, by link


def rounding_of(capacities: Floats) -> Floats:
    """How many bytes/s of each link are rounding."""
    return np.where(np.isfinite(capacities), capacities * _ROUNDING, 0.0)


def fill_all(paths: Numbers, weights: Floats, capacities: Floats) -> Filled:
    """Share the links' capacities among all rows."""
    left, levels = capacities.copy(), np.full(len(capacities), np.inf)
    rates = fill(paths, weights, left, levels)
    return Filled(rates, levels, left)


def refill(group: Group, capacities: Floats, rounding: Floats, levels: Floats) -> Filled:
    """The same as ``fill_all``, from its rates and ``levels`` before something changed.

    Rows may have come (their rates are 0) and gone, weights and capacities may have changed.  What
    is left of a link is rounding up to ``rounding`` bytes/s.
    """
    paths, weights, rates = group.paths, group.weights, group.rates
    room = capacities - group.load
    # of the rows that cross a link, those that send at this rate or more are filled again
    least = np.full(len(capacities), np.inf)
    freed = (room > rounding) & np.isfinite(levels)
    least[freed] = levels[freed] * (1 - _SAME)
    least[room < -rounding] = 0.0
    new = _NO_ROWS
    if not group.only_ended:
        new = np.flatnonzero(rates == 0)
        new = new[levels.take(paths[:, new]).min(axis=0) > 0]
    rows = _reached(paths, rates, least, new)
    while len(rows) <= len(rates) * _MOST:
        those, weighs, were = paths.take(rows, axis=1), weights[rows], rates[rows]
        left = room + load_of(those, were * weighs, len(room))
        left[np.abs(left) <= rounding] = 0.0
        found = np.full(len(left), np.inf)
        are = fill(those, weighs, left, found)
        crossed = np.zeros(len(left), dtype=bool)
        crossed[those] = True
        found[~crossed] = np.inf

        # a bottleneck of others must stay full, and nobody may have more there than they
        others = crossed & (levels < np.inf) & (least == np.inf)
        broken = others & ((left > rounding) | ((levels * (1 + _SAME) < found) & (found < np.inf)))
        # others may not have more than those that a new bottleneck holds up
        lower = found < np.minimum(levels * (1 - _SAME), least)
        least[broken] = levels[broken] * (1 - _SAME)
        least[lower] = found[lower] * (1 + _SAME)
        count = len(rows)
        if broken.any() or lower.any():
            rows = _reached(paths, rates, least, new)
        if len(rows) == count:
            rates = rates.copy()
            rates[rows] = np.where(np.abs(are - were) <= were * _STAYS, were, are)
            return Filled(rates, np.where(least == np.inf, levels, found), left)
    return fill_all(paths, weights, capacities)


def _reached(paths: Numbers, rates: Floats, least: Floats, new: Numbers) -> Numbers:
    """The rows that are to be filled again."""
    links = np.isfinite(least)
    across = links.take(paths[0])
    for position in paths[1:]:
        across |= links.take(position)
    across[new] = True
    rows = np.flatnonzero(across)
    reached = rates[rows] >= least.take(paths[:, rows]).min(axis=0)
    reached[np.searchsorted(rows, new)] = True
    chosen: Numbers = rows[reached]
    return chosen
