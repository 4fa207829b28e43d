"""A cluster that is up for half an hour under a stream of jobs, with a fault every 5 s.

Of each daemon the resident memory, the memory that it shares with nobody, and the open
descriptors are sampled.  They are flat if a straight line through the last third, by the upper
end of its 95 % interval, rises by less than ``FLAT_PER_HOUR``.

A process that has just begun grows for some ten minutes, until it has done everything once and
has touched what it shared with its parent; one that is killed every minute could never be seen to
grow for good.  So after a third of the time the faults are of the kinds that kill no daemon: the
last third is of processes that have all been restarted, and have lived for ten minutes of half an
hour.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import numpy as np
import psutil

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.recovery._cluster import JOBS, on_a_cluster, request, what_held
from railyard.chaos.plan import LiveFault, plan_faults
from railyard.chaos.targets import Processes
from railyard.cluster.faults import DEADLY
from railyard.cluster.topology import Topology
from railyard.runs.clusters import Session
from railyard.runs.home import DAEMONS

#: The last third counts; it is cut into so many slices, whose means are compared: single samples
#: follow one another too closely for an interval.
_SHARE = 1 / 3
_SLICES = 10
#: Student's t for 95 % and _SLICES - 2 degrees of freedom.
_STUDENT_T = 2.306


@dataclass(frozen=True, kw_only=True)
class Growth:
    """A straight line through the last third of samples."""

    mean: float
    per_hour: float
    low_per_hour: float  #: the 95 % interval of ``per_hour``
    high_per_hour: float
    lasted_s: float  #: of the last third

    def is_below(self, per_hour: float) -> bool:
        """Whether it grows by less than that, as sure as 95 %: noise alone does not pass."""
        return self.high_per_hour <= per_hour


def growth_of(times_s: Sequence[float], values: Sequence[float]) -> Growth:
    """The growth at the end of samples, in the order of their times.

    Raises ``ValueError`` if there are fewer than two for each slice of the last third.
    """
    times, found = np.asarray(times_s), np.asarray(values, dtype=np.float64)
    begin_s = times[-1] - (times[-1] - times[0]) * _SHARE
    times, found = times[times >= begin_s], found[times >= begin_s]
    if len(times) < 2 * _SLICES:
        raise ValueError(f"{len(times)} samples in the last third: need {2 * _SLICES}")
    at_s = np.array([part.mean() for part in np.array_split(times, _SLICES)])
    means = np.array([part.mean() for part in np.array_split(found, _SLICES)])
    off_s = at_s - at_s.mean()
    slope = off_s @ means / (off_s @ off_s)
    residuals = means - means.mean() - slope * off_s
    variance = residuals @ residuals / (_SLICES - 2) / (off_s @ off_s)
    spread = _STUDENT_T * float(np.sqrt(variance))
    return Growth(
        mean=float(found.mean()),
        per_hour=float(slope) * 3600,
        low_per_hour=float(slope - spread) * 3600,
        high_per_hour=float(slope + spread) * 3600,
        lasted_s=float(times[-1] - times[0]),
    )


MINUTES = 30.0
_QUICK_MINUTES = 5.0
_EVERY_S = 5.0
_SAMPLE_PERIOD_S = 2.0
#: Of two minutes: a standby comes only once the journal is long.
_SAMPLES_MIN = 60
_MIB = 2.0**20
#: Share of the faults that may kill daemons.
_DEADLY_SHARE = 1 / 3
#: Kills of what is no daemon.
_OF_JOBS = ("kill-jobhelper", "kill-attempt")
#: {what is sampled: its unit}
_MEASURES = {"resident memory": "MiB", "unshared memory": "MiB", "descriptors": ""}
#: Pages become the supervisor's alone as its children write to theirs; each child that it forks
#: shares all of them again.  What it takes itself is in its resident memory.
_OF_OTHERS = (("supervisor", "unshared memory"),)
#: {unit: growth an hour that still is flat}: of some 1,400 jobs an hour, 6 KB each, and a
#: descriptor for every 70
FLAT_PER_HOUR = {"MiB": 8.0, "": 20.0}


class Samples:
    """Samples of a cluster's daemons and standbys, from ``begin`` on until its session ends."""

    def __init__(self) -> None:
        self.times_s: dict[str, list[float]] = {}  #: {daemon: when it was looked at}
        self.values: dict[tuple[str, str], list[float]] = {}  #: {(daemon, measure): what it had}

    def begin(self, session: Session) -> None:
        """Take samples from now on."""
        processes = Processes(session.folder)
        session.reactor.call_every(_SAMPLE_PERIOD_S, lambda: self._take(processes))

    def growths(self) -> dict[tuple[str, str], Growth]:
        """{(daemon, measure): its growth in the end}, of those that were there for long enough."""
        return {
            (daemon, measure): growth_of(self.times_s[daemon], found)
            for (daemon, measure), found in self.values.items()
            if len(found) >= _SAMPLES_MIN
        }

    def _take(self, processes: Processes) -> None:
        now_s = time.monotonic()
        for name, process in _looked_at(processes):
            try:
                memory = process.memory_full_info()
                taken = (memory.rss / _MIB, memory.uss / _MIB, process.num_fds())
            except psutil.Error:
                continue  # it has just ended
            self.times_s.setdefault(name, []).append(now_s)
            for measure, value in zip(_MEASURES, taken, strict=True):
                self.values.setdefault((name, measure), []).append(value)


def _looked_at(processes: Processes) -> Iterator[tuple[str, psutil.Process]]:
    """(name, process) of each daemon, and of standbys, which no list has before they are needed."""
    for role in (*DAEMONS, "Supervisor"):
        for row in processes.living(role):
            with suppress(psutil.Error):
                process = psutil.Process(row["pid"])
                yield row["name"], process
                if role == "Supervisor":
                    yield from (("standby", p) for p in process.children() if _is_standby(p))


def _is_standby(process: psutil.Process) -> bool:
    with suppress(psutil.Error):
        return process.name() == "standby"
    return False


def plan_soak(
    seed: int, topology: Topology, kinds: Sequence[str], minutes: float
) -> tuple[LiveFault, ...]:
    """A plan for so many minutes: faults of all these kinds, then of those that kill no daemon."""
    count = round(minutes * 60 / _EVERY_S)
    deadly = plan_faults(seed, topology, kinds, round(count * _DEADLY_SHARE), _EVERY_S)
    mild = [kind for kind in kinds if kind in _OF_JOBS or kind not in DEADLY]
    rest = plan_faults(seed + 1, topology, mild, count - len(deadly), _EVERY_S)
    end_s = max((fault.at_s + fault.lasts_s for fault in deadly), default=0.0)
    return (*deadly, *(msgspec.structs.replace(fault, at_s=end_s + fault.at_s) for fault in rest))


def run(quick: bool = False, minutes: float | None = None, seed: int = 1) -> list[Row]:
    """Run for half an hour, ``quick`` for five minutes."""
    minutes = minutes or (_QUICK_MINUTES if quick else MINUTES)
    asked = request(JOBS[0], "all", seed)
    kinds = asked.chosen_kinds()
    plan = plan_soak(seed, asked.place, kinds, minutes)
    samples = Samples()
    report, left = on_a_cluster(JOBS, kinds, plan, seed, samples.begin)
    return [*_rows(samples), *what_held("soak", report, left)]


def _rows(samples: Samples) -> list[Row]:
    return [growth_row(*what, found) for what, found in sorted(samples.growths().items())]


def growth_row(daemon: str, measure: str, found: Growth) -> Row:
    """What a daemon had in the end, and whether it is flat."""
    most = FLAT_PER_HOUR[_MEASURES[measure]]
    is_bound = (daemon, measure) not in _OF_OTHERS
    span = f"{found.low_per_hour:+.1f} to {found.high_per_hour:+.1f}"
    return bench_row(
        f"{daemon}: {measure} in the end",
        found.mean,
        _MEASURES[measure],
        ok=found.is_below(most) if is_bound else None,
        note=f"{found.per_hour:+.1f} an hour ({span}"
        + (f"; at most {most:g})" if is_bound else "; how old its children are)"),
    )
