"""Predictions for recurring jobs from their earlier runs.

Source: Corral, section 2: the input of a job that comes at some time of the day is predicted as the
mean of the same job's on several previous days, on weekdays only or on weekends only; shuffle and
output are as predictable.  Section 4.3: rates are those of earlier runs.
Left open there, chosen here: how many days count (the last 10 of their kind); rates are averaged
like sizes; a job that has never run on this kind of day is predicted from the other kind.

Runs are kept in a file as JSON, one per line.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from railyard.cluster.errors import UsageError, require
from railyard.cluster.files.inputfile import read_file
from railyard.resourcemanager.schedulers.corral.profiles import JobProfile, StageProfile

#: "several previous days"
DAYS = 10


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run of a recurring job, as measured."""

    job: str  #: of the recurring job: its runs share it
    day: int  #: 0 is a Monday
    profile: JobProfile  #: as measured; its ``arrive_s`` is the time of the day

    def __post_init__(self) -> None:
        require(self.day >= 0, f"run of {self.job}: day", self.day, "a whole number >= 0")


def predict(runs: Iterable[Run], job: str, day: int, days: int = DAYS) -> JobProfile | None:
    """The profile of a job on a day, from earlier days; None if it never ran before ``day``.

    Runs with other stages than the last one do not count: the job's code has changed.
    """
    earlier = sorted((r for r in runs if r.job == job and r.day < day), key=lambda run: run.day)
    alike = [run for run in earlier if is_weekend(run.day) == is_weekend(day)] or earlier
    if not alike:
        return None
    shape = _shape(alike[-1].profile)
    counted = [run.profile for run in alike if _shape(run.profile) == shape][-days:]
    columns = zip(*(profile.stages for profile in counted), strict=True)
    return JobProfile(
        name=job,
        arrive_s=_mean([profile.arrive_s for profile in counted]),
        stages=tuple(_average(stages) for stages in columns),
    )


def is_weekend(day: int) -> bool:
    """Whether a day is on a weekend; day 0 is a Monday."""
    return day % 7 >= 5


def _shape(profile: JobProfile) -> list[tuple[str, tuple[str, ...]]]:
    return [(stage.name, stage.reads) for stage in profile.stages]


def _average(stages: Sequence[StageProfile]) -> StageProfile:
    """The mean of sizes, rates and times; numbers of tasks are rounded."""
    means = {field: _mean([getattr(stage, field) for stage in stages]) for field in _NUMBERS}
    counts = {field: round(_mean([getattr(s, field) for s in stages])) for field in _COUNTS}
    return msgspec.structs.replace(stages[-1], **means, **counts)


_COUNTS = ("maps", "reduces")
_NUMBERS = tuple(f for f in StageProfile.__struct_fields__ if f not in (*_COUNTS, "name", "reads"))


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


# Files -------------------------------------------------------------------------------------------
def record(run: Run, path: Path) -> None:
    """Append a run to a file."""
    with open(path, "ab") as file:
        file.write(msgspec.json.encode(run) + b"\n")


def load_runs(path: Path) -> list[Run]:
    """Read a file of runs; ``UsageError`` with the line that is wrong."""
    runs = []
    for number, line in enumerate(read_file(path).splitlines(), start=1):
        try:
            runs.append(msgspec.json.decode(line, type=Run))
        except (msgspec.DecodeError, RecursionError, UsageError) as error:
            raise UsageError(f"{path}:{number}: {error}") from None
    return runs
