"""kill -9 of each kind of process during TeraSort, WordCount and a job of three stages.

All kinds that come back are killed in turn, at random moments, on one cluster for each job.
Every output is compared byte for byte with that of a run without faults on the same cluster,
small files are stored meanwhile, and the time of each recovery is taken: see ``railyard/chaos``.

A daemon that dies again within a minute is restarted after a longer pause; no daemon is killed
more than four times a minute, so pauses, which are part of the time, are at most 0.8 s.
"""

from __future__ import annotations

import os
import signal
import statistics
import sys
import time
from collections.abc import Iterable
from contextlib import suppress

import msgspec

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.recovery._cluster import JOBS, on_a_cluster, request, what_held
from railyard.chaos.injector import Recovered
from railyard.chaos.plan import plan_faults
from railyard.chaos.runs import Report, recoveries
from railyard.cluster.errors import ClusterFailed
from railyard.cluster.faults import KILLS
from railyard.runs.clusters import own_session
from railyard.runs.home import daemons_of


def growth_rows(what: str, report: Report) -> list[Row]:
    """How much longer a run of ``what`` took than without faults, beside what explains it.

    Means of all runs: what one run waits for another gains.
    """
    runs = [(kind, run) for kind, run in report.runs if not run.failure]
    if not runs:
        return []
    grown_s = statistics.fmean(run.took_s - kind.without.took_s for kind, run in runs)
    begun_s = report.begun_s
    away = [
        (begun_s + one.at_s, begun_s + one.at_s + one.took_s)
        for one in report.faults
        if one.took_s is not None
    ]
    away_s = statistics.fmean(
        covered_s(away, run.begun_s, run.begun_s + run.took_s) for _, run in runs
    )
    lost_s = statistics.fmean(run.lost_s for _, run in runs)
    without_s = statistics.fmean(kind.without.took_s for kind, _ in runs)
    return [
        bench_row(
            f"{what}: a run's time beyond {without_s:.1f} s, recoveries and lost work",
            grown_s,
            "s",
            reference=away_s + lost_s,
            ratio_bound=1.0,
            note=f"recoveries {away_s:.2f} s, attempts that did not count {lost_s:.2f} s",
        )
    ]


def covered_s(spans: Iterable[tuple[float, float]], begin_s: float, end_s: float) -> float:
    """How much of the time from ``begin_s`` to ``end_s`` is in at least one of the spans."""
    covered, reached_s = 0.0, begin_s
    for from_s, to_s in sorted(spans):
        from_s, to_s = max(from_s, reached_s), min(to_s, end_s)
        if to_s > from_s:
            covered += to_s - from_s
            reached_s = to_s
    return covered


#: Kills of each kind, over all jobs.
EACH = 100
_QUICK_EACH = 3
_EVERY_S = 1.0
_DEATHS_MAX = 4
#: How long a recovery may take on a quiet machine.
_MEDIAN_S, _WORST_S = 2.0, 5.0
#: How long a command may take to name the central daemon whose death ends its cluster.
_NAMED_S = 2.0


def run(quick: bool = False, each: int = EACH, seed: int = 1, kinds: str = "kill") -> list[Row]:
    """Kill each kind so often; ``quick`` three times."""
    each = _QUICK_EACH if quick else each
    faults: list[Recovered] = []
    rows: list[Row] = []
    for number, job in enumerate(JOBS):
        count = each // len(JOBS) + (number < each % len(JOBS))
        if count:
            report, left = _under_kills(job, kinds, count, seed + number)
            faults += report.faults
            rows += [*what_held(job, report, left), *growth_rows(job, report)]
    return [*_times(faults), _time_to_name(), *rows]


def _under_kills(job: str, words: str, count: int, seed: int) -> tuple[Report, list[str]]:
    asked = request(job, words, seed)
    kinds = asked.chosen_kinds()
    plan = plan_faults(seed, asked.place, kinds, count * len(kinds), _EVERY_S, _DEATHS_MAX)
    print(f"  {job}: {len(plan)} faults", file=sys.stderr, flush=True)
    return on_a_cluster((job,), kinds, plan, seed)


def _times(faults: list[Recovered]) -> list[Row]:
    rows = []
    for kind, times in recoveries(faults).items():
        what = f"{KILLS.get(kind, kind)}: recovery"
        note = f"of {times['recovered']} of {times['times']}"
        missing = times["recovered"] < times["times"]
        rows += [
            bench_row(f"{what}, median", times["median_s"], "s", bound=_MEDIAN_S, note=note),
            bench_row(
                f"{what}, at worst",
                times["worst_s"],
                "s",
                bound=_WORST_S,
                ok=False if missing else None,
            ),
        ]
    return rows


def _time_to_name() -> Row:
    """How long a command takes to say that the NameNode died, where nothing is restarted."""
    config = msgspec.structs.replace(request(JOBS[0], "all", 1).config(), restart="never")
    begun_s = named_s = 0.0
    with suppress(ClusterFailed), own_session(config) as session:
        [pid] = [row["pid"] for row in daemons_of(session.folder) if row["role"] == "NameNode"]
        begun_s = time.monotonic()
        os.kill(pid, signal.SIGKILL)
        try:
            session.reactor.run_until(lambda: False, timeout_s=5 * _NAMED_S)
        finally:
            named_s = time.monotonic()
    return bench_row("NameNode, nothing restarted: named", named_s - begun_s, "s", bound=_NAMED_S)
