"""Who submits jobs, and when: users, queues, arrivals, and which jobs come again and again.

Seeded throughout, each purpose with dice of its own: another number of users leaves sizes and
arrivals as they are.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from railyard.cluster.errors import UsageError, require, require_count
from railyard.cluster.tomlfile import Duration
from railyard.jobs.workloads.model import InputFile, Recurrence, WorkloadJob, WorkStage

Arrivals = Literal["batch", "uniform", "poisson", "trace"]


class Population(msgspec.Struct, frozen=True, kw_only=True):
    """The options that all workloads have; each has defaults and further options of its own."""

    users: int = 1
    queues: int = 1  #: each user has one
    arrivals: Arrivals = "uniform"
    window: Duration = 3600.0  #: uniform: over how long; trace: squeezed into that long, 0 = as is
    gap: Duration = 0.0  #: poisson: the mean between two jobs; 0 = window / jobs
    recurring: float = 0.0  #: share of the jobs that were predicted
    #: mean of |predicted / actual size - 1|; Corral, section 2: 6.5 %.  Drawn evenly up to twice
    #: that: 0.25 is the "up to 50 %" of its Fig. 13(a)
    size_error: float = 0.065
    late: float = 0.0  #: share of the jobs that come at another time than predicted: Fig. 13(b)
    late_by: Duration = 240.0  #: they come up to so much earlier or later
    output_replication: int = 0  #: copies of what jobs write; 0 = as many as the block store keeps
    grain: int = 1  #: so many tasks are made one: see ``coarse.py``

    def __post_init__(self) -> None:
        for name in ("users", "queues", "grain"):
            require_count(name, getattr(self, name))
        _require_share(self.recurring, "recurring")
        _require_share(self.late, "late")
        require(0 <= self.size_error < 0.5, "size_error", self.size_error, "0 to below 0.5")


class Shape(NamedTuple):
    """A job without its user, its queue and its time."""

    name: str
    stages: tuple[WorkStage, ...]
    files: tuple[InputFile, ...] = ()
    arrive_s: float | None = None  #: as its trace, or its paper, has it
    past: Recurrence | None = None  #: what earlier days tell of it, if that was made already


def dice(seed: int, purpose: str) -> np.random.Generator:
    """The dice for one purpose: the same on every machine."""
    return np.random.Generator(np.random.PCG64([seed, zlib.crc32(purpose.encode())]))


def populate(
    shapes: Sequence[Shape], options: Population, seed: int, label: str = ""
) -> tuple[WorkloadJob, ...]:
    """Jobs of all shapes, in the order in which they come.

    ``label`` tells the dice of several populations of one workload apart.  Raises ``UsageError``
    if times of a trace are asked for and there are none.
    """
    count = len(shapes)
    predicted_s = arrivals_s(shapes, options, dice(seed, f"{label}arrivals"))
    come_s = _perturbed(predicted_s, options, dice(seed, f"{label}late"))
    users = dice(seed, f"{label}users").integers(options.users, size=count).tolist()
    recurs, ratios = _recurring(count, options, dice(seed, f"{label}recurring"))
    planned_s, submits_s = predicted_s.tolist(), come_s.tolist()
    user_of: dict[str, int] = {}  #: of a recurring job: the same each time
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
                queue=queue_name(user, options.queues),
                submit_s=submits_s[at],
                stages=shape.stages,
                files=shape.files,
                output_replication=options.output_replication,
                recurrence=past,
            )
        )
    return tuple(jobs)


def queue_name(user: int, queues: int) -> str:
    """The queue of a user, by number."""
    return "default" if queues == 1 else f"q{user % queues}"


def merged(*populations: Iterable[WorkloadJob]) -> tuple[WorkloadJob, ...]:
    """All of them in the order in which they come."""
    every = [job for jobs in populations for job in jobs]
    return tuple(sorted(every, key=lambda job: job.submit_s))


def arrivals_s(
    shapes: Sequence[Shape], options: Population, rng: np.random.Generator
) -> np.ndarray:
    """When each comes, in seconds from the beginning."""
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
    squeeze = options.window / (last_s - first_s) if options.window and last_s > first_s else 1.0
    return np.array([(time_s - first_s) * squeeze for time_s in times_s])


def _perturbed(
    predicted_s: np.ndarray, options: Population, rng: np.random.Generator
) -> np.ndarray:
    """Corral, section 6.5: a share of the jobs comes up to so much earlier or later."""
    count = len(predicted_s)
    late = rng.permutation(count) < round(options.late * count)
    delays_s = rng.uniform(-options.late_by, options.late_by, count)
    come_s: np.ndarray = np.maximum(0.0, predicted_s + np.where(late, delays_s, 0.0))
    return come_s


def _recurring(
    count: int, options: Population, rng: np.random.Generator
) -> tuple[list[bool], list[float]]:
    """Which jobs recur, exactly that share of them, and by how much each is predicted wrongly.

    The jobs are the same whatever the error: it is what is predicted that is off.
    """
    recurs = rng.permutation(count) < round(options.recurring * count)
    most = 2 * options.size_error
    return recurs.tolist(), (1 + rng.uniform(-most, most, count)).tolist()


def _require_share(value: float, name: str) -> None:
    require(0 <= value <= 1, name, value, "a share of 0 to 1")
