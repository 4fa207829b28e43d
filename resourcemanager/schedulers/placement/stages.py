"""A job of maps and reduces, planned forward or in reverse (3.4)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from railyard.netemu.model.arrays import Floats
from railyard.resourcemanager.schedulers.placement.model import Bounds, Plan, Sites, Solver, Stage


@dataclass(frozen=True)
class JobPlan:
    """Where a job's maps and reduces run."""

    maps: Plan
    reduces: Plan

    @property
    def time_s(self) -> float:
        """Seconds of both stages, one after the other."""
        return self.maps.time_s + self.reduces.time_s


def forward(solver: Solver, sites: Sites, maps: Stage, reduces: Stage) -> JobPlan | None:
    """The best maps, then the best reduces for where these leave their output.

    ``reduces.held_bytes`` gives the size of the shuffle only.
    """
    return _with_reduces(solver, sites, solver.place_maps(sites, maps), reduces)


def reverse(solver: Solver, sites: Sites, maps: Stage, reduces: Stage) -> JobPlan | None:
    """Maps that leave their output where reduces, in proportion to the slots, get it fastest."""
    wanted = output_wanted(sites, reduces.size_bytes)
    if wanted is None:
        return None
    return _with_reduces(solver, sites, solver.place_maps(sites, maps, wanted), reduces)


def best(solver: Solver, sites: Sites, maps: Stage, reduces: Stage) -> JobPlan | None:
    """The faster of both; forward if they are equal."""
    plans = [plan(solver, sites, maps, reduces) for plan in (forward, reverse)]
    return min((plan for plan in plans if plan), key=lambda plan: plan.time_s, default=None)


def output_wanted(sites: Sites, shuffle_bytes: float) -> Bounds | None:
    """The shares of maps' output at each site with which the shuffle is fastest; None if none is.

    Steps (i) and (ii) of the reverse plan: r_x = S_x / sum S, and the least T_shuf over all Q.  As
    many Q have it, all of them are given, and step (iii) chooses.
    """
    from railyard.resourcemanager.schedulers.placement import exact  # which loads numba

    total = float(sites.slots.sum())
    if total <= 0:
        return None
    reduces = sites.slots / total
    leave_s = _seconds((1.0 - reduces) * shuffle_bytes, sites.up_bytes_per_s)
    come_s = _seconds(reduces * shuffle_bytes, sites.down_bytes_per_s)
    time_s = exact.fastest_shuffle_s(leave_s, come_s)
    if time_s is None:
        return None
    return Bounds(1.0 - exact.share_passed(time_s, come_s), exact.share_passed(time_s, leave_s))


def _seconds(size_bytes: Floats, bytes_per_s: Floats) -> Floats:
    """How long a link takes; 0 for nothing, inf where it passes nothing."""
    none = np.where(size_bytes > 0, np.inf, 0.0)
    return np.divide(size_bytes, bytes_per_s, out=none, where=bytes_per_s > 0)


def _with_reduces(
    solver: Solver, sites: Sites, maps: Plan | None, reduces: Stage
) -> JobPlan | None:
    if maps is None:
        return None
    stage = replace(reduces, held_bytes=maps.shares * reduces.size_bytes)
    placed = solver.place_reduces(sites, stage)
    return None if placed is None else JobPlan(maps, placed)
