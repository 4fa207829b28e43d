"""Jobs that run on a cluster while something happens to it, and what is left of what they wrote.

Each runs in a thread with links of its own.  Outputs are compared by digests of all their files.
The report is for people and for programs: a line of at most 80 letters for each fault, tables, a
dictionary.
"""

from __future__ import annotations

import hashlib
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle
from typing import Any, TypeVar

from railyard.chaos.injector import RECOVERY_TIMEOUT_S, Injector, Recovered
from railyard.chaos.plan import LiveFault
from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import ClusterFailed, NotDone, PeerLost, RailyardError, Refused
from railyard.cluster.ids import JobId
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.units import format_count, format_duration, time_unit
from railyard.dfs.client import DfsClient
from railyard.dfs.reader import BlockUnavailable
from railyard.resourcemanager.process.messages import AttemptReport, GetJobTasks, JobTasks
from railyard.runs.clusters import Session, connected
from railyard.runs.requests import RunRequest
from railyard.runs.work import Work, work_for
from railyard.terminal.progress import View
from railyard.terminal.tables import Column, plain_console, plain_numbers, show_table

T = TypeVar("T")

#: {number of the job's output and the file's name in it: digest of the file}
Digests = dict[str, str]
#: For how long a read is tried again, and the pause between two tries.
_READ_TIMEOUT_S = 60.0
_READ_AGAIN_S = 0.2
#: After a run that failed.
_FAILED_PAUSE_S = 0.5
#: Files that are there at a time, their size, and the pause between two.
_FILES_MAX = 40
_FILE_BYTES = 20_000
_FILE_PAUSE_S = 0.3


@dataclass(frozen=True, kw_only=True)
class OneRun:
    """A run of the job, or of the mix."""

    begun_s: float  #: by the monotonic clock
    took_s: float
    digests: Digests  #: {} if it failed
    lost_s: float = 0.0  #: slot seconds of its attempts that did not count in the end
    failure: str = ""  #: why it failed, or what is wrong with its output


def run_once(
    folder: RunFolder, config: ClusterConfig, make: Callable[[], Work], view: View
) -> OneRun:
    """Run what ``make`` makes, and remove all that it wrote once its digests are known.

    Raises ``ClusterFailed`` if the cluster ends.
    """
    begun_s = time.monotonic()
    run = partial(OneRun, begun_s=begun_s)
    try:
        with connected(folder, config) as session:
            work = make()
            outcome = work.carry_out(session, view)
            took_s = time.monotonic() - begun_s
            if outcome.failure is not None:
                return run(took_s=took_s, digests={}, failure=str(outcome.failure))
            store = DfsClient(session.transport, config.topology)
            digests = _digests(session, store, work.outputs)
            lost_s = sum(lost_work_s(session, job) for job in outcome.all_jobs())
            _remove(session, store, work.outputs)
        failure = f"the output of {work.name} is wrong" if outcome.verified is False else ""
        return run(took_s=took_s, digests=digests, lost_s=lost_s, failure=failure)
    except ClusterFailed:
        raise
    except RailyardError as error:
        return run(took_s=time.monotonic() - begun_s, digests={}, failure=str(error))


def lost_work_s(session: Session, job: JobId) -> float:
    """How long the attempts of a job that has ended ran for nothing, in all.

    Of each task the last attempt that succeeded counts: the others died, were killed, or were
    those whose output was lost.
    """
    lost_s, begin = 0.0, 0
    while True:
        page = session.link("resourcemanager").ask(GetJobTasks(job=job, begin=begin), JobTasks)
        lost_s += sum(wasted_s(task.attempts) for task in page.tasks)
        if not page.left:
            return lost_s
        begin += len(page.tasks)


def wasted_s(attempts: Sequence[AttemptReport]) -> float:
    """How long the attempts of a task, as they were launched, ran: but for the one that counts."""
    ran_s = [(one.ended_s or one.launched_s) - one.launched_s for one in attempts]
    counts = [number for number, one in enumerate(attempts) if one.state == "succeeded"]
    return sum(ran_s) - (ran_s[counts[-1]] if counts else 0.0)


def _digests(session: Session, store: DfsClient, outputs: tuple[str, ...]) -> Digests:
    found: Digests = {}
    for number, output in enumerate(outputs):
        for entry in _again(session, partial(store.list, output)):
            name = entry.path.rsplit("/", 1)[-1]
            found[f"{number}/{name}"] = _again(session, partial(_digest, store, entry.path))
    return found


def _digest(store: DfsClient, path: str) -> str:
    digest = hashlib.sha256()
    for piece in store.read(path):
        digest.update(piece)
    return digest.hexdigest()


def _remove(session: Session, store: DfsClient, outputs: tuple[str, ...]) -> None:
    """Remove the folders of the runs that wrote these: "/runs/terasort-3fa91c" and the like."""
    for folder in dict.fromkeys("/".join(output.split("/")[:3]) for output in outputs):
        _again(session, partial(_removed, store, folder))


def _removed(store: DfsClient, path: str) -> None:
    if store.exists(path):
        store.remove(path, recursive=True)


def _again(session: Session, read: Callable[[], T]) -> T:
    """What ``read`` returns, tried again while the block store is down."""
    deadline_s = time.monotonic() + _READ_TIMEOUT_S
    while True:
        try:
            return read()
        except (PeerLost, NotDone, BlockUnavailable):
            if time.monotonic() > deadline_s:
                raise
        session.reactor.run_until(lambda: False, _READ_AGAIN_S)


class FileWriter:
    """Stores small files all the time, and sees that each that was acknowledged is there."""

    def __init__(self, folder: RunFolder, config: ClusterConfig, seed: int) -> None:
        self.acknowledged = 0
        self.lost: list[str] = []  #: acknowledged, and not there, or with other bytes
        self._folder, self._config, self._seed = folder, config, seed
        self._written: deque[tuple[str, bytes]] = deque()

    def write_all(self, stop: threading.Event) -> None:
        """Store files until ``stop`` is set, then check those that are there."""
        with connected(self._folder, self._config) as session:
            store = DfsClient(session.transport, self._config.topology)
            number = 0
            while not stop.is_set():
                self._store(store, number)
                number += 1
                if len(self._written) > _FILES_MAX:
                    self._check(session, store, *self._written.popleft())
                session.reactor.run_until(stop.is_set, _FILE_PAUSE_S)
            while self._written:
                self._check(session, store, *self._written.popleft())

    def _store(self, store: DfsClient, number: int) -> None:
        path = f"/chaos/{self._seed}-{number}"
        data = hashlib.shake_256(f"{self._seed} {number}".encode()).digest(_FILE_BYTES)
        try:
            store.write(path, [data])
        except (PeerLost, Refused):
            return  # it may be there or not
        self.acknowledged += 1
        self._written.append((path, data))

    def _check(self, session: Session, store: DfsClient, path: str, data: bytes) -> None:
        try:
            there = _again(session, lambda: b"".join(map(bytes, store.read(path))))
        except (PeerLost, Refused, BlockUnavailable) as error:
            self.lost.append(f"{path}: {error}")
            return
        if there != data:
            self.lost.append(f"{path}: other bytes")
        _again(session, partial(_removed, store, path))


# Under faults -------------------------------------------------------------------------------------
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
        found = [
            f"{kind.name}: {file}"
            for kind, run in self.runs
            if run.digests
            for file in _differing(kind.without.digests, run.digests)
        ]
        return found + self.lost

    @property
    def failures(self) -> list[str]:
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
    return Kind(name=" ".join(request.words), make=make, without=run)


def run_under_faults(
    session: Session,
    kinds: Sequence[Kind],
    plan: Sequence[LiveFault],
    report_on: Callable[[Recovered], None],
    seed: int,
) -> Report:
    """Run these kinds in turn until all faults of the plan are over.

    Raises ``ClusterFailed`` if the cluster ends, ``RailyardError`` if a job does not end.
    """
    report, stop = Report(), threading.Event()
    writer = FileWriter(session.folder, session.config, seed)
    injector = Injector(session, plan, report_on)
    slowest_s = max(kind.without.took_s for kind in kinds)
    threads = ThreadPoolExecutor(2, "railyard-chaos")
    try:
        each = (
            threads.submit(_run_until, stop, session, kinds, report.runs),
            threads.submit(writer.write_all, stop),
        )
        injector.follow(lambda: _are_well(each))
        stop.set()
        timeout_s = _END_TIMEOUT_S + _SLOWDOWN_MAX * slowest_s
        if not session.reactor.run_until(lambda: all(one.done() for one in each), timeout_s):
            raise RailyardError(f"a job has not ended {timeout_s:.0f} s after the last fault")
        _are_well(each)
    finally:
        stop.set()
        threads.shutdown(wait=False, cancel_futures=True)  # one that hangs ends with its cluster
    report.begun_s, report.faults = injector.begun_s, injector.done
    report.acknowledged, report.lost = writer.acknowledged, writer.lost
    return report


def _run_until(
    stop: threading.Event, beside: Session, kinds: Sequence[Kind], runs: list[tuple[Kind, OneRun]]
) -> None:
    """Run one after the other, at least one, until ``stop`` is set; each has its own session."""
    for kind in cycle(kinds):
        run = run_once(beside.folder, beside.config, kind.make, View())
        runs.append((kind, run))
        if run.failure:
            stop.wait(_FAILED_PAUSE_S)
        if stop.is_set():
            return


def _are_well(futures: Iterable[Future[None]]) -> bool:
    """True; raises what ended one of them."""
    for future in futures:
        if future.done():
            future.result()
    return True


def _differing(expected: Digests, found: Digests) -> list[str]:
    names = sorted(expected.keys() | found.keys())
    return [name for name in names if expected.get(name) != found.get(name)]


# The report in words ------------------------------------------------------------------------------
_WHAT_LETTERS = 48


def line_of(one: Recovered) -> str:
    """A fault that is over, in one line."""
    after = "nothing to do it to"
    if one.what:
        missing = f"not in {RECOVERY_TIMEOUT_S:.0f} s"
        after = missing if one.took_s is None else f"{one.took_s:7.2f} s"
    return f"{one.at_s:7.1f} s  {one.what or one.fault.kind:<{_WHAT_LETTERS}} {after}"


def heading() -> str:
    """What stands above these lines."""
    return f"{'at':>9}  {'fault':<{_WHAT_LETTERS}} recovered after"


def show_report(report: Report) -> None:
    """Print the recoveries by kind, and what became of jobs and files."""
    columns = [Column("fault"), Column("times", plain_numbers)]
    columns += [Column(heading, time_unit) for heading in ("median", "worst")]
    rows = [
        [kind, times["times"], times["median_s"], times["worst_s"]]
        for kind, times in recoveries(report.faults).items()
    ]
    console = plain_console(highlight=False)
    console.print()
    show_table(console, columns, rows)
    for line in summary_lines(report):
        console.print(line, markup=False)


def recoveries(faults: Iterable[Recovered]) -> dict[str, dict[str, Any]]:
    """{kind: how often it was done, median and worst time of recovery in seconds}"""
    times: dict[str, list[float | None]] = {}
    for one in faults:
        if one.what:
            times.setdefault(one.fault.kind, []).append(one.took_s)
    return {
        kind: {
            "times": len(times_s),
            "recovered": len(known),
            "median_s": statistics.median(known) if known else None,
            "worst_s": max(known, default=None),
        }
        for kind, times_s in sorted(times.items())
        for known in [[time_s for time_s in times_s if time_s is not None]]
    }


def summary_lines(report: Report) -> Iterator[str]:
    """Whether jobs and files are as they are without faults."""
    for kind in dict.fromkeys(kind.name for kind, _ in report.runs):
        runs = [(each, run) for each, run in report.runs if each.name == kind]
        took_s = statistics.median(run.took_s for _, run in runs)
        without_s = runs[0][0].without.took_s
        beside = f"{format_duration(took_s)} beside {format_duration(without_s)} without faults"
        yield f"{kind}: {format_count(len(runs), 'run')}, {beside} (median)"
    count = format_count(report.acknowledged, "file")
    yield f"{count} stored meanwhile, {len(report.lost)} lost"
    yield from (f"failed: {failure}" for failure in report.failures)
    yield from (f"not recovered: {line_of(one).strip()}" for one in report.unrecovered)
    yield from (f"differs: {name}" for name in report.differing)
    if not report.differing and not report.failures:
        yield "outputs: byte for byte those of the run without faults, on the same cluster"


def as_json(report: Report) -> dict[str, Any]:
    """The same for programs."""
    return {
        "faults": [
            {
                "at_s": one.at_s,
                "kind": one.fault.kind,
                "what": one.what,
                "lasts_s": one.fault.lasts_s,
                "recovered_after_s": one.took_s,
            }
            for one in report.faults
        ],
        "recoveries": recoveries(report.faults),
        "runs": [
            {
                "job": kind.name,
                "took_s": run.took_s,
                "without_faults_s": kind.without.took_s,
                "failure": run.failure,
                "same_output": kind.is_like(run),
            }
            for kind, run in report.runs
        ],
        "files": {"acknowledged": report.acknowledged, "lost": report.lost},
        "differing": report.differing,
    }
