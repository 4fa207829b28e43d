"""SWIM: jobs by their input, shuffle and output bytes, as traced at Facebook in 2009 and 2010.

Source: Chen et al., MASCOTS 2011, and the files of the SWIM project (UC Berkeley).  A file has one
line per job, with fields separated by tabs:

    id   submit time (s)   gap since the job before (s)   input bytes   shuffle bytes   output bytes

Left open there (a file has neither tasks nor computing times), chosen here, each an option:
``block``: a map reads 256 MB, as in Co-scheduler's example of 10 GB and 40 maps; a job without
input has one map, which reads nothing.  ``reduce_size``: a reduce fetches 1 GB, as in the same
example (10 reduces), with at most ``reduces_max`` per job; a job without shuffle has no reduces,
and its maps write the output.  ``start``: a task takes 1 s plus the time for its bytes, about what
a JVM needs to start.  ``map_rate``, ``reduce_rate``: by default the topology's.  Three of four jobs
shuffle nothing.
"""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import ClassVar, NamedTuple

from railyard.cluster.errors import UsageError, require, shown_value
from railyard.cluster.inputfile import Duration, Rate, Size
from railyard.cluster.units import format_size, whole_number
from railyard.jobs.workloads.model import Statistic, Workload
from railyard.jobs.workloads.population import Arrivals, Population, Shape, dice, populate
from railyard.jobs.workloads.shapes import map_reduce
from railyard.jobs.workloads.statistics import share, statistic
from railyard.jobs.workloads.tracefiles import read_trace

_FIELDS = ("job id", "submit time", "gap", "input bytes", "shuffle bytes", "output bytes")
_NAME = re.compile(r"[\w-][\w.-]{0,200}")  # also used as the name of a file
#: Co-scheduler's elephant threshold: jobs that shuffle more are shuffle-heavy.
HEAVY_BYTES = 1_125_000_000


class SwimOptions(Population, frozen=True, kw_only=True):
    """The choices of the top of this file."""

    COUNTS: ClassVar = {"jobs": 0, "reduces_max": 1}
    SIZES: ClassVar = ("block", "reduce_size")

    jobs: int = 0  #: size of a random sample of the jobs; 0 = all
    shuffle_min: Size = 0  #: jobs that shuffle less are left out
    size_max: Size = 0  #: jobs that read, shuffle or write more are left out; 0 = any
    times: float = 1.0  #: factor of all bytes; the number of tasks stays
    block: Size = 256_000_000  #: what a map reads
    reduce_size: Size = 1_000_000_000  #: what a reduce fetches
    reduces_max: int = 1000  #: most reduces of a job
    start: Duration = 1.0  #: time of each task before it works on bytes
    map_rate: Rate | None = None  #: bytes/s of a map; None = the topology's
    reduce_rate: Rate | None = None  #: bytes/s of a reduce; None = the topology's
    arrivals: Arrivals = "trace"
    window: Duration = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.times <= 1e6, "times", self.times, "a number above 0, at most 1e6")

    def admits(self, job: SwimJob) -> bool:
        largest = max(job.input_bytes, job.shuffle_bytes, job.output_bytes)
        return job.shuffle_bytes >= self.shuffle_min and not 0 < self.size_max < largest

    def words(self) -> str:
        """Which jobs of a file these are: " that shuffle 1 B or more, of at most 4 TB"; or ""."""
        least = f" that shuffle {format_size(self.shuffle_min)} or more" if self.shuffle_min else ""
        most = f", of at most {format_size(self.size_max)}" if self.size_max else ""
        return least + most


class CoSchedulerOptions(SwimOptions, frozen=True, kw_only=True):
    """Co-scheduler, section V: 1,000 jobs "selected" from a trace, 20 users, half recurring.

    Left open there, chosen here: which jobs (those that shuffle, as the others send nothing, and of
    at most 4 TB, as each was replayed on a single node), task times, and the replicas of the output
    (one).  Against the text, all come at once (``arrivals``): "uniformly at random in [0, 90]
    minutes" the cluster is idle, which the paper's makespans rule out (see
    docs/reproduce-co-scheduler.md).
    """

    jobs: int = 1000  #: size of a random sample of the jobs; 0 = all
    shuffle_min: Size = 1  #: jobs that shuffle less are left out
    size_max: Size = 4_000_000_000_000  #: jobs that read, shuffle or write more are left out
    users: int = 20  #: how many; each job has one of them
    arrivals: Arrivals = "batch"
    window: Duration = 5400.0
    recurring: float = 0.5
    output_replication: int = 1


class SwimJob(NamedTuple):
    """A line of a trace."""

    name: str
    submit_s: int
    gap_s: int
    input_bytes: int
    shuffle_bytes: int
    output_bytes: int


def load_swim(path: Path) -> list[SwimJob]:
    """Read a trace, in the order of its lines.

    Raises ``UsageError`` with file, line, the error and what is needed.
    """
    jobs: dict[str, SwimJob] = {}
    for number, line in enumerate(read_trace(path, "SWIM trace", "swim").splitlines(), start=1):
        if line.strip():
            job = _job(f"{path}:{number}", line.split("\t"))
            if job.name in jobs:
                right = "need an id of its own"
                raise UsageError(f"{path}:{number}: job {job.name} is there already: {right}")
            jobs[job.name] = job
    if not jobs:
        raise UsageError(f"{path}: has no jobs: need a line for each")
    return list(jobs.values())


def _job(where: str, fields: list[str]) -> SwimJob:
    if len(fields) != len(_FIELDS):
        right = f"{len(_FIELDS)}, with tabs between: {', '.join(_FIELDS)}"
        raise UsageError(f"{where}: has {len(fields)} fields: need {right}")
    if not _NAME.fullmatch(fields[0]):
        right = "letters, digits, _, - and . only"
        raise UsageError(f"{where}: job id = {fields[0]!r}: need {right}")
    numbers: list[int] = []
    for name, text in zip(_FIELDS[1:], fields[1:], strict=True):
        if (number := whole_number(text.strip())) is None:
            right = "a whole number >= 0, at most 10**18"
            raise UsageError(f"{where}: {name} = {shown_value(text)}: need {right}")
        numbers.append(number)
    return SwimJob(fields[0], *numbers)


def swim(path: Path, options: SwimOptions, seed: int) -> Workload:
    """A trace of input, shuffle and output bytes, such as Facebook's of 2009 and 2010."""
    traced = load_swim(path)
    eligible = [job for job in traced if options.admits(job)]
    chosen = sample(eligible, options.jobs, seed, f"{path}{options.words()}")
    shapes = [shape_of(job, options, job.submit_s) for job in chosen]
    return Workload(
        name=path.name,
        jobs=populate(shapes, options, seed),
        statistics=_statistics(traced, eligible, chosen, path.name),
    )


def co_scheduler(path: Path, options: CoSchedulerOptions, seed: int) -> Workload:
    """1,000 jobs of a SWIM trace that shuffle, 20 users, at once, half of them recurring."""
    made = swim(path, options, seed)
    jobs, where = made.jobs, "section V"
    recurring = share([job.recurrence is not None for job in jobs])
    statistics = (
        statistic("jobs", "", len(jobs), 1000, note=where),
        statistic("users", "", len({job.user for job in jobs}), 20, note=where),
        statistic("last job", "s", jobs[-1].submit_s, (0.0, 5400.0), note=where),
        statistic("recurring", "share", recurring, 0.5, note=where),
        *made.statistics,
    )
    return dataclasses.replace(made, name="co-scheduler", statistics=statistics)


def sample(jobs: list[SwimJob], count: int, seed: int, where: str) -> list[SwimJob]:
    """A uniform sample of ``count`` jobs in the order of the trace; all if ``count`` is 0."""
    if not count:
        return jobs
    require(count <= len(jobs), "jobs", count, f"at most the {len(jobs)} jobs of {where}")
    chosen = dice(seed, "sample").choice(len(jobs), size=count, replace=False)
    return [jobs[at] for at in sorted(chosen.tolist())]


def shape_of(job: SwimJob, options: SwimOptions, arrive_s: float) -> Shape:
    """A line of a trace as a job with tasks."""
    reduces = min(options.reduces_max, -(-job.shuffle_bytes // options.reduce_size))

    def times(size_bytes: int) -> int:
        return math.ceil(size_bytes * options.times)

    return map_reduce(
        job.name,
        input_bytes=times(job.input_bytes),
        block_bytes=times(options.block),
        shuffle_bytes=times(job.shuffle_bytes),
        output_bytes=times(job.output_bytes),
        reduces=reduces,
        times_s=(options.start, options.start),
        rates=(options.map_rate, options.reduce_rate),
    )._replace(arrive_s=arrive_s)


#: {file: (jobs, shuffle bytes, maps of 256 MB) of the whole public trace}
_KNOWN = {
    "FB-2009_samples_24_times_1hr_0.tsv": (5894, 22.2e12, 110_483),
    "FB-2010_samples_24_times_1hr_0.tsv": (24_442, 438e12, 4_248_112),
}


def _statistics(
    traced: list[SwimJob], eligible: list[SwimJob], chosen: list[SwimJob], file: str
) -> tuple[Statistic, ...]:
    """Statistics of the sample, compared with those of the whole trace."""
    known = _KNOWN.get(file)
    statistics = [
        statistic("jobs in the file", "", len(traced), known and known[0]),
        _chance("jobs that shuffle", eligible, chosen, 0),
        _chance("jobs that shuffle > 1.125 GB", eligible, chosen, HEAVY_BYTES),
    ]
    if known and len(chosen) == len(traced):
        shuffled = sum(job.shuffle_bytes for job in chosen)
        maps = sum(max(1, -(-job.input_bytes // 256_000_000)) for job in chosen)
        statistics.append(statistic("shuffle of the file", "bytes", shuffled, known[1], 0.01))
        statistics.append(statistic("maps at 256 MB", "", maps, known[2]))
    return tuple(statistics)


def _chance(name: str, traced: list[SwimJob], chosen: list[SwimJob], above_bytes: int) -> Statistic:
    """The share of jobs that shuffle more; a sample's may be off by 3 standard deviations."""
    of_all = share([job.shuffle_bytes > above_bytes for job in traced])
    of_these = share([job.shuffle_bytes > above_bytes for job in chosen])
    deviation = math.sqrt((1 - of_all) / of_all / len(chosen)) if of_all else 0.0
    return statistic(name, "share", of_these, of_all, 3 * deviation, "the whole file")
