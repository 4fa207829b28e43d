"""When slots will be free, estimated from the progress of the attempts that hold them.

Source: Co-scheduler, section IV-F, equation 12: an attempt goes on as fast as it went so far.
Left open there, chosen here: an attempt that has reported no progress is expected to take as long
as a task of its stage is estimated to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from math import ceil

import numpy as np
import numpy.typing as npt

from railyard.cluster.ids import AttemptId, NodeId, RackId, StageId, rack_of
from railyard.resourcemanager.schedulers.co_scheduler.dataguideline import Hybrid

Floats = npt.NDArray[np.float64]

#: The release time, in seconds, of a slot of which nothing is known: later than any that is known.
UNKNOWN_S = 1e12


class ReleaseTimes:
    """T_R of all racks, at one moment.

    ``release_s[r, d - 1]`` is in how many seconds rack r has d slots free.  It ascends in each row;
    infinite = the rack has fewer slots.
    """

    def __init__(self, release_s: Floats) -> None:
        self._release_s = release_s
        self._free = (release_s <= 0.0).sum(axis=1)
        self._earliest: dict[int, list[int]] = {}

    def of(self, rack: int, tasks: int) -> float:
        """In how many seconds a rack has this many slots free."""
        return float(self._release_s[rack, tasks - 1])

    def earliest(self, tasks: int) -> list[int]:
        """The racks that can have this many slots free, the earliest first."""
        known = self._earliest.get(tasks)
        if known is None:
            known = self._earliest[tasks] = self._sorted(tasks)
        return known

    def _sorted(self, tasks: int) -> list[int]:
        if tasks > self._release_s.shape[1]:
            return []
        times_s = self._release_s[:, tasks - 1]
        order = np.lexsort((-self._free, times_s))
        racks: list[int] = order[: np.isfinite(times_s).sum()].tolist()
        return racks


class Releases:
    """The slots of each rack, with the attempts that hold them.

    Kept as arrays with a row for each rack, its attempts in the first columns in no order: a look
    at all of a large cluster takes a few operations of numpy, and an event changes one cell.
    """

    def __init__(self, racks: Sequence[RackId]) -> None:
        self._row = {rack: row for row, rack in enumerate(racks)}
        self._slots = [0] * len(racks)  #: of each rack: those of its nodes that are alive
        #: {node with more attempts than slots: its rack's row, how many more}
        self._beyond: dict[NodeId, tuple[int, int]] = {}
        self._held: list[list[AttemptId]] = [[] for _ in racks]  #: attempts by column
        self._at: dict[AttemptId, tuple[int, int]] = {}
        self._node: dict[AttemptId, NodeId] = {}  #: where each attempt runs
        shape = (len(racks), 1)
        self._launched_s = np.zeros(shape)
        self._ends_s = np.zeros(shape)  #: nan until the attempt has reported progress
        self._error = np.ones(shape)  #: factor of the estimate
        self._stage = np.zeros(shape, np.intp)  #: index into ``_task_s``
        self._stages: dict[StageId, int] = {}
        self._unused: list[int] = []  #: indices of stages that were forgotten
        self._task_s = np.full(1, np.nan)  #: of each stage, how long a task should take

    @property
    def attempts(self) -> int:
        """Number of attempts that hold slots."""
        return len(self._at)

    def slots(self, rack: RackId) -> int:
        """Number of slots of a rack."""
        return self._slots[self._row[rack]]

    def add_slots(self, rack: RackId, count: int) -> None:
        """A rack has so many slots more, or less; of a lost node, after its attempts ended."""
        row = self._row[rack]
        self._slots[row] += count
        self._make_room(row)

    def set_beyond(self, node: NodeId, attempts: int) -> None:
        """A node has so many attempts more than slots: those that end first free none."""
        row = self._row[rack_of(node)]
        self._beyond.pop(node, None)
        if attempts > 0:
            self._beyond[node] = row, attempts
        self._make_room(row)

    def is_beyond(self, node: NodeId) -> bool:
        """Whether a node has more attempts than slots."""
        return node in self._beyond

    def launched(
        self, attempt: AttemptId, node: NodeId, stage: StageId, now_s: float, error: float = 1.0
    ) -> None:
        """An attempt took a slot; its estimated remaining time is multiplied by ``error``."""
        row = self._row[rack_of(node)]
        column = len(self._held[row])
        if column >= self._ends_s.shape[1]:
            self._widen(1)
        self._held[row].append(attempt)
        self._at[attempt] = row, column
        self._node[attempt] = node
        self._launched_s[row, column] = now_s
        self._ends_s[row, column] = np.nan
        self._error[row, column] = error
        self._stage[row, column] = self._number(stage)

    def progressed(self, attempt: AttemptId, progress: float, now_s: float) -> None:
        """The attempt reported its done share, 0 to 1."""
        at = self._at[attempt]
        elapsed_s = now_s - self._launched_s[at]
        if progress > 0:
            # eq. 12: T_rem = elapsed (1 - P) / P, so that it ends at launch + elapsed / P
            self._ends_s[at] = self._launched_s[at] + elapsed_s / progress

    def ended(self, attempt: AttemptId) -> None:
        """The attempt gave its slot up; the last one of its rack moves to its column."""
        row, column = self._at.pop(attempt)
        del self._node[attempt]
        last = self._held[row].pop()
        if last != attempt:
            end = len(self._held[row])
            self._held[row][column] = last
            self._at[last] = row, column
            for table in (self._launched_s, self._ends_s, self._error, self._stage):
                table[row, column] = table[row, end]

    def expects(self, stage: StageId) -> bool:
        """Whether it is known how long the stage's tasks should take."""
        number = self._stages.get(stage)
        return number is not None and not np.isnan(self._task_s[number])

    def expect(self, stage: StageId, task_s: float) -> None:
        """A task of a stage should take this many seconds, by the latest estimate."""
        number = self._number(stage)  # which may make a longer array
        self._task_s[number] = task_s

    def forget(self, stage: StageId) -> None:
        """A stage's job has ended."""
        number = self._stages.pop(stage, None)
        if number is not None:
            self._task_s[number] = np.nan
            self._unused.append(number)

    def release_s(self, now_s: float) -> Floats:
        """T_R: ``[r, d - 1]`` is in how many seconds rack r has d slots free, 0 = now.

        Infinite where it has fewer slots than d.
        """
        left_s = self._left_s(now_s)
        left_s.sort(axis=1)
        return left_s

    def first_release_s(self, now_s: float) -> Floats:
        """Of each rack: in how many seconds it has a slot free, 0 = now."""
        first_s: Floats = self._left_s(now_s).min(axis=1)
        return first_s

    # ---------------------------------------------------------------------------------------------
    def _left_s(self, now_s: float) -> Floats:
        """``[r, column]``: in how many seconds a slot of rack r is free; infinite = no slot."""
        ends_s = np.where(
            np.isnan(self._ends_s), self._launched_s + self._task_s[self._stage], self._ends_s
        )
        left_s = np.maximum(ends_s - now_s, 0.0) * self._error
        left_s[np.isnan(left_s)] = UNKNOWN_S
        columns = np.arange(left_s.shape[1])
        held = np.array([len(row) for row in self._held])[:, np.newaxis]
        slots = np.array(self._slots)[:, np.newaxis]
        for row, attempts in self._beyond.values():
            slots[row] += attempts  # columns in use: held, or free on other nodes
        left_s[(columns >= held) & (columns < slots)] = 0.0
        left_s[columns >= slots] = np.inf
        for node, (row, attempts) in self._beyond.items():
            here = [at for at, name in enumerate(self._held[row]) if self._node[name] == node]
            here.sort(key=left_s[row].__getitem__)
            left_s[row, here[:attempts]] = np.inf
        return left_s

    def _make_room(self, row: int) -> None:
        """Have a column for each attempt and each free slot of a rack."""
        beyond = sum(attempts for at, attempts in self._beyond.values() if at == row)
        more = max(self._slots[row] + beyond, len(self._held[row])) - self._ends_s.shape[1]
        if more > 0:
            self._widen(more)

    def _number(self, stage: StageId) -> int:
        number = self._stages.get(stage)
        if number is None:
            if self._unused:
                number = self._unused.pop()
            else:
                number = len(self._stages)
                if number >= len(self._task_s):
                    self._task_s = np.concatenate([self._task_s, np.full(number, np.nan)])
            self._stages[stage] = number
        return number

    def _widen(self, columns: int) -> None:
        more = np.zeros((len(self._held), columns))
        self._launched_s = np.concatenate([self._launched_s, more], axis=1)
        self._ends_s = np.concatenate([self._ends_s, more], axis=1)
        self._error = np.concatenate([self._error, more], axis=1)
        self._stage = np.concatenate([self._stage, more.astype(np.intp)], axis=1)


# How many reduces on each of which racks, so that their shuffle is over the earliest.
#
# Source: Co-scheduler, section IV-E.2 (equations 1, 2, 11 and 15) for the possible schedules, IV-F
# (Algorithm 1, equation 13) for the best of them; section VI for W wavelengths.  SM_i is the map
# output on rack i, D the number of reduces on each rack, CCT the least time that the shuffle needs
# on circuits, T(C), and T_R(d) when rack R has d slots free. Left open there, chosen here: where no
# whole numbers of tasks give every rack a flow of T_e, that R_red is left out; CCT is that of map
# and reduce racks that have none in common, since the racks are chosen later.  Of racks that are
# released at the same time, the one with the most free slots is taken, then the first.  With W
# wavelengths, each chosen rack has W - 1 others that may stand in for it: the next best that are
# left, given out in turns.


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
