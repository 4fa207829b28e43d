"""A job's helper: imports the job's module once, then forks an attempt in a few milliseconds.

Forked of the clean helper.  It has one thread; it never touches the network.  What importing the
job's module prints goes to ``attempts/JOB.load-RACK/`` of the run folder.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from railyard.cluster.bounded import TEXT_LETTERS_MAX
from railyard.cluster.config import Daemon
from railyard.cluster.ids import AttemptId, JobId
from railyard.cluster.messages.execution import KillAttempt, LaunchAttempt, LoadJob
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.wire import Vocabulary
from railyard.cluster.processes.family import adopt_orphans, fork, kill_strays
from railyard.cluster.processes.priority import go_ahead
from railyard.cluster.shown import shortened
from railyard.jobs.model import Job
from railyard.jobs.package import load_job
from railyard.nodemanager.attempt.main import run_attempt
from railyard.nodemanager.containers.channel import Channel
from railyard.nodemanager.failures import reason_of, user_traceback
from railyard.nodemanager.memory import data_bytes, in_words, lift_limit, limit_memory
from railyard.nodemanager.messages import (
    AttemptExited,
    AttemptForked,
    AttemptNotForked,
    AttemptTooLarge,
    JobBroken,
    JobLoaded,
)
from railyard.nodemanager.treememory import TreeMemory, resident_bytes

#: How often it is looked at how much memory attempts use.
_LOOK_PERIOD_S = 0.25


def serve_job(daemon: Daemon, job: JobId, end: socket.socket) -> None:
    """Serve one job over ``end`` until the NodeManager closes it."""
    _JobHelper(daemon, job, end).serve()


class _JobHelper:
    def __init__(self, daemon: Daemon, job: JobId, end: socket.socket) -> None:
        self._daemon = daemon
        self._channel = Channel(end, Vocabulary([LoadJob, LaunchAttempt, KillAttempt]))
        self._reactor = Reactor()
        self._outputs = daemon.folder.attempt(load_folder(daemon.name, job))
        self._job: Job | None = None
        self._allowed_bytes = daemon.config.topology.compute.memory
        self._inherited_bytes = 0  #: private memory that every attempt has from the start
        self._pids: dict[AttemptId, int] = {}
        self._endings: dict[AttemptId, int] = {}  #: {attempt: a pidfd}
        self._memory: dict[AttemptId, TreeMemory] = {}  #: of those that may go on
        self._looks = False  #: a look at their memory is due

    def serve(self) -> None:
        _write_to(self._outputs)
        adopt_orphans()  # what attempts start and leave behind, also in a session of its own
        self._reactor.add(self._channel.fileno(), self._on_orders)
        self._reactor.run()
        for attempt in list(self._pids):
            self._kill(attempt)

    def _on_orders(self) -> None:
        for order in self._channel.receive():
            if isinstance(order, LoadJob):
                self._load(order)
            elif isinstance(order, LaunchAttempt):
                self._launch(order)
            elif isinstance(order, KillAttempt):
                self._kill(order.attempt)
        if self._channel.at_end:
            self._reactor.stop()

    def _load(self, order: LoadJob) -> None:
        limit_memory(data_bytes() + self._allowed_bytes)
        try:
            self._job = load_job(order.package)
        except BaseException as error:  # whatever a user's module may raise, SystemExit included
            lift_limit()
            written = user_traceback(error)
            with suppress(OSError):  # the disk that it goes to may be full
                print(written, file=sys.stderr, flush=True)
            reason = f"the job's module cannot be imported: {reason_of(error)}"
            if MemoryError in (type(error), type(error.__cause__)):
                reason += f" ({in_words(self._allowed_bytes)})"
            stderr = shortened(written, TEXT_LETTERS_MAX // 2)
            self._channel.send(JobBroken(reason=reason, stderr=stderr))
            return
        lift_limit()
        gc.collect()
        gc.freeze()
        self._inherited_bytes = data_bytes()
        go_ahead()  # so that an attempt begins to read or fetch when it should; then it falls back
        self._channel.send(JobLoaded())

    def _launch(self, order: LaunchAttempt) -> None:
        sys.stdout.flush()  # or the attempt would write it once more
        sys.stderr.flush()
        inherited_bytes = resident_bytes()
        try:
            pid = fork(partial(self._become, order))
        except OSError as error:
            reason = f"no process for it: {error.strerror}"
            self._channel.send(AttemptNotForked(attempt=order.attempt, reason=reason))
            return
        _lead_group(pid)
        self._pids[order.attempt] = pid
        self._endings[order.attempt] = ended = os.pidfd_open(pid)
        self._reactor.add(ended, lambda: self._reap(order.attempt))
        self._memory[order.attempt] = TreeMemory(pid, inherited_bytes, self._allowed_bytes)
        self._look_later()
        self._channel.send(AttemptForked(attempt=order.attempt, pid=pid))

    def _become(self, order: LaunchAttempt) -> int:
        """Run the attempt, in a forked child; returns its exit status."""
        _lead_group(0)
        adopt_orphans()  # what it starts stays its own for as long as it lives, daemons as well
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._channel.close()
        self._reactor.close()
        for ended in self._endings.values():
            os.close(ended)
        _write_to(self._daemon.folder.attempt(order.attempt))
        limit_memory(self._inherited_bytes + self._allowed_bytes)
        assert self._job is not None, "attempts are launched after JobLoaded"
        return run_attempt(self._daemon, self._job, order)

    def _look_later(self) -> None:
        if self._memory and not self._looks:
            self._looks = True
            self._reactor.call_later(_LOOK_PERIOD_S, self._look)

    def _look(self) -> None:
        """Kill the attempts that use too much memory, with what they have started."""
        self._looks = False
        excess = {attempt: memory.excess() for attempt, memory in self._memory.items()}
        for attempt, reason in excess.items():
            if reason:
                del self._memory[attempt]
                self._channel.send(AttemptTooLarge(attempt=attempt, reason=reason))
                self._kill(attempt)
        self._look_later()

    def _kill(self, attempt: AttemptId) -> None:
        """Kill an attempt and the processes that it started; nothing happens if it has ended."""
        if attempt in self._pids:
            os.killpg(self._pids[attempt], signal.SIGKILL)

    def _reap(self, attempt: AttemptId) -> None:
        ended = self._endings.pop(attempt)
        self._reactor.remove(ended)
        os.close(ended)
        self._memory.pop(attempt, None)
        self._kill(attempt)  # what it started and left behind; its own pid is still ours
        _, status = os.waitpid(self._pids.pop(attempt), 0)
        kill_strays(self._pids.values())  # also in a session of its own: it is ours now
        self._channel.send(AttemptExited(attempt=attempt, status=status))


def load_folder(daemon_name: str, job: JobId) -> str:
    """The folder, beside those of attempts, for what a job's import prints."""
    return f"{job}.load-{daemon_name.rsplit('-', 1)[-1]}"


def _write_to(folder: Path) -> None:
    """Make ``folder``, and send this process's stdout and stderr to files in it.

    Nowhere, if the disk is full or read-only: work does not end for want of a log.
    """
    for fd, name in ((1, "stdout"), (2, "stderr")):
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError:
            file = os.open(os.devnull, os.O_WRONLY)
        os.dup2(file, fd)
        os.close(file)


def _lead_group(pid: int) -> None:
    """Put a process into a group of its own; it and its parent both do, as either may be first."""
    try:
        os.setpgid(pid, pid)
    except (PermissionError, ProcessLookupError):
        return  # it is one already, and may have ended
