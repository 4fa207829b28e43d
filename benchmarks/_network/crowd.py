"""A job whose attempts are all alive while it shuffles: of ``benchmarks.fidelity.attempts``.

Its maps wait until every reduce runs; its reduces stay until every one has fetched.  They know of
one another by files in the folder ``here``.  It reads no files and writes none, so that its shuffle
is all that the network carries.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from railyard import Job, Stage
from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

#: Between two looks at the folder.
_LOOK_S = 0.5


class Crowd(Job):
    """``maps`` tasks, each with about ``part`` stored bytes for each of the reduces."""

    here: str
    maps: int = 4
    part: int = 5000

    def stages(self) -> tuple[Stage, ...]:
        folder = Path(self.here)
        return (
            Stage("m", _Send(folder, self.part), tasks=self.maps),
            Stage("r", _Receive(folder, self.maps, self.part), reads=("m",)),
        )


def part_of(source: int, reader: int, part: int) -> bytes:
    """What map ``source`` sends to a reduce: half to one and a half times ``part`` bytes."""
    return random.Random(f"{source} {reader}").randbytes(
        int(part * random.Random(f"size {source} {reader}").uniform(0.5, 1.5))
    )


class _Send:
    def __init__(self, folder: Path, part: int) -> None:
        self._folder, self._part = folder, part

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        _gather(self._folder / "running", task.partitions, task.index == 0, io, 0.0)
        parts: list[list[Buffer]] = [
            [part_of(task.index, reader, self._part)] for reader in range(task.partitions)
        ]
        return TaskResult(partitions=parts, counters=counters)


class _Receive:
    def __init__(self, folder: Path, maps: int, part: int) -> None:
        self._folder, self._maps, self._part = folder, maps, part

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        _come(self._folder / "running", task.index)
        found = sorted(bytes(output) for _, output in io.fetched())
        sent = sorted(part_of(source, task.index, self._part) for source in range(self._maps))
        if found != sent:
            raise ValueError("other bytes arrived than were sent")
        _come(self._folder / "fetched", task.index)
        readers = int((self._folder / "readers").read_text())
        _gather(self._folder / "fetched", readers, task.index == 0, io, 0.9)
        counters["parts"] = len(found)
        return TaskResult(input_bytes=sum(map(len, found)), counters=counters)


def _come(meeting: Path, number: int) -> None:
    """Be seen at a meeting, which is a folder."""
    (meeting / str(number)).touch()


def _gather(meeting: Path, members: int, counts: bool, io: TaskIO, share: float) -> None:
    """Wait until all have come.  One of those who wait counts; the others wait for its word."""
    all_here = meeting.with_suffix(".all")
    while not all_here.exists():
        if counts and len(list(meeting.iterdir())) >= members:
            all_here.touch()
        io.progress(share)  # or it would be taken for hung
        time.sleep(_LOOK_S)
