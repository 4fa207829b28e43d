"""How many reduces on each of which racks, so that their shuffle is over the earliest.

Source: Co-scheduler, section IV-E.2 (equations 1, 2, 11 and 15) for the possible schedules, IV-F
(Algorithm 1, equation 13) for the best of them; section VI for W wavelengths.  SM_i is the map
output on rack i, D the number of reduces on each rack, CCT the least time that the shuffle needs on
circuits, T(C), and T_R(d) when rack R has d slots free.
Left open there, chosen here: where no whole numbers of tasks give every rack a flow of T_e, that
R_red is left out; CCT is that of map and reduce racks that have none in common, since the racks are
chosen later.  Of racks that are released at the same time, the one with the most free slots is
taken, then the first.  With W wavelengths, each chosen rack has W - 1 others that may stand in for
it: the next best that are left, given out in turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from math import ceil

from railyard.resourcemanager.schedulers.co_scheduler.parameters import Hybrid
from railyard.resourcemanager.schedulers.co_scheduler.releases import ReleaseTimes


# Possible schedules: IV-E.2 ----------------------------------------------------------------------
@dataclass(frozen=True)
class Schedule:
    """A possible schedule [R_red, D, CCT]; R_red is the length of ``tasks``."""

    tasks: tuple[int, ...]  #: D: number of reduces on each rack, descending
    cct_s: float


def possible_schedules(
    outputs_bytes: Iterable[float], reduces: int, hybrid: Hybrid, among: Sequence[int] = ()
) -> list[Schedule]:
    """A schedule for each R_red from 1 to floor(SM_1 / T_e) (eq. 11), at most the racks there are.

    ``among`` are the values predicted for a recurring job: of these, the ones that the real output
    allows; if it allows none, all others count.  Without a rack that has T_e there is no schedule.
    """
    large = [size for size in outputs_bytes if size >= hybrid.elephant_bytes]
    if not large:
        return []
    widest = min(int(min(large) // hybrid.elephant_bytes), hybrid.racks, reduces)
    widths: Sequence[int] = [width for width in among if width <= widest]
    placements = [placement(large, reduces, width, hybrid) for width in widths]
    if not any(placements):
        placements = [placement(large, reduces, n, hybrid) for n in range(1, widest + 1)]
    return [Schedule(tasks, cct_s(large, tasks, hybrid)) for tasks in placements if tasks]


def placement(
    outputs_bytes: Sequence[float], reduces: int, width: int, hybrid: Hybrid
) -> tuple[int, ...] | None:
    """D for R_red = ``width``, descending; None if a flow would be too small for a circuit.

    The paper fills every rack until the smallest output SM_1 gives it a flow of T_e, then puts each
    further reduce on the rack with the least data.  All reduces are alike, so that is the rack with
    the fewest, and the result is an even split: no loop is needed.
    """
    # SM_1 k / N_R >= T_e; N_R on one rack are always enough, however this is rounded
    least = min(reduces, max(1, ceil(hybrid.elephant_bytes * reduces / min(outputs_bytes))))
    if width * least > reduces:
        return None
    share, more = divmod(reduces, width)
    return (share + 1,) * more + (share,) * (width - more)


def cct_s(outputs_bytes: Sequence[float], tasks: Sequence[int], hybrid: Hybrid) -> float:
    """T(C) of equations 2 and 15 for C_ij = SM_i d_j / N_R.

    The longest row is that of the largest output, the longest column that of the most reduces.
    """
    rate, delta_s = hybrid.ocs_bytes_per_s, hybrid.delta_s
    row_s = max(outputs_bytes) / rate + len(tasks) * delta_s
    column_s = sum(outputs_bytes) * max(tasks) / sum(tasks) / rate + len(outputs_bytes) * delta_s
    return max(row_s, column_s) / hybrid.wavelengths


# The best schedule: IV-F, Algorithm 1 ------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class RackChoice:
    """A schedule with its racks, each as the number of its row in the release times."""

    tasks: tuple[int, ...]  #: D
    racks: tuple[int, ...]  #: the rack for each of D
    #: for each of D, racks that may stand in for it, best first; none unless W > 1
    instead: tuple[tuple[int, ...], ...]
    released_s: float  #: t_max: in how many seconds all of them have the slots
    done_s: float  #: t_max + CCT


def best_schedule(
    schedules: Iterable[Schedule], times: ReleaseTimes, wavelengths: int = 1
) -> RackChoice | None:
    """Lines 15 to 18: the one with the earliest end of its shuffle; the narrowest of equal ones.

    None if no schedule fits: each needs a rack with more slots than any has.
    """
    choices = (explore_schedule(each, times, wavelengths) for each in schedules)
    fitting = [choice for choice in choices if choice is not None]
    return min(fitting, key=lambda c: (c.done_s, len(c.racks)), default=None)


def explore_schedule(
    schedule: Schedule, times: ReleaseTimes, wavelengths: int = 1
) -> RackChoice | None:
    """Lines 1 to 13; None if the schedule does not fit.

    O(R_red x racks) in the worst case, as the paper has it; but equal numbers in D, of which there
    are two at most, take the first racks of one list.
    """
    chosen: dict[int, None] = {}
    t_max = 0.0
    for tasks, group in groupby(schedule.tasks):
        unused = (rack for rack in times.earliest(tasks) if rack not in chosen)
        best = list(islice(unused, len(list(group))))
        chosen |= dict.fromkeys(best)
        t_max = max(t_max, times.of(best[-1], tasks)) if best else t_max
    if len(chosen) < len(schedule.tasks):
        return None
    return RackChoice(
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
            best = next((rack for rack in times.earliest(count) if rack not in used), None)
            if best is not None:
                number.append(best)
                used[best] = None
    return tuple(map(tuple, found))
