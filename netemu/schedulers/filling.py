"""Water-filling: shares the capacity that is left in proportion to weights.

All rates rise equally per unit of weight until a link is full; the rows that cross it are frozen,
and the others rise on.  The result is the weighted max-min allocation (Bertsekas and Gallager, Data
Networks, 2nd edition, 6.5.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.links import sum_by_link
from railyard.netemu.model.traffic import Group

#: What is left of a link is rounding if it is less than this share of its capacity.
NOTHING = 1e-12
#: Shares this close are equal: they differ by rounding only.
_ROUNDING = 1 + 1e-12
#: Up to so many rows are filled one by one: one takes 10 us, with arrays 37; four take 28, and 50.
_FEW_ROWS = 4


def fill(paths: Numbers, weights: Floats, left: Floats) -> Floats:
    """Share what is ``left`` of the links, bytes/s; returns [row]: bytes/s per unit of weight.

    ``paths[position, row]`` are link numbers.  What is handed out is taken from ``left``, and a
    link that is full has exactly 0 left.  Rates are inf where no link on the path is limited, and 0
    for rows without weight, which have no flow.

    A link's share is what is left of it, divided by the weight that still rises on it; it only
    grows as other links fill up.  So if a link's share is the smallest on the paths of all rows
    through it, it is the bottleneck of all of them, whatever shares links elsewhere have: links
    that do not depend on one another fill in the same round.
    """
    if len(weights) <= _FEW_ROWS:
        return _fill_few(paths, weights, left)
    return fill_many(paths, weights, left)


def fill_many(paths: Numbers, weights: Floats, left: Floats) -> Floats:
    """``fill`` with arrays, for any number of rows."""
    # O(rounds x rows); a round is the depth of "waits for", not a link: 1 to 10 in shuffles, but
    # 85 with 10,000 flows between random pairs of 150 racks (20 ms)
    links = len(left)
    rates = np.zeros(len(weights))
    rows = np.flatnonzero((left.take(paths).min(axis=0, initial=np.inf) > 0) & (weights > 0))
    if len(rows) < len(rates):
        paths, weights = paths.take(rows, axis=1), weights[rows]
    while len(rows):
        load = sum_by_link(paths, weights, links)
        full = load > 0
        share = np.divide(left, load, out=np.full(links, np.inf), where=full)
        across = share.take(paths)
        hope = across.min(axis=0)
        full[paths[across > hope * _ROUNDING]] = (
            False  # a row through it has its bottleneck elsewhere
        )
        fixed = full.take(paths).any(axis=0)

        rates[rows[fixed]] = hope[fixed]
        finite = np.where(fixed & (hope < np.inf), hope, 0.0)
        left -= sum_by_link(paths, finite * weights, links)
        np.maximum(left, 0.0, out=left)
        full &= share < np.inf
        left[full] = 0.0
        rest = np.flatnonzero(~fixed)
        rows, paths, weights = rows[rest], paths.take(rest, axis=1), weights[rest]
    return rates


def _fill_few(paths: Numbers, weights: Floats, left: Floats) -> Floats:
    """``fill_many`` row by row, to the last digit: sums are made in the same order."""
    ways: list[list[int]] = paths.T.tolist()
    weighs: list[float] = weights.tolist()
    room = {link: left.item(link) for way in ways for link in way}
    rates = [0.0] * len(ways)
    rising = [row for row, way in enumerate(ways) if weighs[row] > 0 and _least(room, way) > 0]
    while rising:
        load = _sum_few(ways, rising, weighs)
        share = {link: room[link] / weight for link, weight in load.items()}
        full = dict.fromkeys(load, True)
        hopes = [_least(share, ways[row]) for row in rising]
        for row, hope in zip(rising, hopes, strict=True):
            for link in ways[row]:
                if share[link] > hope * _ROUNDING:
                    full[link] = False  # the row has its bottleneck elsewhere
        sent, rest = [0.0] * len(ways), list[int]()
        for row, hope in zip(rising, hopes, strict=True):
            if not any(full[link] for link in ways[row]):
                rest.append(row)
                continue
            rates[row] = hope
            sent[row] = hope * weighs[row] if hope < inf else 0.0
        for link, bytes_per_s in _sum_few(ways, rising, sent).items():
            left_over = max(room[link] - bytes_per_s, 0.0)
            room[link] = 0.0 if full[link] and share[link] < inf else left_over
        rising = rest
    for link, bytes_per_s in room.items():
        left[link] = bytes_per_s
    return np.array(rates)


def _least(values: dict[int, float], way: list[int]) -> float:
    return min([values[link] for link in way])


def _sum_few(ways: list[list[int]], rows: list[int], values: list[float]) -> dict[int, float]:
    """Sums of these rows' values, by the links that they cross; see ``sum_by_link``."""
    total: dict[int, float] = {}
    for position in range(len(ways[0])):
        part: dict[int, float] = {}
        for row in rows:
            link = ways[row][position]
            part[link] = part.get(link, 0.0) + values[row]
        for link, value in part.items():
            total[link] = total.get(link, 0.0) + value
    return total


def serve_in_order(
    order: Iterable[Group], capacities: Floats, shares: Callable[[Group], Floats]
) -> None:
    """Set the rates of groups, the first one's first: each gets what it can use of what is left.

    ``shares`` returns the proportions in which to serve a group's rows, [row].
    """
    left, rounding = capacities.copy(), rounding_of(capacities)
    for group in order:
        wanted = shares(group)
        group.set_rates(fill(group.paths, wanted, left) * (wanted / group.weights))
        left[left <= rounding] = 0.0


def by_arrival(group: Group) -> tuple[float, str]:
    """Sort key: the earlier arrival first, then by name."""
    return group.arrived_s, group.key


def rounding_of(capacities: Floats) -> Floats:
    """[link]: this many bytes/s of a link are rounding."""
    return np.where(np.isfinite(capacities), capacities * NOTHING, 0.0)
