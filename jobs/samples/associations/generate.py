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
from railyard.jobs.formats import Lines
from railyard.jobs.generating import Part, check_parts, generating_stages
from railyard.jobs.model import Job, Stage
from railyard.jobs.taskio import Buffer, Counters

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
        check_parts(self.rows, "rows", self.parts, self.seed)

    def stages(self) -> tuple[Stage, ...]:
        return generating_stages(self.rows, self.parts, self._pieces)

    def _pieces(self, part: Part, counters: Counters) -> Iterator[tuple[Buffer, int]]:
        dice = np.random.default_rng((self.seed, part.index))
        counters["rows"] = part.stop - part.first
        for _, count in part.pieces(_ROWS_AT_ONCE):
            yield _text(_rows(self, count, dice)), count


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
