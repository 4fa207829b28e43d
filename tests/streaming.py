"""Streaming jobs in memory: their programs are functions of bytes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby

import msgspec

from railyard.cluster.ids import AttemptId
from railyard.cluster.messages import Split, TaskSpec
from railyard.jobs.local import LocalIO
from railyard.jobs.model import run_task
from railyard.jobs.streaming.job import StreamingJob
from railyard.jobs.streaming.request import StreamingRequest, streaming_of
from railyard.jobs.taskio import Program

BEGUN_MS = 1795444939124


def cat(data, say):
    return data


def words(data, say):
    """A mapper."""
    found = data.split()
    say(b"reporter:counter:text,words,%d" % len(found))
    say(b"reporter:status:counting")
    return b"".join(word + b"\t1\n" for word in found)


def total(data, say):
    """A reducer or combiner."""
    pairs = [line.split(b"\t") for line in data.splitlines()]
    made = []
    for word, group in groupby(pairs, key=lambda pair: pair[0]):
        made.append(b"%b\t%d\n" % (word, sum(int(value) for _, value in group)))
    return b"".join(made)


def first_line(data, say):
    """It reads no more."""
    return data.partition(b"\n")[0]


def reports(data, say):
    """Counts with another prefix."""
    return b"" if say(b"rep:counter:g,c,1") else data


PROGRAMS = {
    "reports": reports,
    "cat": cat,
    "words": words,
    "total": total,
    "first_line": first_line,
}


@dataclass
class Functions:
    """Programs that are functions of bytes."""

    attempt: AttemptId
    programs: list[Program] = field(default_factory=list)

    def run(self, program, data, on_line):
        self.programs.append(program)
        made = PROGRAMS[program.words[0]](b"".join(data), on_line)
        for at in range(0, len(made), 7):  # in pieces that end anywhere
            yield made[at : at + 7]


class IO(LocalIO):
    """A task's files and fetches in memory, with programs."""

    functions: Functions

    @property
    def programs(self):
        return self.functions


@dataclass
class Ran:
    """A job's files, its counters, and its programs as they were started."""

    files: list[bytes]
    counters: Counter = field(default_factory=Counter)
    programs: list[Program] = field(default_factory=list)

    @property
    def environments(self):
        return [dict(program.environment) for program in self.programs]

    @property
    def lines(self):
        return b"".join(self.files).splitlines()


def run(data, split_bytes=1000, path="/in/f", **options):
    """Run a job over one file; ``options`` are those of ``hadoop jar``."""
    request = StreamingRequest(input=("/in",), output="/out", **options)
    streaming = streaming_of(request, BEGUN_MS, "webhdfs://h:1")
    job = StreamingJob(specification=msgspec.json.encode(streaming))
    ran = Ran([])
    reduces = streaming.reduces
    whole = path.endswith(".gz")
    step = len(data) if whole else split_bytes
    splits = [
        Split(path=path, stored_offset=at, stored_length=min(step, len(data) - at))
        for at in range(0, len(data), step)
    ]
    outputs: list[list[bytes]] = [[] for _ in range(reduces)]

    def do(task, fetched):
        io = IO({path: data}, fetched)
        io.functions = Functions(AttemptId(f"j7.{task.stage}{task.index}.0"))
        result = run_task(job, task, io)
        written = b"".join(result.output)
        ran.counters.update(result.counters)
        ran.programs += io.functions.programs
        return result, written

    for index, split in enumerate(splits):
        task = TaskSpec(stage="m", index=index, splits=(split,), partitions=reduces)
        result, written = do(task, ())
        for number, pieces in enumerate(result.partitions):
            outputs[number].append(b"".join(pieces))
        if not reduces:
            ran.files.append(written)
    for index in range(reduces):
        fetched = [("m", output) for output in outputs[index]]
        task = TaskSpec(stage="r", index=index, reads=("m",), inputs=len(splits))
        ran.files.append(do(task, fetched)[1])
    return ran
