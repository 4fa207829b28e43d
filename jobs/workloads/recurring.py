"""Jobs that recur every day, with forecasts from their earlier days.

Source: Corral (Jalaparti et al., SIGCOMM 2015), section 2 and Fig. 1: twenty business-critical jobs
over a month, each at its time of the day.  A day's input is predicted as the mean of the same job's
input on earlier weekdays, or on earlier weekends.  The forecast is off by 6.5 % on average; shuffle
and output are as predictable.

Left open there, chosen here: the number of earlier days (``history``, 10).  The first two weeks are
history only and are not submitted.  A job's size is lognormal around its level, with the variance
that gives the published error.  A weekend's level is 0.4 to 1.2 times that of weekdays.  Levels are
3 GB to 20 TB ("several gigabytes to tens of terabytes").  Selectivities are those of W1, 1/4 to 4.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from railyard.cluster.errors import require, require_count
from railyard.cluster.tomlfile import Duration, Size
from railyard.jobs.workloads.model import Recurrence, Statistic, Workload, WorkloadJob
from railyard.jobs.workloads.population import Arrivals, Population, Shape, dice, populate
from railyard.jobs.workloads.shapes import log_uniform, map_reduce
from railyard.jobs.workloads.statistics import mean, statistic

_DAY_S = 86_400.0
_WARM_UP_DAYS = 14  #: history before the first submitted day
_NORMAL_MEAN_ABS = (2 / np.pi) ** 0.5  #: mean of a standard normal variable's absolute value
_DEVIATION = (np.pi / 2 - 1) ** 0.5  #: standard deviation of that value, relative to its mean


class RecurringOptions(Population, frozen=True, kw_only=True):
    """Twenty jobs on one day."""

    jobs: int = 20  #: how many recur
    days: int = 1  #: number of days after the history
    history: int = 10  #: at most how many earlier days of the same kind are averaged
    largest: Size = 20_000_000_000_000  #: most input of a job on a usual day
    smallest: Size = 3_000_000_000  #: least input of a job on a usual day
    block: Size = 256_000_000  #: what a map reads, and a reduce fetches
    #: mean of |predicted / actual size - 1|, by which sizes differ from day to day
    size_error: float = 0.065
    arrivals: Arrivals = "trace"
    window: Duration = 0.0
    recurring: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("jobs", "days", "history"):
            require_count(name, getattr(self, name))
        for name in ("smallest", "block"):
            require(getattr(self, name) >= 1, name, getattr(self, name), "a size above 0")
        right = f"at least smallest, {self.smallest}"
        require(self.largest >= self.smallest, "largest", self.largest, right)

    def without_effect(self) -> dict[str, str]:
        """As of all workloads; errors come from the history, whether jobs are predicted or not."""
        off = super().without_effect()
        off.pop("size_error", None)
        if not self.size_error:
            off["history"] = "size_error above 0: all days are alike"
        return off


def is_weekend(day: int) -> bool:
    """Whether a day is a Saturday or a Sunday; day 0 is a Monday."""
    return day % 7 >= 5


def predict(sizes_bytes: Sequence[float], day: int, history: int) -> float:
    """The predicted size on ``day``: the mean of the last ``history`` earlier days of its kind.

    Raises ``ValueError`` if there are none.
    """
    kind = [size for at, size in enumerate(sizes_bytes[:day]) if is_weekend(at) == is_weekend(day)]
    if not kind:
        raise ValueError(f"day {day}: no earlier day of its kind")
    return float(np.mean(kind[-history:]))


def recurring(options: RecurringOptions, seed: int) -> Workload:
    """Instances of recurring jobs, with forecasts from their earlier days."""
    rng = dice(seed, "history")
    levels = log_uniform(rng, options.smallest, options.largest, options.jobs)
    weekends = rng.uniform(0.4, 1.2, options.jobs)
    to_shuffle, to_output = (log_uniform(rng, 0.25, 4.0, options.jobs) for _ in range(2))
    times_s = rng.uniform(0.0, _DAY_S, options.jobs)
    # The difference of a day and the mean of n others has sqrt(1 + 1/n) times the noise of a day.
    noise = options.size_error / _NORMAL_MEAN_ABS / (1 + 1 / options.history) ** 0.5
    shapes: list[Shape] = []
    for number in range(options.jobs):
        days = range(_WARM_UP_DAYS + options.days)
        level = levels[number] * np.array([weekends[number] if is_weekend(d) else 1 for d in days])
        sizes = (level * np.exp(rng.normal(0.0, noise, len(days)))).tolist()
        for day in days[_WARM_UP_DAYS:]:
            shape = map_reduce(
                f"job{number}-day{day}",
                input_bytes=round(sizes[day]),
                block_bytes=options.block,
                shuffle_bytes=round(sizes[day] * to_shuffle[number]),
                output_bytes=round(sizes[day] * to_shuffle[number] * to_output[number]),
                reduces=max(1, round(level[day] * to_shuffle[number] / options.block)),
                arrive_s=(day - _WARM_UP_DAYS) * _DAY_S + times_s[number],
            )
            ratio = predict(sizes, day, options.history) / sizes[day]
            past = Recurrence(name=f"job{number}", day=day, size_ratio=ratio)
            shapes.append(shape._replace(past=past))
    jobs = populate(shapes, options, seed)
    return Workload(
        name="corral-recurring",
        source="Corral (Jalaparti et al., SIGCOMM 2015), section 2",
        jobs=jobs,
        statistics=(_error(jobs),),
    )


def _error(jobs: Sequence[WorkloadJob]) -> Statistic:
    """The mean of |predicted / actual size - 1|, which may be off by 4 standard deviations."""
    ratios = [job.recurrence.size_ratio for job in jobs if job.recurrence is not None]
    off = mean([abs(ratio - 1) for ratio in ratios])
    chance = 4 * _DEVIATION / max(1, len(ratios)) ** 0.5
    return statistic("error of predicted sizes", "share", off, 0.065, chance, "section 2")
