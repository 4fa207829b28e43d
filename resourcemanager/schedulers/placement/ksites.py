"""A new assignment of tasks that changes a few sites only (4.2).

Telling all sites of a new assignment costs messages, so when a site loses slots or bandwidth, at
most k sites change.  f is the number of tasks assigned to each site, f* what would be ideal now; f'
has the same sum as both and should be near f*: Q = sqrt(sum (f'_i - f*_i)^2).
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import Numbers


def changed_at(before: Numbers, ideal: Numbers, k_sites: int) -> Numbers:
    """f' [sites], with at most ``k_sites`` numbers other than in ``before``: senders and receivers.

    Sites that shrink, the one that is furthest above its ideal number first, are emptied to that.
    Which sites receive is searched through: for each number of senders, the best receivers are
    those furthest below their ideal number (another one would end further from it by as much as
    it has less room), filled so that they end equally far below.
    """
    if int(np.count_nonzero(before != ideal)) <= k_sites:
        return ideal.copy()
    best = before.copy()
    below = ideal - before
    senders = np.argsort(below, kind="stable")[: int((below < 0).sum())]
    receivers = np.argsort(-below, kind="stable")[: int((below > 0).sum())]
    for count in range(1, min(k_sites, len(senders) + 1)):
        sent = senders[:count]
        changed = before.copy()
        changed[sent] = ideal[sent]
        _fill(changed, ideal, receivers[: k_sites - count], -int(below[sent].sum()))
        if distance(changed, ideal) < distance(best, ideal):
            best = changed
    return best


def distance(numbers: Numbers, ideal: Numbers) -> float:
    """Q: how far an assignment is from the ideal one."""
    return float(np.linalg.norm((numbers - ideal).astype(float)))


def _fill(numbers: Numbers, ideal: Numbers, sites: Numbers, tasks: int) -> None:
    """Give these sites, the one furthest below its ideal number first, this many tasks."""
    lacking = (ideal - numbers)[sites]
    filled, level = len(sites), 0.0
    while filled:  # the last sites get nothing, if the others end further below than they are
        level = (int(lacking[:filled].sum()) - tasks) / filled
        if level < lacking[filled - 1]:
            break
        filled -= 1
    whole = np.floor(lacking[:filled] - level + 1e-9).astype(np.int64)
    whole[: tasks - int(whole.sum())] += 1
    numbers[sites[:filled]] += whole
