"""A small disk as RAILYARD_HOME that fills up while jobs and ``fs put`` run, and is freed again.

Errors name the full disk, stored files stay, and once there is room again the cluster works with
the same daemons.  The disk is a tmpfs, which only root may mount.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks._grounds.faults import lasting, replicated
from railyard.benchmarks.attacks._grounds.home import SMALL, Home, Ran, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Skipped, Trial, run_trials
from railyard.chaos.injector import Effect
from railyard.chaos.targets import Recovery, at_once

_DISK_BYTES = 48_000_000
_PIECE_BYTES = 2**20
_SPACE = "no space"
#: What is said before a job that can't fit is begun.
_TOO_LITTLE = "free"
#: A full disk that is freed within this time does not end a job.
_SHORT_S = 0.7


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Fill the disk; ``quick`` in fewer ways."""
    return run_trials("fulldisk", trials(), quick, seed, only)


def trials() -> list[Trial]:
    """All that may be going on when the disk is full."""
    short, long = partial(_job, "1GB", _SHORT_S), partial(_job, "2GB", None)
    row = f"the disk is full for {_SHORT_S:g} s of a job"
    return [
        Trial(name="put", row="the disk is full during fs put", attack=_put, quick=True),
        Trial(name="start", row="the disk is full at the start", attack=_start, quick=True),
        Trial(name="down", row="the disk is full at the end", attack=_end),
        *(Trial(name=f"short-{i}", row=row, attack=short, quick=i == 0) for i in range(4)),
        *(
            Trial(name=f"long-{i}", row="the disk is full until a job ends", attack=long)
            for i in range(2)
        ),
        Trial(name="node-full", row="one node's disk is full", attack=partial(_node, _full)),
        Trial(
            name="node-read-only",
            row="one node's disk is read-only",
            attack=partial(_node, _read_only),
        ),
    ]


# Disks --------------------------------------------------------------------------------------------
@contextmanager
def _mounted(path: Path) -> Iterator[None]:
    """Have a small disk at this path."""
    if os.geteuid() != 0:
        raise Skipped("only root can mount a small disk")
    options = f"size={_DISK_BYTES},mode=0700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "railyard-attacks", str(path)]
    mounted = subprocess.run(mount, capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        raise Skipped(f"mount: {mounted.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=False)


def _full(disk: Path, watch: Callable[[], Recovery] = at_once) -> Effect:
    """Have no byte left on a disk."""
    ballast = disk / "ballast"
    with ballast.open("ab", buffering=0) as file:
        for piece_bytes in (_PIECE_BYTES, 4096, 1):
            with suppress(OSError):
                while True:
                    file.write(bytes(piece_bytes))
    return Effect(what="a full disk", watch=watch, mend=ballast.unlink)


def _read_only(disk: Path, watch: Callable[[], Recovery]) -> Effect:
    _remount(disk, "ro")
    return Effect(what="a read-only disk", watch=watch, mend=partial(_remount, disk, "rw"))


def _remount(disk: Path, how: str) -> None:
    mount = ["mount", "-o", f"remount,{how}", str(disk)]
    if (done := subprocess.run(mount, capture_output=True, text=True, check=False)).returncode:
        raise Skipped(f"mount: {done.stderr.strip()}")


# What goes on meanwhile ---------------------------------------------------------------------------
def _daemons(home: Home) -> set[int]:
    roles = ("ResourceManager", "NameNode", "NetworkEmulator", "DataNode", "NodeManager")
    return {row["pid"] for role in roles for row in home.rows(role)}


def _require_well(home: Home, daemons: set[int], what: dict[str, bytes]) -> None:
    """The same daemons as before, and all files whole; a job and a put work again."""
    require(_daemons(home) == daemons, "a daemon is gone")
    for path, data in what.items():
        ran = home.run("fs", "cat", path)
        ran.require_ok()
        ran.require(ran.stdout == data, "WRONG BYTES with exit status 0")
    home.run("fs", "put", home.random_file("after", 500_000), "/after").require_ok()
    home.start_job("500MB").require_verified()
    home.run("down").require_ok()
    left = home.run_folders()
    require(not left and not home.living(), f"left behind: {left or home.living()}")


def _put(home: Home) -> None:
    with _mounted(home.path):
        home.up()
        daemons = _daemons(home)
        kept = home.random_file("kept", 2_000_000)
        home.run("fs", "put", kept, "/kept").require_ok()
        home.run("fs", "put", kept, "/less").require_ok()
        large = home.random_file("large", 10_000_000)  # fits, with its replicas
        command = home.start("fs", "put", large, "/large")
        time.sleep(home.dice.uniform(0.2, 1.2))
        with lasting(home, _full(home.path, partial(replicated, home))):
            _require_done_or_space(command.end(), or_refused=True)  # it may have come too late
            again = home.run("fs", "put", large, "/again")
            again.require(again.status == 2, "should be refused before it begins")
            again.require(_TOO_LITTLE in again.stderr, "should say how much is free")
            home.run("fs", "rm", "/less").require_ok()  # which gives room back, in time
            cat = home.run("fs", "cat", "/kept")
            cat.require_ok()
            cat.require(cat.stdout == kept.read_bytes(), "WRONG BYTES with exit status 0")
        _require_well(home, daemons, {"/kept": kept.read_bytes()})


def _job(size: str, full_s: float | None, home: Home) -> None:
    """The disk is full for so long, from a random moment of the job on; None: to its end."""
    with _mounted(home.path):
        home.up()
        daemons = _daemons(home)
        job = home.start_job(size)
        home.wait_for("an attempt", lambda: home.rows("Attempt") or not job.running)
        time.sleep(home.dice.uniform(0, 4.0))
        with lasting(home, _full(home.path, partial(replicated, home))):
            if full_s is None:
                _require_done_or_space(job.end())
            else:
                time.sleep(full_s)
        if full_s is not None:
            job.require_verified()
        _require_well(home, daemons, {})


def _node(fault: Callable[[Path, Callable[[], Recovery]], Effect], home: Home) -> None:
    """A node of a cluster that is up has a disk of its own, with the folders that it had."""
    home.up()
    disk = home.run_folder() / "nodes" / "r0n1"
    before = home.scratch / "disk"
    shutil.copytree(disk, before)
    with _mounted(disk):
        shutil.copytree(before, disk, dirs_exist_ok=True)
        daemons = _daemons(home)
        with lasting(home, fault(disk, partial(replicated, home))):
            home.start_job("1GB").require_verified()  # elsewhere
        _require_well(home, daemons, {})


def _start(home: Home) -> None:
    with _mounted(home.path):
        with lasting(home, _full(home.path)):
            for command in (("up",), ("run", "topwords", "--size", "100MB")):
                ran = home.run(*command, "--topology", SMALL)
                ran.require_words()
                ran.require(ran.status in (2, 3, 4), "there is no room for a cluster")
                named = _SPACE in ran.stderr.lower() or _TOO_LITTLE in ran.stderr
                ran.require(named, "should say that the disk is full")
            require(not home.living(), "processes are left")
        home.up()
        _require_well(home, _daemons(home), {})


def _end(home: Home) -> None:
    with _mounted(home.path):
        home.up()
        with lasting(home, _full(home.path)):
            home.run("status").require_ok()
            home.run("down").require_ok()
            require(not home.living() and not home.run_folders(), "something is left behind")


def _require_done_or_space(ran: Ran, or_refused: bool = False) -> None:
    ran.require_words()
    if or_refused and ran.status == 2:
        ran.require(_TOO_LITTLE in ran.stderr, "should say how much is free")
    elif ran.status != 0:
        ran.require_clear_failure(_SPACE)
