"""Which messages are accepted from whom, by the role of the sending process or key."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator

import pytest

from railyard.cluster.config import ClusterConfig, Daemon
from railyard.cluster.errors import Refused
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.messages.execution import RegisterNodeManager
from railyard.cluster.messaging.access.roles import (
    ATTEMPT,
    CLIENT,
    NODE_MANAGER,
    OWN,
    process_at,
    role_of_process,
    take_role,
)
from railyard.cluster.messaging.access.security import Keys
from railyard.cluster.messaging.transport import Describe, Description, Transport
from railyard.cluster.messaging.wire import Done
from railyard.cluster.processes.family import stop_on_sigterm
from tests.harness import topology

FACT = RegisterNodeManager(rack="r0", pid=1, nodes={"r0n0": 1})


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFolder]:
    folder = RunFolder.create(tmp_path_factory.mktemp("r"))
    yield folder
    folder.remove()


def in_child(act: Callable[[], object]) -> int:
    """Run a function in another process; return its exit status."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            act()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def asked(folder: RunFolder, key: str = CLIENT) -> str:
    """Register as a NodeManager with the server "daemon"; return the refusal, "" if accepted."""
    transport = Transport(folder, role=key)
    try:
        transport.link("daemon").call(FACT, Done, timeout_s=10)
    except Refused as refused:
        return str(refused)
    finally:
        transport.close()
    return ""


class Family:
    """A supervisor with a server "daemon", and a NodeManager, which starts what attempts are.

    Each line sent to it names the process that is to ask; it answers with the reply that one got.
    """

    def __init__(self, folder: RunFolder, *, for_tests: bool = False) -> None:
        self._folder = folder
        self._for_tests = for_tests
        self._near, self._far = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            try:
                self._near.close()
                self._supervise()
            finally:
                os._exit(0)
        self._far.close()

    def ask(self, who: str) -> str:
        self._near.sendall(f"{who}\n".encode())
        return self._near.recv(4096).decode().strip()

    def end(self) -> None:
        self._near.close()
        os.waitpid(self.pid, 0)

    def _supervise(self) -> None:
        server = os.fork()
        if server == 0:
            self._serve()
        for line in self._far.makefile():
            asker = self._nodemanager if line.strip() == NODE_MANAGER else self._python
            if line.strip() == ATTEMPT:
                in_child(lambda: in_child(self._python))
            elif line.strip() == "attempt with a name":
                in_child(lambda: in_child(self._nodemanager))
            else:
                in_child(asker)
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)

    def _python(self) -> None:
        self._far.sendall((asked(self._folder) or "taken").encode())

    def _nodemanager(self) -> None:
        take_role("nodemanager-r0")
        self._python()

    def _serve(self) -> None:
        config = ClusterConfig(topology=topology(1, 1, 1), for_tests=self._for_tests)
        transport = Transport.of(
            Daemon(
                role="Daemon",
                name="daemon",
                folder=self._folder,
                config=config,
                ready=lambda: None,
            )
        )
        transport.server("daemon").on(RegisterNodeManager, lambda _: Done(), (NODE_MANAGER,))
        stop_on_sigterm(transport.reactor)
        transport.reactor.run()


@pytest.fixture
def family(folder: RunFolder) -> Iterator[Family]:
    family = Family(folder)
    yield family
    family.end()


def test_only_a_nodemanager_is_taken_for_one(family: Family, folder: RunFolder) -> None:
    assert family.ask(NODE_MANAGER) == "taken"
    refused = "register-node-manager from {} (process"
    assert family.ask(ATTEMPT).startswith(refused.format(ATTEMPT))
    assert family.ask("attempt with a name").startswith(refused.format(ATTEMPT))
    assert asked(folder).startswith(refused.format(CLIENT))
    assert asked(folder).endswith("): only for nodemanager")


def test_tests_may_play_daemons_where_they_asked_for_it(folder: RunFolder) -> None:
    family = Family(folder, for_tests=True)
    assert asked(folder) == ""
    assert family.ask(ATTEMPT).startswith("register-node-manager from attempt")
    family.end()


def test_over_tcp_the_key_tells(folder: RunFolder) -> None:
    Keys.create(folder.keys)
    transport = Transport(folder, role=NODE_MANAGER)
    server = transport.server("daemon")
    server.on(RegisterNodeManager, lambda _: Done(), (NODE_MANAGER,))
    for key in (CLIENT, ATTEMPT):
        other = Transport(folder, transport.reactor, role=key)
        assert other.link("daemon").call(Describe(), Description).name == "daemon"
        with pytest.raises(Refused, match=f"from {key}: only for nodemanager"):
            other.link("daemon").call(FACT, Done)
        other.close()
    assert isinstance(transport.link("daemon").call(FACT, Done), Done)
    transport.close()


def test_who_is_gone_or_unknown_is_nobody_in_particular() -> None:
    assert role_of_process(2**22 + 1) == ATTEMPT
    assert role_of_process(os.getpid()) == role_of_process(os.getppid()) == OWN
    assert process_at("localhost:0:0:4711") == 4711
    assert process_at("127.0.0.1:5555") is None
    assert process_at("a:b:c:d") is None
