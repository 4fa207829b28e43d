"""The job that runs streaming jobs' programs: a mapper over lines, a reducer over sorted lines."""

from __future__ import annotations

import io as files
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import msgspec

from railyard.cluster.errors import printable
from railyard.cluster.fileheads import NotPacked, ending_of, unpacked
from railyard.cluster.ids import AttemptId, JobId, job_of, stage_of
from railyard.cluster.messages import Split, TaskSpec
from railyard.jobs.formats import (
    raw_lines,
    records_of,
    split_lines,
    whole_lines,
    with_lf,
    without_mark,
)
from railyard.jobs.model import Job, Stage, StageSpec
from railyard.jobs.operators import RunWriter, Work, fetched_runs, split_bytes, text_lines
from railyard.jobs.streaming import aggregate
from railyard.jobs.streaming.keys import pairs_of, partitioner
from railyard.jobs.streaming.request import Streaming
from railyard.jobs.streaming.settings import in_environment
from railyard.jobs.taskio import (
    BadInput,
    Buffer,
    Counters,
    JobError,
    Program,
    TaskIO,
    TaskResult,
    check_counters,
)

COMBINED_AT_ONCE = 500_000  #: pairs that wait for a combiner together
COUNTERS_MAX = 500  #: of a task

#: Amount of a counter, and its most digits.
_AMOUNT, _DIGITS_MAX = re.compile(r"[+-]?[0-9]+"), 100

Pair = tuple[Any, bytes | None]


class StreamingJob(Job):
    """A mapper over lines, and a reducer if there are reduces; both are programs."""

    specification: bytes  #: a ``Streaming`` as JSON

    def setup(self) -> None:
        try:
            self._streaming = msgspec.json.decode(self.specification, type=Streaming)
        except msgspec.MsgspecError as error:
            raise ValueError(f"its specification is none: {error}") from None

    def stage_specs(self, reduces: int = 1) -> tuple[StageSpec, ...]:
        """The stages, each with the failures of one task and the copies that it allows."""
        job = self._streaming
        allowed = {
            "m": {"max_attempts": job.map_attempts, "may_copy": job.map_copies},
            "r": {"max_attempts": job.reduce_attempts, "may_copy": job.reduce_copies},
        }
        return tuple(
            msgspec.structs.replace(spec, **allowed[spec.name])
            for spec in super().stage_specs(reduces)
        )

    def stages(self) -> tuple[Stage, ...]:
        job = self._streaming
        mapper = Stage("m", Work(partial(_map, job)))
        if not job.reduces:
            return (mapper,)
        return (mapper, Stage("r", Work(partial(_reduce, job)), reads=("m",), tasks=job.reduces))


def _map(job: Streaming, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
    """Give a split's lines to the mapper; its lines go to the combiner, and to the reduces."""
    programs = _Programs(job, task, io, counters)
    written = programs.run(job.mapper, _map_input(job, task, io, counters))
    if not task.partitions:
        made = _rewritten(written, job, job.map_separator, job.map_fields)
        return TaskResult(output=_output(made, "m", counters))
    writer = programs.writer(task.partitions)
    held: list[Pair] = []
    made_pairs = 0
    for pair in programs.pairs(_counted(written, counters)):
        made_pairs += 1
        if not job.combiner:
            writer.add(*pair)
            continue
        held.append(pair)
        if len(held) >= COMBINED_AT_ONCE:
            programs.combine(held, writer)
            held = []
    if held:
        programs.combine(held, writer)
    counters["m.pairs_out"] = made_pairs
    partitions = writer.finish()
    if job.aggregate:
        counters["m.combined_away"] = writer.combined
    return TaskResult(partitions=partitions)


def _reduce(job: Streaming, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
    """Give sorted lines to the reducer, which runs as the result's output is read."""
    programs = _Programs(job, task, io, counters)
    pairs = _pairs(job, fetched_runs(task, io).merged(lambda: None), counters)
    if job.reducer:
        written = _reduced(programs.lines(pairs, job.reduce_input_separator), programs)
        made = _rewritten(written, job, job.reduce_separator, job.reduce_fields)
    else:
        made = programs.lines(pairs, job.output_separator)
    return TaskResult(output=_output(made, "r", counters))


def _reduced(lines: Iterator[Buffer], programs: _Programs) -> Iterator[Buffer]:
    """What the reducer writes; nothing if there are no lines, as in Hadoop: it runs, though."""
    first = next(lines, None)
    given = lines if first is None else chain((first,), lines)
    for piece in programs.run(programs.job.reducer, given):
        if first is not None:
            yield piece


def _pairs(job: Streaming, groups: Iterable[tuple[Any, Any]], counters: Counters) -> Iterator[Pair]:
    keys = records = 0
    try:
        for key, values in groups:
            keys += 1
            if job.aggregate:
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
class _Programs:
    """Runs a job's programs for one task, and has the rules of the lines between them."""

    job: Streaming
    task: TaskSpec
    io: TaskIO
    counters: Counters

    def run(self, words: tuple[str, ...], data: Iterable[Buffer]) -> Iterator[Buffer]:
        job, programs = self.job, self.io.programs
        program = Program(
            words=words,
            environment=_environment(job, programs.attempt, self.task),
            files=job.files,
            timeout_s=job.timeout_s,
            status_counts=job.status_counts,
        )
        return programs.run(program, data, partial(note_report, self.counters, job.reporter_prefix))

    def pairs(self, pieces: Iterable[Buffer], *, combined: bool = False) -> Iterator[Pair]:
        """The pairs of what a mapper or combiner wrote, each with what its key is sorted by."""
        job = self.job
        separator = job.combine_separator if combined else job.map_separator
        fields = job.combine_fields if combined else job.map_fields
        pairs = pairs_of(pieces, separator, fields)
        if not job.order_parts:
            return pairs
        return ((self._order(key), value) for key, value in pairs)

    def _order(self, key: bytes) -> tuple[Any, ...]:
        """What the key is sorted by: its parts, and where these are equal all of it."""
        separator = self.job.key_separator
        return (*(part.order(key, separator) for part in self.job.order_parts), key)

    def lines(self, pairs: Iterable[Pair], separator: bytes) -> Iterator[Buffer]:
        if self.job.order_parts:
            pairs = ((order[-1], value) for order, value in pairs)
        return _lines(pairs, self.job, separator)

    def writer(self, partitions: int) -> RunWriter:
        number = partitioner(self.job.partition_parts, self.job.key_separator)
        combine = aggregate.combined if self.job.aggregate else None
        if not self.job.order_parts:
            return RunWriter(partitions, number, combine)
        return RunWriter(partitions, lambda order, of: number(order[-1], of), combine)

    def combine(self, pairs: list[Pair], writer: RunWriter) -> None:
        """Replace pairs by what the combiner makes of them, in the order of their keys."""
        pairs.sort(key=lambda pair: pair[0])
        made = 0
        lines = self.lines(pairs, self.job.reduce_input_separator)
        for pair in self.pairs(self.run(self.job.combiner, lines), combined=True):
            made += 1
            writer.add(*pair)
        _count(self.counters, "m.combine_in", len(pairs))
        _count(self.counters, "m.combine_out", made)


# Environment and reports -------------------------------------------------------------------------
def hadoop_job_id(begun_ms: int, job: JobId, kind: str = "job") -> str:
    """The id of job "j12" of a cluster that began then, or of its application or the like."""
    return f"{kind}_{begun_ms}_{int(job[1:]):04d}"


def hadoop_attempt_id(begun_ms: int, attempt: AttemptId) -> str:
    """The id of attempt "j12.m3.0": "attempt_1795444939124_0012_m_000003_0"."""
    stage = stage_of(attempt)
    task, number = attempt.removeprefix(stage).split(".")
    job = hadoop_job_id(begun_ms, job_of(attempt), "attempt")
    return f"{job}_{stage.rpartition('.')[2]}_{int(task):06d}_{number}"


def _environment(job: Streaming, attempt: AttemptId, task: TaskSpec) -> dict[str, str]:
    """The variables that a task's program gets beside those of its NodeManager.

    Those of -cmdenv come last, so they win; those of mapreduce.map.env come first.
    """
    begun_ms = job.begun_ms
    attempt_id = hadoop_attempt_id(begun_ms, attempt)
    settings = job.settings | {
        "mapreduce.job.id": hadoop_job_id(begun_ms, job_of(attempt)),
        "mapreduce.task.id": attempt_id.rpartition("_")[0].replace("attempt_", "task_", 1),
        "mapreduce.task.attempt.id": attempt_id,
        "mapreduce.task.partition": str(task.index),
        "mapreduce.task.ismap": str(not task.reads).lower(),
        "mapreduce.job.application.attempt.id": "1",
        "mapreduce.task.output.dir": job.uri(task.output_path.rpartition("/")[0]),
    }
    if task.splits:
        split = task.splits[0]
        settings["mapreduce.map.input.file"] = job.uri(split.path)
        settings["mapreduce.map.input.start"] = str(split.stored_offset)
        settings["mapreduce.map.input.length"] = str(split.stored_length)
    return (
        (job.reduce_variables if task.reads else job.map_variables)
        | in_environment(settings, job.setting_letters_max)
        | job.environment
    )


def note_report(counters: Counters, prefix: bytes, line: bytes) -> bool:
    """Whether a line of standard error is for the framework; then it has been taken.

    That is ``reporter:counter:GROUP,NAME,AMOUNT``, whose counter is "GROUP,NAME", and
    ``reporter:status:TEXT``, which nobody asks for.  ``prefix`` stands for "reporter:".
    """
    if not line.startswith(prefix):
        return False
    kind, _, text = line[len(prefix) :].decode(errors="replace").partition(":")
    group, _, rest = text.partition(",")
    name, _, amount = rest.rpartition(",")
    if kind != "counter" or not (group and name) or not _AMOUNT.fullmatch(amount.strip()):
        return kind == "status"
    key = f"{printable(group)},{printable(name)}"
    if key not in counters and len(counters) >= COUNTERS_MAX:
        raise JobError(f"a task counted {COUNTERS_MAX} different things: need fewer")
    if len(amount) > _DIGITS_MAX:
        raise JobError(f"counter {key}: {amount[:20]}... has {len(amount)} digits: too many")
    _count(counters, key, int(amount))
    check_counters({key: counters[key]})
    return True


# Lines that are read and written -----------------------------------------------------------------
def _map_input(job: Streaming, task: TaskSpec, io: TaskIO, counters: Counters) -> Iterator[bytes]:
    """A split's records as the mapper reads them: lines that end with LF alone."""
    total, done = max(1, split_bytes(task)), 0
    for split in task.splits:
        at = split.stored_offset
        for block in _raw_records(job, split, io):
            records, read = _as_read(job, block, at)
            _count(counters, "m.records_in", records)
            if read:
                yield read
            at += len(block)
            io.progress(min(1.0, (done + at - split.stored_offset) / total))
        done += split.stored_length


def _raw_records(job: Streaming, split: Split, io: TaskIO) -> Iterator[bytes]:
    """The split's lines, many at a time, or its records, as they are in its file, unpacked."""
    file, ending = io.open(split.path), ending_of(split.path)
    if not (ending or job.delimiter):
        yield from split_lines(file, split)
        return
    whole: Iterable[Buffer] = (file.read(0, split.stored_length),)
    try:
        if ending:
            whole = unpacked(ending, files.BytesIO(b"".join(whole)))
        yield from _delimited(b"".join(whole), job.delimiter) if job.delimiter else raw_lines(whole)
    except NotPacked as error:
        raise BadInput(f"{split.path}: {error}") from None


def _delimited(data: bytes, delimiter: bytes) -> Iterator[bytes]:
    """Records, each with what ends it, which the last one may lack."""
    *ended, rest = data.split(delimiter)
    yield from (record + delimiter for record in ended)
    if rest:
        yield rest


def _as_read(job: Streaming, block: bytes, at: int) -> tuple[int, bytes]:
    """How many records a block has that begins at offset ``at``, and the lines of these."""
    if not at and not without_mark(block):  # all of its file
        return 0, b""
    if not (job.delimiter or job.offsets or job.line_key_separator or job.line_bytes_max):
        lines = with_lf(block if at else without_mark(block))
        return lines.count(b"\n"), lines
    separator = job.map_input_separator
    made = []
    for offset, record in records_of(block, at, job.delimiter):
        line = record
        if job.line_bytes_max and len(record) > job.line_bytes_max:
            continue
        if job.line_key_separator:
            key, found, value = record.partition(job.line_key_separator)
            line = key + separator + value if found or job.adds_separator else key
            line = line if job.line_keys else value
        elif job.offsets:
            line = b"%d%b%b" % (offset, separator, record)
        made.append(line + b"\n")
    return len(made), b"".join(made)


def _output(made: Iterable[Buffer], stage: str, counters: Counters) -> Iterator[Buffer]:
    """A task's file: what was made in whole lines, counted."""
    lines = 0
    for block in whole_lines(made):
        lines += block.count(b"\n")
        yield block
    counters[f"{stage}.pairs_out"] = lines


def _rewritten(
    written: Iterable[Buffer], job: Streaming, separator: bytes, fields: int
) -> Iterable[Buffer]:
    """What a program wrote as lines of the output: its keys end with the output's separator."""
    if separator == job.output_separator and not job.adds_separator:
        return written
    return _lines(pairs_of(written, separator, fields), job, job.output_separator)


def _lines(pairs: Iterable[Pair], job: Streaming, separator: bytes) -> Iterator[Buffer]:
    """The pairs as lines; one that is all key gets a separator behind it if the job wants so."""
    if job.adds_separator:
        pairs = ((key, value or b"") for key, value in pairs)
    return text_lines(pairs, separator)


def _counted(written: Iterable[Buffer], counters: Counters) -> Iterator[Buffer]:
    """What a mapper writes, unchanged, its bytes counted before a combiner has made fewer of it."""
    for piece in written:
        _count(counters, "m.bytes_out", len(piece))
        yield piece


def _count(counters: Counters, name: str, by: int) -> None:
    counters[name] = counters.get(name, 0) + by
