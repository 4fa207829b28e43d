"""Which racks a job's reduces should go to, so that their shuffle is over the earliest.

Source: Co-scheduler, section IV-F, Algorithm 1 and equation 13; section VI for W wavelengths.
Left open there, chosen here: of racks that are released at the same time, the one with the most
free slots, then the first; with W wavelengths, W - 1 more racks stand in for each of those chosen,
the next best of those that are left, in turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice

import numpy as np

from railyard.resourcemanager.schedulers.co_scheduler.guidelines import Floats
from railyard.resourcemanager.schedulers.co_scheduler.reduces import Schedule

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


class ReleaseTimes:
    """T_R of all racks, at one moment.

    ``release_s[r, d - 1]`` is in how many seconds rack r has d slots free.  It ascends in each row;
    infinite = the rack has fewer slots.
    """

    def __init__(self, release_s: Floats) -> None:
        self._release_s = release_s
        self._free = (release_s <= 0.0).sum(axis=1)
        self._orders: dict[int, list[int]] = {}

    def of(self, rack: int, tasks: int) -> float:
        """In how many seconds a rack has so many slots free."""
        return float(self._release_s[rack, tasks - 1])

    def order(self, tasks: int) -> list[int]:
        """The racks that can have so many slots free, the earliest first."""
        known = self._orders.get(tasks)
        if known is None:
            known = self._orders[tasks] = self._sorted(tasks)
        return known

    def _sorted(self, tasks: int) -> list[int]:
        if tasks > self._release_s.shape[1]:
            return []
        times_s = self._release_s[:, tasks - 1]
        order = np.lexsort((-self._free, times_s))
        racks: list[int] = order[: np.isfinite(times_s).sum()].tolist()
        return racks


def best_schedule(
    schedules: Iterable[Schedule], times: ReleaseTimes, wavelengths: int = 1
) -> Choice | None:
    """Lines 15 to 18: the one whose shuffle is over first; the narrowest of equal ones.

    None if no schedule fits: each needs a rack with more slots than there is.
    """
    choices = (explore_schedule(each, times, wavelengths) for each in schedules)
    fitting = [choice for choice in choices if choice is not None]
    return min(fitting, key=lambda c: (c.done_s, len(c.racks)), default=None)


def explore_schedule(
    schedule: Schedule, times: ReleaseTimes, wavelengths: int = 1
) -> Choice | None:
    """Lines 1 to 13; None if the schedule does not fit.

    O(R_red x racks) in the worst case, as the paper has it; but equal numbers in D, of which there
    are two at most, take the first racks of one list.
    """
    chosen: dict[int, None] = {}
    t_max = 0.0
    for tasks, group in groupby(schedule.tasks):
        unused = (rack for rack in times.order(tasks) if rack not in chosen)
        best = list(islice(unused, len(list(group))))
        chosen |= dict.fromkeys(best)
        t_max = max(t_max, times.of(best[-1], tasks)) if best else t_max
    if len(chosen) < len(schedule.tasks):
        return None
    return Choice(
        tasks=schedule.tasks,
        racks=tuple(chosen),
        instead=_stand_ins(schedule.tasks, times, chosen, wavelengths),
        released_s=t_max,
        done_s=t_max + schedule.cct_s,
    )


def _stand_ins(
    tasks: Sequence[int], times: ReleaseTimes, chosen: Mapping[int, None], wavelengths: int
) -> tuple[tuple[int, ...], ...]:
    found: list[list[int]] = [[] for _ in tasks]
    used = dict(chosen)
    for _ in range(wavelengths - 1):
        for number, count in zip(found, tasks, strict=True):
            best = next((rack for rack in times.order(count) if rack not in used), None)
            if best is not None:
                number.append(best)
                used[best] = None
    return tuple(map(tuple, found))
