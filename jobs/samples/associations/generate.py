"""Associations of items, made up by seed: few beginnings are shared by many of them.

The n-th most frequent beginning (all items but the last) has a share in proportion to 1 / n**0.3,
with one association for each beginning in the mean, so that about 0.6 candidates come out for an
association.  The last item is one of 4,096: a few associations come twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import require
from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

ITEMS_MAX = 100

_ROWS_AT_ONCE = 2**14
_EXPONENT = 0.3
_LASTS = 4096
#: Largest distance of two items of a beginning that follow one another.
_STEP_MAX = 997
#: Items are numbers of so many digits.
_DIGITS = 7
_ITEM_BYTES = _DIGITS + 2  #: "i", the digits, and a comma or the end of the line
#: First items are below; a prime, so that multiples of another number visit all of them.
_FIRST_ITEMS = 9_800_003
_SPREAD = 48_271

Numbers = npt.NDArray[np.int64]


def row_bytes(items: int) -> int:
    """Bytes of an association of so many items."""
    return items * _ITEM_BYTES


class AssociationsGen(Job):
    """Generates `rows` associations of `items` items in `parts` files."""

    input = Lines()
    rows: int
    items: int = 3
    parts: int = 1
    seed: int = 1

    def setup(self) -> None:
        require(self.rows >= 1, "rows", self.rows, "a whole number >= 1")
        require(2 <= self.items <= ITEMS_MAX, "items", self.items, f"2 to {ITEMS_MAX}")
        require(1 <= self.parts <= self.rows, "parts", self.parts, "1 to the number of rows")
        require(self.seed >= 0, "seed", self.seed, "a whole number >= 0")

    def stages(self) -> tuple[Stage, ...]:
        return (Stage("m", _Generate(self), tasks=self.parts),)


class _Generate:
    """Generates the associations of one part."""

    def __init__(self, job: AssociationsGen) -> None:
        self._job = job

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        return TaskResult(output=self._pieces(task, io, counters), counters=counters)

    def _pieces(self, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[Buffer]:
        job = self._job
        first, stop = (job.rows * i // job.parts for i in (task.index, task.index + 1))
        dice = np.random.default_rng((job.seed, task.index))
        counters["rows"] = stop - first
        for row in range(first, stop, _ROWS_AT_ONCE):
            count = min(_ROWS_AT_ONCE, stop - row)
            yield _text(_rows(job, count, dice))
            io.progress((row + count - first) / (stop - first))


def _rows(job: AssociationsGen, count: int, dice: np.random.Generator) -> Numbers:
    """The items of ``count`` associations, one a row."""
    # The integral of n**-0.3, inverted: the number of the beginning of each association.
    beginnings = (job.rows * dice.random(count) ** (1 / (1 - _EXPONENT))).astype(np.int64)
    rows = np.empty((count, job.items), np.int64)
    rows[:, 0] = (beginnings + job.seed) * _SPREAD % _FIRST_ITEMS
    for column in range(1, job.items - 1):
        steps = 1 + (beginnings // _FIRST_ITEMS + beginnings * column) % _STEP_MAX
        rows[:, column] = rows[:, column - 1] + steps
    rows[:, -1] = rows[:, -2] + dice.integers(1, _LASTS + 1, count)
    return rows


def _text(rows: Numbers) -> Buffer:
    count, items = rows.shape
    text = np.empty((count, items, _ITEM_BYTES), np.uint8)
    text[:, :, 0] = ord("i")
    powers = 10 ** np.arange(_DIGITS - 1, -1, -1)
    text[:, :, 1:-1] = ord("0") + rows[:, :, None] // powers % 10
    text[:, :, -1] = ord(",")
    text[:, -1, -1] = ord("\n")
    return text.tobytes()
