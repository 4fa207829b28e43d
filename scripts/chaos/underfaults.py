"""A cluster with jobs on it and faults done to it, from the run without faults to the report."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from railyard.cluster.errors import RailyardError
from railyard.scripts.api.running import work_for
from railyard.scripts.chaos.injector import Injector, Recovered
from railyard.scripts.chaos.plan import Fault
from railyard.scripts.chaos.runs import Digests, Keeper, OneRun, run_once, run_until
from railyard.scripts.clusters.session import Session
from railyard.scripts.running.request import RunRequest
from railyard.scripts.running.work import Work
from railyard.scripts.terminal.progress import View

#: Beyond ten times what it takes without faults, jobs that are still under way after the last one.
_END_TIMEOUT_S = 120.0
_SLOWDOWN_MAX = 10.0


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A job, or a mix, that runs again and again."""

    name: str
    make: Callable[[], Work]
    without: OneRun  #: its run without faults

    def is_like(self, run: OneRun) -> bool:
        """Whether a run under faults has ended well, with the same output."""
        return not run.failure and run.digests == self.without.digests


@dataclass(kw_only=True)
class Report:
    """What came of all of it."""

    begun_s: float = 0.0  #: when the plan's clock was 0, by the monotonic clock
    faults: list[Recovered] = field(default_factory=list)
    runs: list[tuple[Kind, OneRun]] = field(default_factory=list)
    acknowledged: int = 0  #: files stored meanwhile
    lost: list[str] = field(default_factory=list)  #: of these, with what became of them

    @property
    def differing(self) -> list[str]:
        """What is not as without faults: outputs of runs, acknowledged files."""
        said = [
            f"{kind.name}: {file}"
            for kind, run in self.runs
            if run.digests
            for file in _differing(kind.without.digests, run.digests)
        ]
        return said + self.lost

    @property
    def failures(self) -> list[str]:
        """Why runs failed."""
        return [f"{kind.name}: {run.failure}" for kind, run in self.runs if run.failure]

    @property
    def unrecovered(self) -> list[Recovered]:
        """The faults that were done, from which no recovery was seen."""
        return [one for one in self.faults if one.what and one.took_s is None]


def without_faults(session: Session, request: RunRequest, view: View) -> Kind:
    """Run a request on the cluster of a session as it is; ``RailyardError`` if it fails."""
    make = partial(work_for, request, session.config, session.folder)
    run = run_once(session.folder, session.config, make, view)
    if run.failure:
        raise RailyardError(f"without any fault: {run.failure}")
    return Kind(name=" ".join(request.jobs), make=make, without=run)


def run_under_faults(
    session: Session,
    kinds: Sequence[Kind],
    plan: Sequence[Fault],
    tell: Callable[[Recovered], None],
    seed: int,
) -> Report:
    """Run these kinds in turn until all faults of the plan are over.

    Raises ``ClusterFailed`` if the cluster ends, ``RailyardError`` if a job does not end.
    """
    report = Report()
    keeper = Keeper(session.folder, session.config, seed)

    def told(number: int, run: OneRun) -> None:
        report.runs.append((kinds[number % len(kinds)], run))

    stop = threading.Event()
    with _threads(stop) as threads:
        jobs = threads.submit(
            run_until,
            stop,
            session.folder,
            session.config,
            lambda number: kinds[number % len(kinds)].make,
            told,
        )
        files = threads.submit(keeper.keep, stop)
        injector = Injector(session, plan, tell)
        injector.follow(lambda: _are_well(jobs, files))
        stop.set()
        slowest_s = max(kind.without.took_s for kind in kinds)
        _wait(session, [jobs, files], _END_TIMEOUT_S + _SLOWDOWN_MAX * slowest_s)
    report.begun_s, report.faults = injector.begun_s, injector.done
    report.acknowledged, report.lost = keeper.acknowledged, keeper.lost
    return report


@contextmanager
def _threads(stop: threading.Event) -> Iterator[ThreadPoolExecutor]:
    """Threads that are told to stop however the block ends.

    They are waited for by whoever needs what they do: one that hangs ends with its cluster.
    """
    threads = ThreadPoolExecutor(2, "railyard-chaos")
    try:
        yield threads
    finally:
        stop.set()
        threads.shutdown(wait=False, cancel_futures=True)


def _are_well(*futures: Future[None]) -> bool:
    """True; raises what ended one of them too early."""
    for future in futures:
        if future.done():
            future.result()
    return True


def _wait(session: Session, futures: Sequence[Future[None]], timeout_s: float) -> None:
    all_done = session.reactor.run_until(lambda: all(one.done() for one in futures), timeout_s)
    if not all_done:
        raise RailyardError(f"a job has not ended {timeout_s:.0f} s after the last fault")
    for future in futures:
        future.result()


def _differing(expected: Digests, found: Digests) -> list[str]:
    names = sorted(expected.keys() | found.keys())
    return [name for name in names if expected.get(name) != found.get(name)]
