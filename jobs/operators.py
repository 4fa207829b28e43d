"""The operators of record-by-record stages: ``Map`` over files, ``Reduce`` over a shuffle.

Both call a job's functions, and write the resulting pairs to the shuffle or, if no stage reads
them, as lines of text to the block store.  Stages that work on blocks of bytes have ``Work``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from railyard.cluster.messages import Split, TaskSpec
from railyard.jobs.formats import InputFormat, Lines
from railyard.jobs.records import (
    Combiner,
    Pairs,
    Partitioner,
    RunReader,
    RunWriter,
    checked_pairs,
    partition_by_hash,
    text_lines,
)
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

#: Groups that a merge handles between two progress reports.
_GROUPS_PER_REPORT = 4096
#: Share of the fetches in a reduce's progress, as in Hadoop.
FETCHED_SHARE = 1 / 3
_LINES = Lines()
#: What these count, as "m.records_in".
COUNTED = (
    *("records_in", "pairs_out", "bytes_out", "keys_in"),
    *("combined_away", "combine_in", "combine_out"),
)


@dataclass(frozen=True, kw_only=True)
class PairsOperator:
    """Base of operators that produce pairs: combines, partitions and writes them."""

    combine: Combiner | None = None
    partition: Partitioner = partition_by_hash

    def deliver(
        self, pairs: Iterator[tuple[Any, Any]], task: TaskSpec, counters: Counters
    ) -> TaskResult:
        """Write the pairs as the task's result: shuffle output, or text if no stage reads it."""
        if not task.partitions:
            return TaskResult(output=text_lines(pairs))
        writer = RunWriter(task.partitions, self.partition, self.combine)
        for key, value in pairs:
            writer.add(key, value)
        result = TaskResult(partitions=writer.finish())
        if self.combine is not None:
            counters[f"{task.stage}.combined_away"] = writer.combined
            if writer.uncombined_bytes is not None:
                counters[f"{task.stage}.bytes_out"] = writer.uncombined_bytes
        return result


@dataclass(frozen=True)
class Map(PairsOperator):
    """Calls ``function(record)``, which yields pairs, for every record of the task's splits."""

    function: Callable[[Any], Pairs | None]
    input: InputFormat = _LINES

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        return self.deliver(self._pairs(task, io, counters), task, counters)

    def _pairs(self, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[tuple[Any, Any]]:
        records = made = 0
        function = self.function
        for _, block in split_blocks(self.input, task, io):
            for record in self.input.records(block):
                records += 1
                for pair in checked_pairs(function(record), function):
                    made += 1
                    yield pair
        counters[f"{task.stage}.records_in"] = records
        counters[f"{task.stage}.pairs_out"] = made


@dataclass(frozen=True)
class Reduce(PairsOperator):
    """Calls ``function(key, values)``, which yields pairs, for every fetched key."""

    function: Callable[[Any, Iterable[Any]], Pairs | None]

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        """Run one reduce task; ``function`` is called lazily, as the result's output is read."""
        pairs = self._pairs(fetched_runs(task, io), task, io, counters)
        return self.deliver(pairs, task, counters)

    def _pairs(
        self, runs: RunReader, task: TaskSpec, io: TaskIO, counters: Counters
    ) -> Iterator[tuple[Any, Any]]:
        done = keys = made = 0

        def report() -> None:
            nonlocal done
            done += 1
            if done % _GROUPS_PER_REPORT == 0:
                io.progress(FETCHED_SHARE + (1 - FETCHED_SHARE) * done / runs.groups)

        function = self.function
        for key, values in runs.merged(report):
            keys += 1
            for pair in checked_pairs(function(key, values), function):
                made += 1
                yield pair
        counters[f"{task.stage}.keys_in"] = keys
        counters[f"{task.stage}.records_in"] = runs.values
        counters[f"{task.stage}.pairs_out"] = made


@dataclass(frozen=True)
class Work:
    """Calls ``run(task, io, counters)`` for each task, which works on blocks of bytes."""

    run: Callable[[TaskSpec, TaskIO, Counters], TaskResult]


def split_bytes(task: TaskSpec) -> int:
    """Total length of a task's splits in stored bytes."""
    return sum(split.stored_length for split in task.splits)


def split_blocks(form: InputFormat, task: TaskSpec, io: TaskIO) -> Iterator[tuple[Split, Buffer]]:
    """(Split, block of whole records) for all of a task's splits; reports the progress."""
    total, done = max(1, split_bytes(task)), 0
    for split in task.splits:
        for block in form.blocks(io.open(split.path), split):
            yield split, block
            done += len(block)
            io.progress(min(1.0, done / total))


def fetched(task: TaskSpec, io: TaskIO) -> Iterator[tuple[str, memoryview]]:
    """(Stage, output) for all that a task fetches; reports the progress."""
    for number, (stage, output) in enumerate(io.fetched(), 1):
        io.progress(FETCHED_SHARE * min(1.0, number / max(1, task.inputs)))
        yield stage, output


def fetched_runs(task: TaskSpec, io: TaskIO) -> RunReader:
    """The runs of all that a task fetches."""
    runs = RunReader()
    for _, output in fetched(task, io):
        runs.add(output)
    return runs
