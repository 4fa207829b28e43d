"""How many reduces on each of which racks, so that their shuffle is over the earliest.

Source: Co-scheduler, section IV-E.2 (equations 1, 2, 11 and 15) for the possible schedules, IV-F
(Algorithm 1, equation 13) for the best of them, and equation 12 for when slots will be free: an
attempt goes on as fast as it went so far; section VI for W wavelengths.  SM_i is the map output on
rack i, D the number of reduces on each rack, CCT the least time that the shuffle needs on circuits,
T(C), and T_R(d) when rack R has d slots free.

Left open there, chosen here:

* Where no whole numbers of tasks give every rack a flow of T_e, that R_red is left out.
* CCT is that of map and reduce racks that have none in common, since the racks are chosen later.
* Of racks that are released at once, that with the most free slots is taken, then the first.
* With W wavelengths, each chosen rack has W - 1 others that may stand in for it: the next best that
  are left, given out in turns.
* An attempt without reported progress is expected to take as long as is estimated of its stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from math import ceil, inf
from statistics import fmean

import numpy as np

from railyard.cluster.ids import AttemptId, NodeId, RackId, StageId, rack_of
from railyard.cluster.topology import Topology
from railyard.netemu.model.arrays import Floats, Numbers


@dataclass(frozen=True, kw_only=True)
class Hybrid:
    """Racks that are all alike, joined by packet switches (EPS) and a circuit switch (OCS)."""

    racks: int
    slots: int  #: task slots of one rack
    eps_bytes_per_s: float  #: BW_EPS: a rack's link to the packet-switched core
    ocs_bytes_per_s: float  #: BW_OCS: one circuit
    elephant_bytes: float  #: T_e: the least that one rack sends to another over a circuit
    delta_s: float = 0.0  #: delta: how long a circuit takes to set up
    wavelengths: int = 1  #: W: circuits that a rack can have at once
    replicas: int = 3  #: of each block
    shuffle_bound: bool = False  #: as in ``CoConfig``, which has another default

    @classmethod
    def of(cls, topology: Topology, *, shuffle_bound: bool = False) -> Hybrid:
        """A topology's figures; racks that differ count with their mean."""
        racks, ocs = topology.rack_list(), topology.ocs
        eps = fmean(rack.uplink_bytes_per_s for rack in racks)
        return cls(
            racks=len(racks),
            slots=max(1, topology.slots // len(racks)),
            eps_bytes_per_s=eps,
            ocs_bytes_per_s=ocs.port_bytes_per_s if ocs else eps,
            elephant_bytes=ocs.elephant_bytes if ocs else inf,
            delta_s=ocs.delta_s if ocs else 0.0,
            wavelengths=ocs.wavelengths if ocs else 1,
            replicas=topology.storage.replication,
            shuffle_bound=shuffle_bound,
        )

    @property
    def racks_max(self) -> int:
        """The most racks for one replica, so that all replicas' racks are disjoint; at least 1."""
        return max(1, self.racks // self.replicas)


# When slots will be free: equation 12 -------------------------------------------------------------
#: The release time, in seconds, of a slot of which nothing is known: later than any that is known.
UNKNOWN_S = 1e12


class ReleaseTimes:
    """T_R of all racks, at one moment.

    ``release_s[r, d - 1]``: in how many seconds rack r has d slots free, inf = never; rows ascend.
    """

    def __init__(self, release_s: Floats) -> None:
        self._release_s = release_s
        self._free = (release_s <= 0.0).sum(axis=1)
        self._earliest: dict[int, list[int]] = {}  #: {tasks: racks}

    def of(self, rack: int, tasks: int) -> float:
        """In how many seconds a rack has this many slots free."""
        return float(self._release_s[rack, tasks - 1])

    def earliest(self, tasks: int) -> list[int]:
        """The racks that can have this many slots free, the earliest first."""
        known = self._earliest.get(tasks)
        if known is None:
            known = self._earliest[tasks] = []
            if tasks <= self._release_s.shape[1]:
                times_s = self._release_s[:, tasks - 1]
                order = np.lexsort((-self._free, times_s))
                known += order[: np.isfinite(times_s).sum()].tolist()
        return known


#: What is known of an attempt that holds a slot: its rack's row, its stage's number, when it was
#: launched, when it ends (nan until it has reported progress), and the factor of the estimate.
_ATTEMPT = np.dtype(
    [
        ("row", np.int16),
        ("stage", np.intp),
        ("launched_s", np.float64),
        ("ends_s", np.float64),
        ("error", np.float64),
    ],
    align=True,
)


class Releases:
    """The slots of each rack, and the attempts that hold them, in a table in no order."""

    def __init__(self, racks: Sequence[RackId]) -> None:
        self._row = {rack: row for row, rack in enumerate(racks)}
        self._slots = np.zeros(len(racks), np.intp)  #: of each rack: those of its living nodes
        self._slots_max = 1  #: the most that any rack has had
        #: {node with more attempts than slots: its rack's row, how many more}
        self._beyond: dict[NodeId, tuple[int, int]] = {}
        self._names: list[AttemptId] = []  #: of the attempts, as in the table
        self._at: dict[AttemptId, int] = {}
        self._node: dict[AttemptId, NodeId] = {}  #: where each attempt runs
        self._table = np.zeros(16, _ATTEMPT)
        self._stages: dict[StageId, int] = {}  #: the number of each stage
        self._numbers = 0  #: so far
        self._unused: list[int] = []  #: numbers of stages that were forgotten
        self._task_s = np.full(1, np.nan)  #: of each stage, how long a task should take

    def slots(self, rack: RackId) -> int:
        return int(self._slots[self._row[rack]])

    def add_slots(self, rack: RackId, more: int) -> None:
        """A rack has so many slots more, or less; of a lost node, after its attempts ended."""
        self._slots[self._row[rack]] += more
        self._slots_max = max(self._slots_max, self.slots(rack))

    def set_beyond(self, node: NodeId, attempts: int) -> None:
        """A node has so many attempts more than slots: those that end first free none."""
        self._beyond.pop(node, None)
        if attempts > 0:
            self._beyond[node] = self._row[rack_of(node)], attempts

    def is_beyond(self, node: NodeId) -> bool:
        return node in self._beyond

    def launched(
        self, attempt: AttemptId, node: NodeId, stage: StageId, now_s: float, error: float = 1.0
    ) -> None:
        """An attempt took a slot; its estimated remaining time is multiplied by ``error``."""
        at = self._at[attempt] = len(self._names)
        self._names.append(attempt)
        self._node[attempt] = node
        if at == len(self._table):
            self._table = np.resize(self._table, 2 * at)
        self._table[at] = self._row[rack_of(node)], self._number(stage), now_s, np.nan, error

    def progressed(self, attempt: AttemptId, progress: float, now_s: float) -> None:
        """The attempt reported its done share, 0 to 1."""
        if progress > 0:
            held = self._table[self._at[attempt]]
            elapsed_s = now_s - held["launched_s"]
            # eq. 12: T_rem = elapsed (1 - P) / P, so that it ends at launch + elapsed / P
            held["ends_s"] = held["launched_s"] + elapsed_s / progress

    def ended(self, attempt: AttemptId) -> None:
        """The attempt gave its slot up; the last one moves to its place in the table."""
        at, last = self._at.pop(attempt), self._names.pop()
        del self._node[attempt]
        if last != attempt:
            self._names[at], self._at[last] = last, at
            self._table[at] = self._table[len(self._names)]

    def expects(self, stage: StageId) -> bool:
        """Whether it is known how long the stage's tasks should take."""
        return stage in self._stages and not np.isnan(self._task_s[self._stages[stage]])

    def expect(self, stage: StageId, task_s: float) -> None:
        number = self._number(stage)  # which may make a longer array
        self._task_s[number] = task_s

    def forget(self, stage: StageId) -> None:
        """A stage's job has ended; its last attempts may still hold slots, and its number."""
        number = self._stages.pop(stage, None)
        if number is not None:
            self._task_s[number] = np.nan
            if not (self._table["stage"][: len(self._names)] == number).any():
                self._unused.append(number)

    def release_s(self, now_s: float) -> Floats:
        """T_R: ``[r, d - 1]``: in how many seconds rack r has d slots free: 0 now, inf never."""
        rows, left_s, free = self._left_s(now_s)
        order = np.argsort(rows, kind="stable")  # by radix, as rows have 16 bits
        rows, left_s = rows[order], left_s[order]
        held = np.bincount(rows, minlength=len(free))
        width = max(self._slots_max, int((free + held).max()))
        found = np.full((len(free), width), np.inf)
        found[np.arange(width) < free[:, np.newaxis]] = 0.0
        first = np.cumsum(held) - held - free  # of each rack's, before its free slots
        found[rows, np.arange(len(rows)) - first[rows]] = left_s
        found.sort(axis=1)
        return found

    def _left_s(self, now_s: float) -> tuple[Numbers, Floats, Numbers]:
        """Rows of attempts that will free a slot, in how many seconds; free slots [racks]."""
        held = self._table[: len(self._names)]
        unknown = np.isnan(held["ends_s"])
        ends_s = np.where(unknown, held["launched_s"] + self._task_s[held["stage"]], held["ends_s"])
        left_s = np.maximum(ends_s - now_s, 0.0) * held["error"]
        left_s[np.isnan(left_s)] = UNKNOWN_S
        rows = held["row"]
        free = self._slots - np.bincount(rows, minlength=len(self._slots))
        frees = np.ones(len(held), bool)
        for node, (row, attempts) in self._beyond.items():
            free[row] += attempts
            here = [at for at, name in enumerate(self._names) if self._node[name] == node]
            here.sort(key=left_s.__getitem__)
            frees[here[:attempts]] = False
        return rows[frees], left_s[frees], np.maximum(free, 0)

    def _number(self, stage: StageId) -> int:
        number = self._stages.get(stage)
        if number is None:
            free = self._unused
            number = self._stages[stage] = free.pop() if free else self._numbers
            self._numbers = max(self._numbers, number + 1)
            if number == len(self._task_s):
                self._task_s = np.append(self._task_s, np.full(number, np.nan))
        return number


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

    O(R_red x racks) at worst, as in the paper; equal numbers in D take the first racks of one list.
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
