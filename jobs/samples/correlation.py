"""Correlation: Spearman's rank correlation of two columns; five stages, four of a single task.

A row is a line "name,first,second" with whole numbers.  Of rows with one name the least counts.
The output has a line "name<TAB>rank in first<TAB>rank in second" for each name, in order; equal
numbers have their mean rank.  Its last line has no name: "<TAB>rows<TAB>coefficient", which is
"undefined" if all numbers of a column are equal.

           m m m ...            the rows of each split
             rows               one row for each name
        first    second         ranks need all rows, so each column is one task's
            joined              both ranks of each name

Source: Spearman, "The proof and measurement of association between two things", 1904.  The graph
is the diamond with which workflow systems are tried out, as in Pegasus's examples.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from functools import partial
from itertools import groupby

import numpy as np

from railyard.cluster.messages import TaskSpec
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import Work, fetched
from railyard.jobs.plan import Files, Plan, Request, Verdict, difference, lines_of, plan_of, shown
from railyard.jobs.samples.checks import expected_ranks
from railyard.jobs.samples.tasks import (
    RowsGen,
    check_lines,
    generated_rows,
    lines_in,
    malformed,
    parsed_splits,
)
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

ROW_BYTES = 23  #: of a generated row: "n0000001,000001,000001" and the end of the line

_ROW = re.compile(rb"([^,\t]+),(-?[0-9]{1,18}),(-?[0-9]{1,18})")
_LINES_PER_PIECE = 2**12
_AGAIN = 0.02  #: share of the generated rows that have another row's name
_NUMBERS = 10**6  #: generated ones are below
_ROUNDING = 1.1e-6  #: both coefficients are rounded to six digits


class Correlation(Job):
    """Compares the ranks of rows by two columns."""

    def stages(self) -> tuple[Stage, ...]:
        return (
            Stage("m", Work(_ship_rows)),
            Stage("rows", Work(_least_of_each_name), reads=("m",), tasks=1),
            Stage("first", Work(partial(_rank, 1)), reads=("rows",), tasks=1),
            Stage("second", Work(partial(_rank, 2)), reads=("rows",), tasks=1),
            Stage("joined", Work(_join), reads=("first", "second"), tasks=1),
        )


def checked_rows(block: Buffer) -> list[bytes]:
    """The lines of a block; ``BadLine`` for one that is no row."""
    lines = [line.removesuffix(b"\r") for line in lines_in(block)]
    for number, line in enumerate(lines):
        if _ROW.fullmatch(line) is None:
            raise malformed(number, line, "name,first,second with two whole numbers")
    return lines


def _ship_rows(task: TaskSpec, io: TaskIO, _: Counters) -> TaskResult:
    pieces: list[Buffer] = []
    for lines in parsed_splits(checked_rows, task, io):
        pieces += [b"\n".join(lines), b"\n"]
    return TaskResult(partitions=[pieces])


def _least_of_each_name(task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
    """Ships one row for each name, in order of names."""
    found: dict[bytes, tuple[int, int]] = {}
    for _, output in fetched(task, io):
        for name, first, second in _fields(output):
            row = int(first), int(second)
            found[name] = min(found.get(name, row), row)
    counters["rows"] = len(found)
    lines = b"".join([b"%s,%d,%d\n" % (name, *found[name]) for name in sorted(found)])
    return TaskResult(partitions=[[lines]])


def _rank(column: int, task: TaskSpec, io: TaskIO, _: Counters) -> TaskResult:
    """Ships each name with twice its rank by a column, which is a whole number."""
    pairs = fetched(task, io)
    named = sorted((int(row[column]), row[0]) for _, output in pairs for row in _fields(output))
    lines = list[bytes]()
    before = 0
    for _, group in groupby(named, key=lambda pair: pair[0]):
        equal = list(group)
        twice = 2 * before + 1 + len(equal)  # the first rank of these and the last
        before += len(equal)
        lines += [b"%s,%d\n" % (name, twice) for _, name in equal]
    return TaskResult(partitions=[[b"".join(lines)]])


def _join(task: TaskSpec, io: TaskIO, _: Counters) -> TaskResult:
    """Writes both ranks of each name, and the coefficient."""
    ranks: dict[str, dict[bytes, int]] = {name: {} for name in task.reads}
    for stage, output in fetched(task, io):
        ranks[stage].update((name, int(twice)) for name, twice in _fields(output))
    return TaskResult(output=_pieces(ranks["first"], ranks["second"]))


def _fields(output: memoryview) -> list[list[bytes]]:
    return [line.split(b",") for line in lines_in(output)]


def _pieces(first: dict[bytes, int], second: dict[bytes, int]) -> Iterator[Buffer]:
    """The output, of twice the ranks."""
    x = y = xx = yy = xy = 0
    names = sorted(first)
    for start in range(0, len(names), _LINES_PER_PIECE):
        lines = list[bytes]()
        for name in names[start : start + _LINES_PER_PIECE]:
            one, other = first[name], second[name]
            x, y, xx, yy, xy = x + one, y + other, xx + one**2, yy + other**2, xy + one * other
            lines.append(b"%s\t%s\t%s\n" % (name, _half(one), _half(other)))
        yield b"".join(lines)
    n = len(names)
    spread = (n * xx - x * x) * (n * yy - y * y)
    coefficient = b"%.6f" % ((n * xy - x * y) / math.sqrt(spread)) if spread else b"undefined"
    yield b"\t%d\t%s\n" % (n, coefficient)


def _half(twice: int) -> bytes:
    return b"%d.5" % (twice // 2) if twice % 2 else b"%d" % (twice // 2)


class TableGen(RowsGen):
    """Generates `rows` rows in `parts` files; the columns depend on one another."""

    rows: int
    parts: int = 1
    seed: int = 1

    def text(self, first: int, rows: int, dice: np.random.Generator) -> bytes:
        names = np.arange(first, first + rows)
        again = dice.random(rows) < _AGAIN
        names[again] = dice.integers(0, self.rows, again.sum())
        one = dice.random(rows) ** 3  # many small numbers, some of them equal
        other = (one + dice.random(rows)) / 2
        columns = names, one * _NUMBERS // 1, other * _NUMBERS // 1
        table = np.column_stack(columns).astype(np.int64).tolist()
        return b"".join([b"n%07d,%06d,%06d\n" % tuple(each) for each in table])


def plan_correlation(request: Request) -> Plan:
    """Rank the rows of a generated or given table."""
    generate = partial(generated_rows, TableGen, ROW_BYTES, "a row")
    check = partial(check_lines, checked_rows)
    return plan_of("correlation", Correlation, request, generate, _verify, check)


def _verify(files: Files, source: str, output: str) -> Verdict:
    expected, coefficient = expected_ranks(files, source)
    found = list(lines_of(files, output))
    last = found.pop() if found else b""
    if wrong := difference(found, expected, "ranks"):
        return wrong
    if not _is_summary(last, len(expected), coefficient):
        return Verdict(False, f"{len(expected)} rows, {coefficient} expected, not: {shown(last)}")
    detail = f"{len(expected)} rows, rank correlation {coefficient}, as computed independently"
    return Verdict(True, detail)


def _is_summary(line: bytes, rows: int, coefficient: str) -> bool:
    """Whether this is the last line of the output for so many rows and this coefficient."""
    start, _, found = line.rpartition(b"\t")
    if start != b"\t%d" % rows:
        return False
    try:
        return found == coefficient.encode() or abs(float(found) - float(coefficient)) < _ROUNDING
    except ValueError:
        return False
