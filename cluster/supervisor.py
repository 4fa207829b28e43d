"""The supervisor: forks a cluster's daemons from one parent, restarts them, and stops them all.

The parent has imported the daemons' modules and has made no ZeroMQ context.  It reports events to
the process that started it, one JSON object per line on its standard output:

    {"event": "ready"}                                      all daemons are up and registered
    {"event": "died", "role":, "name":, "pid":, "how":,     a daemon died;
                      "next":}                              what happens next
    {"event": "started-again", "role":, "name":, "pid":}    a daemon that died was restarted
    {"event": "suspended", "role":, "name":, "pid":}        a daemon was stopped (SIGSTOP)
    {"event": "resumed", "role":, "name":, "pid":}          it was continued
    {"event": "failed", "reason":}                          the cluster could not be started
    {"event": "stopped"}                                    all processes have ended

A daemon that dies is restarted, at once the first time, after longer and longer pauses if it keeps
dying, until it has died too often; without a critical one the cluster ends.  A daemon with much to
replay has a standby, which follows its state and takes its place.  The cluster also ends when the
supervisor gets SIGTERM, and when its lifeline (a pipe held open by the process that started it)
closes.  A daemon that was stopped is waited for.
"""

from __future__ import annotations

import enum
import importlib
import json
import logging
import math
import os
import select
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from railyard.cluster import processes
from railyard.cluster.config import DEATHS_MAX, NOT_AGAIN, WITHIN_S, ClusterConfig, Daemon
from railyard.cluster.machine import freeze_objects
from railyard.cluster.messaging.access import take_role
from railyard.cluster.runfolder import RunFolder

log = logging.getLogger(__name__)
#: The pause before the first restart; each further death within ``WITHIN_S`` doubles it.
PAUSE_S = 0.1
PAUSE_S_MAX = 5.0
CHECK_PERIOD_S = 5.0  #: of checks whether a daemon wants a standby
_STEP_PERIOD_S = 0.5  #: of steps of a standby
START_TIMEOUT_S = 30.0
STOP_GRACE_S = 2.0
_FAILED_GRACE_S = 0.5  #: the same after a failure, when the user is waiting for the error
#: Capacity of a pipe: a read of so much never ends within a name.
_PIPE_BYTES = 2**20
_LOST = "the cluster can't go on without it"
#: What happens next to a daemon that died, in ``deaths.jsonl``.
STARTED_AGAIN = "it is started again"


class Restarts:
    """Counts the deaths of each daemon and decides about its restart."""

    def __init__(self, deaths_max: int = DEATHS_MAX, within_s: float = WITHIN_S) -> None:
        self.deaths_max = deaths_max
        self.within_s = within_s
        #: {daemon: times of its deaths within ``within_s``, oldest first}
        self._deaths_s: dict[str, deque[float]] = {}

    def pause_s(self, name: str, now_s: float) -> float | None:
        """Record a death; return the pause before the restart, None to give the daemon up."""
        deaths_s = self._deaths_s.setdefault(name, deque())
        deaths_s.append(now_s)
        while deaths_s[0] <= now_s - self.within_s:
            deaths_s.popleft()
        if len(deaths_s) >= self.deaths_max:
            return None
        return min(PAUSE_S * 2.0 ** (len(deaths_s) - 1), PAUSE_S_MAX)


class Standbys:
    """The standbys of a cluster's daemons, at most one each."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}  #: {daemon: (process id, pipe to it)}
        self._failed: set[str] = set()  #: daemons whose standby has died

    @property
    def pids(self) -> Collection[int]:
        return {pid for pid, _ in self._known.values()}

    def may_have(self, name: str) -> bool:
        """Whether a daemon has none and may have one: if one has failed, the next would."""
        return name not in self._known and name not in self._failed

    def start(self, name: str, main: Callable[[int], int | None]) -> None:
        """Start one; ``main`` gets a pipe that is readable once it is needed."""
        readable, writable = os.pipe()
        try:
            self._known[name] = processes.fork(partial(main, readable)), writable
        except OSError:  # no process for it
            os.close(writable)
            raise
        finally:
            os.close(readable)

    def take(self, name: str) -> int | None:
        """Have a daemon's standby take its place; returns its process id, None if there is none."""
        pid, writable = self._known.pop(name, (None, -1))
        if pid is not None:
            with suppress(BrokenPipeError):  # it has just died, as will be noticed
                os.write(writable, b"\0")
            os.close(writable)
        return pid

    def note_death(self, pid: int) -> None:
        for name, (known, writable) in list(self._known.items()):
            if known == pid:
                log.warning("the standby of %s has died: it has none any more", name)
                del self._known[name]
                self._failed.add(name)
                os.close(writable)


def wait_until_needed(name: str, needed: int, step: Callable[[], object]) -> None:
    """In a standby: call ``step`` now and then, until it is to take the daemon's place."""
    take_role("standby")
    while not select.select([needed], [], [], _STEP_PERIOD_S)[0]:
        step()
    os.close(needed)
    take_role(name)


@dataclass(frozen=True, kw_only=True)
class DaemonSpec:
    """A daemon to be started.

    The cluster ends when a ``critical`` one has died and is not restarted.
    """

    role: str
    name: str
    main: Callable[[Daemon], int | None]  #: returns its exit status
    critical: bool
    #: a module that it alone needs: imported before its first fork, so once for all its processes,
    #: and after those of the daemons before it, which do not have it in memory
    module: str = ""
    #: whether it has so much to replay that a standby should follow it; None: never
    wants_standby: Callable[[RunFolder], bool] | None = None


class Ending(enum.IntEnum):
    """Why a cluster ended: the supervisor's exit status."""

    ASKED = 0
    DAEMON_DIED = 3
    START_FAILED = 4


@dataclass(eq=False)
class Supervisor:
    """Runs one cluster from its start to its end."""

    _folder: RunFolder
    _config: ClusterConfig
    _specs: list[DaemonSpec]
    lifeline: int | None = None
    restarts: Restarts = field(default_factory=Restarts)
    start_timeout_s: float = START_TIMEOUT_S

    def __post_init__(self) -> None:
        self._running: dict[int, DaemonSpec] = {}  #: {process id: its daemon}
        self._unready: dict[str, float] = {}  #: {name: deadline by which it must be ready}
        self._started = False  #: whether all daemons have been ready once
        self._due: list[tuple[float, DaemonSpec]] = []  #: (time, daemon to be restarted)
        self._standbys = Standbys()
        standbys = any(spec.wants_standby for spec in self._specs)
        follows = self._config.restart != "never" and standbys
        self._check_s = time.monotonic() + CHECK_PERIOD_S if follows else math.inf
        self._ready_in, self._ready_out = os.pipe()

    def run(self) -> Ending:
        processes.adopt_orphans()
        processes.allow_many_descriptors()
        # Before the first fork, so that a child that ends at once is noticed too.
        wake = processes.wake_on_signals((signal.SIGTERM, signal.SIGINT, signal.SIGCHLD))
        self._folder.record_process("Supervisor", "supervisor", os.getpid())
        freeze_objects()
        grace_s = STOP_GRACE_S
        try:
            for spec in self._specs:
                self._fork(spec)
            ending = self._watch(wake)
            if ending is not Ending.ASKED:
                grace_s = _FAILED_GRACE_S
            return ending
        finally:
            self._take_down(grace_s)
            self._report(event="stopped")

    # Starting ----------------------------------------------------------------------------------
    def _fork(self, spec: DaemonSpec) -> int:
        if spec.module and spec.module not in sys.modules:
            importlib.import_module(spec.module)
            freeze_objects()
        pid = self._standbys.take(spec.name) or processes.fork(partial(self._become, spec))
        self._running[pid] = spec
        self._unready[spec.name] = time.monotonic() + self.start_timeout_s
        self._folder.record_process(spec.role, spec.name, pid)
        return pid

    def _become(self, spec: DaemonSpec, needed: int | None = None) -> int | None:
        """Run the daemon in a forked child; returns its exit status.

        ``needed``: of a standby, a pipe that is readable once it is needed.
        """
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        self._write_to_log(spec.name)
        take_role(spec.name)
        # The lock that marks the cluster as alive, and the lifeline, are only the supervisor's.
        kept = {self._ready_out} if needed is None else {self._ready_out, needed}
        processes.close_descriptors_but(kept)
        wait = None if needed is None else partial(wait_until_needed, spec.name, needed)
        return spec.main(
            Daemon(
                role=spec.role,
                name=spec.name,
                folder=self._folder,
                config=self._config,
                ready=partial(self._say_ready, spec.name),
                wait_until_needed=wait,
            )
        )

    def _say_ready(self, name: str) -> None:
        os.write(self._ready_out, f"{name}\n".encode())  # at once: it is short
        os.close(self._ready_out)

    def _write_to_log(self, name: str) -> None:
        log = os.open(self._folder.log(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.close(nothing)
        line = "%(asctime)s %(levelname)s %(name)s: %(message)s"
        logging.basicConfig(level=logging.INFO, format=line)

    # Watching ----------------------------------------------------------------------------------
    def _watch(self, wake: int) -> Ending:
        watched = [wake, self._ready_in]
        if self.lifeline is not None:
            watched.append(self.lifeline)
        while True:
            readable, _, _ = select.select(watched, [], [], self._wait_s())
            if self.lifeline in readable and not os.read(self.lifeline, 1):
                return Ending.ASKED
            if self._ready_in in readable:
                self._note_ready(os.read(self._ready_in, _PIPE_BYTES))
            ending: Ending | None = None
            if wake in readable:
                signals = os.read(wake, 4096)
                if signal.SIGTERM in signals or signal.SIGINT in signals:
                    return Ending.ASKED
                ending = self._note_deaths()
            ending = ending or self._deal_with_late()
            if ending is not None:
                return ending
            self._start_again()
            self._start_standbys()

    def _wait_s(self) -> float | None:
        due_s = min([*self._unready.values(), *(due_s for due_s, _ in self._due), self._check_s])
        return None if due_s == math.inf else max(0.0, due_s - time.monotonic())

    def _note_ready(self, names: bytes) -> None:
        for name in names.decode().split():
            self._unready.pop(name, None)
        if not self._unready and not self._started:
            self._started = True
            self._report(event="ready")

    def _note_deaths(self) -> Ending | None:
        """Report each daemon that has ended; return how the cluster ends if one was critical."""
        ending = None
        # reaped, so a process is certainly dead before it is replaced
        for pid, status in processes.reap(os.WUNTRACED | os.WCONTINUED):
            if os.WIFSTOPPED(status) or os.WIFCONTINUED(status):
                self._note_stop(pid, "suspended" if os.WIFSTOPPED(status) else "resumed")
                continue
            spec = self._running.pop(pid, None)
            self._standbys.note_death(pid)
            if spec is None:
                continue  # an orphan that was adopted: see below
            how = processes.how_it_ended(status)
            with suppress(OSError):  # read-only; nobody is to connect to the dead daemon's port
                self._folder.port(spec.name).unlink()
            was_unready = self._unready.pop(spec.name, None) is not None
            failed = not self._started and (was_unready or spec.critical)
            next_ = "the start has failed" if failed else self._what_next(spec, status)
            self._folder.record_death(spec.role, spec.name, pid, how, next_)
            self._report(event="died", role=spec.role, name=spec.name, pid=pid, how=how, next=next_)
            if failed:
                self._report(event="failed", reason=f"{spec.name} ended during the start: {how}")
                ending = Ending.START_FAILED
            elif spec.critical and next_ != STARTED_AGAIN:
                ending = ending or Ending.DAEMON_DIED
        # Kill what a daemon left behind, including processes that its attempts started in other
        # sessions: each orphan is adopted when its parent ends, and SIGCHLD brings us here.
        processes.signal_strays({*self._running, *self._standbys.pids})
        return ending

    def _note_stop(self, pid: int, event: str) -> None:
        """Report that a daemon was stopped, which it may be for good, or that it goes on."""
        if (spec := self._running.get(pid)) is not None:
            log.warning("%s (process %d) was %s", spec.name, pid, event)
            self._report(event=event, role=spec.role, name=spec.name, pid=pid)

    def _what_next(self, spec: DaemonSpec, status: int) -> str:
        """Schedule the restart of a daemon that died; return in words what happens next."""
        if self._config.restart == "never" or os.waitstatus_to_exitcode(status) == NOT_AGAIN:
            return _LOST if spec.critical else "it is not started again"
        now_s = time.monotonic()
        pause_s = self.restarts.pause_s(spec.name, now_s)
        if pause_s is None:
            times = f"{self.restarts.deaths_max} times within {self.restarts.within_s:g} s"
            log.error("%s has died %s: it is not started again", spec.name, times)
            lost = f"; {_LOST}" if spec.critical else ""
            return f"it is not started again, having died {times}{lost}"
        log.warning("%s has died: it is started again in %g s", spec.name, pause_s)
        self._due.append((now_s + pause_s, spec))
        return STARTED_AGAIN

    def _start_again(self) -> None:
        """Restart the daemons that are due, after killing all that they had started."""
        now_s = time.monotonic()
        due = [spec for due_s, spec in self._due if due_s <= now_s]
        if not due:
            return
        self._due = [(due_s, spec) for due_s, spec in self._due if due_s > now_s]
        # Attempts of a NodeManager that died, and what they started.
        processes.kill_strays({*self._running, *self._standbys.pids})
        for spec in due:
            try:
                pid = self._fork(spec)
            except OSError as error:
                log.error("%s: no process for it: %s", spec.name, error.strerror)
                self._due.append((now_s + PAUSE_S_MAX, spec))
            else:
                self._report(event="started-again", role=spec.role, name=spec.name, pid=pid)

    def _start_standbys(self) -> None:
        if time.monotonic() < self._check_s:
            return
        self._check_s = time.monotonic() + CHECK_PERIOD_S
        for spec in self._running.values():
            wants = spec.wants_standby
            if wants is None or not self._standbys.may_have(spec.name) or not wants(self._folder):
                continue
            with suppress(OSError):  # no process for it: at another time
                self._standbys.start(spec.name, partial(self._become, spec))

    def _deal_with_late(self) -> Ending | None:
        """Handle daemons that missed their deadline: fail the start, or kill and restart them."""
        now_s = time.monotonic()
        late = sorted(name for name, until_s in self._unready.items() if until_s <= now_s)
        if not late:
            return None
        if not self._started:
            reason = f"not up within {self.start_timeout_s:g} s: {', '.join(late)}"
            self._report(event="failed", reason=reason)
            return Ending.START_FAILED
        for pid, spec in self._running.items():
            if spec.name in late:
                log.error("%s was not up within %g s: killing it", spec.name, self.start_timeout_s)
                os.kill(pid, signal.SIGKILL)
                del self._unready[spec.name]
        return None

    def _report(self, **what: object) -> None:
        # nobody may read it any more, as with a cluster that was left running
        with suppress(OSError, ValueError):
            print(json.dumps(what), flush=True)

    # Ending ------------------------------------------------------------------------------------
    def _take_down(self, grace_s: float) -> None:
        """Send SIGTERM to the daemons, then kill what is left of them and of their children."""
        for pid in self._running:
            os.kill(pid, signal.SIGTERM)
        deadline_s = time.monotonic() + grace_s
        while self._running and time.monotonic() < deadline_s:
            for pid, _ in processes.reap():
                self._running.pop(pid, None)
            time.sleep(0.002)
        processes.kill_descendants()
        for entry in self._folder.sockets.iterdir():
            with suppress(OSError):
                entry.unlink()
        if self.lifeline is not None and _at_end(self.lifeline):
            self._folder.remove()  # the process that started the cluster is gone and can't do it


def _at_end(fd: int) -> bool:
    readable, _, _ = select.select([fd], [], [], 0)
    return bool(readable) and not os.read(fd, 1)
