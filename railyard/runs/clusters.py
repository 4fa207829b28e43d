"""Clusters of real processes, started and stopped whatever happens; and sessions with them.

The cluster's supervisor is a process of its own session: Ctrl-C on a terminal does not reach it.
It ends when the lifeline, a pipe that this process holds open, closes: also when this process is
killed.  A cluster that is left running has no lifeline.

While a command waits, its session reads the run folder ten times a second, so that it reports which
daemon died, not just a request without an answer.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import railyard
from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import ClusterFailed, PeerLost, UsageError
from railyard.cluster.machine import (
    Exhausted,
    allowed_descriptors,
    cause_of,
    exhausted,
    free_bytes,
    is_full,
)
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.processes import allow_many_descriptors, marked
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.supervisor import STARTED_AGAIN
from railyard.cluster.topology import Topology
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from railyard.runs.home import (
    CENTRAL,
    STOP_TIMEOUT_S,
    current_folder,
    dead_current_folder,
    forget,
    new_folder,
    wait_until_dead,
)
from railyard.runs.room import require_memory
from railyard.terminal import interrupts
from railyard.terminal.interrupts import deferred

#: A little more than the supervisor itself allows for starting.
_START_TIMEOUT_S = 40.0
_LOG_TAIL_LINES = 12
#: Twenty times those of the largest published set-up.
_RACKS_MAX = 1000
#: Open files of a daemon: by itself, and for each rack that talks to it.
_DESCRIPTORS = 64
_DESCRIPTORS_A_RACK = 4


class StartedCluster:
    """A cluster that this process has started."""

    def __init__(self, folder: RunFolder, config: ClusterConfig) -> None:
        self.folder = folder
        self.config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._lifeline: int | None = None

    def spawn(self, alive: int, *, leave_running: bool) -> None:
        """Start the supervisor; ``alive`` is the locked file that it is to keep open.

        Raises ``ClusterFailed`` if the disk is full, for instance.
        """
        inherited = [alive]
        try:
            self._spawn(inherited, leave_running=leave_running)
        except OSError as error:
            of_disk = cause_of(error, self.folder.path)
            why = of_disk if is_full(error) else exhausted(error) or of_disk
            raise ClusterFailed(f"the cluster did not start: {why}") from error
        finally:
            for fd in inherited:
                os.close(fd)

    def _spawn(self, inherited: list[int], *, leave_running: bool) -> None:
        self.config.save(self.folder)
        if self.config.transport == "tcp":
            from railyard.cluster.messaging.access import Keys

            Keys.create(self.folder.keys)
        command = [sys.executable, "-m", "railyard.runs.daemons", str(self.folder.path)]
        if not leave_running:
            theirs, self._lifeline = os.pipe()
            command.append(str(theirs))
            inherited.append(theirs)
        assert self.folder.id is not None, "the folder was made for it"
        one_thread = {"OPENBLAS_NUM_THREADS": "1"}  # daemons do not need a thread pool each
        with (
            open(self.folder.supervisor_events, "wb") as events,
            open(self.folder.log("supervisor"), "ab") as log,
        ):
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=events,
                stderr=log,
                cwd=Path(railyard.__file__).parent.parent,  # so that the very same code is imported
                env=marked(os.environ | one_thread, self.folder.id),
                pass_fds=inherited,
                start_new_session=True,
            )

    def wait_until_ready(self) -> None:
        """Wait until all daemons are registered; raises ``ClusterFailed``."""
        assert self._process is not None
        deadline_s = time.monotonic() + _START_TIMEOUT_S
        while True:
            ended = self._process.poll() is not None
            for said in supervisor_events(self.folder):
                if said["event"] == "ready":
                    return
                if said["event"] == "failed":
                    raise ClusterFailed(self._start_failure(said["reason"]))
            if ended:
                raise ClusterFailed(self._start_failure("its supervisor ended"))
            if time.monotonic() > deadline_s:
                raise ClusterFailed(self._start_failure("it takes too long"))
            interrupts.check()
            time.sleep(0.01)

    def stop(self) -> None:
        """Stop the cluster and remove its folder; processes that do not end in time are killed."""
        with deferred():
            if self._lifeline is not None:
                os.close(self._lifeline)
                self._lifeline = None
            if self._process is not None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.send_signal(signal.SIGTERM)
                try:
                    self._process.wait(STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            forget(self.folder)

    def _start_failure(self, reason: str) -> str:
        if free_bytes(self.folder.path) == 0:
            full = OSError(errno.ENOSPC, "")
            reason += f" ({cause_of(full, self.folder.path)})"
        names = [row["name"] for row in self.folder.deaths()] or ["supervisor"]
        return f"the cluster did not start: {reason}{log_tail(self.folder, names[0])}"


def require_descriptors(topology: Topology) -> None:
    """Raise ``Exhausted`` if this system's limit on open files is below what a cluster takes.

    The NameNode has a connection from each slot and several from each rack.
    """
    need = _DESCRIPTORS + topology.slots + _DESCRIPTORS_A_RACK * topology.racks.count
    has = allowed_descriptors()
    if has < need:
        what = f"{topology.name} has {topology.racks.count} racks and {topology.slots} slots"
        right = f"need at least {need} open files a process, not {has} (ulimit -n)"
        raise Exhausted(f"{what}: {right}")


def supervisor_events(folder: RunFolder) -> Iterator[dict[str, str]]:
    """The events that a cluster's supervisor has reported so far."""
    for line in folder.supervisor_events.read_text(encoding="utf-8").splitlines(keepends=True):
        with contextlib.suppress(json.JSONDecodeError):  # cut short: for now, or by a full disk
            yield json.loads(line)


@contextmanager
def own_cluster(config: ClusterConfig) -> Iterator[StartedCluster]:
    """A cluster for as long as the block runs; it is being started when the block begins."""
    with _starting(config, leave_running=False) as started:
        yield started
    started.stop()


def leave_running(config: ClusterConfig) -> StartedCluster:
    """Start a cluster that stays when this process ends, as the current one."""
    with _starting(config, leave_running=True) as started:
        started.wait_until_ready()
    return started


@contextmanager
def _starting(config: ClusterConfig, *, leave_running: bool) -> Iterator[StartedCluster]:
    """Start a cluster, which is stopped if the block breaks off."""
    topology, racks = config.topology, config.topology.racks.count
    if racks > _RACKS_MAX:
        right = f"need at most {_RACKS_MAX}, or railyard simulate, which has no such limit"
        raise UsageError(f"{topology.name} has {racks} racks, with two processes each: {right}")
    require_descriptors(topology)
    require_memory(topology, topology.name, tasks=0)
    started: StartedCluster | None = None
    try:
        with deferred():
            folder, alive = new_folder(current=leave_running)
            started = StartedCluster(folder, config)
            started.spawn(alive, leave_running=leave_running)
        yield started
    except BaseException:
        if started is not None:
            started.stop()
        raise


def log_tail(folder: RunFolder, name: str) -> str:
    """The last lines of a daemon's log, set off from the words before them; "" if it has none."""
    try:
        lines = folder.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    if not lines:
        return ""
    shown = "\n    ".join(lines[-_LOG_TAIL_LINES:])
    return f"\n  the end of the log of {name}:\n    {shown}"


# Sessions -----------------------------------------------------------------------------------------
_WATCH_PERIOD_S = 0.1
#: How long after a lost connection the supervisor may take to say which daemon died.
_DEATH_NOTICE_S = 1.5


class Session:
    """Links to a cluster's daemons; notices when one of them dies."""

    def __init__(self, folder: RunFolder, config: ClusterConfig) -> None:
        require_descriptors(config.topology)
        allow_many_descriptors()
        self.folder = folder
        self.config = config
        self.transport = Transport(folder)
        self.reactor = self.transport.reactor
        #: called with {"role":, "name":, "pid":, "how":, "next":} when a daemon has died
        self.on_death: Callable[[dict[str, Any]], None] = lambda _: None
        self._links: dict[str, LastingLink] = {}
        self._deaths_before = self._deaths_seen = len(folder.deaths())
        self.reactor.call_every(_WATCH_PERIOD_S, self._watch)

    def link(self, name: str) -> LastingLink:
        """The link to a central daemon that single requests share."""
        if name not in self._links:
            self._links[name] = LastingLink(self.transport, name)
        return self._links[name]

    def status(self) -> ClusterStatus:
        """What the ResourceManager knows of its nodes and jobs."""
        return self.link("resourcemanager").ask(GetClusterStatus(), ClusterStatus)

    def deaths(self) -> list[dict[str, Any]]:
        """The daemons that died during this session: role, name, pid, how, next."""
        return self.folder.deaths()[self._deaths_before :]

    def explain(self, lost: PeerLost) -> Exception:
        """Why a connection was lost: the death of a daemon, if there was one."""
        deadline_s = time.monotonic() + _DEATH_NOTICE_S
        while time.monotonic() < deadline_s:
            try:
                self._watch()
            except ClusterFailed as death:
                return death
            time.sleep(0.02)
        return lost

    def _watch(self) -> None:
        interrupts.check()
        deaths = self.folder.deaths()
        for death in deaths[self._deaths_seen :]:
            self._deaths_seen += 1
            if death["role"] in CENTRAL and death["next"] != STARTED_AGAIN:
                who = f"the {death['role']} (process {death['pid']}) died: {death['how']}"
                log = log_tail(self.folder, death["name"])
                raise ClusterFailed(f"{who}; the cluster can't go on without it{log}")
            self.on_death(death)
        if wait_until_dead(self.folder, 0):
            raise ClusterFailed(_how_it_stopped(self.folder))


def _how_it_stopped(folder: RunFolder) -> str:
    try:
        if not any(said["event"] == "stopped" for said in supervisor_events(folder)):
            return "the cluster's supervisor died, and all of the cluster with it"
    except FileNotFoundError:
        pass  # whoever stopped it has removed the folder
    return "the cluster was stopped"


@contextmanager
def connected(folder: RunFolder, config: ClusterConfig) -> Iterator[Session]:
    """A session for as long as the block runs; a lost connection is explained."""
    session = Session(folder, config)
    try:
        yield session
    except PeerLost as lost:
        raise session.explain(lost) from lost
    finally:
        session.transport.close()


@contextmanager
def running_session() -> Iterator[Session]:
    """A session with the cluster that is up; raises ``UsageError`` if there is none."""
    folder = current_folder()
    if folder is None:
        raise UsageError("no cluster is up: railyard up starts one" + _what_became_of_it())
    with connected(folder, ClusterConfig.load(folder)) as session:
        yield session


@contextmanager
def own_session(config: ClusterConfig) -> Iterator[Session]:
    """A session with a cluster that is started for it alone."""
    with own_cluster(config) as cluster:
        cluster.wait_until_ready()
        with connected(cluster.folder, config) as session:
            yield session


def _what_became_of_it() -> str:
    folder = dead_current_folder()
    for death in folder.deaths() if folder else []:
        if death["role"] in CENTRAL and death["next"] != STARTED_AGAIN:
            return f" (the last one ended when its {death['role']} died: {death['how']})"
    return ""
