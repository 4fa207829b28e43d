"""Tables of two columns that depend on one another, made up by seed; some names come twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from railyard.cluster.errors import require
from railyard.jobs.formats import Lines
from railyard.jobs.generating import Part, check_parts, generating_stages
from railyard.jobs.model import Job, Stage
from railyard.jobs.taskio import Buffer, Counters

#: Bytes of a row: "n0000001,000001,000001" and the end of the line.
ROW_BYTES = 23

_ROWS_AT_ONCE = 2**14
#: Share of the rows that have another row's name.
_AGAIN = 0.02
#: Numbers are below.
_NUMBERS = 10**6


class TableGen(Job):
    """Generates `rows` rows in `parts` files."""

    input = Lines()
    rows: int
    parts: int = 1
    seed: int = 1

    def setup(self) -> None:
        require(self.rows >= 1, "rows", self.rows, "a whole number >= 1")
        check_parts(self.rows, "rows", self.parts, self.seed)

    def stages(self) -> tuple[Stage, ...]:
        return generating_stages(self.rows, self.parts, self._pieces)

    def _pieces(self, part: Part, counters: Counters) -> Iterator[tuple[Buffer, int]]:
        dice = np.random.default_rng((self.seed, part.index))
        counters["rows"] = part.stop - part.first
        for row, count in part.pieces(_ROWS_AT_ONCE):
            names = np.arange(row, row + count)
            again = dice.random(count) < _AGAIN
            names[again] = dice.integers(0, self.rows, again.sum())
            first = dice.random(count) ** 3  # many small numbers, some of them equal
            second = (first + dice.random(count)) / 2
            columns = names, first * _NUMBERS // 1, second * _NUMBERS // 1
            table = np.column_stack(columns).astype(np.int64).tolist()
            yield b"".join([b"n%07d,%06d,%06d\n" % tuple(each) for each in table]), count
