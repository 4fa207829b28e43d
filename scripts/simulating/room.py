"""Checks that memory holds simulations, before they begin, and before very many jobs are made."""

from __future__ import annotations

from railyard.cluster.errors import UsageError
from railyard.cluster.files.resources import Exhausted, free_memory_bytes
from railyard.cluster.overrides import split_changes
from railyard.cluster.shown import printable
from railyard.cluster.units import format_number, format_size, whole_number
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.model import Workload

#: Of a task: itself, its block, its attempts, and what is remembered of them.  Measured: 4.2 kB of
#: TeraSort with 4 to 16 thousand maps, 3.7 kB of 100 jobs of corral-w1 (55 thousand tasks).
_TASK_BYTES = 6_000
#: So many jobs are made without a look; of more, some are made first.
_JOBS_MAX = 10_000
_LOOKED_AT = 1_000
_LETTERS_MAX = 80


def require_memory_for(made: Workload, runs: int = 1) -> None:
    """Raise ``Exhausted`` if memory cannot hold so many runs of a workload at once."""
    tasks = sum(stage.tasks for job in made.jobs for stage in job.stages)
    _require(made.name, tasks, len(made.jobs), runs)


def require_memory_to_make(text: str, seed: int) -> None:
    """The same for a workload of very many jobs, by what a few of them would take."""
    base, changes = split_changes(text)
    many = whole_number(dict(changes).get("jobs", ""))
    if many is None or many <= _JOBS_MAX:
        return
    others = [f"{key}={value}" for key, value in changes if key != "jobs"]
    try:
        few = workload(",".join([base, *others, f"jobs={_LOOKED_AT}"]), seed)
    except UsageError:
        return  # the whole text gives the error
    tasks = sum(stage.tasks for job in few.jobs for stage in job.stages)
    _require(text, tasks * many // max(1, len(few.jobs)), many, 1)


def _require(name: str, tasks: int, jobs: int, runs: int) -> None:
    need_bytes, has_bytes = runs * tasks * _TASK_BYTES, free_memory_bytes()
    if need_bytes <= has_bytes:
        return
    each = f" in each of {runs} simulations at once" if runs > 1 else ""
    takes = f"{format_number(tasks)} tasks{each} take about {format_size(need_bytes)} of memory"
    less = "a smaller --size" if jobs == 1 else "fewer jobs"
    right = f"need {less}, or larger blocks, such as --network storage.block=4GB"
    raise Exhausted(
        f"{printable(name, _LETTERS_MAX)}: {takes}, "
        f"but this machine has {format_size(has_bytes)} free: {right}"
    )
