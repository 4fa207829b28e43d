"""What a hundred reservations at once cost in real processes, memory and descriptors.

Two TeraSorts of 60 reduces each on 24 slots.  Joint reserves servers for the reduces once those of
all maps are known, so while maps compute a process waits for each.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.joint._place import SMALLER
from railyard.cluster.messages import (
    AttemptFailed,
    AttemptKilled,
    AttemptSucceeded,
    BeginAttempt,
    KillAttempt,
    LaunchAttempt,
)
from railyard.cluster.topology import load_topology
from railyard.experiments.comparison import Comparison
from railyard.resourcemanager.driving.eventlog import Step, replay
from railyard.runs.figures import Summary
from railyard.runs.folder import EVENTS
from railyard.runs.requests import RunRequest

TOPOLOGY = f"{SMALLER},storage.block=100MB,compute.map_rate=8MB/s,compute.reduce_rate=8MB/s"
#: At least so many at once.
RESERVATIONS, QUICK = 100, 40
#: Of an attempt that waits: memory that it shares with nobody, and open descriptors.
MEMORY_MB_BOUND = 15.0
DESCRIPTORS_BOUND = 48
#: Of one daemon, its share of the descriptors that it may have.
DAEMON_SHARE_BOUND = 0.5
#: Seconds from one look at the processes to the next.
_PERIOD_S = 0.5


class _Look:
    """The processes below this one at one time."""

    def __init__(self) -> None:
        self.memory: dict[int, int] = {}  #: bytes that each shares with nobody
        self.descriptors: dict[int, int] = {}
        self.limits: dict[int, int] = {}  #: how many descriptors it may have
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.Error):  # it has ended
                memory, descriptors = child.memory_full_info().uss, child.num_fds()
                self.limits[child.pid] = child.rlimit(psutil.RLIMIT_NOFILE)[0]
                self.memory[child.pid], self.descriptors[child.pid] = memory, descriptors


class _Watch:
    """Looks again and again while something runs; keeps the look with the most processes."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._go_on)
        self.most = _Look()

    def __enter__(self) -> _Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _go_on(self) -> None:
        while not self._ended.wait(_PERIOD_S):
            look = _Look()
            if len(look.memory) > len(self.most.memory):
                self.most = look


def run(quick: bool = False) -> list[Row]:
    """Run the jobs once; ``quick`` has fewer reservations."""
    wanted = QUICK if quick else RESERVATIONS
    request = RunRequest(
        words=(f"terasort,size=500MB,reduces={wanted * 3 // 5},times=2",),
        schedulers=("joint",),
        topology=TOPOLOGY,
        clocks=("wall",),
        seeds=1,
    )
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
        folder = Path(scratch) / "runs"
        with _Watch() as watch:
            [contender] = Comparison(replace(request, results=folder)).run()
        [summary] = contender.runs
        [events] = folder.glob(f"*/{EVENTS}")
        reserved = _most_reserved(replay(events))
    left = {child.pid for child in psutil.Process().children(recursive=True)} - before
    attempts = [row["pid"] for row in summary["processes"] if row["role"] == "Attempt"]
    left |= {pid for pid in attempts if psutil.pid_exists(pid)}
    at_once = bench_row(
        "reservations at once",
        reserved,
        ok=reserved >= wanted and bool(summary["verified"]),
        note=f"at least {wanted}, and verified output",
    )
    gone = bench_row("processes left behind", len(left), bound=0)
    return [at_once, *_rows(summary, watch.most, reserved), gone]


def _most_reserved(steps: Iterable[Step]) -> int:
    """How many reservations there were at once."""
    reserved: set[str] = set()
    most = 0
    for step in steps:
        if isinstance(step.event, AttemptSucceeded | AttemptFailed | AttemptKilled):
            reserved.discard(step.event.attempt)
        for command in step.commands:
            match command:
                case LaunchAttempt(begins=False):
                    reserved.add(command.attempt)
                case BeginAttempt() | KillAttempt():
                    reserved.discard(command.attempt)
        most = max(most, len(reserved))
    return most


def _rows(summary: Summary, most: _Look, reserved: int) -> list[Row]:
    roles = {row["pid"]: row["role"] for row in summary["processes"]}
    attempts = [pid for pid in most.memory if roles.get(pid) == "Attempt"]
    others = [pid for pid in most.memory if pid not in attempts]
    memory_mb = [most.memory[pid] / 1e6 for pid in attempts]
    share, busiest = max((most.descriptors[pid] / most.limits[pid], pid) for pid in others)
    return [
        bench_row(
            "attempts at once",
            len(attempts),
            bound=reserved + load_topology(TOPOLOGY).slots,
            note=f"{len(others)} daemons and helpers; {sum(memory_mb):.0f} MB of attempts",
        ),
        bench_row("memory of an attempt, at most", max(memory_mb), "MB", bound=MEMORY_MB_BOUND),
        bench_row(
            "descriptors of an attempt, at most",
            max(most.descriptors[pid] for pid in attempts),
            bound=DESCRIPTORS_BOUND,
        ),
        bench_row(
            f"descriptors of a daemon, of what it may have ({roles.get(busiest)})",
            share,
            bound=DAEMON_SHARE_BOUND,
            note=f"{most.descriptors[busiest]} of {most.limits[busiest]}",
        ),
    ]
