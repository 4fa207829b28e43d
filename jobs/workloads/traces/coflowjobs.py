"""A trace of coflows as jobs with one shuffle each.

Source: coflow-benchmark (see ``coflows.py``).  Left open there, chosen here: maps and reduces do
not compute, and the jobs have no output.  A map reads a block of 1 MB in its mapper's rack, so that
a scheduler with data locality places it there.  Reduces are placed by the scheduler, so racks may
receive more or less than in the trace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from railyard.cluster.errors import require_count
from railyard.cluster.tomlfile import Duration
from railyard.jobs.workloads.model import InputFile, Workload, WorkStage
from railyard.jobs.workloads.population import Arrivals, Population, Shape, populate
from railyard.jobs.workloads.statistics import statistic
from railyard.jobs.workloads.traces.coflows import TraceCoflow, load_coflow_benchmark

_MB = 10**6


class CoflowOptions(Population, frozen=True, kw_only=True):
    """All coflows at their arrivals."""

    REFUSED: ClassVar[Mapping[str, str]] = {"output_replication": "these jobs have no output"}

    jobs: int = 0  #: number of coflows, from the first; 0 = all
    arrivals: Arrivals = "trace"
    window: Duration = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("jobs", self.jobs, least=0)


def coflow_jobs(path: Path, options: CoflowOptions, seed: int) -> Workload:
    """The workload with a job for each coflow."""
    trace = load_coflow_benchmark(path)
    if options.jobs:
        trace = trace.first(options.jobs)
    shapes = [_shape(at, coflow, trace.racks) for at, coflow in enumerate(trace.coflows)]
    jobs = populate(shapes, options, seed)
    flows = sum(job.stages[0].tasks * job.stages[1].tasks for job in jobs)
    traced_bytes = sum(coflow.size_bytes for coflow in trace.coflows)
    return Workload(
        name=trace.name,
        source="coflow-benchmark (Chowdhury)",
        jobs=jobs,
        sites=trace.racks,
        statistics=(
            statistic("coflows", "", len(jobs), len(trace.coflows), note="the trace"),
            statistic("flows", "", flows, trace.width, note="the trace"),
            statistic(
                "bytes", "bytes", sum(j.shuffle_bytes for j in jobs), traced_bytes, note="the trace"
            ),
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
