"""Processes of one daemon that live at once, as the earlier was stopped: only the latest acts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.messaging.access.epochs import REPLACED, Epochs, daemon_of
from railyard.cluster.messaging.access.roles import RESOURCE_MANAGER
from railyard.cluster.messaging.access.security import Keys
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.transport import Describe, Description, Transport
from railyard.cluster.messaging.wire import Refusal
from tests.waiting import wait_for

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
    assert (old.epoch, new.epoch) == (1, 2)
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
