"""Whole tasks: how many of a plan run at each site, and which of them read from where."""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers

#: A number that is whole but for rounding; solvers are better than this by far.
_WHOLE = 1e-7


def whole_tasks(shares: Floats, tasks: int) -> Numbers:
    """How many of ``tasks`` run at each site [sites]: by largest remainders, so that the sum holds.

    A site gets a task only if it has a share; of equal remainders, the first site's counts.
    """
    exact = shares * tasks
    whole = np.floor(exact + _WHOLE).astype(np.int64)
    missing = tasks - int(whole.sum())
    if missing:
        remainders = np.where(shares > 0, np.maximum(exact - whole, 0.0), -1.0)
        whole[np.argsort(-remainders, kind="stable")[:missing]] += 1
    return whole


def tasks_between(held: Numbers, placed: Numbers) -> Numbers:
    """How many tasks with data at site x run at site y: [x, y], as few away from it as can be.

    Each site's remote tasks read from all sites that send any, in proportion, so that no uplink is
    asked for all at once.
    """
    between = np.diag(np.minimum(held, placed))
    away = held - placed
    if away.any():
        np.add.at(between, (_spread(away), _spread(-away)), 1)
    return between


def _spread(numbers: Numbers) -> Numbers:
    """Each site as often as its number says (never if it is negative), evenly among others."""
    counts = np.maximum(numbers, 0)
    sites = np.repeat(np.arange(len(counts)), counts)
    begins = np.repeat(np.cumsum(counts) - counts, counts)
    places = (np.arange(len(sites)) - begins + 0.5) / counts[sites]
    return sites[np.argsort(places, kind="stable")]
