"""Shadow's workloads: six applications, and jobs of a Facebook trace.

Source: Shadow, section 5.3 and Table 2; 5.1 (slots); topology ``shadow-4x13``.

Left open there, chosen here.  Blocks have 256 MB, so that 120 GB are 469 maps, one wave on the 624
map slots; ``reduces``: 52, one for each node, on 156 slots.  The paper says only that there are no
combiners, and that the shuffle matters most for Sequence-Count: what an application shuffles and
writes was measured with our own ones (``docs/workloads.md``), or is given (``shuffle``,
``output``).  Of the topology, ``assign_multiple`` says where tasks run, ``uplink`` what goes over
links of racks, which may be meant for each pair, and ``map_rate`` how fast a slot computes.
K-means is one iteration.  TeraSort's output has one replica, as it is in Hadoop unless one asks for
more.  There, the applications run alone; here, an hour apart.
Facebook: the gaps between jobs are those of the trace, and all sizes are scaled so that the total
input is 730 GB.  No public file is exactly from the paper's cluster (600 nodes, 2010), and most of
their jobs shuffle nothing (``shuffle_min``).
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import msgspec

from railyard.cluster.errors import UsageError, require, unknown_name
from railyard.cluster.inputfile import Duration, Size
from railyard.jobs.workloads.model import Workload
from railyard.jobs.workloads.population import Arrivals, Population, Shape, populate
from railyard.jobs.workloads.shapes import map_reduce
from railyard.jobs.workloads.statistics import statistic
from railyard.jobs.workloads.swim import SwimOptions, load_swim, sample, shape_of

_APART_S = 3600.0
_TERASORT = "terasort"
#: {application: (shuffle / input, output / input)}
_APPLICATIONS = {
    "sequence-count": (3.1, 5.3),
    "wordcount": (2.4, 0.02),
    "rank-inv-idx": (1.0, 0.97),
    "kmeans": (1.02, 1.0),
    "self-join": (1.0, 0.82),
    _TERASORT: (1.0, 1.0),
}
_RATIO_MAX = 1000.0


class ShadowOptions(Population, frozen=True, kw_only=True):
    """The six applications, one after the other."""

    SIZES: ClassVar = ("block",)

    app: str = "all"  #: one of the six applications, or all of them
    input: Size = 120_000_000_000  #: of each application
    block: Size = 256_000_000  #: what a map reads
    reduces: int = 52  #: of each application
    shuffle: float | None = None  #: bytes shuffled for a byte of input; None = as measured
    output: float | None = None  #: bytes written for a byte of input; None = as measured
    arrivals: Arrivals = "trace"
    window: Duration = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("shuffle", "output"):
            ratio, right = getattr(self, name), f"a number from 0 to {_RATIO_MAX:g}"
            require(ratio is None or 0 <= ratio <= _RATIO_MAX, name, ratio, right)
        require(self.reduces > 0, "reduces", self.reduces, "a number above 0")


class ShadowFacebookOptions(SwimOptions, frozen=True, kw_only=True):
    """50 jobs with 730 GB of input."""

    jobs: int = 50  #: size of a random sample of the jobs; 0 = all
    total: Size = 730_000_000_000  #: input of all jobs, to which sizes are scaled


def shadow(options: ShadowOptions, seed: int) -> Workload:
    """Six applications of 120 GB, one after the other."""
    if options.app not in ("all", *_APPLICATIONS):
        raise unknown_name("application of Shadow", options.app, ["all", *_APPLICATIONS])
    names = list(_APPLICATIONS) if options.app == "all" else [options.app]
    shapes = [_shape(name, number, options) for number, name in enumerate(names)]
    jobs = tuple(
        msgspec.structs.replace(job, output_replication=job.output_replication or 1)
        if job.name == _TERASORT  # its output has one replica unless another number is given
        else job
        for job in populate(shapes, options, seed)
    )
    maps = max(job.stages[0].tasks for job in jobs)
    return Workload(
        name="shadow",
        jobs=jobs,
        statistics=(
            statistic("applications", "", len(jobs), 6, note="Table 2"),
            statistic("input of each", "bytes", jobs[0].input_bytes, 120e9, note="Table 2"),
            statistic("map slots for a wave", "", maps, (1, 624), note="section 5.1"),
        ),
    )


def _shape(name: str, number: int, options: ShadowOptions) -> Shape:
    shuffle, output = _APPLICATIONS[name]
    shuffle = shuffle if options.shuffle is None else options.shuffle
    output = output if options.output is None else options.output
    return map_reduce(
        name,
        input_bytes=options.input,
        block_bytes=options.block,
        shuffle_bytes=round(options.input * shuffle),
        output_bytes=round(options.input * output),
        reduces=options.reduces,
    )._replace(arrive_s=number * _APART_S)


def shadow_facebook(path: Path, options: ShadowFacebookOptions, seed: int) -> Workload:
    """50 jobs of a SWIM trace, scaled to 730 GB."""
    eligible = [job for job in load_swim(path) if options.admits(job)]
    chosen = sample(eligible, options.jobs, seed, str(path))
    traced_bytes = sum(job.input_bytes for job in chosen)
    if not traced_bytes:
        raise UsageError(f"{path}: the jobs chosen have no input: need another seed or more jobs")
    factor = options.total / traced_bytes
    shapes, time_s = [], 0.0
    for job in chosen:
        time_s += job.gap_s
        scaled = job._replace(
            input_bytes=round(job.input_bytes * factor),
            shuffle_bytes=round(job.shuffle_bytes * factor),
            output_bytes=round(job.output_bytes * factor),
        )
        shapes.append(shape_of(scaled, options, time_s))
    jobs = populate(shapes, options, seed)
    total = sum(job.input_bytes for job in jobs)
    return Workload(
        name="shadow-facebook",
        jobs=jobs,
        statistics=(
            statistic("jobs", "", len(jobs), 50, note="section 5.3"),
            statistic("input", "bytes", total, 730e9, 0.001, "Table 2"),
        ),
    )
