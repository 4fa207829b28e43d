"""Both ends of a transfer, without sockets: messages are handed over by the test."""

from __future__ import annotations

import random
from collections import deque

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done, Message
from railyard.cluster.runfolder import RunFolder
from railyard.netemu import transfers
from railyard.netemu.messages import Chunk, ChunkTaken, TransferFailed
from railyard.netemu.transfers import (
    IncomingTransfer,
    LinkTransfers,
    OutgoingTransfer,
    ServerTransfers,
)


class Wire:
    """A sender and a receiver; messages lie here until they are delivered."""

    def __init__(self, data, stored_total=None):
        self.there, self.back = deque(), deque()
        self.alive = True
        self.events = []
        self.received = bytearray()
        self.out = OutgoingTransfer(
            "t", data, self.sender(self.there), self.noting("sent"), self.noting("send-failed"),
            stored_total,
        )  # fmt: skip
        self.into = IncomingTransfer(
            "t", self.received.extend, self.sender(self.back), self.noting("got"),
            self.noting("receive-failed"),
        )  # fmt: skip

    def sender(self, queue):
        def send(message, payload):
            if self.alive:
                queue.append((message, None if payload is None else memoryview(payload)))
            return self.alive

        return send

    def noting(self, what):
        return lambda *reason: self.events.append((what, *reason))

    def deliver(self):
        while self.there or self.back:
            while self.there:
                message, payload = self.there.popleft()
                if isinstance(message, Chunk):
                    self.into.chunk(message, payload)
                else:
                    self.into.failed(message.reason)
            while self.back:
                message, _ = self.back.popleft()
                if isinstance(message, ChunkTaken):
                    self.out.take(message)
                else:
                    self.out.failed(message.reason)


@pytest.fixture
def small(monkeypatch):
    """Chunks of 10 bytes, a window of 50, an acknowledgement each 20."""
    monkeypatch.setattr(transfers, "CHUNK_BYTES", 10)
    monkeypatch.setattr(transfers, "WINDOW_BYTES", 50)
    monkeypatch.setattr(transfers, "ACKNOWLEDGE_BYTES", 20)


def sizes(queue):
    return [len(payload) for _, payload in queue]


def test_all_bytes_arrive_once_and_both_ends_know(small):
    data = random.Random(1).randbytes(1234)
    wire = Wire(data)
    wire.out.allow(1234)
    wire.deliver()
    assert bytes(wire.received) == data
    assert wire.events == [("got",), ("sent",)]


def test_nothing_is_sent_beyond_the_grant(small):
    wire = Wire(bytes(100))
    assert not wire.there
    wire.out.allow(7)
    wire.out.allow(25)
    wire.out.allow(3)  # an old total changes nothing
    assert sizes(wire.there) == [7, 10, 8]


def test_no_more_than_a_window_ahead_of_the_receiver(small):
    wire = Wire(bytes(1000))
    wire.out.allow(1000)
    assert sum(sizes(wire.there)) == 50
    wire.deliver()
    assert wire.events == [("got",), ("sent",)]


def test_the_sender_is_done_only_when_the_receiver_has_taken_everything(small):
    wire = Wire(bytes(30))
    wire.out.allow(30)
    assert wire.events == []
    wire.there.pop()  # the last chunk is under way
    wire.deliver()
    assert wire.events == []
    assert wire.out.progress == 20


def test_an_empty_transfer_is_a_transfer(small):
    wire = Wire(b"")
    assert not wire.there
    wire.out.allow(0)
    wire.out.allow(0)
    wire.deliver()
    assert wire.events == [("got",), ("sent",)]


def test_data_that_come_bit_by_bit(small):
    wire = Wire(b"abc", stored_total=8)
    wire.out.allow(8)
    wire.deliver()
    assert bytes(wire.received) == b"abc"
    wire.out.extend(b"")
    wire.out.extend(b"defgh")
    wire.deliver()
    assert bytes(wire.received) == b"abcdefgh"
    assert wire.events == [("got",), ("sent",)]


def test_data_may_be_held_before_they_are_granted(small):
    wire = Wire(b"ab", stored_total=6)
    wire.out.extend(b"cdef")
    wire.out.allow(3)
    wire.deliver()
    assert bytes(wire.received) == b"abc"
    wire.out.allow(6)
    wire.deliver()
    assert bytes(wire.received) == b"abcdef"


@pytest.mark.parametrize("end", ["sender", "receiver"])
def test_either_end_may_give_up_and_the_other_hears_why(small, end):
    wire = Wire(bytes(100))
    wire.out.allow(40)
    (wire.out if end == "sender" else wire.into).fail("no disk")
    wire.deliver()
    assert sorted(wire.events) == [("receive-failed", "no disk"), ("send-failed", "no disk")]
    wire.out.allow(100)
    wire.out.extend(b"more")
    assert not wire.there


def test_a_receiver_that_is_gone(small):
    wire = Wire(bytes(100))
    wire.alive = False
    wire.out.allow(10)
    wire.out.allow(20)
    assert wire.events == [("send-failed", "the receiver is gone")]


def test_probes_find_out_who_is_gone_and_disturb_nobody_else(small):
    wire = Wire(bytes(100))
    wire.out.allow(30)
    wire.deliver()
    for _ in range(3):
        wire.out.probe()
        wire.into.probe()
        wire.deliver()
    wire.out.allow(100)
    wire.deliver()
    assert wire.events == [("got",), ("sent",)]

    wire = Wire(bytes(100))
    wire.out.probe()
    assert not wire.there  # it has not begun
    wire.out.allow(30)
    wire.deliver()
    wire.alive = False
    wire.out.probe()
    wire.into.probe()
    assert wire.events == [
        ("send-failed", "the receiver is gone"),
        ("receive-failed", "the sender is gone"),
    ]


def test_a_full_disk_fails_both_ends(small):
    wire = Wire(bytes(100))

    def full(_):
        raise OSError(28, "No space left on device")

    wire.into._take = full
    wire.out.allow(100)
    wire.deliver()
    reason = "the receiver cannot store it: [Errno 28] No space left on device"
    assert sorted(wire.events) == [("receive-failed", reason), ("send-failed", reason)]


@pytest.mark.parametrize(
    ("offset", "total", "payload", "reason"),
    [
        (5, 30, b"x", "a chunk at 5, after 10 bytes"),
        (0, 30, b"x", "a chunk at 0, after 10 bytes"),
        (10, 31, b"x", "a chunk of a transfer of 31 bytes: need 30"),
        (10, 30, bytes(21), "a chunk that ends at 31 of 30 bytes"),
        (10, 30, None, "a chunk without its payload frame"),
    ],
)
def test_a_chunk_that_does_not_fit_fails_the_transfer(small, offset, total, payload, reason):
    wire = Wire(bytes(30))
    wire.out.allow(10)
    wire.deliver()
    view = None if payload is None else memoryview(payload)
    wire.into.chunk(Chunk(transfer="t", stored_offset=offset, stored_total=total), view)
    assert wire.back.pop()[0] == TransferFailed(transfer="t", reason=reason)
    assert wire.events == [("receive-failed", reason)]


def test_a_receiver_that_claims_too_much_fails_the_transfer(small):
    wire = Wire(bytes(30))
    wire.out.allow(10)
    wire.out.take(ChunkTaken(transfer="t", stored_bytes=11))
    assert wire.events == [
        ("send-failed", "the receiver says that it took 11 bytes, but 10 were sent")
    ]


class Numbers:
    """A source of ``total`` bytes, which breaks off at byte ``broken_at``."""

    def __init__(self, total, broken_at=None):
        self.left = total
        self.data = random.Random(3).randbytes(total)
        self.reads = []
        self.closed = 0
        self.broken_at = total if broken_at is None else broken_at

    def read(self, size):
        at = len(self.data) - self.left
        size = min(size, 7, self.broken_at - at)  # fewer than could be sent
        if size == 0:
            raise OSError(5, "Input/output error")
        self.reads.append(size)
        self.left -= size
        return self.data[at : at + size]

    def close(self):
        self.closed += 1


def test_a_source_is_read_as_its_bytes_may_be_sent(small):
    source = Numbers(100)
    wire = Wire(source)
    assert source.reads == []
    wire.out.allow(12)
    assert source.reads == [7, 5]
    wire.out.allow(100)
    assert sum(source.reads) == 50  # a window
    assert source.closed == 0
    wire.deliver()
    assert bytes(wire.received) == source.data
    assert wire.events == [("got",), ("sent",)]
    assert source.closed == 1


def test_sources_and_bytes_follow_one_another(small):
    sources = Numbers(9), Numbers(0), Numbers(4)
    wire = Wire(b"abc", stored_total=18)
    for source in sources:
        wire.out.extend(source)
    wire.out.extend(b"de")
    wire.out.allow(18)
    wire.deliver()
    assert bytes(wire.received) == b"abc" + sources[0].data + sources[2].data + b"de"
    assert wire.events == [("got",), ("sent",)]
    assert [source.closed for source in sources] == [1, 1, 1]


def test_a_source_that_cannot_be_read_fails_both_ends(small):
    source = Numbers(100, broken_at=40)
    wire = Wire(source)
    wire.out.allow(100)
    wire.deliver()
    reason = "the sender cannot read it: [Errno 5] Input/output error"
    assert sorted(wire.events) == [("receive-failed", reason), ("send-failed", reason)]
    assert bytes(wire.received) == source.data[:40]
    assert source.closed == 1


@pytest.mark.parametrize("end", ["drop", "fail", "receiver", "extended late"])
def test_a_source_is_closed_however_its_transfer_ends(small, end):
    source = Numbers(100)
    wire = Wire(b"" if end == "extended late" else source, stored_total=100)
    wire.out.allow(30)
    if end == "drop":
        wire.out.drop()
    elif end == "receiver":
        wire.into.fail("no disk")
        wire.deliver()
    else:
        wire.out.fail("just so")
        wire.out.extend(source) if end == "extended late" else None
    assert source.closed == 1


# Transfers over a real link and server, in one process.


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
    monkeypatch.setattr(transfers, "PROBE_S", 0.05)
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
