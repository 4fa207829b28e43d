"""The cluster of these benchmarks, its jobs, and what is left of it in the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.chaos.plan import LiveFault
from railyard.chaos.runs import Report, line_of, run_under_faults, summary_lines, without_faults
from railyard.cli.commands.runs import ChaosRequest
from railyard.cluster.processes import members
from railyard.runs.clusters import Session, own_session
from railyard.terminal.progress import View

#: TeraSort, WordCount and a job of three stages.
JOBS = ("terasort", "wordcount", "topwords")
_TOPOLOGY = Path(__file__).parents[1] / "attacks" / "_grounds" / "small.toml"
_SIZE_BYTES = 10**9
#: For how long what ends may take to be gone.
_LEFT_TIMEOUT_S = 5.0


def request(job: str, kinds: str, seed: int) -> ChaosRequest:
    """The request of one of the jobs, and of faults of these kinds."""
    return ChaosRequest(
        words=(job,), topology=str(_TOPOLOGY), size_bytes=_SIZE_BYTES, kinds=kinds, seed=seed
    )


def on_a_cluster(
    jobs: Sequence[str],
    kinds: tuple[str, ...],
    plan: Sequence[LiveFault],
    seed: int,
    begun: Callable[[Session], None] = lambda _: None,
) -> tuple[Report, list[str]]:
    """Run the jobs under a plan on a cluster that is started for it; the report, and what is left.

    ``begun`` is called once each job has run without faults.
    """
    requests = [request(job, "all", seed) for job in jobs]
    with own_session(requests[0].cluster(kinds)) as session:
        cluster = session.folder.id
        assert cluster is not None, "it was just made"
        each = [without_faults(session, one, View()) for one in requests]
        begun(session)
        report = run_under_faults(session, each, plan, lambda one: _say(line_of(one)), seed)
    deadline_s = time.monotonic() + _LEFT_TIMEOUT_S
    while (left := members(cluster)) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    said = [f"process {process.pid}" for process in left]
    if session.folder.path.exists():  # with its sockets
        said.append(str(session.folder.path))
    for line in summary_lines(report):
        _say(f"  {line}")
    return report, said


def what_held(what: str, report: Report, left: list[str]) -> list[Row]:
    """Rows that say whether all is as it is without faults; ``what`` ran."""
    done = [one for one in report.faults if one.what]
    runs, kept = report.runs, report.acknowledged - len(report.lost)
    same = sum(kind.is_like(run) for kind, run in runs)
    counted = {
        "faults, those recovered from": (len(done) - len(report.unrecovered), len(done), []),
        "runs, those with the output of a run without faults": (
            same,
            len(runs),
            [*report.failures, *report.differing],
        ),
        "files acknowledged meanwhile, those there": (kept, report.acknowledged, report.lost),
    }
    rows = [
        bench_row(f"{what}: of {of} {name}", found, ok=found == of, note="; ".join(said[:3]))
        for name, (found, of, said) in counted.items()
    ]
    note = "; ".join(left[:3])
    return [*rows, bench_row(f"{what}: processes and folders left", len(left), bound=0, note=note)]


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)
