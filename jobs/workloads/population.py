"""The users, queues, arrivals and forecasts of a workload's jobs.

All are drawn by seed, each from a random generator of its own: changing the number of users, for
instance, changes no sizes and no arrivals.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Literal, NamedTuple

import msgspec
import numpy as np

from railyard.cluster.errors import UsageError, require, require_count, require_part
from railyard.cluster.inputfile import Duration
from railyard.jobs.skew import skew_of
from railyard.jobs.workloads.model import InputFile, Recurrence, WorkloadJob, WorkStage

Arrivals = Literal["batch", "uniform", "poisson", "trace"]


class Population(msgspec.Struct, frozen=True, kw_only=True):
    """The options of all workloads; each workload has defaults and further options of its own."""

    users: int = 1  #: how many; each job has one of them
    queues: int = 1  #: each user has one of them
    #: when jobs come: batch (all at once), uniform, poisson, or trace (as the source has them)
    arrivals: Arrivals = "uniform"
    window: Duration = 3600.0  #: length of uniform or rescaled trace arrivals; 0 = as traced
    gap: Duration = 0.0  #: mean time between two jobs of poisson arrivals; 0 = window / jobs
    recurring: float = 0.0  #: share of the jobs that are predicted
    #: mean of |predicted / actual size - 1|; 6.5 % in Corral, section 2.  Drawn uniformly up to
    #: twice that: 0.25 is the "up to 50 %" of its Fig. 13(a)
    size_error: float = 0.065
    late: float = 0.0  #: share of the jobs submitted at another time than predicted: Fig. 13(b)
    late_by: Duration = 240.0  #: they are submitted up to this much earlier or later
    output_replication: int = 0  #: replicas of the jobs' output; 0 = the block store's default
    grain: int = 1  #: how many tasks are merged into one; see ``coarse.py``
    #: how unequal the racks' shares of each input are, see ``jobs.skew``: exponent of Zipf's law
    skew: float | None = None
    skew_ratio: float | None = None  #: instead of it: most / least

    #: {option: its least value}, and the options that are sizes above 0; those of bases hold, too
    COUNTS: ClassVar[Mapping[str, int]] = {"users": 1, "queues": 1, "grain": 1}
    SIZES: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        for kind in type(self).__mro__:
            for name, least in vars(kind).get("COUNTS", {}).items():
                require_count(name, getattr(self, name), least)
            for name in vars(kind).get("SIZES", ()):
                require(getattr(self, name) >= 1, name, getattr(self, name), "a size above 0")
        for name in ("recurring", "late"):
            require(0 <= getattr(self, name) <= 1, name, getattr(self, name), "a share of 0 to 1")
        require(0 <= self.size_error < 0.5, "size_error", self.size_error, "0 to below 0.5")
        skew_of(self.skew, self.skew_ratio)
        if self.arrivals == "uniform":
            right = "a time above 0, over which jobs come; arrivals=batch has all at once"
            require(self.window > 0, "window", self.window, right)
        elif self.arrivals == "poisson":
            right = "a time above 0, as there is no window either"
            require(self.gap > 0 or self.window > 0, "gap", self.gap, right)

    def without_effect(self) -> dict[str, str]:
        """{option that the values of others switch off: what it needs}"""
        off = {}
        if self.users == 1:
            off["queues"] = "users above 1, who have one each"
        if self.arrivals == "batch":
            off["window"] = "arrivals=uniform, poisson or trace"
        elif self.arrivals == "poisson" and self.gap:
            off["window"] = f"gap=0s, which is window / jobs; the gap is {self.gap:g} s"
        if self.arrivals != "poisson":
            off["gap"] = "arrivals=poisson"
        if not self.recurring:
            off["size_error"] = "recurring above 0: no job is predicted"
        if not self.late:
            off["late_by"] = "late above 0: no job is late"
        if not self.late_by:
            off["late"] = "late_by above 0"
        return off


class Shape(NamedTuple):
    """A job before it has a user, a queue and a submission time."""

    name: str
    stages: tuple[WorkStage, ...]
    files: tuple[InputFile, ...] = ()
    arrive_s: float | None = None  #: arrival in its trace or paper; None = there is none
    past: Recurrence | None = None  #: its forecast, if the workload has made one


def dice(seed: int, purpose: str) -> np.random.Generator:
    """The random generator for one purpose; its numbers are the same on every machine."""
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(purpose.encode())]))


def populate(
    made: Iterable[Shape], options: Population, seed: int, label: str = ""
) -> tuple[WorkloadJob, ...]:
    """A job of each shape, in the order of their submission.

    ``label`` makes the random numbers differ between several populations of one workload.  Raises
    ``UsageError`` if arrivals are "trace" and the shapes have none.
    """
    shapes = list(made)
    count = len(shapes)
    predicted_s = arrivals_s(shapes, options, dice(seed, f"{label}arrivals"))
    rng = dice(seed, f"{label}late")  # a share is early or late, as in Corral, section 6.5
    late = rng.permutation(count) < _part(options, "late", count)
    delays_s = rng.uniform(-options.late_by, options.late_by, count)
    come_s: np.ndarray = np.maximum(0.0, predicted_s + np.where(late, delays_s, 0.0))
    users = dice(seed, f"{label}users").integers(options.users, size=count).tolist()
    rng = dice(seed, f"{label}recurring")  # the jobs do not depend on the error of the forecasts
    recurs = rng.permutation(count) < _part(options, "recurring", count)
    most = 2 * options.size_error
    ratios = (1 + rng.uniform(-most, most, count)).tolist()  # predicted / actual size
    planned_s, submits_s = predicted_s.tolist(), come_s.tolist()
    user_of: dict[str, int] = {}  #: {recurring job: user of all its instances}
    jobs = []
    for at in np.argsort(come_s, kind="stable").tolist():
        shape, user, past = shapes[at], users[at], None
        if recurs[at]:
            known = shape.past or Recurrence(name=shape.name, size_ratio=ratios[at])
            past = msgspec.structs.replace(known, submit_s=planned_s[at])
            user = user_of.setdefault(past.name, user)
        jobs.append(
            WorkloadJob(
                name=shape.name,
                user=f"u{user}",
                queue="default" if options.queues == 1 else f"q{user % options.queues}",
                submit_s=submits_s[at],
                stages=shape.stages,
                files=shape.files,
                output_replication=options.output_replication,
                recurrence=past,
            )
        )
    return tuple(jobs)


def merged(*populations: Iterable[WorkloadJob]) -> tuple[WorkloadJob, ...]:
    """The jobs of all populations in the order of their submission."""
    every = [job for jobs in populations for job in jobs]
    return tuple(sorted(every, key=lambda job: job.submit_s))


def arrivals_s(
    shapes: Sequence[Shape], options: Population, rng: np.random.Generator
) -> np.ndarray:
    """The arrival of each job, in seconds from the start."""
    count = len(shapes)
    if options.arrivals == "batch":
        return np.zeros(count)
    if options.arrivals == "uniform":
        return rng.uniform(0.0, options.window, count)
    if options.arrivals == "poisson":
        gap_s = options.gap or options.window / max(count, 1)
        summed: np.ndarray = np.cumsum(rng.exponential(gap_s, count))
        return summed
    times_s = [shape.arrive_s for shape in shapes if shape.arrive_s is not None]
    if len(times_s) < count:
        raise UsageError("arrivals = 'trace': this workload has no times of its own: need another")
    first_s, last_s = min(times_s, default=0.0), max(times_s, default=0.0)
    if options.window and last_s == first_s:
        raise UsageError("window: changes nothing here: need jobs that come at different times")
    squeeze = options.window / (last_s - first_s) if options.window else 1.0
    return np.array([(time_s - first_s) * squeeze for time_s in times_s])


def _part(options: Population, name: str, count: int) -> int:
    """How many jobs an option's share is; a default may be none of a few."""
    share = getattr(options, name)
    usual = {field.name: field.default for field in msgspec.structs.fields(options)}
    return round(share * count) if share == usual[name] else require_part(name, share, count)
