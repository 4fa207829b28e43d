"""Progressive filling: how the capacity that is left is shared in proportion to weights.

All rows fill up alike until a link is full, and so on with the rows that cross no full link: the
weighted max-min allocation (Bertsekas and Gallager, Data Networks, 2nd edition, 6.5.2).
"""

from __future__ import annotations

import numpy as np

from netemu.schedulers.base import Floats, Numbers

#: Shares this close are equal: they differ by rounding only.
_ROUNDING = 1 + 1e-12


def fill(paths: Numbers, weights: Floats, left: Floats) -> Floats:
    """Share what is ``left`` of the links; returns bytes/s for each unit of weight, by row.

    ``paths[position, row]`` are link numbers.  What is handed out is taken from ``left``, and a
    link that is full has exactly 0 left.  Rates are inf where no link on the way is limited.

    A link's share (what is left of it by the weight that is left on it) only grows as others fill
    up.  So a link whose share is the smallest on the way of every row through it is the bottleneck
    of them all, however many links elsewhere have smaller shares: links that do not depend on one
    another fill at once.
    """
    # O(rounds x rows); a round is the depth of "waits for", not a link: 1 to 10 in shuffles
    links = len(left)
    rates = np.zeros(len(weights))
    rows = np.flatnonzero(left.take(paths).min(axis=0, initial=np.inf) > 0)
    if len(rows) < len(rates):
        paths, weights = paths[:, rows], weights[rows]
    while len(rows):
        load = _sum_by_link(paths, weights, links)
        share = np.divide(left, load, out=np.full(links, np.inf), where=load > 0)
        across = share.take(paths)
        hope = across.min(axis=0)
        full = load > 0
        hope_most = hope * _ROUNDING
        for links_there, shares_there in zip(paths, across, strict=True):
            full[links_there[shares_there > hope_most]] = False  # some row is held up elsewhere
        fixed = full.take(paths).any(axis=0)

        done = np.flatnonzero(fixed)
        found = hope[done]
        rates[rows[done]] = found
        left -= load_of(paths[:, done], found * weights[done], links)
        np.maximum(left, 0.0, out=left)
        left[full & np.isfinite(share)] = 0.0
        if len(done) == len(rows):
            break
        rest = np.flatnonzero(~fixed)
        rows, paths, weights = rows[rest], paths[:, rest], weights[rest]
    return rates


def load_of(paths: Numbers, bytes_per_s: Floats, links: int) -> Floats:
    """What rows that send at these rates (infinite ones aside) put on each link."""
    finite = np.where(np.isinf(bytes_per_s), 0.0, bytes_per_s)
    return _sum_by_link(paths, finite, links)


def _sum_by_link(paths: Numbers, values: Floats, links: int) -> Floats:
    total = np.bincount(paths[0], values, links).astype(np.float64, copy=False)
    for position in paths[1:]:
        total += np.bincount(position, values, links)
    return total
