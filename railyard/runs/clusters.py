"""Clusters of real processes: started, and stopped whatever happens in between.

The cluster's supervisor is a process of its own session: Ctrl-C on a terminal does not reach it.
It ends when the lifeline, a pipe that this process holds open, closes: also when this process is
killed.  A cluster that is left running has no lifeline.
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
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import railyard
from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import ClusterFailed, UsageError
from railyard.cluster.machine import (
    Exhausted,
    allowed_descriptors,
    cause_of,
    exhausted,
    free_bytes,
    is_full,
)
from railyard.cluster.processes import marked, signal_member
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import Topology
from railyard.runs import home as clusters
from railyard.runs.room import require_memory
from railyard.terminal import interrupts
from railyard.terminal.interrupts import deferred

#: Roles of daemons that a cluster can't do without.
CENTRAL = ("ResourceManager", "NameNode", "NetworkEmulator")
#: Roles of all daemons; a run folder's processes are also their helpers and attempts.
DAEMONS = (*CENTRAL, "DataNode", "NodeManager", "Gateway")
#: A little more than the supervisor itself allows for starting and stopping.
_START_TIMEOUT_S = 40.0
_STOP_TIMEOUT_S = 10.0
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
        command = [
            sys.executable,
            "-m",
            "railyard.runs.daemons",
            str(self.folder.path),
        ]
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
                    self._process.wait(_STOP_TIMEOUT_S)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
            clusters.forget(self.folder)

    def _start_failure(self, reason: str) -> str:
        if free_bytes(self.folder.path) == 0:
            full = OSError(errno.ENOSPC, "")
            reason += f" ({cause_of(full, self.folder.path)})"
        names = [row["name"] for row in self.folder.deaths()] or ["supervisor"]
        return f"the cluster did not start: {reason}{log_tail(self.folder, names[0])}"


def _require_few_racks(topology: Topology) -> None:
    """Raise ``UsageError`` for more processes than anybody starts on purpose."""
    racks = topology.racks.count
    if racks > _RACKS_MAX:
        right = f"need at most {_RACKS_MAX}, or railyard simulate, which has no such limit"
        raise UsageError(f"{topology.name} has {racks} racks, with two processes each: {right}")


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
    _require_few_racks(config.topology)
    require_descriptors(config.topology)
    require_memory(config.topology, config.topology.name, tasks=0)
    started: StartedCluster | None = None
    try:
        with deferred():
            folder, alive = clusters.new_folder(current=leave_running)
            started = StartedCluster(folder, config)
            started.spawn(alive, leave_running=leave_running)
        yield started
    except BaseException:
        if started is not None:
            started.stop()
        raise


def stop_running(folder: RunFolder) -> None:
    """End a cluster that was left running, from any process, and remove its folder."""
    pid, cluster = _supervisor_pid(folder), folder.id
    if pid is not None and cluster is not None and signal_member(cluster, pid, signal.SIGTERM):
        clusters.wait_until_dead(folder, _STOP_TIMEOUT_S)
    clusters.forget(folder)


def _supervisor_pid(folder: RunFolder) -> int | None:
    """The pid of a live cluster's supervisor, which may be starting at this moment."""
    deadline_s = time.monotonic() + _STOP_TIMEOUT_S
    while time.monotonic() < deadline_s and not clusters.wait_until_dead(folder, 0):
        for row in folder.processes():
            if row["role"] == "Supervisor":
                return int(row["pid"])
        time.sleep(0.01)
    return None


def daemons_of(folder: RunFolder) -> list[dict[str, Any]]:
    """The daemons, each as it was started last: role, name, pid."""
    latest = {row["name"]: row for row in folder.processes() if row["role"] in DAEMONS}
    return list(latest.values())


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
