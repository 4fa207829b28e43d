"""Which racks a job's reduces should go to, so that their shuffle is over the earliest.

Source: Co-scheduler, section IV-F, Algorithm 1 and equation 13; section VI for W wavelengths.
Left open there, chosen here: of racks that are released at the same time, the one with the most
free slots, then the first; with W wavelengths, W - 1 more racks stand in for each of those chosen,
the next best of those that are left, in turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from resourcemanager.coscheduling.guidelines import Floats
from resourcemanager.coscheduling.reduces import Schedule

#: Counts as the release time of a slot of which nothing is known: later than any that is known.
UNKNOWN_S = 1e12


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A schedule with its racks; they are numbers of rows of the release times."""

    tasks: tuple[int, ...]  #: D
    racks: tuple[int, ...]  #: the rack for each of D
    #: for each of D, racks that may stand in for it, best first; none unless W > 1
    instead: tuple[tuple[int, ...], ...]
    released_s: float  #: t_max: in how many seconds all of them have the slots
    done_s: float  #: t_max + CCT


def best_schedule(
    schedules: Iterable[Schedule], release_s: Floats, wavelengths: int = 1
) -> Choice | None:
    """Lines 15 to 18: the one whose shuffle is over first; the narrowest of equal ones.

    None if no schedule fits: each needs a rack with more slots than there is.
    """
    choices = (explore_schedule(each, release_s, wavelengths) for each in schedules)
    fitting = [choice for choice in choices if choice is not None]
    return min(fitting, key=lambda c: (c.done_s, len(c.racks)), default=None)


def explore_schedule(schedule: Schedule, release_s: Floats, wavelengths: int = 1) -> Choice | None:
    """Lines 1 to 13.  ``release_s[r, d - 1]`` is in how many seconds rack r has d slots free.

    It ascends in each row; infinite = the rack has fewer slots.  None if the schedule does not fit.
    O(racks log racks) for each different number in D.
    """
    chosen: list[int] = []
    t_max = 0.0
    unused = np.ones(len(release_s), bool)
    for tasks, group in groupby(schedule.tasks):
        count = len(list(group))
        if tasks > release_s.shape[1]:
            return None
        best = _earliest(release_s, tasks, unused)[:count]
        if len(best) < count:
            return None
        chosen += best
        unused[best] = False
        t_max = max(t_max, float(release_s[best[-1], tasks - 1]))
    return Choice(
        tasks=schedule.tasks,
        racks=tuple(chosen),
        instead=_stand_ins(schedule.tasks, release_s, unused, wavelengths),
        released_s=t_max,
        done_s=t_max + schedule.cct_s,
    )


def _earliest(release_s: Floats, tasks: int, unused: np.ndarray) -> list[int]:
    """The unused racks that can have so many slots, the earliest first."""
    times_s = release_s[:, tasks - 1]
    free = (release_s <= 0.0).sum(axis=1)
    order = np.lexsort((-free, times_s))
    fits = unused & np.isfinite(times_s)
    return [rack for rack in order.tolist() if fits[rack]]


def _stand_ins(
    tasks: Sequence[int], release_s: Floats, unused: np.ndarray, wavelengths: int
) -> tuple[tuple[int, ...], ...]:
    found: list[list[int]] = [[] for _ in tasks]
    for _ in range(wavelengths - 1):
        for number, count in zip(found, tasks, strict=True):
            best = _earliest(release_s, count, unused)[:1]
            number += best
            unused[best] = False
    return tuple(map(tuple, found))
