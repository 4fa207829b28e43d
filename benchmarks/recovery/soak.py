"""A cluster that is up for half an hour under a stream of jobs, with a fault every 5 s.

Of each daemon the resident memory, the memory that it shares with nobody, and the open descriptors
are sampled.  They must be flat in the end: over the last third, a straight line through the means
of ten slices must not rise, with 95 % confidence, by more than 2 % of the mean
(``_growth.growth_of``).  A daemon that was restarted is followed as the new process: what it has
read of its journal counts.
"""

from __future__ import annotations

import time

import psutil

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.recovery._cluster import JOBS, on_a_cluster, request, what_held
from railyard.benchmarks.recovery._growth import Growth, growth_of
from railyard.scripts.chaos.plan import plan_faults
from railyard.scripts.chaos.processes import Processes, pid_of
from railyard.scripts.clusters.cluster_main import RESTARTED
from railyard.scripts.clusters.launch import DAEMONS
from railyard.scripts.clusters.session import Session

MINUTES = 30.0
_QUICK_MINUTES = 5.0
_EVERY_S = 5.0
_SAMPLE_PERIOD_S = 2.0
_MIB = 2.0**20
#: {what is sampled: its unit}
_MEASURES = {"resident memory": "MiB", "unshared memory": "MiB", "descriptors": ""}


class Samples:
    """Samples of all daemons of a cluster, from ``begin`` on for as long as its session runs."""

    def __init__(self) -> None:
        self.times_s: dict[str, list[float]] = {}  #: {daemon: when it was looked at}
        self.values: dict[tuple[str, str], list[float]] = {}  #: {(daemon, measure): what it had}

    def begin(self, session: Session) -> None:
        """Take samples from now on."""
        processes = Processes(session.folder)
        session.reactor.call_every(_SAMPLE_PERIOD_S, lambda: self._take(processes))

    def growths(self) -> dict[tuple[str, str], Growth]:
        """{(daemon, measure): its growth in the end}"""
        return {
            (daemon, measure): growth_of(self.times_s[daemon], found)
            for (daemon, measure), found in self.values.items()
        }

    def _take(self, processes: Processes) -> None:
        now_s = time.monotonic()
        for role in (*DAEMONS, "Supervisor"):
            for row in processes.living(role):
                try:
                    process = psutil.Process(pid_of(row))
                    memory = process.memory_full_info()
                    taken = (memory.rss / _MIB, memory.uss / _MIB, process.num_fds())
                except psutil.Error:
                    continue  # it has just ended
                self.times_s.setdefault(row["name"], []).append(now_s)
                for measure, value in zip(_MEASURES, taken, strict=True):
                    self.values.setdefault((row["name"], measure), []).append(value)


def run(quick: bool = False, minutes: float | None = None, seed: int = 1) -> list[Row]:
    """Run for half an hour, ``quick`` for five minutes."""
    minutes = minutes or (_QUICK_MINUTES if quick else MINUTES)
    asked = request(JOBS[0], "all", seed)
    kinds = asked.chosen_kinds(RESTARTED)
    plan = plan_faults(seed, asked.place, kinds, round(minutes * 60 / _EVERY_S), _EVERY_S)
    samples = Samples()
    report, left = on_a_cluster(JOBS, kinds, plan, seed, samples.begin)
    return [*_rows(samples), *what_held("soak", report, left)]


def _rows(samples: Samples) -> list[Row]:
    return [
        bench_row(
            f"{daemon}: {measure} in the end",
            found.mean,
            _MEASURES[measure],
            ok=found.is_flat,
            note=f"{found.per_hour:+.1f} an hour ({found.low_per_hour:+.1f} to "
            f"{found.high_per_hour:+.1f})",
        )
        for (daemon, measure), found in sorted(samples.growths().items())
    ]
