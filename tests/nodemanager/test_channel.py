"""Messages and descriptors over a socket pair."""

import os
import socket
import struct
from pathlib import Path

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.messages.execution import JobPackage, LoadJob
from railyard.cluster.messaging.wire import Vocabulary
from railyard.nodemanager.containers.channel import Channel
from railyard.nodemanager.messages import ForkJobHelper, JobLoaded, KillJobHelper

KINDS = (ForkJobHelper, KillJobHelper, JobLoaded, LoadJob)


@pytest.fixture
def raw():
    """A channel, and the plain socket at its other end."""
    one, other = socket.socketpair()
    channel = Channel(one, Vocabulary(KINDS))
    yield channel, other
    channel.close()
    other.close()


@pytest.fixture
def pair(raw):
    channel, other = raw
    return channel, Channel(other, Vocabulary(KINDS))


def test_nothing_there_is_no_message_and_no_wait(pair):
    assert pair[0].receive() == []
    assert not pair[0].at_end


def test_messages_arrive_in_order_with_their_descriptors(pair, tmp_path):
    one, other = pair
    for number in range(3):
        file = os.open(tmp_path / str(number), os.O_CREAT | os.O_RDWR)
        one.send(ForkJobHelper(helper=number, job="j1"), fds=[file])
        one.send(KillJobHelper(helper=number))
        os.close(file)
    messages = other.receive()
    assert [message.helper for message in messages] == [0, 0, 1, 1, 2, 2]
    for number in range(3):
        received = other.take_fd()
        assert not os.get_inheritable(received)
        assert Path(f"/proc/self/fd/{received}").readlink() == tmp_path / str(number)
        os.close(received)
    with pytest.raises(PeerError, match="without its file descriptor"):
        other.take_fd()


def test_a_message_longer_than_the_sockets_buffer_comes_in_parts(raw):
    channel, other = raw
    source = bytes(2**20)
    package = JobPackage(
        module="", file_name="a.py", source=source, job_class="A", params={"cuts": [b"\xff"]}
    )
    order = LoadJob(job="j1", package=package)
    collector = Channel(socket.socket(fileno=os.dup(other.fileno())), Vocabulary(KINDS))
    received = []
    if os.fork() == 0:
        channel.send(order)
        os._exit(0)
    while not received:
        received = collector.receive()
    os.wait()
    collector.close()
    assert received == [order]


def test_the_other_ends_closing_is_seen_after_its_last_words(pair):
    one, other = pair
    one.send(JobLoaded())
    one.close()
    assert other.receive() == [JobLoaded()]
    assert other.at_end
    other.send(JobLoaded())  # dropped


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        pytest.param(struct.pack("<I", 2**31), "the most is", id="too long"),
        pytest.param(struct.pack("<I", 3) + b"abc", "not MessagePack|envelope", id="no message"),
    ],
)
def test_nonsense_is_refused(raw, data, problem):
    channel, other = raw
    other.sendall(data)
    with pytest.raises(PeerError, match=problem):
        channel.receive()
