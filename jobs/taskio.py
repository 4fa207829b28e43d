"""A task's interfaces: files to read, outputs to fetch, progress reports, and its result.

An attempt on a node implements them with the block store and the shuffle; ``jobs.local`` and tests
with byte strings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from railyard.cluster.errors import RailyardError
from railyard.cluster.ids import AttemptId
from railyard.cluster.messages import TaskSpec
from railyard.cluster.messaging.wire import COUNTER_MAX, NAME_LETTERS_MAX

Buffer = bytes | bytearray | memoryview
Counters = dict[str, int]  #: {counter: count} of a task; summed over the tasks of a job


class BadInput(RailyardError):
    """An input file does not fit its format; the message has the file and the offset."""


class JobError(RailyardError):
    """A job's code broke a rule; the message says which, and what would be right."""


def check_counters(counters: Mapping[str, object]) -> None:
    """Raise ``JobError``, which names it, for a counter that is no whole number of 64 bits."""
    for name, count in counters.items():
        if not isinstance(name, str) or len(name) > NAME_LETTERS_MAX:
            right = f"a name of at most {NAME_LETTERS_MAX} letters"
            raise JobError(f"counter {name!r:.80}: need {right}")
        if not isinstance(count, int):
            raise JobError(f"counter {name} is {count!r:.80}: need a whole number")
        if not -COUNTER_MAX - 1 <= count <= COUNTER_MAX:
            shown = f"{count}" if -(2**127) < count < 2**127 else "a longer number"
            raise JobError(f"counter {name} is {shown}: need -2^63 to 2^63 - 1, as in Hadoop")


class FileReader(Protocol):
    """One file of the block store."""

    @property
    def stored_bytes(self) -> int:
        """Length of the whole file in bytes."""

    def read(self, offset: int, length: int) -> Buffer:
        """Bytes from ``offset`` on; fewer than ``length`` only at the end of the file."""


class ProgramFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of the block store that a program finds in its working directory."""

    path: str  #: in the block store
    name: str  #: in the working directory
    unpacked: bool = False  #: it is an archive; its name is that of a folder


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program that does a task's work, or some of it."""

    words: tuple[str, ...]
    environment: Mapping[str, str]  #: beside what its NodeManager has
    files: tuple[ProgramFile, ...] = ()
    timeout_s: float = 0.0  #: seconds without a byte in or out until it has failed; 0 = no limit
    status_counts: bool = True  #: it has failed if it ends with another status than 0


class Programs(Protocol):
    """Runs programs for a task."""

    @property
    def attempt(self) -> AttemptId:
        """The attempt that does the task."""

    def run(
        self, program: Program, data: Iterable[Buffer], on_line: Callable[[bytes], bool]
    ) -> Iterator[Buffer]:
        """What the program writes to its standard output, given ``data`` as standard input.

        Data is asked for as the program reads it.  ``on_line`` gets each line of its standard
        error without its end; those for which it is false go to the attempt's own.  Raises
        ``JobError`` if the program fails.
        """


class TaskIO(Protocol):
    """A task's access to files, to fetched outputs and to its progress report."""

    @property
    def programs(self) -> Programs:
        """What runs programs for it; ``JobError`` where there are no processes."""

    def open(self, path: str) -> FileReader:
        """A reader of a file in the block store."""

    def fetched(self) -> Iterator[tuple[str, memoryview]]:
        """The partitions that other tasks wrote for this one, as they arrive.

        Each item is the name of a stage and one of its outputs, or several concatenated.  Ends when
        all ``TaskSpec.inputs`` outputs have arrived.  May be called once.
        """

    def progress(self, share: float) -> None:
        """Report the task's progress, 0 to 1; a task that reports nothing is taken for hung."""


@dataclass(kw_only=True)
class TaskResult:
    """The outputs and counters of a task.

    ``output`` may be lazy: the task computes while it is read, and ``counters`` are complete only
    afterwards.  It can be read once.
    """

    #: shuffle output: a list of pieces for each of ``TaskSpec.partitions``
    partitions: list[list[Buffer]] = field(default_factory=list)
    #: content of the task's file in the block store; empty if ``TaskSpec.partitions`` is above 0
    output: Iterable[Buffer] = ()
    counters: Counters = field(default_factory=dict)  #: filled in by ``run_task``


class Operator(Protocol):
    """The code of a stage's tasks.

    ``jobs.operators`` has those of jobs that work record by record; a job that works on blocks of
    bytes has its own.
    """

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters, /) -> TaskResult:
        """Run the task; count into ``counters``, which become the result's."""
