"""The processes that a NodeManager has started through its helper: jobs' helpers and attempts.

    launch ──► waiting for the module, then a permit ──► forked ──► ended (with a wait status)
                          └───────────── or ────────────────┴─────► lost  (no status: a reason)

Every attempt that was launched is reported as ended or lost, once.  A job's helper has a permit of
its own while it imports the module, which may take as long as any attempt.  One that dies is
replaced at once.

Never here: what a status means, and who hears of it.
"""

from __future__ import annotations

import itertools
import logging
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from railyard.cluster.config import Daemon
from railyard.cluster.errors import PeerError
from railyard.cluster.ids import AttemptId, JobId, job_of
from railyard.cluster.messages import KillAttempt, LaunchAttempt, LoadJob
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.wire import Message, Vocabulary
from railyard.nodemanager.helpers import Channel, load_folder
from railyard.nodemanager.limits import tail_of
from railyard.nodemanager.messages import (
    AttemptExited,
    AttemptForked,
    AttemptNotForked,
    AttemptTooLarge,
    ForkJobHelper,
    JobBroken,
    JobHelperEnded,
    JobHelperForked,
    JobLoaded,
    KillJobHelper,
)
from railyard.nodemanager.permits import Permits

log = logging.getLogger(__name__)

_JOB_HELPER_SAYS: tuple[type[Message], ...] = (
    JobLoaded,
    JobBroken,
    AttemptForked,
    AttemptNotForked,
    AttemptTooLarge,
    AttemptExited,
)

#: A job's helper that ends is replaced at once, so that the next attempt does not wait for the
#: import; no longer once so many have ended in a row without an attempt, as by the job's own doing.
_IDLE_MAX = 3


class Watcher(Protocol):
    """What is notified of what happens to attempts' processes."""

    def forked(self, attempt: AttemptId, pid: int) -> None:
        """The attempt's process runs."""

    def too_large(self, attempt: AttemptId, reason: str) -> None:
        """The attempt's processes are being killed: they use too much memory."""

    def ended(self, attempt: AttemptId, status: int) -> None:
        """The attempt's process is gone; ``status`` is as of ``os.waitpid``."""

    def lost(self, attempt: AttemptId, reason: str, stderr: str) -> None:
        """The attempt never had a process, or it went with the job's helper."""


@dataclass(kw_only=True)
class _JobHelper:
    """A job's helper, as its NodeManager knows it."""

    job: JobId
    number: int
    channel: Channel
    far: socket.socket  #: its end of the channel, open until it is forked
    loaded: bool = False
    #: how many of the job in a row, with it, have run no attempt yet
    idle: int = 1
    #: for the module, then for a permit
    waiting: dict[AttemptId, LaunchAttempt] = field(default_factory=dict)
    running: set[AttemptId] = field(default_factory=set)

    @property
    def importer(self) -> str:
        """By what name it has its permit to import the module."""
        return f"helper {self.number}"


class Containers:
    """Starts and kills attempts' processes, by way of the helpers."""

    def __init__(
        self,
        daemon: Daemon,
        reactor: Reactor,
        helper: Channel,
        permits: Permits,
        watcher: Watcher,
        on_helper_lost: Callable[[], None],
    ) -> None:
        self._daemon = daemon
        self._reactor = reactor
        self._helper = helper
        self._permits = permits
        self._watcher = watcher
        self._on_helper_lost = on_helper_lost
        self._numbers = itertools.count()
        self._packages: dict[JobId, LoadJob] = {}
        self._broken: dict[JobId, JobBroken] = {}
        self._by_job: dict[JobId, _JobHelper] = {}
        self._by_number: dict[int, _JobHelper] = {}
        reactor.add(helper.fileno(), self._on_helper)

    @property
    def jobs(self) -> tuple[JobId, ...]:
        """The jobs that are loaded, or are being loaded."""
        return tuple(self._packages)

    # Orders ------------------------------------------------------------------------------------
    def load(self, order: LoadJob) -> None:
        """Import a job's module, in a helper of its own, so that attempts can follow."""
        if order.job not in self._packages:
            self._packages[order.job] = order
            self._start_helper(order)

    def launch(self, order: LaunchAttempt) -> None:
        attempt, job = order.attempt, job_of(order.attempt)
        if job not in self._packages:
            self._watcher.lost(attempt, f"{job} was not loaded on {self._daemon.name}", "")
        elif job in self._broken:
            self._watcher.lost(attempt, self._broken[job].reason, self._broken[job].stderr)
        else:
            helper = self._by_job.get(job) or self._start_helper(self._packages[job])
            helper.waiting[attempt] = order
            if helper.loaded:
                self._ask_to_fork(helper, attempt)

    def kill(self, order: KillAttempt) -> None:
        """Kill an attempt's process; nothing happens if it has ended."""
        helper = self._by_job.get(job_of(order.attempt))
        if helper is None:
            return
        if helper.waiting.pop(order.attempt, None) is not None:
            self._permits.give_back(order.attempt)
            self._watcher.lost(order.attempt, order.reason, "")
        elif order.attempt in helper.running:
            helper.channel.send(order)

    def waits_for_permit(self, attempt: AttemptId) -> bool:
        """Whether an attempt waits for a permit, its own or that to import its job's module."""
        helper = self._by_job.get(job_of(attempt))
        imports = helper is not None and self._permits.waits(helper.importer)
        return imports or self._permits.waits(attempt)

    def stop_loading(self, job: JobId) -> None:
        """Give up an import that hangs: the attempts that wait for it are lost."""
        helper = self._by_job.get(job)
        if helper is not None and not helper.loaded:
            self._helper.send(KillJobHelper(helper=helper.number))

    def discard(self, job: JobId) -> None:
        """Forget a job: its helper is killed, and with it what is left of its attempts."""
        self._packages.pop(job, None)
        self._broken.pop(job, None)
        helper = self._by_job.get(job)
        if helper is not None and self._permits.waits(helper.importer):
            helper.far.close()
            self._forget(self._by_number.pop(helper.number), "it was not started")
        elif helper is not None:
            self._helper.send(KillJobHelper(helper=helper.number))

    # What happens ------------------------------------------------------------------------------
    def _start_helper(self, order: LoadJob) -> _JobHelper:
        ours, theirs = socket.socketpair()
        channel = Channel(ours, Vocabulary(_JOB_HELPER_SAYS))
        number = next(self._numbers)
        helper = _JobHelper(job=order.job, number=number, channel=channel, far=theirs)
        self._by_job[order.job] = self._by_number[helper.number] = helper
        self._reactor.add(channel.fileno(), lambda: self._on_job_helper(helper))
        self._permits.ask(helper.importer, lambda: self._fork_helper(helper, order))
        return helper

    def _fork_helper(self, helper: _JobHelper, order: LoadJob) -> None:
        fork = ForkJobHelper(helper=helper.number, job=order.job)
        self._helper.send(fork, fds=[helper.far.fileno()])
        helper.far.close()
        helper.channel.send(order)

    def _ask_to_fork(self, helper: _JobHelper, attempt: AttemptId) -> None:
        self._permits.ask(attempt, lambda: self._fork(helper, attempt))

    def _fork(self, helper: _JobHelper, attempt: AttemptId) -> None:
        helper.idle = 0
        helper.running.add(attempt)
        helper.channel.send(helper.waiting.pop(attempt))

    def _on_job_helper(self, helper: _JobHelper) -> None:
        try:
            messages = helper.channel.receive()
        except PeerError as error:  # the user's module has got hold of our end of the channel
            log.error("the helper of %s is killed: %s", helper.job, error)
            self._helper.send(KillJobHelper(helper=helper.number))
            return
        for message in messages:
            self._note(helper, message)
        if helper.channel.at_end:  # the clean helper will report how it ended
            self._reactor.remove(helper.channel.fileno())

    def _note(self, helper: _JobHelper, message: Message) -> None:
        match message:
            case JobLoaded():
                self._permits.give_back(helper.importer)
                helper.loaded = True
                for attempt in list(helper.waiting):
                    self._ask_to_fork(helper, attempt)
            case JobBroken():
                if helper.job in self._packages:
                    self._broken[helper.job] = message
                self._lose_all(helper, message.reason, message.stderr)
            case AttemptForked():
                self._permits.runs_as(message.attempt, message.pid)
                self._watcher.forked(message.attempt, message.pid)
            case AttemptNotForked():
                self._end(helper, message.attempt)
                self._watcher.lost(message.attempt, message.reason, "")
            case AttemptTooLarge():
                self._watcher.too_large(message.attempt, message.reason)
            case AttemptExited():
                self._end(helper, message.attempt)
                self._watcher.ended(message.attempt, message.status)

    def _end(self, helper: _JobHelper, attempt: AttemptId) -> None:
        helper.running.discard(attempt)
        self._permits.give_back(attempt)

    def _on_helper(self) -> None:
        for message in self._helper.receive():
            if isinstance(message, JobHelperForked):
                helper = self._by_number[message.helper]
                self._permits.runs_as(helper.importer, message.pid)
            elif isinstance(message, JobHelperEnded):
                self._forget(self._by_number.pop(message.helper), message.how)
        if self._helper.at_end:
            self._reactor.remove(self._helper.fileno())
            self._on_helper_lost()

    def _forget(self, helper: _JobHelper, how: str) -> None:
        if not helper.channel.at_end:
            self._on_job_helper(helper)  # what it said before its end still counts
        self._reactor.remove(helper.channel.fileno())
        helper.channel.close()
        self._permits.give_back(helper.importer)
        if self._by_job.get(helper.job) is helper:
            del self._by_job[helper.job]
        doing = "running attempts" if helper.loaded else "importing the job's module"
        reason = f"the job's helper ended while {doing}: {how}"
        self._lose_all(helper, reason, self._printed(helper))
        wanted = self._packages.get(helper.job)
        if helper.loaded and helper.idle <= _IDLE_MAX and wanted and helper.job not in self._by_job:
            self._start_helper(wanted).idle += helper.idle

    def _lose_all(self, helper: _JobHelper, reason: str, stderr: str) -> None:
        lost = [*helper.waiting, *sorted(helper.running)]
        helper.waiting.clear()
        helper.running.clear()
        for attempt in lost:
            self._permits.give_back(attempt)
            self._watcher.lost(attempt, reason, stderr)

    def _printed(self, helper: _JobHelper) -> str:
        """The end of what importing the job's module wrote to stderr."""
        folder = self._daemon.folder.attempt(load_folder(self._daemon.name, helper.job))
        return tail_of(folder / "stderr")
