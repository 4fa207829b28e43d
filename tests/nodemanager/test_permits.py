"""Messages and descriptors over a socket pair."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.messages import JobPackage, LoadJob
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.wire import Vocabulary
from railyard.nodemanager.helpers import Channel
from railyard.nodemanager.messages import ForkJobHelper, JobLoaded, KillJobHelper
from railyard.nodemanager.permits import Permits, SharedPermits

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


# Permits to compute: how many there are at once, who gets the next one, and what ends one.


HOLDER = """
import sys, time
from pathlib import Path
from railyard.nodemanager.permits import SharedPermits
shared = SharedPermits(Path(sys.argv[1]), 2)
assert None not in (shared.take(), shared.take())
print("has", flush=True)
time.sleep(60)
"""


class Given:
    """Two permits, and the names of those who got one, in order."""

    def __init__(self, file: Path, count: int = 2) -> None:
        self.reactor = Reactor()
        self.shared = SharedPermits(file, count)
        self.permits = Permits(self.reactor, self.shared, racks=1)
        self.names: list[str] = []

    def ask(self, *names: str) -> None:
        for name in names:
            self.permits.ask(name, lambda name=name: self.names.append(name))

    def until(self, *names: str) -> None:
        assert self.reactor.run_until(lambda: self.names == list(names), 5), self.names

    def close(self) -> None:
        os.close(self.shared._fd)
        self.reactor.close()


@pytest.fixture
def given(tmp_path):
    made = Given(tmp_path / "permits")
    yield made
    made.close()


@pytest.fixture
def other(tmp_path):
    """Another process that has both permits of the file."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "permits")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "has\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_only_so_many_have_one_at_once_in_the_order_in_which_they_asked(given):
    given.ask("a", "b", "c", "d")
    given.until("a", "b")
    assert given.permits.waits("c")
    given.permits.give_back("a")
    given.until("a", "b", "c")
    given.permits.give_back("c")
    given.until("a", "b", "c", "d")
    assert not given.permits.waits("d")


def test_who_ends_while_it_waits_gets_none(given):
    given.ask("a", "b", "c", "d")
    given.permits.give_back("c")
    given.permits.give_back("a")
    given.until("a", "b", "d")
    given.permits.give_back("nobody")


def test_who_asks_again_has_one_permit_yet(given):
    given.ask("a", "a", "b", "c")
    given.until("a", "a", "b")
    given.permits.give_back("a")
    given.until("a", "a", "b", "c")
    given.permits.give_back("a")
    given.permits.give_back("b")
    given.permits.give_back("c")
    assert None not in (given.shared.take(), given.shared.take()), "all were given back"


def test_permits_of_a_killed_process_are_free(other, given):
    given.ask("a", "b")
    given.reactor.run_until(lambda: False, 0.1)
    assert given.names == []
    os.kill(other.pid, signal.SIGKILL)
    given.until("a", "b")


def test_who_could_run_and_gets_no_cpu_keeps_its_permit(given):
    """On an overloaded machine; the kernel adds up who waited for a CPU only once it has one."""
    cpu = min(os.sched_getaffinity(0))
    loop = [sys.executable, "-c", "while True: pass"]
    starved, *rivals = [subprocess.Popen(loop) for _ in range(4)]
    try:
        for process in (starved, *rivals):
            os.sched_setaffinity(process.pid, {cpu})
        os.sched_setscheduler(starved.pid, os.SCHED_IDLE, os.sched_param(0))
        given.ask("starved", "nobody", "next")
        given.permits.runs_as("starved", starved.pid)
        given.reactor.run_until(lambda: False, 1.5)
        assert given.names == ["starved", "nobody"]
    finally:
        for process in (starved, *rivals):
            process.kill()
            process.wait()


def test_who_sleeps_loses_its_permit_and_who_computes_keeps_it(given):
    sleeps = subprocess.Popen(["sleep", "60"])
    computes = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        time.sleep(0.2)
        given.ask("sleeps", "computes", "next", "last")
        given.permits.runs_as("sleeps", sleeps.pid)
        given.permits.runs_as("computes", computes.pid)
        given.until("sleeps", "computes", "next")
        given.reactor.run_until(lambda: False, 0.8)
        assert given.names == ["sleeps", "computes", "next"]
        given.permits.give_back("sleeps")  # it has none any more
        assert given.names == ["sleeps", "computes", "next"]
        given.permits.give_back("next")
        given.until("sleeps", "computes", "next", "last")
    finally:
        for process in (sleeps, computes):
            process.kill()
            process.wait()
