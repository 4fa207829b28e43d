"""Coflow traces: senders, receivers, bytes and arrivals; alone, or as jobs with one shuffle each.

The format is that of coflow-benchmark (github.com/coflow/coflow-benchmark), which has the commonly
used trace of an hour on 150 racks at Facebook in 2010:

    ports coflows                                                    (first line)
    id arrival_ms mappers rack... reducers rack:megabytes...         (one line each)

Each mapper sends an equal part of a reducer's bytes.  A megabyte is 10**6 bytes, as everywhere in
this project.

Left open there, chosen here for jobs: maps and reduces do not compute, and the jobs have no output.
A map reads a block of 1 MB in its mapper's rack, so that a scheduler with data locality places it
there.  Reduces are placed by the scheduler, so racks may receive more or less than in the trace.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from railyard.cluster.errors import COUNT_MAX, UsageError, printable, shown_value, unknown_name
from railyard.cluster.inputfile import Duration
from railyard.cluster.topologyfile import split_changes
from railyard.cluster.units import NUMBER_MAX, whole_number
from railyard.jobs.workloads.model import InputFile, Workload, WorkStage
from railyard.jobs.workloads.population import Arrivals, Population, Shape, populate
from railyard.jobs.workloads.statistics import statistic
from railyard.jobs.workloads.tracefiles import HOW_TO_GET, read_trace

_MB = 10**6
_KIND = "coflow-benchmark"


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCoflow:
    """One coflow: each of its mappers sends to each of its reducers."""

    name: str
    arrival_s: float
    mappers: tuple[int, ...]  #: rack of each mapper
    reducers: tuple[tuple[int, int], ...]  #: (rack, bytes received) of each reducer

    @property
    def size_bytes(self) -> int:
        """Bytes of all flows."""
        return sum(size for _, size in self.reducers)

    @property
    def width(self) -> int:
        """Number of flows."""
        return len(self.mappers) * len(self.reducers)

    def flows(self) -> Iterator[tuple[int, int, int]]:
        """(Source rack, destination rack, bytes) of each flow; odd bytes go to the first flows."""
        count = len(self.mappers)
        for dst, size_bytes in self.reducers:
            part, odd = divmod(size_bytes, count)
            for number, src in enumerate(self.mappers):
                yield src, dst, part + (number < odd)


@dataclass(frozen=True, slots=True, kw_only=True)
class CoflowTrace:
    """Coflows in the order in which they arrive."""

    name: str
    racks: int
    coflows: tuple[TraceCoflow, ...]

    @property
    def width(self) -> int:
        """Number of flows of all coflows."""
        return sum(coflow.width for coflow in self.coflows)

    def first(self, count: int) -> CoflowTrace:
        return CoflowTrace(name=self.name, racks=self.racks, coflows=self.coflows[:count])


def load_coflow_benchmark(path: Path) -> CoflowTrace:
    """Read a trace; raises ``UsageError`` with file, line, the error and what is needed."""
    lines = read_trace(path, f"{_KIND} trace", _KIND).splitlines()
    head = _Line(f"{path}:1", lines[0] if lines else "")
    racks, count = head.count("number of ports", 1), head.count("number of coflows", 0)
    head.end()
    coflows: dict[str, TraceCoflow] = {}
    for number, text in enumerate(lines[1:], start=2):
        if not text.strip():
            continue
        line = _Line(f"{path}:{number}", text)
        coflow = _coflow(line, racks)
        if coflow.name in coflows:
            raise line.wrong(f"coflow {coflow.name} is there already", "an id of its own")
        coflows[coflow.name] = coflow
    if len(coflows) != count:
        raise head.wrong(f"{count} coflows, but {len(coflows)} follow", "as many as there are")
    in_order = sorted(coflows.values(), key=lambda coflow: coflow.arrival_s)
    return CoflowTrace(name=path.name, racks=racks, coflows=tuple(in_order))


def _coflow(line: _Line, racks: int) -> TraceCoflow:
    name = line.word("coflow id")
    arrival = line.word("arrival in ms")
    arrival_s = line.number(arrival, f"arrival in ms = {arrival!r}", "a number >= 0") / 1000
    mappers = [line.rack("mapper's rack", racks) for _ in range(line.count("number of mappers", 1))]
    reducers = [line.rack_and_bytes(racks) for _ in range(line.count("number of reducers", 1))]
    line.end()
    return TraceCoflow(
        name=name, arrival_s=arrival_s, mappers=tuple(mappers), reducers=tuple(reducers)
    )


class _Line:
    """The words of a line, read one after the other; ``what`` names the word in errors."""

    def __init__(self, where: str, text: str) -> None:
        self._where = where
        self._words = text.split()
        self._next = 0

    def wrong(self, what: str, right: str) -> UsageError:
        return UsageError(f"{self._where}: {what}: need {right}")

    def word(self, what: str) -> str:
        if self._next == len(self._words):
            raise self.wrong(f"ends before the {what}", f"more than {self._next} words")
        self._next += 1
        return self._words[self._next - 1]

    def count(self, what: str, least: int) -> int:
        text = self.word(what)
        value = whole_number(text)
        if value is None or not least <= value <= COUNT_MAX:
            right = f"a whole number >= {least}, at most {COUNT_MAX}"
            raise self.wrong(f"{what} = {shown_value(text)}", right)
        return value

    def number(self, text: str, what: str, right: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= NUMBER_MAX:
            raise self.wrong(what, right)
        return value

    def rack(self, what: str, racks: int) -> int:
        return self._rack(self.word(what), what, racks)

    def rack_and_bytes(self, racks: int) -> tuple[int, int]:
        text = self.word("reducer")
        rack, colon, megabytes = text.partition(":")
        right = "rack:megabytes, such as 4:27.0"
        if not colon:
            raise self.wrong(f"reducer {text!r}", right)
        size = self.number(megabytes, f"reducer {text!r}", right)
        return self._rack(rack, f"reducer {text!r}: rack", racks), round(size * _MB)

    def end(self) -> None:
        if self._next < len(self._words):
            extra = self._words[self._next]
            raise self.wrong(f"goes on with {extra!r}", f"{self._next} words, by its own counts")

    def _rack(self, text: str, what: str, racks: int) -> int:
        value = whole_number(text)
        if value is None or not 0 <= value < racks:
            raise self.wrong(f"{what} = {shown_value(text)}", f"a port of 0 to {racks - 1}")
        return value


class CoflowOptions(Population, frozen=True, kw_only=True):
    """All coflows at their arrivals."""

    REFUSED: ClassVar[Mapping[str, str]] = {"output_replication": "these jobs have no output"}
    COUNTS: ClassVar = {"jobs": 0}

    jobs: int = 0  #: number of coflows, from the first; 0 = all
    arrivals: Arrivals = "trace"
    window: Duration = 0.0


def coflow_jobs(path: Path, options: CoflowOptions, seed: int) -> Workload:
    """A trace of coflows, each a job of one shuffle."""
    trace = load_coflow_benchmark(path)
    if options.jobs:
        trace = trace.first(options.jobs)
    shapes = [_shape(at, coflow, trace.racks) for at, coflow in enumerate(trace.coflows)]
    jobs = populate(shapes, options, seed)
    flows = sum(job.stages[0].tasks * job.stages[1].tasks for job in jobs)
    traced_bytes = sum(coflow.size_bytes for coflow in trace.coflows)
    shuffled = sum(job.shuffle_bytes for job in jobs)
    return Workload(
        name=trace.name,
        jobs=jobs,
        sites=trace.racks,
        statistics=(
            statistic("coflows", "", len(jobs), len(trace.coflows), note="the trace"),
            statistic("flows", "", flows, trace.width, note="the trace"),
            statistic("bytes", "bytes", shuffled, traced_bytes, note="the trace"),
        ),
    )


def _shape(number: int, coflow: TraceCoflow, racks: int) -> Shape:
    count = len(coflow.mappers)
    file = InputFile(
        path=f"/workload/c{number}",
        size_bytes=count * _MB,
        block_bytes=_MB,
        shares=tuple(coflow.mappers.count(rack) / count for rack in range(racks)),
    )
    maps = WorkStage(
        name="m",
        files=(file.path,),
        tasks=count,
        output_bytes=coflow.size_bytes,
        rate_bytes_per_s=math.inf,
    )
    sizes = tuple(float(size_bytes) for _, size_bytes in coflow.reducers)
    reduces = WorkStage(
        name="r",
        reads=("m",),
        tasks=len(sizes),
        output_bytes=0,
        rate_bytes_per_s=math.inf,
        weights=sizes if coflow.size_bytes else (),
    )
    return Shape(f"c{coflow.name}", (maps, reduces), (file,), coflow.arrival_s)


def coflow_trace(text: str) -> CoflowTrace:
    """Read the trace named by text such as "coflow-benchmark:FILE".

    Raises ``UsageError`` for an unknown kind, a missing file name or a malformed file.
    """
    base, changes = split_changes(text)
    kind, colon, file = base.partition(":")
    if kind != _KIND:
        raise unknown_name("workload", kind, [_KIND])
    if not colon or not file:
        raise UsageError(f"workload {text}: need a file, as in {kind}:FILE; {HOW_TO_GET}")
    for key, value in changes:
        instead = f"--first {value}, or --scheduler" if key == "jobs" else "--scheduler"
        shown = printable(f"{key}={value}", 80)
        raise UsageError(f"{shown}: coflows alone have no options: need {instead}")
    return load_coflow_benchmark(Path(file))
