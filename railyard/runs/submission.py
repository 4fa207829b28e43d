"""Submits jobs to the ResourceManager and follows them until they have ended."""

from __future__ import annotations

import contextlib
import uuid
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from railyard.cluster.errors import PeerLost, RailyardError, Refused
from railyard.cluster.ids import JobId
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.wire import Done, Refusal
from railyard.netemu.messages import NetworkView, WatchNetwork
from railyard.resourcemanager.process.messages import (
    JobAccepted,
    JobEnded,
    JobProgress,
    KillJob,
    SubmitJob,
    WatchJob,
)
from railyard.runs.session import Session
from railyard.terminal.interrupts import Interrupted, deferred
from railyard.terminal.progress import BatchProgress, View

#: Seconds that an interrupted command waits for the ResourceManager's answer.
_ANSWER_S = 2.0
#: When jobs have not gone on for so long, it is said which links carry nothing.
_STILL_S = 10.0
#: So many of them are named.
_LINKS_MAX = 4


@dataclass(frozen=True)
class Due:
    """A job to submit, and when: seconds from when the first one may be."""

    job: SubmitJob
    at_s: float = 0.0
    #: each makes the next step of this job, once the step before it has ended well
    then: tuple[Callable[[], SubmitJob], ...] = ()


def run_all(
    session: Session, jobs: Sequence[Due], view: View, title: str = ""
) -> list[tuple[JobEnded, ...]]:
    """Submit jobs, each at its time, and wait for all their ends, which come in the same order.

    A job of several steps has an end for each, up to the first that failed.

    One that fails does not stop the others.  An interrupt kills them all, since the cluster may go
    on without us; so does a job that is refused, and ``Refused`` says why, and a step that cannot
    be made.
    """
    batch = _Batch(session, jobs, view, title)
    try:
        return batch.run()
    except PeerLost:
        raise
    except (Interrupted, RailyardError):
        batch.kill()
        raise
    finally:
        batch.close()


class _Batch:
    """Jobs under way, over one link of their own."""

    def __init__(self, session: Session, jobs: Sequence[Due], view: View, title: str) -> None:
        self._reactor = session.reactor
        self._jobs = jobs
        self._view = view
        self._title = title
        self._begun_s = now_s()  #: when the first may be submitted
        self._names: dict[JobId, str] = {}  #: of those that were accepted
        self._places: dict[JobId, int] = {}  #: the places in ``jobs`` of those that run
        self._progress: dict[JobId, JobProgress] = {}  #: of those that run
        self._ends: list[list[JobEnded]] = [[] for _ in jobs]  #: those of the steps of each
        self._to_go_on: deque[int] = deque()  #: places of jobs whose next step is to be submitted
        self._over = 0  #: how many of ``jobs`` have ended
        self._asked = 0  #: jobs that were submitted and not yet answered
        self._killed = False
        self._error: Exception | None = None
        self._tokens = uuid.uuid4().hex  #: names the submissions of this batch
        self._lost_s: float | None = None  #: since when the ResourceManager is gone
        self._transport = session.transport
        self._went_on_s = self._begun_s  #: when a job went on last
        self._network: LastingLink | None = None  #: once none had gone on for a while
        self._link = LastingLink(session.transport, "resourcemanager", self._reconnect)
        self._link.on(JobProgress, lambda progress, _: self._progressed(progress))
        self._link.on(JobEnded, lambda end, _: self._end(end))

    def run(self) -> list[tuple[JobEnded, ...]]:
        """Submit and wait.  Raises ``PeerLost`` and ``Refused``."""
        for place, due in enumerate(self._jobs):
            submit = partial(self._submit, place, due.job)
            self._reactor.call_at(self._begun_s + due.at_s, submit)
        while self._over < len(self._jobs):
            self._reactor.run_until(self._has_news)
            if self._error is not None:
                raise self._error
            while self._to_go_on:  # not from a handler: making a step may read files
                place = self._to_go_on.popleft()
                self._submit(place, self._jobs[place].then[len(self._ends[place]) - 1]())
        return [tuple(ends) for ends in self._ends]

    def kill(self) -> None:
        """Kill all running jobs, and those that are submitted but not yet accepted."""
        with contextlib.suppress(RailyardError, Interrupted), deferred():
            self._killed = True
            self._reactor.run_until(lambda: not self._asked, _ANSWER_S)
            for job in list(self._places):
                if job in self._places:  # others may end meanwhile
                    wish = KillJob(job=job, reason="interrupted by its user")
                    self._link.ask(wish, Done, timeout_s=_ANSWER_S)

    def close(self) -> None:
        """Close the links."""
        self._link.close()
        if self._network is not None:
            self._network.close()

    def _has_news(self) -> bool:
        return bool(self._error or self._to_go_on) or self._over == len(self._jobs)

    def _submit(self, place: int, job: SubmitJob) -> None:
        def answered(answer: JobAccepted | Refusal, _: object) -> None:
            self._asked -= 1
            if isinstance(answer, JobAccepted):
                self._accepted(answer.job, job.name, place)
            else:
                self._error = self._error or Refused(str(answer))

        if self._error is None and not self._killed:
            self._asked += 1
            token = f"{self._tokens}-{place}-{len(self._ends[place])}"
            named = msgspec.structs.replace(job, token=token)
            self._link.insist(named, JobAccepted, answered)

    def _accepted(self, job: JobId, name: str, place: int) -> None:
        self._names[job], self._places[job] = name, place
        self._link.request(WatchJob(job=job), Done, self._watched)

    def _reconnect(self) -> None:
        """Its connection broke: watch all jobs again, by another process, it may be."""
        if self._lost_s is None:
            self._lost_s = now_s()
        for job in self._places:
            self._link.request(WatchJob(job=job), Done, self._watched)

    def _watched(self, answer: Done | Refusal | PeerLost, _: object) -> None:
        if isinstance(answer, Refusal):
            self._error = self._error or Refused(str(answer))
        elif isinstance(answer, Done) and self._lost_s is not None:
            away_s, self._lost_s = now_s() - self._lost_s, None
            self._view.say(f"the ResourceManager was restarted: {away_s:.1f} s")

    def _progressed(self, progress: JobProgress) -> None:
        before = self._progress.get(progress.job)
        if (
            before is None
            or msgspec.structs.replace(before, elapsed_s=progress.elapsed_s) != progress
        ):
            self._went_on_s = now_s()
        elif now_s() > self._went_on_s + _STILL_S:
            self._went_on_s = now_s()  # to be said again after as long
            self._ask_for_links()
        self._progress[progress.job] = progress
        if len(self._jobs) == 1:
            self._view.show(self._names[progress.job], progress)
        else:
            self._view.show_all(
                BatchProgress(
                    title=self._title,
                    elapsed_s=now_s() - self._begun_s,
                    done=self._over,
                    jobs=len(self._jobs),
                    running={self._names[job]: one for job, one in self._progress.items()},
                )
            )

    def _ask_for_links(self) -> None:
        if self._network is None:
            self._network = LastingLink(self._transport, "network")
        self._network.request(WatchNetwork(period_s=_STILL_S), NetworkView, self._show_stopped)

    def _show_stopped(self, view: NetworkView | Refusal | PeerLost, _: object) -> None:
        """Say which links carry nothing: a job that needs one of them waits until it does."""
        links = view.links.items() if isinstance(view, NetworkView) else ()
        stopped = [name for name, link in links if not link.capacity_bytes_per_s]
        if stopped:
            more = f" and {len(stopped) - _LINKS_MAX} more" if len(stopped) > _LINKS_MAX else ""
            names = ", ".join(stopped[:_LINKS_MAX]) + more
            self._view.say(
                f"nothing has gone on for {_STILL_S:g} s; links that carry nothing: {names} "
                "(railyard network set LINK default)"
            )

    def _end(self, end: JobEnded) -> None:
        self._progress.pop(end.job, None)
        if end.job not in self._places:
            return  # it was told before a connection broke, and again
        place = self._places.pop(end.job)
        ends = self._ends[place]
        ends.append(end)
        if end.ok and len(ends) <= len(self._jobs[place].then):
            self._to_go_on.append(place)
        else:
            self._over += 1
