"""Permits to compute: how many there are at once, who gets the next one, and what ends one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from railyard.cluster.messaging.reactor import Reactor
from railyard.nodemanager.permits import Permits, SharedPermits

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
        self.shared.close()
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
