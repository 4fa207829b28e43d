"""What a task sees of the world: files to read, outputs to fetch, a place to report progress.

These are interfaces.  A node's attempt implements them with the block store and the shuffle; a
test, or ``jobs.local``, with plain bytes.

Never here: processes, sockets, clocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from railyard.cluster.errors import RailyardError
from railyard.cluster.messages.execution import TaskSpec

Buffer = bytes | bytearray | memoryview

#: what a task counted, by name; summed over the tasks of a job
Counters = dict[str, int]


class BadInput(RailyardError):
    """A file that a job reads is not what its format says; names the file and the offset."""


class JobError(RailyardError):
    """A job's code did what no job may do; says what, and what would be right."""


class FileReader(Protocol):
    """One file of the block store."""

    @property
    def stored_bytes(self) -> int:
        """Length of the whole file."""
        ...

    def read(self, offset: int, length: int) -> Buffer:
        """Bytes from ``offset``; fewer than ``length`` only at the file's end."""
        ...


class TaskIO(Protocol):
    """Everything that a task may do besides computing."""

    def open(self, path: str) -> FileReader:
        """A file of the block store."""
        ...

    def fetched(self) -> Iterator[tuple[str, memoryview]]:
        """What the tasks that this one reads from wrote for it, as it arrives.

        Each item is the name of a stage and one output of it (or several, one after the other).
        Ends when all ``TaskSpec.inputs`` outputs are there.  To be called once.
        """
        ...

    def progress(self, share: float) -> None:
        """Report that this share of the task is done, 0 to 1; a silent task counts as hanging."""
        ...


@dataclass(kw_only=True)
class TaskResult:
    """What a task made.

    ``output`` may be lazy: the task goes on working while it is read, and ``counters`` are
    complete once it was.  It can be read once.
    """

    #: shuffle output: the pieces of each partition; as many as ``TaskSpec.partitions``
    partitions: list[list[Buffer]] = field(default_factory=list)
    #: the task's file in the block store; nothing if ``TaskSpec.partitions`` is above 0
    output: Iterable[Buffer] = ()
    input_bytes: int = 0  #: real bytes that it read or fetched
    counters: Counters = field(default_factory=dict)


class Operator(Protocol):
    """What each task of a stage does.

    ``jobs.operators`` has those for jobs that work record by record; a job that works on whole
    blocks of bytes brings its own.
    """

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        """Do the task and count into ``counters``, which becomes the result's."""
        ...
