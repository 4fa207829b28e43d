"""When slots will be free, estimated from how far the attempts are that hold them.

Source: Co-scheduler, section IV-F, equation 12: an attempt goes on as fast as it went so far.
Left open there, chosen here: of an attempt that has told no progress, the mean time of its stage's
done tasks is expected, and nothing if none is done.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railyard.cluster.ids import AttemptId, RackId, StageId
from railyard.resourcemanager.schedulers.co_scheduler.explore import UNKNOWN_S
from railyard.resourcemanager.schedulers.co_scheduler.guidelines import Floats


class Releases:
    """The slots of each rack, with the attempts that hold them.

    Kept as arrays, a row a rack, its attempts in the first columns in no order: a look at all of a
    large cluster is a few operations of numpy, and an event changes one cell.
    """

    def __init__(self, racks: Sequence[RackId]) -> None:
        self._row = {rack: row for row, rack in enumerate(racks)}
        self._slots = [0] * len(racks)  #: of each rack's nodes that are alive
        self._held: list[list[AttemptId]] = [[] for _ in racks]  #: attempts by column
        self._at: dict[AttemptId, tuple[int, int]] = {}
        shape = (len(racks), 1)
        self._launched_s = np.zeros(shape)
        self._ends_s = np.zeros(shape)  #: nan until the attempt has told its progress
        self._error = np.ones(shape)  #: by which the estimate is multiplied
        self._stage = np.zeros(shape, np.intp)  #: row of ``_mean_s``
        self._stages: dict[StageId, int] = {}
        self._took: list[tuple[int, float]] = []  #: done tasks and their time in all, by stage
        self._unused: list[int] = []  #: rows of stages that were forgotten
        self._mean_s = np.full(1, np.nan)

    @property
    def attempts(self) -> int:
        """How many hold slots."""
        return len(self._at)

    def slots(self, rack: RackId) -> int:
        """How many slots a rack has."""
        return self._slots[self._row[rack]]

    def add_slots(self, rack: RackId, count: int) -> None:
        """A node joined, or (below 0) was lost, its attempts having ended."""
        row = self._row[rack]
        self._slots[row] += count
        more = max(self._slots[row], len(self._held[row])) - self._ends_s.shape[1]
        if more > 0:
            self._widen(more)

    def launched(
        self, attempt: AttemptId, rack: RackId, stage: StageId, now_s: float, error: float = 1.0
    ) -> None:
        """An attempt took a slot; ``error`` falsifies what is estimated of it."""
        row = self._row[rack]
        column = len(self._held[row])
        if column >= self._ends_s.shape[1]:
            self._widen(1)
        self._held[row].append(attempt)
        self._at[attempt] = row, column
        self._launched_s[row, column] = now_s
        self._ends_s[row, column] = np.nan
        self._error[row, column] = error
        self._stage[row, column] = self._number(stage)

    def progressed(self, attempt: AttemptId, progress: float, now_s: float) -> None:
        """It told how far it is, 0 to 1."""
        at = self._at[attempt]
        elapsed_s = now_s - self._launched_s[at]
        if progress > 0:
            # eq. 12: T_rem = elapsed (1 - P) / P, so that it ends at launch + elapsed / P
            self._ends_s[at] = self._launched_s[at] + elapsed_s / progress

    def ended(self, attempt: AttemptId) -> None:
        """It gave its slot up; the last of its rack takes over its column."""
        row, column = self._at.pop(attempt)
        last = self._held[row].pop()
        if last != attempt:
            end = len(self._held[row])
            self._held[row][column] = last
            self._at[last] = row, column
            for table in (self._launched_s, self._ends_s, self._error, self._stage):
                table[row, column] = table[row, end]

    def task_took(self, stage: StageId, seconds: float) -> None:
        """A task of a stage was done in so many seconds."""
        number = self._number(stage)
        done, total_s = self._took[number]
        self._took[number] = done + 1, total_s + seconds
        self._mean_s[number] = (total_s + seconds) / (done + 1)

    def forget(self, stage: StageId) -> None:
        """A stage's job has ended."""
        number = self._stages.pop(stage, None)
        if number is not None:
            self._mean_s[number] = np.nan
            self._took[number] = (0, 0.0)
            self._unused.append(number)

    def release_s(self, now_s: float) -> Floats:
        """T_R: ``[r, d - 1]`` is in how many seconds rack r has d slots free, 0 = it has.

        Infinite where it has fewer slots than d.
        """
        left_s = self._left_s(now_s)
        left_s.sort(axis=1)
        return left_s

    def first_release_s(self, now_s: float) -> Floats:
        """Its first column: in how many seconds each rack has a slot free."""
        first_s: Floats = self._left_s(now_s).min(axis=1)
        return first_s

    # ---------------------------------------------------------------------------------------------
    def _left_s(self, now_s: float) -> Floats:
        """In how many seconds each slot is free, by rack; infinite where there is no slot."""
        ends_s = np.where(
            np.isnan(self._ends_s), self._launched_s + self._mean_s[self._stage], self._ends_s
        )
        left_s = np.maximum(ends_s - now_s, 0.0) * self._error
        left_s[np.isnan(left_s)] = UNKNOWN_S
        columns = np.arange(left_s.shape[1])
        held = np.array([len(row) for row in self._held])[:, np.newaxis]
        slots = np.array(self._slots)[:, np.newaxis]
        left_s[(columns >= held) & (columns < slots)] = 0.0
        left_s[columns >= slots] = np.inf
        return left_s

    def _number(self, stage: StageId) -> int:
        number = self._stages.get(stage)
        if number is None:
            if self._unused:
                number = self._unused.pop()
            else:
                number = len(self._took)
                self._took.append((0, 0.0))
                if number >= len(self._mean_s):
                    self._mean_s = np.concatenate([self._mean_s, np.full(number, np.nan)])
            self._stages[stage] = number
        return number

    def _widen(self, columns: int) -> None:
        more = ((0, 0), (0, columns))
        self._launched_s = np.pad(self._launched_s, more)
        self._ends_s = np.pad(self._ends_s, more)
        self._error = np.pad(self._error, more)
        self._stage = np.pad(self._stage, more)
