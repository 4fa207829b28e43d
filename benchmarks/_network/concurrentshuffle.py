"""A job with all reduces running at once while it shuffles, for ``benchmarks.fidelity.attempts``.

Its maps wait until every reduce runs; its reduces run until every one has fetched.  They wait for
each other at barriers, which are folders in ``here``.  The job reads and writes no files of the
block store, so the network carries nothing but its shuffle.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

from railyard import Job, Stage
from railyard.cluster.messages import TaskSpec
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

#: Seconds between two looks at a barrier.
_LOOK_S = 0.5


class ConcurrentShuffle(Job):
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
        _wait_for_all(self._folder / "running", task.partitions, task.index == 0, io, 0.0)
        parts: list[list[Buffer]] = [
            [part_of(task.index, reader, self._part)] for reader in range(task.partitions)
        ]
        return TaskResult(partitions=parts, counters=counters)


class _Receive:
    def __init__(self, folder: Path, maps: int, part: int) -> None:
        self._folder, self._maps, self._part = folder, maps, part

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        _arrive(self._folder / "running", task.index)
        found = sorted(bytes(output) for _, output in io.fetched())
        sent = sorted(part_of(source, task.index, self._part) for source in range(self._maps))
        if found != sent:
            raise ValueError("other bytes arrived than were sent")
        _arrive(self._folder / "fetched", task.index)
        readers = int((self._folder / "readers").read_text())
        _wait_for_all(self._folder / "fetched", readers, task.index == 0, io, 0.9)
        counters["parts"] = len(found)
        return TaskResult(counters=counters)


def _arrive(barrier: Path, number: int) -> None:
    """Arrive at a barrier: a file in its folder."""
    (barrier / str(number)).touch()


def _wait_for_all(barrier: Path, members: int, counts: bool, io: TaskIO, share: float) -> None:
    """Wait until all have arrived.  One of the tasks counts; the others wait for its file."""
    all_here = barrier.with_suffix(".all")
    while not all_here.exists():
        if counts and len(list(barrier.iterdir())) >= members:
            all_here.touch()
        io.progress(share)  # or it would be taken for hung
        time.sleep(_LOOK_S)
