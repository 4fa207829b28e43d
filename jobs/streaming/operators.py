"""The tasks of a streaming job: a mapper over lines, a reducer over a sorted shuffle."""

from __future__ import annotations

import io as files
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

from railyard.cluster.messages.execution import Split, TaskSpec
from railyard.cluster.packed import NotPacked, ending_of, unpacked
from railyard.jobs.operators import fetch, split_bytes
from railyard.jobs.records import Combiner, RunReader, RunWriter
from railyard.jobs.streaming import aggregate
from railyard.jobs.streaming.environment import environment_of
from railyard.jobs.streaming.keys import pairs_of, partitioner
from railyard.jobs.streaming.lines import (
    numbered,
    raw_lines,
    split_lines,
    whole_lines,
    with_lf,
    without_mark,
)
from railyard.jobs.streaming.reporter import Reporter
from railyard.jobs.streaming.specification import Streaming
from railyard.jobs.taskio import BadInput, Buffer, Counters, Program, TaskIO, TaskResult

#: Pairs that wait for a combiner together.
COMBINED_AT_ONCE = 500_000
_PIECE_BYTES = 2**18

Pair = tuple[Any, bytes | None]


@dataclass(frozen=True)
class _Rules:
    """How a job's lines become pairs, and how these are ordered and partitioned."""

    job: Streaming

    def pairs(self, pieces: Iterable[Buffer]) -> Iterator[Pair]:
        """The pairs of what a mapper or combiner wrote, each with what its key is sorted by."""
        job = self.job
        pairs = pairs_of(iter(pieces), job.map_separator, job.map_fields)
        if not job.order_parts:
            return pairs
        return ((self._order(key), value) for key, value in pairs)

    def lines(self, pairs: Iterable[Pair]) -> Iterator[bytes]:
        """The pairs as lines for a program, in pieces of many."""
        separator, plain = self.job.reduce_input_separator, not self.job.order_parts
        adds = self.job.adds_separator
        piece = bytearray()
        for order, value in pairs:
            piece += order if plain else order[-1]
            if value is not None:
                piece += separator
                piece += value
            elif adds:
                piece += separator
            piece += b"\n"
            if len(piece) >= _PIECE_BYTES:
                yield bytes(piece)
                piece = bytearray()
        if piece:
            yield bytes(piece)

    def writer(self, partitions: int, combine: Combiner | None = None) -> RunWriter:
        """Collects pairs for the reduces."""
        number = partitioner(self.job.partition_parts, self.job.key_separator)
        if not self.job.order_parts:
            return RunWriter(partitions, number, combine)
        return RunWriter(partitions, lambda order, of: number(order[-1], of), combine)

    def _order(self, key: bytes) -> tuple[Any, ...]:
        """What the key is sorted by: its parts, and where these are equal all of it."""
        separator = self.job.key_separator
        return (*(part.order(key, separator) for part in self.job.order_parts), key)


@dataclass(frozen=True)
class StreamingMap:
    """Gives a split's lines to the mapper; its lines go to the combiner, and to the reduces."""

    job: Streaming

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        """Run one map task."""
        written = _Running(self.job, task, io, counters).run(
            self.job.mapper, _map_input(self.job, task, io, counters)
        )
        result = TaskResult(input_bytes=split_bytes(task), counters=counters)
        if not task.partitions:
            result.output = _output(written, self.job, "m", counters)
            return result
        result.partitions = self._shuffled(written, task, io, counters)
        return result

    def _shuffled(
        self, written: Iterator[Buffer], task: TaskSpec, io: TaskIO, counters: Counters
    ) -> list[list[Buffer]]:
        rules = _Rules(self.job)
        writer = rules.writer(task.partitions, aggregate.combined if self.job.aggregate else None)
        held: list[Pair] = []
        made = 0
        for pair in rules.pairs(_counted(written, counters)):
            made += 1
            if not self.job.combiner:
                writer.add(*pair)
                continue
            held.append(pair)
            if len(held) >= COMBINED_AT_ONCE:
                self._combine(held, writer, task, io, counters)
                held = []
        if held:
            self._combine(held, writer, task, io, counters)
        counters["m.pairs_out"] = made
        partitions = writer.finish()
        if self.job.aggregate:
            counters["m.combined_away"] = writer.combined
        return partitions

    def _combine(
        self,
        pairs: list[Pair],
        writer: RunWriter,
        task: TaskSpec,
        io: TaskIO,
        counters: Counters,
    ) -> None:
        """Replace pairs by what the combiner makes of them, in the order of their keys."""
        rules = _Rules(self.job)
        pairs.sort(key=lambda pair: pair[0])
        running = _Running(self.job, task, io, counters)
        made = 0
        for pair in rules.pairs(running.run(self.job.combiner, rules.lines(pairs))):
            made += 1
            writer.add(*pair)
        _count(counters, "m.combine_in", len(pairs))
        _count(counters, "m.combine_out", made)


@dataclass(frozen=True)
class StreamingReduce:
    """Gives sorted lines to the reducer, whose lines are the output."""

    job: Streaming

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        """Run one reduce task; the reducer runs as the result's output is read."""
        runs = RunReader()
        fetched_bytes = 0
        for _, output in fetch(task, io):
            runs.add(output)
            fetched_bytes += len(output)
        result = TaskResult(input_bytes=fetched_bytes, counters=counters)
        lines: Iterator[Buffer] = iter(_Rules(self.job).lines(self._pairs(runs, counters)))
        if self.job.reducer:
            lines = self._reduced(lines, _Running(self.job, task, io, counters))
        result.output = _output(lines, self.job, "r", counters)
        return result

    def _reduced(self, lines: Iterator[Buffer], running: _Running) -> Iterator[Buffer]:
        """What the reducer writes; nothing if there are no lines, as in Hadoop: it runs, though."""
        first = next(lines, None)
        given = lines if first is None else chain((first,), lines)
        for piece in running.run(self.job.reducer, given):
            if first is not None:
                yield piece

    def _pairs(self, runs: RunReader, counters: Counters) -> Iterator[Pair]:
        keys = records = 0
        try:
            for key, values in runs.merged(lambda: None):
                keys += 1
                if self.job.aggregate:
                    seen = list(values)
                    records += len(seen)
                    yield aggregate.reduced(key, seen)
                    continue
                for value in values:
                    records += 1
                    yield key, value
        finally:  # also of a reducer that stops reading
            counters["r.keys_in"] = keys
            counters["r.records_in"] = records


@dataclass(frozen=True)
class _Running:
    """Runs a job's programs for one task."""

    job: Streaming
    task: TaskSpec
    io: TaskIO
    counters: Counters

    def run(self, words: tuple[str, ...], data: Iterable[Buffer]) -> Iterator[Buffer]:
        """What a program writes, given ``data``."""
        job, programs = self.job, self.io.programs
        program = Program(
            words=words,
            environment=environment_of(job, programs.attempt, self.task),
            files=job.files,
            timeout_s=job.timeout_s,
            status_counts=job.status_counts,
        )
        return programs.run(program, data, Reporter(self.counters).note)


def _map_input(job: Streaming, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[bytes]:
    """A split's lines as the mapper reads them: each ends with LF alone."""
    total, done = max(1, split_bytes(task)), 0
    for split in task.splits:
        at = split.stored_offset
        for block in _raw_lines(split, io):
            if job.offsets:
                data = numbered(block, at)
            else:
                data = with_lf(block if at else without_mark(block))
            _count(counters, "m.records_in", data.count(b"\n"))
            yield data
            at += len(block)
            io.progress(min(1.0, (done + at - split.stored_offset) / total))
        done += split.stored_length


def _raw_lines(split: Split, io: TaskIO) -> Iterator[bytes]:
    """The split's lines as they are in its file; a packed file is unpacked."""
    file, ending = io.open(split.path), ending_of(split.path)
    if not ending:
        yield from split_lines(file, split)
        return
    try:
        packed = files.BytesIO(file.read(0, split.stored_length))
        yield from raw_lines(unpacked(ending, packed))
    except NotPacked as error:
        raise BadInput(f"{split.path}: {error}") from None


def _output(
    written: Iterable[Buffer], job: Streaming, stage: str, counters: Counters
) -> Iterator[Buffer]:
    """A task's file: what was written in whole lines, counted."""
    made = 0
    separate: Callable[[bytes], bytes] = _separated if job.adds_separator else bytes
    for block in whole_lines(iter(written)):
        made += block.count(b"\n")
        yield separate(block)
    counters[f"{stage}.pairs_out"] = made


def _counted(written: Iterable[Buffer], counters: Counters) -> Iterator[Buffer]:
    """What a mapper writes, unchanged, its bytes counted before a combiner has made fewer of it."""
    for piece in written:
        _count(counters, "m.bytes_out", len(piece))
        yield piece


def _separated(block: bytes) -> bytes:
    """Lines without a tab get one at their end, as Hadoop's TextOutputFormat gives them."""
    lines = block.split(b"\n")[:-1]
    return b"".join([line + (b"\n" if b"\t" in line else b"\t\n") for line in lines])


def _count(counters: Counters, name: str, by: int) -> None:
    counters[name] = counters.get(name, 0) + by
