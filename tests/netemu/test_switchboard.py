"""Transfers over a real link and server, in one process."""

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done, Message
from railyard.netemu.client import switchboard
from railyard.netemu.client.switchboard import LinkTransfers, ServerTransfers


class Hello(Message, frozen=True):
    """Makes known to the server which peer the link is."""


class Ends:
    """A server, a link to it, and the transfers of both."""

    def __init__(self, folder):
        self.transport = Transport(folder)
        server = self.transport.server("far")
        peers = []
        server.on(Hello, lambda request: peers.append(request.peer) or Done())
        self.at_server = ServerTransfers(server, self.transport.reactor)
        self.link = self.transport.link("far")
        self.at_link = LinkTransfers(self.link)
        self.link.call(Hello(), Done)
        (self.peer,) = peers
        self.events = []

    def noting(self, what):
        return lambda *reason: self.events.append((what, *reason))

    def until(self, condition):
        assert self.transport.reactor.run_until(condition, timeout_s=5), self.events


@pytest.fixture
def ends(tmp_path_factory, monkeypatch):
    monkeypatch.setattr(switchboard, "PROBE_S", 0.05)
    folder = RunFolder.create(tmp_path_factory.mktemp("s"))
    ends = Ends(folder)
    yield ends
    ends.transport.close()
    folder.remove()


def receive_at_server(ends, took, total):
    ends.at_server.with_peer(ends.peer).incoming(
        "t", took.extend, ends.noting("got"), ends.noting("receive-failed"), stored_total=total
    )


def test_bytes_travel_and_nothing_is_remembered(ends):
    took = bytearray()
    receive_at_server(ends, took, 5)
    sending = ends.at_link.outgoing("t", b"bytes", ends.noting("sent"), ends.noting("send-failed"))
    sending.allow(5)
    ends.until(lambda: ends.events == [("got",), ("sent",)])
    assert bytes(took) == b"bytes"
    assert (len(ends.at_server), len(ends.at_link)) == (0, 0)
    ends.until(lambda: not ends.at_server._by_peer)  # nor the peer, once it was probed


def test_a_slow_sender_is_told_what_was_taken(ends):
    """Although it is less than what is acknowledged at once."""
    took = bytearray()
    receive_at_server(ends, took, 1000)
    sending = ends.at_link.outgoing(
        "t", bytes(1000), ends.noting("sent"), ends.noting("send-failed")
    )
    known = []
    for allowed in range(1, 1000):  # it never rests
        sending.allow(allowed)
        ends.transport.reactor.run_until(lambda: False, timeout_s=0.002)
        known.append(sending.progress)
        if len(set(known)) == 4:
            break
    assert len(set(known)) == 4, "it heard three times"
    assert ends.events == []
    sending.allow(1000)
    ends.until(lambda: ends.events == [("got",), ("sent",)])


def test_a_receiver_whose_sender_forgot_the_transfer_is_told(ends):
    receive_at_server(ends, bytearray(), 5)
    ends.at_link.outgoing("t", b"bytes", ends.noting("sent"), ends.noting("send-failed"))
    ends.at_link.drop("t")
    ends.until(lambda: len(ends.events) == 1)
    assert ends.events == [("receive-failed", "the other side has no transfer of that name")]
    assert len(ends.at_server) == 0


def test_a_sender_whose_receiver_forgot_the_transfer_is_told(ends):
    sending = ends.at_link.outgoing("t", b"bytes", ends.noting("sent"), ends.noting("send-failed"))
    sending.allow(5)
    ends.until(lambda: len(ends.events) == 1)
    assert ends.events == [("send-failed", "the other side has no transfer of that name")]


def test_a_receiver_finds_out_that_its_sender_is_gone(ends):
    receive_at_server(ends, bytearray(), 5)
    ends.link.close()
    ends.until(lambda: ends.events == [("receive-failed", "the sender is gone")])


def test_two_transfers_of_one_name_between_two_processes_are_refused(ends):
    receive_at_server(ends, bytearray(), 5)
    with pytest.raises(PeerError, match='"t" is under way already'):
        receive_at_server(ends, bytearray(), 5)
