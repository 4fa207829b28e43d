"""Jobs that generate input: each task makes a part of all rows or bytes, and needs no other part.

Not here: what rows and bytes are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from railyard.cluster.errors import require
from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.model import Stage
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult


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
