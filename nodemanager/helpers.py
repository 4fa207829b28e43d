"""Small processes without a ZeroMQ context, of which attempts are forked, and the channels to them.

A process that has a ZeroMQ context, with its threads and locks, cannot be forked safely.  So the
NodeManager forks a clean helper before it makes its own, and asks it for a helper for each job,
which imports the job's module once and then forks an attempt in a few milliseconds:

    NodeManager -> clean helper -> job helper (has imported the job's module) -> attempts

Each dies with its parent.  The helpers have one thread and never touch the network; whatever
attempts will need is imported here, once, and shared by all of them.

Never here: what becomes of attempts (``attempts``).
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import struct
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar, Generic, TypeVar

from railyard.cluster.config import Daemon
from railyard.cluster.errors import PeerError, shortened
from railyard.cluster.ids import AttemptId, JobId
from railyard.cluster.machine import go_ahead
from railyard.cluster.messages import (
    AttemptFailed,
    AttemptStarted,
    KillAttempt,
    LaunchAttempt,
    LoadJob,
)
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.wire import (
    LONG_BYTES_MAX,
    TEXT_LETTERS_MAX,
    Message,
    Vocabulary,
    pack,
    unpack,
)
from railyard.cluster.processes import (
    adopt_orphans,
    close_descriptors_but,
    fork,
    how_it_ended,
    kill_strays,
)
from railyard.jobs.model import Job
from railyard.jobs.package import load_job
from railyard.jobs.samples.catalog import import_all
from railyard.nodemanager.attempt.main import run_attempt
from railyard.nodemanager.limits import (
    TreeMemory,
    data_bytes,
    in_words,
    lift_limit,
    limit_memory,
    reason_of,
    resident_bytes,
    user_traceback,
)
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

import_all()  # Railyard's own jobs: 5 to 13 ms in each job's helper otherwise

Name = TypeVar("Name", AttemptId, int)

_LENGTH = struct.Struct("<I")
_READ_BYTES = 2**18
_FD = struct.Struct("i")
_FDS_ROOM = socket.CMSG_LEN(64 * _FD.size)
#: How often it is checked how much memory attempts use.
_CHECK_PERIOD_S = 0.25
_FLAGS = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC


class Channel:
    """One end of a Unix socket pair between two related processes, for typed messages.

    A message is its length (4 bytes, little endian), then what ``wire.pack`` makes of it; file
    descriptors can travel with it.  Sending blocks while the other side does not read; receiving
    never blocks.
    """

    def __init__(self, end: socket.socket, vocabulary: Vocabulary) -> None:
        self.at_end = False  #: the other side has closed, or has ended
        self._end = end
        self._vocabulary = vocabulary
        self._received = bytearray()
        self._fds: deque[int] = deque()

    def fileno(self) -> int:
        return self._end.fileno()

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send a message; to a side that has ended it is dropped: see ``at_end``."""
        packed = pack(message)
        data = _LENGTH.pack(len(packed)) + packed
        try:
            if fds:
                sent = socket.send_fds(self._end, [data], fds)
                data = data[sent:]
            self._end.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.at_end = True

    def receive(self) -> list[Message]:
        """The messages that have arrived; ``PeerError`` if one is malformed."""
        self._read_all()
        messages = []
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            if length > LONG_BYTES_MAX:
                raise PeerError(f"a message of {length:,} bytes: the most is {LONG_BYTES_MAX:,}")
            end = _LENGTH.size + length
            if len(self._received) < end:
                break
            _, message = unpack(bytes(self._received[_LENGTH.size : end]), self._vocabulary)
            del self._received[:end]
            messages.append(message)
        return messages

    def take_fd(self) -> int:
        """The oldest descriptor that came with a message and was not taken yet."""
        if not self._fds:
            raise PeerError("a message came without its file descriptor")
        return self._fds.popleft()

    def close(self) -> None:
        self._end.close()
        while self._fds:
            os.close(self._fds.popleft())

    def _read_all(self) -> None:
        while not self.at_end:
            try:
                # Not socket.recv_fds, which takes flags and does not pass them on.
                data, ancillary, _, _ = self._end.recvmsg(_READ_BYTES, _FDS_ROOM, _FLAGS)
            except BlockingIOError:
                return
            except ConnectionResetError:
                data, ancillary = b"", []
            for level, kind, content in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    whole = len(content) - len(content) % _FD.size
                    self._fds.extend(fd for (fd,) in _FD.iter_unpack(content[:whole]))
            self._received += data
            self.at_end = not data


class _Helper(Generic[Name]):
    """A process that forks others as its channel orders, and watches each until it has ended."""

    takes: ClassVar[tuple[type[Message], ...]]  #: orders
    makes_groups: ClassVar[bool]  #: whether each child leads a process group, killed with it

    def __init__(self, daemon: Daemon, end: socket.socket) -> None:
        self._daemon = daemon
        self._channel = Channel(end, Vocabulary(self.takes))
        self._reactor = Reactor()
        self._pids: dict[Name, int] = {}
        self._pidfds: dict[Name, int] = {}

    def serve(self) -> None:
        """Fork and reap until the process that gives orders has ended."""
        adopt_orphans()  # what children start and leave behind, also in a session of its own
        self._reactor.add(self._channel.fileno(), self._on_orders)
        self._reactor.run()
        for name in self._pids:
            self._kill(name)
        for pid in self._pids.values():
            os.waitpid(pid, 0)

    def _on_orders(self) -> None:
        for order in self._channel.receive():
            self._carry_out(order)
        if self._channel.at_end:
            self._reactor.stop()

    def _carry_out(self, order: Message) -> None:
        raise NotImplementedError

    def _fork(
        self, name: Name, main: Callable[[], int | None], on_end: Callable[[int], None]
    ) -> int:
        """Run ``main`` in a child; ``on_end`` gets its wait status.  Returns the process id."""

        def live() -> int | None:
            if self.makes_groups:
                _lead_group(0)
            return main()

        pid = fork(live)
        if self.makes_groups:
            _lead_group(pid)
        self._pids[name] = pid
        self._pidfds[name] = pidfd = os.pidfd_open(pid)
        self._reactor.add(pidfd, partial(self._reap, name, on_end))
        return pid

    def _kill(self, name: Name) -> None:
        """Kill a child, with the processes of its group; nothing happens if it has ended."""
        if name in self._pids:
            (os.killpg if self.makes_groups else os.kill)(self._pids[name], signal.SIGKILL)

    def _reap(self, name: Name, on_end: Callable[[int], None]) -> None:
        pidfd = self._pidfds.pop(name)
        self._reactor.remove(pidfd)
        os.close(pidfd)
        self._kill(name)  # what it started and left behind; its own pid is still ours
        _, status = os.waitpid(self._pids.pop(name), 0)
        kill_strays(self._pids.values())  # also in a session of its own: it is ours now
        on_end(status)


class _JobHelper(_Helper[AttemptId]):
    """Serves one job; what importing its module prints goes to ``attempts/JOB.load-RACK/``."""

    takes = (LoadJob, LaunchAttempt, KillAttempt)
    makes_groups = True

    def __init__(self, daemon: Daemon, job: JobId, end: socket.socket) -> None:
        super().__init__(daemon, end)
        self._outputs = daemon.folder.attempt(load_folder(daemon.name, job))
        self._job: Job | None = None
        self._allowed_bytes = daemon.config.topology.compute.memory
        self._inherited_bytes = 0  #: private memory that every attempt has from the start
        self._memory: dict[AttemptId, TreeMemory] = {}  #: of those that may go on
        self._check_is_due = False  #: a check of their memory

    def serve(self) -> None:
        _write_to(self._outputs)
        super().serve()

    def _carry_out(self, order: Message) -> None:
        if isinstance(order, LoadJob):
            self._load(order)
        elif isinstance(order, LaunchAttempt):
            self._launch(order)
        elif isinstance(order, KillAttempt):
            self._kill(order.attempt)

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
        attempt = order.attempt
        sys.stdout.flush()  # or the attempt would write it once more
        sys.stderr.flush()
        inherited_bytes = resident_bytes()
        try:
            pid = self._fork(attempt, partial(self._become, order), partial(self._ended, attempt))
        except OSError as error:
            reason = f"no process for it: {error.strerror}"
            self._channel.send(AttemptFailed(attempt=attempt, reason=reason))
            return
        self._memory[attempt] = TreeMemory(pid, inherited_bytes, self._allowed_bytes)
        self._check_memory_later()
        self._channel.send(AttemptStarted(attempt=attempt, pid=pid))

    def _become(self, order: LaunchAttempt) -> int:
        adopt_orphans()  # what it starts stays its own for as long as it lives, daemons as well
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        self._channel.close()
        self._reactor.close()
        for pidfd in self._pidfds.values():
            os.close(pidfd)
        _write_to(self._daemon.folder.attempt(order.attempt))
        limit_memory(self._inherited_bytes + self._allowed_bytes)
        assert self._job is not None, "attempts are launched after JobLoaded"
        return run_attempt(self._daemon, self._job, order)

    def _check_memory_later(self) -> None:
        if self._memory and not self._check_is_due:
            self._check_is_due = True
            self._reactor.call_later(_CHECK_PERIOD_S, self._check_memory)

    def _check_memory(self) -> None:
        self._check_is_due = False
        excess = {attempt: memory.excess() for attempt, memory in self._memory.items()}
        for attempt, reason in excess.items():
            if reason:
                del self._memory[attempt]
                self._channel.send(AttemptTooLarge(attempt=attempt, reason=reason))
                self._kill(attempt)
        self._check_memory_later()

    def _ended(self, attempt: AttemptId, status: int) -> None:
        self._memory.pop(attempt, None)
        self._channel.send(AttemptExited(attempt=attempt, status=status))


def load_folder(daemon_name: str, job: JobId) -> str:
    """The folder, beside those of attempts, for what a job's import prints."""
    return f"{job}.load-{daemon_name.rsplit('-', 1)[-1]}"


def _write_to(folder: Path) -> None:
    """Send stdout and stderr to files in ``folder``; nowhere, if the disk is full or read-only."""
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
    with suppress(PermissionError, ProcessLookupError):  # it is one already, and may have ended
        os.setpgid(pid, pid)


class _CleanHelper(_Helper[int]):
    """Forks the helpers of jobs, each of which has a number."""

    takes = (ForkJobHelper, KillJobHelper)
    makes_groups = False  # a job's module may call setsid, which a group's leader can't

    def _carry_out(self, order: Message) -> None:
        if isinstance(order, ForkJobHelper):
            self._fork_helper(order.helper, order.job)
        elif isinstance(order, KillJobHelper):
            self._kill(order.helper)

    def _fork_helper(self, helper: int, job: JobId) -> None:
        def help_job() -> None:
            self._channel.close()
            close_descriptors_but({end.fileno()})
            name = f"{self._daemon.name}-{job}"
            # Here, for it is in the list before any attempt that it forks.
            self._daemon.folder.record_process("JobHelper", name, os.getpid())
            _JobHelper(self._daemon, job, end).serve()

        def ended(status: int) -> None:
            self._channel.send(JobHelperEnded(helper=helper, how=how_it_ended(status)))

        with socket.socket(fileno=self._channel.take_fd()) as end:
            try:
                pid = self._fork(helper, help_job, ended)
            except OSError as error:
                how = f"no process for it: {error.strerror}"
                self._channel.send(JobHelperEnded(helper=helper, how=how))
                return
        self._channel.send(JobHelperForked(helper=helper, pid=pid))


def start_helper(daemon: Daemon) -> tuple[int, Channel]:
    """Fork the clean helper, before there are threads or a ZeroMQ context: its pid and channel."""
    ours, theirs = socket.socketpair()

    def help_out() -> None:
        ours.close()
        close_descriptors_but({theirs.fileno()})
        # Ctrl-C goes to the whole terminal; who gets that ends us, too.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        gc.collect()
        gc.freeze()  # collections in the children then leave the shared pages alone
        _CleanHelper(daemon, theirs).serve()

    pid = fork(help_out)
    theirs.close()
    daemon.folder.record_process("Helper", f"{daemon.name}-helper", pid)
    return pid, Channel(ours, Vocabulary([JobHelperForked, JobHelperEnded]))
