"""A small cluster of real daemons for tests, which can be killed and started again.

A launcher is forked before the test makes any ZeroMQ context; all daemons are its children, so
that one can also be started in the middle of a test.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import socket
import time
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from railyard.cluster.config import ClusterConfig, Daemon
from railyard.cluster.messaging.access import take_role
from railyard.cluster.processes import die_with_parent
from railyard.cluster.runfolder import RunFolder
from tests.waiting import wait_for

Main = Callable[[Daemon], None]


class MiniCluster:
    """Daemons by name.  Use it as a context manager; on leaving it all of them are gone."""

    def __init__(self, parent: Path, config: ClusterConfig, mains: dict[str, Main]) -> None:
        self.folder = RunFolder.create(parent)
        self.config = config = msgspec.structs.replace(config, for_tests=True)
        self.pids: dict[str, int] = {}
        self._mains = mains
        self._near, far = socket.socketpair()
        test_pid = os.getpid()
        self._launcher = os.fork()
        if self._launcher == 0:
            self._near.close()
            _launch_on_request(far, test_pid, self.folder, config, mains)
        far.close()
        self._replies = self._near.makefile("r")

    def __enter__(self) -> MiniCluster:
        self.start(*self._mains)
        return self

    def __exit__(self, *_: object) -> None:
        self._near.close()
        self._replies.close()
        os.waitpid(self._launcher, 0)
        self.folder.remove()

    def start(self, *names: str) -> None:
        """Start daemons and wait until all of them are ready."""
        for name in names:
            self._near.sendall(f"{name}\n".encode())
        waiting = set(names)
        while waiting or not set(names) <= set(self.pids):  # which of the two comes first is open
            line = self._replies.readline()
            assert line, f"the launcher is gone; not ready: {waiting}; {self.logs()}"
            reply = json.loads(line)
            if "pid" in reply:
                self.pids[reply["name"]] = reply["pid"]
            if "ready" in reply:
                waiting.discard(reply["ready"])

    def kill(self, name: str) -> None:
        """Kill -9 a daemon, and wait until it is gone."""
        pid = self.pids.pop(name)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not _exists(pid), why=f"{name} dies")

    def logs(self) -> str:
        """What the daemons wrote, for failed assertions."""
        texts = [path.read_text() for path in sorted((self.folder.path / "logs").iterdir())]
        return "\n".join(texts)


def _launch_on_request(
    requests: socket.socket,
    test_pid: int,
    folder: RunFolder,
    config: ClusterConfig,
    mains: dict[str, Main],
) -> None:
    """Fork a daemon for each line; until the test closes its end.  Does not return."""
    status = 1
    try:
        die_with_parent(test_pid)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        pids = []
        for line in requests.makefile("r"):
            pids.append(_fork(line.strip(), requests, folder, config, mains))
            _say(requests, name=line.strip(), pid=pids[-1])
        for pid in pids:
            if _exists(pid):
                os.kill(pid, signal.SIGTERM)
        deadline_s = time.monotonic() + 3.0
        while any(map(_exists, pids)) and time.monotonic() < deadline_s:
            time.sleep(0.002)
        for pid in filter(_exists, pids):
            os.kill(pid, signal.SIGKILL)
        status = 0
    finally:
        os._exit(status)


def _fork(
    name: str,
    requests: socket.socket,
    folder: RunFolder,
    config: ClusterConfig,
    mains: dict[str, Main],
) -> int:
    launcher_pid = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        die_with_parent(launcher_pid)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        log = os.open(folder.log(name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        logging.basicConfig(level=logging.INFO, force=True)
        take_role(name)
        mains[name](
            Daemon(
                role=name,
                name=name,
                folder=folder,
                config=config,
                ready=lambda: _say(requests, ready=name),
            )
        )
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _say(to: socket.socket, **what: object) -> None:
    to.sendall((json.dumps(what) + "\n").encode())


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
