"""The tasks of a streaming job: a mapper over lines, a reducer over a sorted shuffle."""

from __future__ import annotations

import gzip
import io as files
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from railyard.cluster.messages.execution import Split, TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.operators import fetch, split_blocks, split_bytes
from railyard.jobs.records import Combiner, RunReader, RunWriter
from railyard.jobs.streaming import aggregate
from railyard.jobs.streaming.environment import environment_of
from railyard.jobs.streaming.keys import pairs_of, partitioner, whole_lines
from railyard.jobs.streaming.reporter import Reporter
from railyard.jobs.streaming.specification import Streaming
from railyard.jobs.taskio import BadInput, Buffer, Counters, Program, TaskIO, TaskResult

#: Pairs that wait for a combiner together.
COMBINED_AT_ONCE = 500_000
#: Endings of files that a task unpacks as it reads them, so that none can begin in their middle.
UNPACKED = (".gz",)
_PIECE_BYTES = 2**18
_LINES = Lines()

Pair = tuple[Any, bytes | None]


@dataclass(frozen=True)
class _Rules:
    """How a job's lines become pairs, and how these are ordered and partitioned."""

    job: Streaming

    def pairs(self, pieces: Iterable[Buffer], *, combined: bool = False) -> Iterator[Pair]:
        """The pairs of what a mapper or combiner wrote, each with what its key is sorted by."""
        job = self.job
        separator = job.combine_separator if combined else job.map_separator
        fields = job.combine_fields if combined else job.map_fields
        pairs = pairs_of(iter(pieces), separator, fields)
        if not job.order_parts:
            return pairs
        return ((self._order(key), value) for key, value in pairs)

    def lines(self, pairs: Iterable[Pair], separator: bytes) -> Iterator[bytes]:
        """The pairs as lines, in pieces of many."""
        plain, adds = not self.job.order_parts, self.job.adds_separator
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
            rule = self.job.map_separator, self.job.map_fields
            result.output = _output(_rewritten(written, self.job, *rule), "m", counters)
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
        lines = rules.lines(pairs, self.job.reduce_input_separator)
        for pair in rules.pairs(running.run(self.job.combiner, lines), combined=True):
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
        job, pairs = self.job, self._pairs(runs, counters)
        if job.reducer:
            lines = _Rules(job).lines(pairs, job.reduce_input_separator)
            written = _Running(job, task, io, counters).run(job.reducer, lines)
            made = _rewritten(written, job, job.reduce_separator, job.reduce_fields)
        else:
            made = _Rules(job).lines(pairs, job.output_separator)
        result.output = _output(made, "r", counters)
        return result

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
        return programs.run(program, data, Reporter(self.counters, job.reporter_prefix).note)


def _map_input(job: Streaming, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[bytes]:
    """A split's lines as the mapper reads them: each ends with LF alone."""
    if job.delimiter:
        yield from _delimited(job, task, io, counters)
        return
    for split, blocks in _splits(task, io):
        at = split.stored_offset
        for block in blocks:
            lines = whole_lines([block.replace(b"\r\n", b"\n") if b"\r" in block else block])
            for data in lines:
                read = _as_read(job, data.split(b"\n")[:-1], at)
                _count(counters, "m.records_in", read.count(b"\n"))
                yield read
            at += len(block)


def _splits(task: TaskSpec, io: TaskIO) -> Iterator[tuple[Split, Iterator[bytes]]]:
    """The task's splits with their blocks of whole lines; packed files are unpacked."""
    for split in task.splits:
        if not split.path.endswith(UNPACKED):
            alone = TaskSpec(stage=task.stage, index=task.index, splits=(split,))
            yield split, (bytes(block) for _, block in split_blocks(_LINES, alone, io))
            continue
        yield split, whole_lines(_unpacked(split, io))


def _unpacked(split: Split, io: TaskIO) -> Iterator[bytes]:
    data = io.open(split.path).read(0, split.stored_length)
    try:
        with gzip.open(files.BytesIO(data)) as unpacked:
            while piece := unpacked.read(_PIECE_BYTES):
                yield piece
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(f"{split.path}: is no sound gzip file: {error}") from None


def _delimited(job: Streaming, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[bytes]:
    """The records of whole files as the mapper reads them, each with an LF behind it."""
    for split in task.splits:
        if split.path.endswith(UNPACKED):
            data = b"".join(_unpacked(split, io))
        else:
            data = bytes(io.open(split.path).read(0, split.stored_length))
        at = 0
        while at < len(data):
            end = data.find(job.delimiter, at)
            record = data[at:] if end < 0 else data[at:end]
            if read := _as_read(job, [record], at):
                _count(counters, "m.records_in", 1)
                yield read
            at += len(record) + len(job.delimiter)


def _as_read(job: Streaming, records: list[bytes], at: int) -> bytes:
    """Records from offset ``at`` on, without their ends, as lines that the mapper reads."""
    separator, ends = job.map_input_separator, len(job.delimiter) or 1
    lines = []
    for record in records:
        line, offset = record, at
        at += len(record) + ends
        if job.line_bytes_max and len(record) > job.line_bytes_max:
            continue
        if job.line_key_separator:
            key, found, value = record.partition(job.line_key_separator)
            line = key + separator + value if found or job.adds_separator else key
            line = line if job.line_keys else value
        elif job.offsets:
            line = b"%d%b%b" % (offset, separator, record)
        lines.append(line)
    return b"".join([line + b"\n" for line in lines])


def _output(made: Iterable[Buffer], stage: str, counters: Counters) -> Iterator[Buffer]:
    """A task's file: what was made in whole lines, counted."""
    lines = 0
    for block in whole_lines(iter(made)):
        lines += block.count(b"\n")
        yield block
    counters[f"{stage}.pairs_out"] = lines


def _rewritten(
    written: Iterable[Buffer], job: Streaming, separator: bytes, fields: int
) -> Iterable[Buffer]:
    """What a program wrote as lines of the output: its keys end with the output's separator."""
    if separator == job.output_separator and not job.adds_separator:
        return written
    return (
        b"".join(
            [_with_separator(line, job, separator, fields) for line in block.split(b"\n")[:-1]]
        )
        for block in whole_lines(iter(written))
    )


def _with_separator(line: bytes, job: Streaming, separator: bytes, fields: int) -> bytes:
    """A line with its end; one that is all key gets a separator behind it if the job wants so."""
    head = line.split(separator, fields)
    if len(head) <= fields:
        return line + (job.output_separator if job.adds_separator else b"") + b"\n"
    return separator.join(head[:fields]) + job.output_separator + head[fields] + b"\n"


def _counted(written: Iterable[Buffer], counters: Counters) -> Iterator[Buffer]:
    """What a mapper writes, unchanged, its bytes counted before a combiner has made fewer of it."""
    for piece in written:
        _count(counters, "m.bytes_out", len(piece))
        yield piece


def _count(counters: Counters, name: str, by: int) -> None:
    counters[name] = counters.get(name, 0) + by
