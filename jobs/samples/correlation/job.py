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
from itertools import groupby

from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import fetch, split_bytes
from railyard.jobs.samples.checkedlines import BadLine, parsed_blocks
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

_ROW = re.compile(rb"([^,\t]+),(-?[0-9]{1,18}),(-?[0-9]{1,18})")
_SHOWN_BYTES = 60
_LINES_PER_PIECE = 2**12


class Correlation(Job):
    """Compares the ranks of rows by two columns."""

    input = Lines()

    def stages(self) -> tuple[Stage, ...]:
        return (
            Stage("m", _ShipRows()),
            Stage("rows", _LeastOfEachName(), reads=("m",), tasks=1),
            Stage("first", _Rank(0), reads=("rows",), tasks=1),
            Stage("second", _Rank(1), reads=("rows",), tasks=1),
            Stage("joined", _Join(), reads=("first", "second"), tasks=1),
        )


def rows(block: Buffer) -> list[bytes]:
    """The lines of a block; ``BadLine`` for one that is no row."""
    lines = [line.removesuffix(b"\r") for line in bytes(block).split(b"\n")]
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines):
        if _ROW.fullmatch(line) is None:
            shown = line[:_SHOWN_BYTES].decode(errors="replace")
            raise BadLine(number, f"{shown!r}: need name,first,second with two whole numbers")
    return lines


class _ShipRows:
    """Ships the rows of its splits."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        pieces: list[Buffer] = []
        total, done = max(1, split_bytes(task)), 0
        for split in task.splits:
            for block, lines in parsed_blocks(rows, io.open(split.path), split):
                pieces += [b"\n".join(lines), b"\n"]
                done += len(block)
                io.progress(min(1.0, done / total))
        return TaskResult(partitions=[pieces], input_bytes=split_bytes(task), counters=counters)


class _LeastOfEachName:
    """Ships one row for each name, in order of names."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        found: dict[bytes, tuple[int, int]] = {}
        fetched_bytes = 0
        for _, output in fetch(task, io):
            fetched_bytes += len(output)
            for name, first, second in _fields(output):
                row = int(first), int(second)
                found[name] = min(found.get(name, row), row)
        counters["rows"] = len(found)
        lines = b"".join([b"%s,%d,%d\n" % (name, *found[name]) for name in sorted(found)])
        return TaskResult(partitions=[[lines]], input_bytes=fetched_bytes, counters=counters)


class _Rank:
    """Ships each name with twice its rank by a column, which is a whole number."""

    def __init__(self, column: int) -> None:
        self._column = column

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        named: list[tuple[int, bytes]] = []
        fetched_bytes = 0
        for _, output in fetch(task, io):
            fetched_bytes += len(output)
            named += [(int(row[1 + self._column]), row[0]) for row in _fields(output)]
        named.sort()
        lines = list[bytes]()
        before = 0
        for _, group in groupby(named, key=lambda pair: pair[0]):
            equal = list(group)
            twice = 2 * before + 1 + len(equal)  # the first rank of these and the last
            before += len(equal)
            lines += [b"%s,%d\n" % (name, twice) for _, name in equal]
        ranks = b"".join(lines)
        return TaskResult(partitions=[[ranks]], input_bytes=fetched_bytes, counters=counters)


class _Join:
    """Writes both ranks of each name, and the coefficient."""

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        ranks: dict[str, dict[bytes, int]] = {name: {} for name in task.reads}
        fetched_bytes = 0
        for stage, output in fetch(task, io):
            fetched_bytes += len(output)
            ranks[stage].update((name, int(twice)) for name, twice in _fields(output))
        made = _pieces(ranks["first"], ranks["second"])
        return TaskResult(output=made, input_bytes=fetched_bytes, counters=counters)


def _fields(output: memoryview) -> list[list[bytes]]:
    return [line.split(b",") for line in bytes(output).split(b"\n")[:-1]]


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
    shown = b"%.6f" % ((n * xy - x * y) / math.sqrt(spread)) if spread else b"undefined"
    yield b"\t%d\t%s\n" % (n, shown)


def _half(twice: int) -> bytes:
    return b"%d.5" % (twice // 2) if twice % 2 else b"%d" % (twice // 2)
