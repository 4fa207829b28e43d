"""Which messages are accepted from whom, by the role of the sending process or key."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.config import ClusterConfig, Daemon
from railyard.cluster.errors import Refused
from railyard.cluster.messages import RegisterNodeManager
from railyard.cluster.messaging.access import (
    ATTEMPT,
    CLIENT,
    NODE_MANAGER,
    OWN,
    REPLACED,
    RESOURCE_MANAGER,
    Epochs,
    Keys,
    daemon_of,
    process_at,
    role_of_process,
    take_role,
)
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.transport import Describe, Description, Transport
from railyard.cluster.messaging.wire import Done, Refusal
from railyard.cluster.processes import stop_on_sigterm
from railyard.cluster.runfolder import RunFolder
from tests.harness import topology
from tests.waiting import wait_for

FACT = RegisterNodeManager(rack="r0", pid=1, nodes={"r0n0": 1})


@pytest.fixture
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunFolder]:
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


def asked(run_folder: RunFolder, key: str = CLIENT) -> str:
    """Register as a NodeManager with the server "daemon"; return the refusal, "" if accepted."""
    transport = Transport(run_folder, role=key)
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

    def __init__(self, run_folder: RunFolder, *, for_tests: bool = False) -> None:
        self._folder = run_folder
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
def family(run_folder: RunFolder) -> Iterator[Family]:
    family = Family(run_folder)
    yield family
    family.end()


def test_only_a_nodemanager_is_taken_for_one(family: Family, run_folder: RunFolder) -> None:
    assert family.ask(NODE_MANAGER) == "taken"
    refused = "register-node-manager from {} (process"
    assert family.ask(ATTEMPT).startswith(refused.format(ATTEMPT))
    assert family.ask("attempt with a name").startswith(refused.format(ATTEMPT))
    assert asked(run_folder).startswith(refused.format(CLIENT))
    assert asked(run_folder).endswith("): only for nodemanager")


def test_tests_may_play_daemons_where_they_asked_for_it(run_folder: RunFolder) -> None:
    family = Family(run_folder, for_tests=True)
    assert asked(run_folder) == ""
    assert family.ask(ATTEMPT).startswith("register-node-manager from attempt")
    family.end()


def test_over_tcp_the_key_tells(run_folder: RunFolder) -> None:
    Keys.create(run_folder.keys)
    transport = Transport(run_folder, role=NODE_MANAGER)
    server = transport.server("daemon")
    server.on(RegisterNodeManager, lambda _: Done(), (NODE_MANAGER,))
    for key in (CLIENT, ATTEMPT):
        other = Transport(run_folder, transport.reactor, role=key)
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


# Processes of one daemon that live at once, as the earlier was stopped: only the latest acts.


NAME = "resourcemanager"


@pytest.fixture(params=["ipc", "tcp"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    folder = RunFolder.create(tmp_path_factory.mktemp("t"))
    if request.param == "tcp":
        Keys.create(folder.keys)
    yield folder
    folder.remove()


@pytest.fixture
def client(folder: RunFolder) -> Iterator[Transport]:
    transport = Transport(folder)
    yield transport
    transport.close()


def a_process_of(folder: RunFolder, reactor: Reactor) -> Transport:
    """What a new process of the daemon has, on a reactor that the test turns."""
    transport = Transport(folder, reactor, RESOURCE_MANAGER, daemon=NAME)
    reactor.on_woken = lambda: None  # an earlier one would end the test's process
    return transport


def test_each_process_has_the_next_epoch_and_all_see_the_latest(tmp_path: Path):
    others = Epochs(tmp_path)
    assert others.latest(NAME) == 0
    first = Epochs(tmp_path, NAME)
    assert (first.own, others.latest(NAME)) == (1, 1)
    first.check()
    second = Epochs(tmp_path, NAME)
    assert (second.own, first.latest(NAME), others.latest(NAME)) == (2, 2, 2)
    assert others.is_over((NAME, 1))
    assert not others.is_over((NAME, 2))
    assert not others.is_over(("namenode", 1))
    assert Epochs(tmp_path).own == 0
    for epochs in (others, first, second):
        epochs.close()


@given(st.binary(max_size=255))
def test_any_routing_id_may_come(routing_id: bytes):
    daemon = daemon_of(routing_id)
    if daemon is not None:
        Epochs(Path("/nonexistent")).is_over(daemon)


def test_a_routing_id_tells_the_process():
    assert daemon_of(b"namenode/3") == ("namenode", 3)
    assert daemon_of(b"nodemanager-r0/12/a1b2") == ("nodemanager-r0", 12)
    for other in (b"", b"namenode", b"namenode/x", b"\x00k\x8bEg", b"a/1/b/c"):
        assert daemon_of(other) is None


def test_what_an_earlier_process_has_sent_is_refused(folder: RunFolder, client: Transport):
    server = client.server("peer")
    old = a_process_of(folder, Reactor())
    assert old.link("peer").request(Describe(), Description, lambda *_: None) is None
    assert client.reactor.run_until(lambda: server.requests == 1, 5)
    old.link("peer").request(Describe(), Description, lambda *_: None)
    new = a_process_of(folder, client.reactor)
    assert (old.epochs.own, new.epochs.own) == (1, 2)
    assert client.reactor.run_until(lambda: server.refused == 1, 5)
    assert new.link("peer").call(Describe(), Description).refused == 1
    for transport in (old, new):
        transport.close()


def test_links_leave_a_process_that_was_replaced(folder: RunFolder, client: Transport):
    turned = Reactor()
    old = a_process_of(folder, turned)
    old.server(NAME)
    link, got = LastingLink(client, NAME), list[Description | Refusal]()
    link.insist(Describe(), Description, lambda answer, _: got.append(answer))
    while not got:
        turned.run_until(lambda: False, 0.01)
        client.reactor.run_until(lambda: bool(got), 0.01)
    link.insist(Describe(), Description, lambda answer, _: got.append(answer))
    new = a_process_of(folder, client.reactor)  # the old one is stopped from here on
    new.server(NAME)
    assert client.reactor.run_until(lambda: len(got) == 2, 5)
    for transport in (old, new):
        transport.close()


def test_a_process_that_was_replaced_ends_when_it_is_continued(folder: RunFolder):
    read, written = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            transport = Transport(folder, role=RESOURCE_MANAGER, daemon=NAME)
            transport.server(NAME)
            os.write(written, b"\0")
            transport.reactor.run_until(lambda: False, 20)
        finally:
            os._exit(1)
    os.read(read, 1)
    os.kill(pid, signal.SIGSTOP)
    os.waitpid(pid, os.WUNTRACED)
    assert Epochs(folder.epochs, NAME).own == 2
    os.kill(pid, signal.SIGCONT)
    ended: list[int] = []

    def has_ended() -> bool:
        waited, status = os.waitpid(pid, os.WNOHANG)
        ended.append(status)
        return waited == pid

    wait_for(has_ended, 10, "it ends")
    assert os.waitstatus_to_exitcode(ended[-1]) == REPLACED
    os.close(read)
    os.close(written)
