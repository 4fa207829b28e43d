"""Gives keys to partitions by a hash, many at once; equal keys always go to the same one."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import require
from railyard.cluster.messages import Split, TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Stage
from railyard.jobs.plan import GivenFile
from railyard.jobs.taskio import BadInput, Buffer, Counters, FileReader, TaskIO, TaskResult


def rows_by_partition(
    keys: Sequence[bytes], partitions: int
) -> Iterator[tuple[int, npt.NDArray[np.intp]]]:
    """(Partition, rows of ``keys`` that go there, in order) for each partition that gets any.

    By CRC-32.
    """
    hashes = np.fromiter(map(zlib.crc32, keys), np.uint32, len(keys))
    numbers = hashes % partitions
    numbers = numbers.astype(np.uint16 if partitions <= 2**16 else np.uint32)
    order = np.argsort(numbers, kind="stable")  # of small numbers: in linear time
    ends = np.bincount(numbers, minlength=partitions).cumsum().tolist()
    for partition, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if end > start:
            yield partition, order[start:end]


# Text whose lines have to have a form: the first one that has not is named by file and line.
#
#     for block, rows in parsed_blocks(parse, file, split):
#         ...                                # parse(block) raises BadLine
#
# Lines are numbered only for an error: a task sees a split, and not the lines before it.


_LINES = Lines()
#: Bytes per read while lines are counted.
_COUNTED_BYTES = 2**20

Parsed = TypeVar("Parsed")
#: Parses a block of whole lines; raises ``BadLine``.
Parse = Callable[[Buffer], Parsed]


class BadLine(Exception):
    """A line, by its number among those of its block from 0 on, has not the form that is needed."""

    def __init__(self, number: int, words: str) -> None:
        super().__init__(words)
        self.number = number


def parsed_blocks(
    parse: Parse[Parsed], file: FileReader, split: Split, shown: str = ""
) -> Iterator[tuple[Buffer, Parsed]]:
    """(Block of whole lines, what it is parsed as) for all lines that begin in the split.

    Raises ``BadInput`` for a line that has not the form; ``shown``: the file in its words.
    """
    lines_before = 0
    for block in _LINES.blocks(file, split):
        try:
            parsed = parse(block)
        except BadLine as bad:
            at = _lines_before(file, split) + lines_before + bad.number + 1
            raise BadInput(f"{shown or split.path}:{at}: {bad}") from None
        yield block, parsed
        lines_before += bytes(block).count(b"\n")


def parsed_file(parse: Parse[Parsed], file: FileReader, shown: str) -> Iterator[Parsed]:
    """What each block of a whole file is parsed as; raises as ``parsed_blocks``."""
    whole = Split(path="/", stored_offset=0, stored_length=file.stored_bytes)
    for _, parsed in parsed_blocks(parse, file, whole, shown):
        yield parsed


def check_lines(parse: Parse[Parsed], files: Iterable[GivenFile]) -> None:
    """Raise ``BadInput`` unless all lines of these files have the form."""
    for given in files:
        for _ in parsed_file(parse, given.file, given.shown):
            pass


def _lines_before(file: FileReader, split: Split) -> int:
    """How many lines of the file begin before the first that begins in the split."""
    if split.stored_offset == 0:
        return 0
    end = split.stored_offset - 1  # a newline here ends the last of them, and is not needed for it
    return 1 + sum(
        bytes(file.read(at, min(_COUNTED_BYTES, end - at))).count(b"\n")
        for at in range(0, end, _COUNTED_BYTES)
    )


# Jobs that generate input: each task makes a part of all rows or bytes, and needs no other part.
#
# Not here: what rows and bytes are.


@dataclass(frozen=True)
class Part:
    """What a task makes: of all rows (or bytes), those from ``first`` up to ``stop``."""

    index: int  #: of the task
    first: int
    stop: int

    def pieces(self, rows: int) -> Iterator[tuple[int, int]]:
        """(First row, number of rows) of pieces of at most so many rows."""
        for row in range(self.first, self.stop, rows):
            yield row, min(rows, self.stop - row)


#: Makes a part: yields its pieces, each with how many of its rows (or bytes) that is.
MakePart = Callable[[Part, Counters], Iterator[tuple[Buffer, int]]]


def generating_stages(total: int, parts: int, make: MakePart) -> tuple[Stage, ...]:
    """The stages of a job that makes ``total`` rows (or bytes) in ``parts`` files of equal size."""
    return (Stage("m", _Generate(total, parts, make), tasks=parts),)


def check_parts(total: int, of: str, parts: int, seed: int) -> None:
    """Raise ``UsageError`` unless there can be so many parts, and the seed is no negative number.

    ``of``: what there are ``total`` of, such as "rows".
    """
    require(1 <= parts <= total, "parts", parts, f"1 to the number of {of}")
    require(seed >= 0, "seed", seed, "a whole number >= 0")


class _Generate:
    """Makes one part."""

    def __init__(self, total: int, parts: int, make: MakePart) -> None:
        self._total = total
        self._parts = parts
        self._make = make

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        return TaskResult(output=self._pieces(task, io, counters), counters=counters)

    def _pieces(self, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[Buffer]:
        first, stop = (self._total * i // self._parts for i in (task.index, task.index + 1))
        done = 0
        for piece, count in self._make(Part(task.index, first, stop), counters):
            yield piece
            done += count
            io.progress(min(1.0, done / (stop - first)))
