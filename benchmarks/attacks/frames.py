"""A million hostile frames over every socket, while real jobs run: daemons live, jobs are right.

``_hostile.frames`` says what they are.  A batch that did not hold is sent again, alone and to a new
cluster, after its frames were printed, by

    python -m railyard.benchmarks.attacks frames --seed SEED --trial BATCH
"""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path

import psutil

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.attacks._grounds.home import SMALL, Broken, Grounds, Home
from railyard.benchmarks.attacks._grounds.trials import SEED, say, tally
from railyard.benchmarks.attacks._hostile.sender import BATCH, Sender, Target, shown
from railyard.cluster.topology import load_topology

FRAMES = 1_000_000
QUICK = 20_000
#: However slow the machine is, it ends after this.
_TIME_S_MAX = 600.0
_ROLES = ("ResourceManager", "NameNode", "NetworkEmulator", "DataNode", "NodeManager")
_JOBS = ("terasort", "wordcount", "topwords")
_KEPT_BYTES = 1_000_000
_SAID_EVERY_S = 20.0
_LOG_LINES = 12
_JOB_TIMEOUT_S = 180.0
_HOSTILE_JOB = Path(__file__).parent / "_hostile" / "job.py"
_ATTEMPT_BATCHES_MAX = 60
_MEMORY_BOUND_MB = 1500.0


def run(
    quick: bool = False, seed: int = SEED, only: str | None = None, frames: int | None = None
) -> list[Row]:
    """Send a million frames; ``quick`` sends 20,000; ``only`` one batch."""
    wanted = frames or (QUICK if quick else FRAMES)
    batches = range(-(-wanted // BATCH)) if only is None else range(int(only), int(only) + 1)
    with Grounds() as grounds:
        home = grounds.home(random.Random(seed))
        return Attack(home, seed, batches, show=only is not None).carry_out()


class Attack:
    """One cluster, its jobs, and the frames."""

    def __init__(self, home: Home, seed: int, batches: range, *, show: bool) -> None:
        self._home = home
        self._seed = seed
        self._batches = batches
        self._show = show
        self._sent = 0  #: batches so far
        self._done = 0  #: batches that were sent, or left out as their daemon was broken
        self._over = threading.Event()
        self._jobs = 0  #: that were run beside it
        self._broken_jobs: list[str] = []
        self._attempt_frames = 0  #: from within an attempt
        self._broken_attempt_frames: list[str] = []
        self._answers = 0  #: of ``status`` and ``fs``
        self._broken_answers: list[str] = []

    def carry_out(self) -> list[Row]:
        """Attack; the rows of what held."""
        home = self._home
        home.up()
        kept = home.random_file("kept", _KEPT_BYTES)
        home.run("fs", "put", kept, "/kept").require_ok()
        daemons = {row["pid"]: row["name"] for role in _ROLES for row in home.rows(role)}
        sender = Sender(home.run_folder() / "sockets", load_topology(str(SMALL)), self._seed)
        beside = [
            threading.Thread(target=self._run_jobs),
            threading.Thread(target=self._ask_and_read, args=(kept.read_bytes(),)),
        ]
        if not self._show:
            beside.append(threading.Thread(target=self._run_hostile_job))
        for thread in beside:
            thread.start()
        try:
            self._send(sender)
        finally:
            self._over.set()
            for thread in beside:
                thread.join()
            sender.close()
        living = {row["pid"] for role in _ROLES for row in home.rows(role)}
        gone = [name for pid, name in daemons.items() if pid not in living]
        megabytes = max((_resident_bytes(pid) for pid in living), default=0) / 1e6
        return [
            self._row_of_all(),
            *map(self._row_of_daemon, sender.targets),
            self._row_of_attempt(),
            tally("daemons", len(daemons), len(daemons) - len(gone), [f"{n} died" for n in gone]),
            self._row("jobs beside the frames", self._jobs, self._broken_jobs),
            self._row("status and fs beside the frames", self._answers, self._broken_answers),
            self._row("the cluster afterwards", 1, self._broken_afterwards(kept.read_bytes())),
            _memory_row(megabytes),
        ]

    def _again(self, batch: int) -> str:
        command = "python -m railyard.benchmarks.attacks frames"
        return f"again with: {command} --seed {self._seed} --trial {batch}"

    # Sending -------------------------------------------------------------------------------------
    def _send(self, sender: Sender) -> None:
        begun_s = said_s = time.monotonic()
        for batch in self._batches:
            self._sent = batch
            if self._show:
                print(shown(sender.frames(batch)), file=sys.stderr)
            try:
                sender.batch(batch)
            except Broken as broken:
                say("frames", f"{broken}; {self._again(batch)}\n{self._log_of(sender, batch)}")
            self._done += 1
            if not self._home.lives:
                say("frames", "the cluster has ended")
                return
            now_s = time.monotonic()
            if now_s - begun_s > _TIME_S_MAX:
                say("frames", f"out of time after {_TIME_S_MAX:g} s")
                return
            if now_s - said_s > _SAID_EVERY_S:
                said_s = now_s
                say("frames", f"{(batch + 1) * BATCH} after {now_s - begun_s:.0f} s")

    def _row_of_daemon(self, target: Target) -> Row:
        slowest = f"slowest answer {target.slowest_s:.2f} s, after batch {target.slowest_batch}"
        note = target.broken or f"seed {self._seed}; {slowest}"
        row = tally(f"frames to {target.name}", target.tried, target.held, [])
        held = row["ok"] and not target.broken
        return row | {"note": note, "ok": held if target.tried else None}

    def _row_of_all(self) -> Row:
        wanted = len(self._batches)
        late = f"the rest was not sent within {_TIME_S_MAX:g} s, or the cluster ended"
        return bench_row(
            f"frames that were sent, of {wanted * BATCH}",
            self._done * BATCH,
            ratio=self._done / wanted,
            bound=1,
            ok=self._done == wanted,
            note="" if self._done == wanted else late,
        )

    def _row_of_attempt(self) -> Row:
        broken = self._broken_attempt_frames
        held = max(0, self._attempt_frames - BATCH * len(broken))
        row = tally("frames from an attempt, to all", self._attempt_frames, held, broken)
        return row | ({} if self._attempt_frames else {"ok": None})

    def _log_of(self, sender: Sender, batch: int) -> str:
        """The end of what the daemon wrote that a batch went to."""
        target = sender.targets[batch % len(sender.targets)]
        for log in self._home.path.rglob(f"logs/{target.name}.log"):
            return "\n".join(line[:300] for line in log.read_text().splitlines()[-_LOG_LINES:])
        return "its log is gone"

    # Beside --------------------------------------------------------------------------------------
    def _goes_on(self) -> bool:
        return self._home.lives and not self._over.is_set()

    def _run_jobs(self) -> None:
        """Run jobs as long as frames are sent."""
        while self._goes_on():
            name = _JOBS[self._jobs % len(_JOBS)]
            first = self._sent
            self._jobs += 1
            try:
                ran = self._home.start_job("500MB", name).end(_JOB_TIMEOUT_S)
                ran.require_ok()
                ran.require(b"verified" in ran.stdout, "was not verified")
            except Broken as broken:
                words = f"{broken}; during batches {first} to {self._sent}, seed {self._seed}"
                self._broken_jobs.append(words)
                say("frames", words)

    def _run_hostile_job(self) -> None:
        """Run a job that sends frames itself."""
        home, count = self._home, min(_ATTEMPT_BATCHES_MAX, len(self._batches) // 4)
        batches, outcomes = home.scratch / "batches", home.scratch / "outcomes"
        batches.write_text("".join(f"{number}\n" for number in range(count)))
        params = {
            "sockets": home.run_folder() / "sockets",
            "topology": SMALL,
            "outcomes": outcomes,
            "seed": self._seed + 1,
        }
        options = [
            word for name, value in params.items() for word in ("--param", f"{name}={value}")
        ]
        home.start("run", _HOSTILE_JOB, "--input", batches, *options).end(_JOB_TIMEOUT_S)
        lines = outcomes.read_text().splitlines() if outcomes.exists() else []
        self._attempt_frames = count * BATCH
        self._broken_attempt_frames = [line for line in lines if not line.endswith(" held")]
        if not lines:
            self._broken_attempt_frames = ["the attempt sent none"]

    def _ask_and_read(self, kept: bytes) -> None:
        while self._goes_on():
            self._answers += 1
            first = self._sent
            try:
                self._home.run("status").require_ok()
                self._home.run("fs", "ls", "/").require_ok()
                ran = self._home.run("fs", "cat", "/kept")
                ran.require_ok()
                ran.require(ran.stdout == kept, "WRONG BYTES with exit status 0")
            except Broken as broken:
                words = f"{broken}; during batches {first} to {self._sent}, seed {self._seed}"
                self._broken_answers.append(words)
                say("frames", words)
            self._over.wait(1.0)

    def _broken_afterwards(self, kept: bytes) -> list[str]:
        home = self._home
        if not home.lives:
            return ["it has ended"]
        try:
            home.wait_for("fsck to be healthy", lambda: home.run("fs", "fsck").status == 0)
            ran = home.run("fs", "cat", "/kept")
            ran.require_ok()
            ran.require(ran.stdout == kept, "WRONG BYTES with exit status 0")
            home.start_job("500MB").end().require_ok()
            home.run("down").require_ok()
            home.require_nothing_left()
        except Broken as broken:
            return [str(broken)]
        return []

    @staticmethod
    def _row(name: str, tried: int, broken: list[str]) -> Row:
        return tally(name, tried, tried - len(broken), broken)


def _resident_bytes(pid: int) -> int:
    return int(psutil.Process(pid).memory_info().rss)


def _memory_row(megabytes: float) -> Row:
    return bench_row(
        "memory of the largest daemon after the frames",
        megabytes,
        "MB",
        reference=_MEMORY_BOUND_MB,
        ratio_bound=1,
    )
