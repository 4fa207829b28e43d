"""The attempts that run on one rack's nodes, from their launch to the fact that ends them.

    launch ──► waiting for the module, then a permit ──► forked ──► ended (with a wait status)
                          └───────────── or ────────────────┴─────► lost  (no status: a reason)

``Containers`` starts and kills their processes, by way of the helpers, and knows neither what a
status means nor who learns of it.  ``Attempts`` turns what happens to processes, and what they
report themselves, into facts.  An attempt has succeeded only if it said so and its process then
exited with status 0.  It talks to this table over its umbilical, a link to the NodeManager.

Never here: what attempts compute.
"""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import InitVar, dataclass, field
from enum import IntEnum
from functools import partial

import msgspec

from railyard.cluster.config import Daemon
from railyard.cluster.errors import PeerError
from railyard.cluster.ids import (
    AttemptId,
    FlowId,
    JobId,
    NodeId,
    RackId,
    is_attempt,
    is_job,
    job_of,
)
from railyard.cluster.messages import (
    AskToCompute,
    AttemptDelayed,
    AttemptDue,
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptReady,
    AttemptStarted,
    AttemptSucceeded,
    AttemptWaits,
    BeginAttempt,
    CancelFlow,
    DiscardJob,
    FetchOutput,
    FlowFailed,
    FlowFinished,
    HeldAttempt,
    KillAttempt,
    LaunchAttempt,
    LoadJob,
    NodeManagerHolds,
    UmbilicalHello,
)
from railyard.cluster.messaging.access import ATTEMPT
from railyard.cluster.messaging.reactor import Reactor, now_s
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import Done, Event, Message, Vocabulary
from railyard.cluster.processes import how_it_ended
from railyard.nodemanager.attempt.programs import WORK, localized_folders
from railyard.nodemanager.attempt.umbilical import ENDING_S
from railyard.nodemanager.helpers import Channel, load_folder
from railyard.nodemanager.limits import tail_of
from railyard.nodemanager.messages import (
    AttemptExited,
    AttemptTooLarge,
    ForkJobHelper,
    JobBroken,
    JobHelperEnded,
    JobHelperForked,
    JobLoaded,
    KillJobHelper,
)
from railyard.nodemanager.permits import Permits
from railyard.nodemanager.shuffle import shuffle_folder

log = logging.getLogger(__name__)

#: A job's helper that ends is replaced at once, so that the next attempt does not wait for the
#: import; no longer once so many have ended in a row without an attempt, as by the job's own doing.
_IDLE_MAX = 3


@dataclass(kw_only=True)
class _JobHelper:
    """A job's helper, as its NodeManager knows it."""

    job: JobId
    number: int
    channel: Channel
    far: socket.socket  #: its end of the channel, open until it is forked
    loaded: bool = False
    idle: int = 1  #: how many of the job in a row, with it, have run no attempt yet
    #: for the module, then for a permit
    waiting: dict[AttemptId, LaunchAttempt] = field(default_factory=dict)
    running: set[AttemptId] = field(default_factory=set)

    @property
    def importer(self) -> str:
        return f"helper {self.number}"


@dataclass(eq=False)
class Containers:
    """Starts and kills attempts' processes, by way of the helpers.

    Every attempt that was launched is reported as ended or lost, once.  A job's helper has a permit
    of its own while it imports the module, which may take as long as any attempt.
    """

    _daemon: Daemon
    _reactor: Reactor
    _helper: Channel
    _permits: Permits
    _attempts: Attempts
    _on_helper_lost: Callable[[], None]

    def __post_init__(self) -> None:
        self._numbers = itertools.count()
        self._packages: dict[JobId, LoadJob] = {}
        self._broken: dict[JobId, JobBroken] = {}
        self._by_job: dict[JobId, _JobHelper] = {}
        self._by_number: dict[int, _JobHelper] = {}
        self._reactor.add(self._helper.fileno(), self._on_helper)

    @property
    def jobs(self) -> tuple[JobId, ...]:
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
            self._attempts.fail(attempt, f"{job} was not loaded on {self._daemon.name}", "")
        elif job in self._broken:
            self._attempts.fail(attempt, self._broken[job].reason, self._broken[job].stderr)
        else:
            helper = self._by_job.get(job) or self._start_helper(self._packages[job])
            helper.waiting[attempt] = order
            if helper.loaded:
                self._fork(helper, attempt)

    def kill(self, order: KillAttempt) -> None:
        helper = self._by_job.get(job_of(order.attempt))
        if helper is None:
            return
        if helper.waiting.pop(order.attempt, None) is not None:
            self._permits.give_back(order.attempt)
            self._attempts.fail(order.attempt, order.reason, "")
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
        def fork() -> None:
            message = ForkJobHelper(helper=helper.number, job=order.job)
            self._helper.send(message, fds=[helper.far.fileno()])
            helper.far.close()
            helper.channel.send(order)

        ours, theirs = socket.socketpair()
        events = JobLoaded, JobBroken, AttemptStarted, AttemptFailed, AttemptTooLarge
        channel = Channel(ours, Vocabulary([*events, AttemptExited]))
        helper = _JobHelper(job=order.job, number=next(self._numbers), channel=channel, far=theirs)
        self._by_job[order.job] = self._by_number[helper.number] = helper
        self._reactor.add(channel.fileno(), lambda: self._on_job_helper(helper))
        self._permits.ask(helper.importer, fork)
        return helper

    def _fork(self, helper: _JobHelper, attempt: AttemptId) -> None:
        """Fork an attempt once it has a permit."""

        def fork() -> None:
            helper.idle = 0
            helper.running.add(attempt)
            helper.channel.send(helper.waiting.pop(attempt))

        self._permits.ask(attempt, fork)

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
                    self._fork(helper, attempt)
            case JobBroken():
                if helper.job in self._packages:
                    self._broken[helper.job] = message
                self._lose_all(helper, message.reason, message.stderr)
            case AttemptStarted():
                self._permits.runs_as(message.attempt, message.pid)
                self._attempts.started(message)
            case AttemptFailed():
                self._end(helper, message.attempt)
                self._attempts.fail(message.attempt, message.reason, "")
            case AttemptTooLarge():
                self._attempts.too_large(message.attempt, message.reason)
            case AttemptExited():
                self._end(helper, message.attempt)
                self._attempts.ended(message.attempt, message.status)

    def _end(self, helper: _JobHelper, attempt: AttemptId) -> None:
        helper.running.discard(attempt)
        self._permits.give_back(attempt)

    def _on_helper(self) -> None:
        for message in self._helper.receive():
            if isinstance(message, JobHelperForked):
                self._permits.runs_as(self._by_number[message.helper].importer, message.pid)
            elif isinstance(message, JobHelperEnded):
                self._forget(self._by_number.pop(message.helper), message.how)
        if self._helper.at_end:
            self._reactor.remove(self._helper.fileno())
            self._on_helper_lost()

    def _forget(self, helper: _JobHelper, how: str) -> None:
        if not helper.channel.at_end:
            self._on_job_helper(helper)  # what it sent before its end still counts
        self._reactor.remove(helper.channel.fileno())
        helper.channel.close()
        self._permits.give_back(helper.importer)
        if self._by_job.get(helper.job) is helper:
            del self._by_job[helper.job]
        doing = "running attempts" if helper.loaded else "importing the job's module"
        # what importing the module wrote
        printed = self._daemon.folder.attempt(load_folder(self._daemon.name, helper.job)) / "stderr"
        self._lose_all(helper, f"the job's helper ended while {doing}: {how}", tail_of(printed))
        wanted = self._packages.get(helper.job)
        if helper.loaded and helper.idle <= _IDLE_MAX and wanted and helper.job not in self._by_job:
            self._start_helper(wanted).idle += helper.idle

    def _lose_all(self, helper: _JobHelper, reason: str, stderr: str) -> None:
        lost = [*helper.waiting, *sorted(helper.running)]
        helper.waiting.clear()
        helper.running.clear()
        for attempt in lost:
            self._permits.give_back(attempt)
            self._attempts.fail(attempt, reason, stderr)


class _Ending(IntEnum):
    """What is known of an attempt's end; of several reasons the largest is reported."""

    OPEN = 0  #: it is what the attempt reports, or its process's status
    TOO_LARGE = 1  #: it uses more memory than it may
    TIMED_OUT = 2
    KILLED = 3  #: by a ``KillAttempt``
    DONE = 4  #: it has done its task and ended, which is reported when it is due


@dataclass
class _Attempt:
    """An attempt that was launched and has not ended yet."""

    order: LaunchAttempt
    received_s: float  #: when its order came
    reported_s: float  #: when it last sent anything
    has_slot: bool
    launch_s: float = 0.0  #: from its order until its process reported
    permit_s: float = 0.0  #: for how long it has waited for permits, since it runs
    pid: int | None = None  #: None until its process was forked
    peer: bytes | None = None  #: the connection of its umbilical
    peer_pid: int | None = None  #: the process at the other end of it
    claim: AttemptSucceeded | AttemptFailed | None = None  #: the outcome, as it reports
    due_s: float = 0.0  #: its success is not reported before
    ending: _Ending = _Ending.OPEN
    reason: str = ""  #: of that
    undelivered: list[Message] = field(default_factory=list)  #: until its umbilical is there

    def ends(self, ending: _Ending, reason: str) -> None:
        if ending > self.ending:
            self.ending, self.reason = ending, reason


@dataclass(eq=False)
class Attempts:
    """Runs attempts and reports what happens to them."""

    _daemon: Daemon
    _reactor: Reactor
    _server: Server
    _nodes: frozenset[NodeId]
    _permits: Permits
    _report: Callable[[Message], None]
    helper: InitVar[Channel]
    on_helper_lost: InitVar[Callable[[], None]]

    def __post_init__(self, helper: Channel, on_helper_lost: Callable[[], None]) -> None:
        daemon, reactor, server = self._daemon, self._reactor, self._server
        self._timeout_s = daemon.config.topology.liveness.task_timeout
        self._containers = Containers(daemon, reactor, helper, self._permits, self, on_helper_lost)
        self._running: dict[AttemptId, _Attempt] = {}
        self._by_peer: dict[bytes, AttemptId] = {}
        self._readers: dict[FlowId, AttemptId] = {}
        #: all that were ever launched, of jobs that are not discarded: an order may come again
        self._launched: dict[JobId, set[AttemptId]] = {}
        self._discarded: set[JobId] = set()  #: jobs of which an attempt may yet be dying
        server.on(UmbilicalHello, self._hello, (ATTEMPT,))
        server.on(AttemptReady, self._ready)
        server.on(AttemptProgressed, self._progressed)
        server.on(AttemptSucceeded, self._claimed)
        server.on(AttemptFailed, self._claimed)
        server.on(AttemptDue, self._due)
        server.on(AttemptWaits, self._waits)
        server.on(AskToCompute, self._asks)
        server.on(FlowFinished, self._fetched)
        server.on(FlowFailed, self._fetched)
        reactor.call_every(min(0.5, self._timeout_s / 4), self._check_silence)

    # Orders ------------------------------------------------------------------------------------
    def load(self, order: LoadJob) -> None:
        if not is_job(order.job):
            log.error("%r is no job: the order to load it is ignored", order.job)
            return
        self._containers.load(order)

    def launch(self, order: LaunchAttempt) -> None:
        if not is_attempt(order.attempt):
            log.error("%r is no attempt: the order to launch it is ignored", order.attempt)
            return
        launched = self._launched.setdefault(job_of(order.attempt), set())
        if order.attempt in launched:
            log.warning("%s was launched: another order to launch it is ignored", order.attempt)
            return
        launched.add(order.attempt)
        if order.node not in self._nodes:
            reason = f"{order.node} is no node of {self._daemon.name}"
            self._report(AttemptFailed(attempt=order.attempt, reason=reason))
            return
        received_s = now_s()
        self._running[order.attempt] = _Attempt(
            order, received_s, reported_s=received_s, has_slot=order.begins
        )
        self._containers.launch(msgspec.structs.replace(order, received_s=received_s))

    def begin(self, order: BeginAttempt) -> None:
        """Have an attempt without a slot compute, unless it has ended or is being killed."""
        attempt = self._running.get(order.attempt)
        if attempt is not None and not attempt.has_slot and attempt.ending != _Ending.KILLED:
            attempt.has_slot = True
            attempt.reported_s = now_s()
            begin = msgspec.structs.replace(order, received_s=attempt.reported_s)
            self._deliver(order.attempt, begin)

    def kill(self, order: KillAttempt) -> None:
        """End an attempt; the end of one that has ended already was reported."""
        attempt = self._running.get(order.attempt)
        if attempt is not None:
            log.info("killing %s: %s", order.attempt, order.reason)
            is_done = attempt.ending == _Ending.DONE
            attempt.ending = _Ending.KILLED
            if is_done:
                self.fail(order.attempt, order.reason)
            else:
                self._containers.kill(order)

    def fetch(self, order: FetchOutput) -> None:
        if order.reader in self._running and order.flow not in self._readers:
            self._readers[order.flow] = order.reader
            self._deliver(order.reader, order)

    def cancel_fetch(self, order: CancelFlow) -> None:
        reader = self._readers.pop(order.flow, None)
        if reader is not None:
            self._deliver(reader, order)

    def discard(self, order: DiscardJob) -> None:
        """Kill what is left of a job; once all is dead, remove its shuffle output."""
        if not is_job(order.job):  # what is removed is found by that name
            log.error("%r is no job: the order to discard it is ignored", order.job)
            return
        self._discarded.add(order.job)
        self._launched.pop(order.job, None)
        for attempt, running in list(self._running.items()):
            if job_of(attempt) == order.job:
                node = running.order.node
                self.kill(KillAttempt(attempt=attempt, node=node, reason="the job ended"))
        self._sweep(order.job)

    def held(self, rack: RackId) -> NodeManagerHolds:
        attempts = [
            HeldAttempt(
                attempt=name,
                node=one.order.node,
                has_slot=one.has_slot,
                killed=one.ending == _Ending.KILLED,
            )
            for name, one in self._running.items()
        ]
        return NodeManagerHolds(
            rack=rack,
            attempts=tuple(attempts),
            flows=tuple(self._readers),
            jobs=self._containers.jobs,
        )

    # What happens to processes -----------------------------------------------------------------
    def started(self, fact: AttemptStarted) -> None:
        attempt, pid = fact.attempt, fact.pid
        self._daemon.folder.record_process("Attempt", attempt, pid)
        running = self._running[attempt]
        running.pid = pid
        running.reported_s = now_s()
        self._report(fact)
        if running.peer_pid not in (None, pid):  # an impostor's first words came before this
            reason = f"process {running.peer_pid} spoke for it, which is {pid}"
            running.claim = AttemptFailed(attempt=attempt, reason=reason)
            self._kill_process(attempt, reason)

    def too_large(self, attempt: AttemptId, reason: str) -> None:
        log.warning("%s %s: killing it", attempt, reason)
        self._running[attempt].ends(_Ending.TOO_LARGE, reason)

    def ended(self, attempt: AttemptId, status: int) -> None:
        running = self._running[attempt]
        claim, how = running.claim, how_it_ended(status)
        if isinstance(claim, AttemptFailed):
            self.fail(attempt, claim.reason, no_room=claim.no_room)
        elif claim is not None and status == 0:
            running.ending = _Ending.DONE
            # None ends earlier than ``ENDING_S`` before it is due, whatever it reports.
            due_s = min(running.due_s, now_s() + ENDING_S)
            if due_s <= now_s():
                self._succeed(attempt, claim)
            else:
                self._reactor.call_at(due_s, partial(self._succeed, attempt, claim))
        elif claim is not None:
            self.fail(attempt, f"did its task, then ended with {how}")
        elif os.WIFSIGNALED(status):
            self.fail(attempt, f"killed by {how}")
        else:
            self.fail(attempt, f"ended with {how} before its task was done")

    def fail(
        self, attempt: AttemptId, reason: str, stderr: str | None = None, *, no_room: bool = False
    ) -> None:
        """It has ended without success, for ``reason`` if none was known before."""
        running = self._running[attempt]
        if running.ending == _Ending.KILLED:
            self._finish(attempt, AttemptKilled(attempt=attempt))
            return
        if stderr is None:
            stderr = tail_of(self._daemon.folder.attempt(attempt) / "stderr")
        reason = running.reason or reason
        fact = AttemptFailed(attempt=attempt, reason=reason, stderr=stderr, no_room=no_room)
        self._finish(attempt, fact)

    def _succeed(self, attempt: AttemptId, fact: AttemptSucceeded) -> None:
        running = self._running.get(attempt)
        if running is None:
            return  # it was killed before this was due
        self._report(
            AttemptDelayed(attempt=attempt, launch_s=running.launch_s, permit_s=running.permit_s)
        )
        self._finish(attempt, fact)

    # What attempts report -------------------------------------------------------------------------
    def _hello(self, request: Request[UmbilicalHello]) -> Message | None:
        message = request.message
        attempt = self._running.get(message.attempt)
        if attempt is None or attempt.peer is not None or request.peer in self._by_peer:
            raise PeerError(f"{message.attempt} is not expected here")
        sender_pid = self._server.sender(request).pid or message.pid
        if attempt.pid not in (None, sender_pid):
            raise PeerError(f"{message.attempt} is process {attempt.pid}, not {sender_pid}")
        attempt.peer, attempt.peer_pid = request.peer, sender_pid
        attempt.reported_s = now_s()
        attempt.launch_s = attempt.reported_s - attempt.received_s
        self._by_peer[request.peer] = message.attempt
        undelivered, attempt.undelivered = attempt.undelivered, []
        for order in undelivered:
            self._server.push(request.peer, order)
        return Done() if request.number else None

    def _ready(self, request: Request[AttemptReady]) -> None:
        if not self._own(request, request.message.attempt).has_slot:
            self._report(request.message)

    def _progressed(self, request: Request[AttemptProgressed]) -> None:
        self._own(request, request.message.attempt).reported_s = now_s()
        self._report(request.message)

    def _claimed(self, request: Request[AttemptSucceeded | AttemptFailed]) -> Message:
        message = request.message
        attempt = self._own(request, message.attempt)
        if isinstance(message, AttemptSucceeded) and not attempt.has_slot:
            raise PeerError(f"{message.attempt} has no slot, so it can't have done its task")
        attempt.claim = message
        return Done()

    def _due(self, request: Request[AttemptDue]) -> None:
        self._own(request, request.message.attempt).due_s = request.message.at_s

    def _waits(self, request: Request[AttemptWaits]) -> None:
        self._own(request, request.message.attempt)
        self._permits.give_back(request.message.attempt)

    def _asks(self, request: Request[AskToCompute]) -> None:
        attempt, asked_s = request.message.attempt, now_s()
        running = self._own(request, attempt)
        if not running.has_slot:
            raise PeerError(f"{attempt} has no slot to compute in")

        def may_compute() -> None:
            running.permit_s += now_s() - asked_s
            if running.pid is not None:
                self._permits.runs_as(attempt, running.pid)
            self._server.reply(request, Done())

        self._permits.ask(attempt, may_compute)

    def _fetched(self, request: Request[FlowFinished | FlowFailed]) -> None:
        message = request.message
        reader = self._readers.get(message.flow)
        if reader is None:
            return  # cancelled in the meantime
        self._own(request, reader).reported_s = now_s()
        del self._readers[message.flow]
        self._report(message)

    def _own(self, request: Request[Message], attempt: AttemptId) -> _Attempt:
        """The attempt that a message is about, which must be the one that sent it."""
        if self._by_peer.get(request.peer) != attempt:
            raise PeerError(f"{request.message.tag()} of {attempt} did not come from it")
        return self._running[attempt]

    # Endings -----------------------------------------------------------------------------------
    def _finish(self, attempt: AttemptId, fact: Event) -> None:
        running = self._running.pop(attempt)
        if running.peer is not None:
            del self._by_peer[running.peer]
        for flow in [flow for flow, reader in self._readers.items() if reader == attempt]:
            del self._readers[flow]
        work = self._daemon.folder.attempt(attempt) / WORK
        if work.exists():  # it ran programs
            shutil.rmtree(work, ignore_errors=True)
        self._report(fact)
        self._sweep(job_of(attempt))

    def _sweep(self, job: JobId) -> None:
        """Remove what a discarded job left on the disks, once none of its attempts can write."""
        if job not in self._discarded or any(job_of(attempt) == job for attempt in self._running):
            return
        self._discarded.remove(job)
        self._containers.discard(job)
        for node in self._nodes:
            shutil.rmtree(shuffle_folder(self._daemon.folder, node) / job, ignore_errors=True)
            shutil.rmtree(localized_folders(self._daemon.folder, node) / job, ignore_errors=True)

    def _check_silence(self) -> None:
        silent_since_s = now_s() - self._timeout_s
        for attempt, running in list(self._running.items()):
            waits_for_slot = not running.has_slot and running.pid is not None
            if waits_for_slot or self._containers.waits_for_permit(attempt):
                running.reported_s = now_s()
            if running.reported_s > silent_since_s or running.ending >= _Ending.TIMED_OUT:
                continue
            log.warning("%s reported nothing for %g s: killing it", attempt, self._timeout_s)
            limit = f"{self._timeout_s:g} s (liveness.task_timeout of the topology)"
            if running.pid is not None:
                running.ends(_Ending.TIMED_OUT, f"reported nothing for {limit}")
                self._kill_process(attempt, "time-out")
            else:
                running.ends(_Ending.TIMED_OUT, f"the job's module was not imported within {limit}")
                self._containers.stop_loading(job_of(attempt))

    def _kill_process(self, attempt: AttemptId, reason: str) -> None:
        node = self._running[attempt].order.node
        self._containers.kill(KillAttempt(attempt=attempt, node=node, reason=reason))

    def _deliver(self, attempt: AttemptId, order: Message) -> None:
        running = self._running[attempt]
        if running.peer is None:
            running.undelivered.append(order)
        else:
            self._server.push(running.peer, order)
