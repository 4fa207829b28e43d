"""kill -9 of each kind of process during TeraSort, WordCount and a job of three stages.

All kinds that come back are killed in turn, at random moments, on one cluster for each job.  Every
output is compared byte for byte with that of a run without faults on the same cluster, small files
are stored meanwhile, and the time of each recovery is taken: see ``scripts/chaos``.

A daemon that dies again within a minute is restarted after a longer pause; no daemon is killed more
than four times a minute, so pauses, which are part of the time, are at most 0.8 s.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

import msgspec

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.recovery._cluster import JOBS, on_a_cluster, request, what_held
from railyard.benchmarks.recovery._joblengths import growth_rows
from railyard.cluster.errors import ClusterFailed
from railyard.scripts.chaos.injector import Recovered
from railyard.scripts.chaos.plan import KILLS, plan_faults
from railyard.scripts.chaos.shown import recoveries
from railyard.scripts.chaos.underfaults import Report
from railyard.scripts.clusters.launch import daemons_of
from railyard.scripts.clusters.session import own_session

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
