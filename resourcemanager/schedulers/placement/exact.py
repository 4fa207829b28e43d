"""Both problems solved exactly, by a search in one dimension: the default.

Written with the sites' shares a_x alone, both are

    min T + K w   where   sum a_x = 1   and for each site
                          max(least_x, out_x - up_x T) <= a_x <= min(most_x, in_x + down_x T, w S_x)
                          sum local_x min(a_x, home_x) >= L
                          K w >= the time of one task

T is the network's time and w the tasks per slot at the busiest site, as a share of all.  The last
but one line is the budget: what share of all bytes is read where it lies.

         out_x, in_x   up_x      down_x          local_x   home_x
maps     I_x / I       U_x / I   V_x / I         1         I_x / I
reduces  1, 0          U_x/Q_x   V_x/(Q - Q_x)   Q_x / Q   1        (no bytes: no bound)

For a fixed T, the least w follows directly: both sums are concave in w, so Newton's steps from
below end at it.  T + K w is convex in T and made of straight pieces: the lines that touch it on
both sides of its lowest point meet below it, and where they meet is looked at next.  Once they meet
on the curve, that is the lowest point.

The loops are compiled: importing this loads numba.  ``load_loops`` compiles them, or loads what was
compiled; a live cluster would wait for that at its first decision, for 6 s on a new machine.
"""

from __future__ import annotations

import functools

import numpy as np

from railyard.netemu.model.arrays import Floats
from railyard.resourcemanager.schedulers.placement import model
from railyard.resourcemanager.schedulers.placement.loops.search import search
from railyard.resourcemanager.schedulers.placement.loops.table import (
    DOWN,
    HOME,
    IN,
    LEAST,
    LOCAL,
    MOST,
    OUT,
    ROWS,
    SLOTS,
    UP,
)
from railyard.resourcemanager.schedulers.placement.model import Bounds, Plan, Sites, Stage


def place_maps(sites: Sites, stage: Stage, wanted: Bounds | None = None) -> Plan | None:
    """Equations 1 to 5, and the budget of 4.3."""
    held, size = stage.held_bytes, stage.size_bytes
    table = np.empty((ROWS, len(held)))
    table[SLOTS] = sites.slots
    table[OUT] = table[IN] = table[HOME] = held / size
    table[UP] = sites.up_bytes_per_s / size
    table[DOWN] = sites.down_bytes_per_s / size
    table[LOCAL] = 1.0
    table[LEAST] = 0.0 if wanted is None else wanted.least
    table[MOST] = np.inf if wanted is None else wanted.most
    found = search(table, stage.work_s, stage.task_s, 1.0 - stage.budget_bytes / size)
    if found is None:
        return None
    shares, network_s, compute_s, in_budget = found
    return Plan(shares, network_s, compute_s, model.sent_by_maps_bytes(stage, shares), in_budget)


def place_reduces(sites: Sites, stage: Stage) -> Plan | None:
    """Equations 6 to 10, and the budget of 4.3."""
    held, size = stage.held_bytes, stage.size_bytes
    table = np.empty((ROWS, len(held)))
    table[SLOTS] = sites.slots
    elsewhere = size - held
    table[OUT], table[IN], table[HOME] = held > 0, elsewhere <= 0, 1.0
    table[UP] = _rate(sites.up_bytes_per_s, held)
    table[DOWN] = _rate(sites.down_bytes_per_s, elsewhere)
    table[LOCAL] = held / size
    table[LEAST], table[MOST] = 0.0, np.inf
    found = search(table, stage.work_s, stage.task_s, 1.0 - stage.budget_bytes / size)
    if found is None:
        return None
    shares, network_s, compute_s, in_budget = found
    return Plan(shares, network_s, compute_s, model.sent_by_reduces_bytes(stage, shares), in_budget)


def fastest_shuffle_s(leave_s: Floats, come_s: Floats) -> float | None:
    """The least T_shuf over all places of the data, for reduces that are placed; None if none is.

    With the share q_x of the data at site x, it is the largest of q_x leave_s and (1 - q_x) come_s.
    """
    table = np.zeros((ROWS, len(leave_s)))
    table[SLOTS] = table[MOST] = table[HOME] = 1.0  # data may lie anywhere
    table[OUT], table[UP] = come_s > 0, _inverse(come_s)
    table[IN], table[DOWN] = leave_s == 0, _inverse(leave_s)
    found = search(table, 0.0, 0.0, 0.0)
    return None if found is None else found[1]


@functools.cache
def load_loops() -> None:
    """Compile the loops now, or load them if they have been compiled on this machine."""
    fastest_shuffle_s(np.ones(1), np.ones(1))


def share_passed(time_s: float, whole_s: Floats) -> Floats:
    """What share of something passes in a time, if the whole takes ``whole_s``; at most 1."""
    passed = np.divide(time_s, whole_s, out=np.ones(len(whole_s)), where=whole_s > 0)
    return np.minimum(passed, 1.0)


def _inverse(times_s: Floats) -> Floats:
    return np.divide(1.0, times_s, out=np.zeros(len(times_s)), where=times_s > 0)


def _rate(bytes_per_s: Floats, size_bytes: Floats) -> Floats:
    """What share of these bytes passes a link per second; 0 if there are none."""
    return np.divide(bytes_per_s, size_bytes, out=np.zeros(len(size_bytes)), where=size_bytes > 0)
