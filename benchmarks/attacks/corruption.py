"""Damage to block files and map outputs, before and during reads.

What is read is right, or the command fails and says so: never wrong bytes with exit status 0.
While a sound replica is left it is right; and once the damage is mended, fsck is healthy again.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks._grounds.faults import lasting, replicated
from railyard.benchmarks.attacks._grounds.home import Home, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials
from railyard.chaos.injector import Effect
from railyard.chaos.targets import Damage, delete, flip, map_outputs, overwrite, replicas

_FILE_BYTES = 6_000_000  # 24 blocks
_READ_BYTES = 2**18
#: Of a job's files, about so many are damaged.
_DAMAGED_MAX = 10
_QUICK = (
    "bit flips one during",
    "cut short all before",
    "swapped one during",
    "deleted one before",
)


def _truncate(dice: random.Random, paths: list[Path]) -> None:
    """Cut short, in place."""
    for path in paths:
        os.truncate(path, dice.choice((0, 1, dice.randrange(path.stat().st_size + 1))))


def _swap(_: random.Random, paths: list[Path]) -> None:
    """Have each file take the place of the next one of its folder."""
    by_folder: dict[Path, list[Path]] = {}
    for path in paths:
        by_folder.setdefault(path.parent, []).append(path)
    for members in by_folder.values():
        aside = members[0].with_name("swapped.part")
        members[0].rename(aside)
        for earlier, later in itertools.pairwise(members):
            later.rename(earlier)
        aside.rename(members[-1])


DAMAGES: dict[str, Damage] = {
    "bit flips": flip,
    "overwritten": overwrite,
    "cut short": _truncate,
    "deleted": delete,
    "swapped": _swap,
}


def run(quick: bool = False, seed: int = SEED, only: str | None = None) -> list[Row]:
    """Damage; ``quick`` does each once."""
    return run_trials("corruption", trials(), quick, seed, only)


def trials() -> list[Trial]:
    """All damages."""
    return [trial for name, damage in DAMAGES.items() for trial in _trials_of(name, damage)]


def _trials_of(name: str, damage: Damage) -> list[Trial]:
    word = name.replace(" ", "-")
    every = [
        Trial(
            name=f"{word}-{which}-{when}",
            row=f"blocks {name}, {which} of their replicas, {when} a read",
            attack=partial(_of_file, damage, which, when),
            quick=f"{name} {which} {when}" in _QUICK,
        )
        for when in ("before", "during")
        for which in ("one", "all")
    ]
    of_job = (
        ("map-outputs", f"map outputs {name} during a job", _map_outputs, "cut short"),
        ("job", f"blocks {name}, one of their replicas, during a job", replicas, "swapped"),
    )
    return every + [
        Trial(
            name=f"{word}-{what}",
            row=row,
            attack=partial(_of_job, damage, files),
            quick=name == quick,
        )
        for what, row, files, quick in of_job
    ]


# A file that is read ------------------------------------------------------------------------------
def _of_file(damage: Damage, which: str, when: str, home: Home) -> None:
    """Damage before it is read, or while half is on its way: its reader is slow to take it."""
    local = home.random_file("local", _FILE_BYTES)
    home.up()
    home.run("fs", "put", local, "/file").require_ok()
    right = local.read_bytes()
    with ExitStack() as stack:
        is_damaged = when == "before"
        if is_damaged:
            stack.enter_context(lasting(home, _damaged(damage, which, home)))
        readable, writable = os.pipe()
        command = home.start("fs", "cat", "/file", stdout=writable)
        os.close(writable)
        got = bytearray()
        with open(readable, "rb", buffering=0) as pipe:
            while data := pipe.read(_READ_BYTES):
                got += data
                if not is_damaged and len(got) > _FILE_BYTES // 10:
                    is_damaged = True
                    stack.enter_context(lasting(home, _damaged(damage, which, home)))
        ran = command.end()
        if ran.status == 0:
            ran.require(got == right, "WRONG BYTES with exit status 0")
        else:
            ran.require_clear_failure()
            ran.require(right.startswith(got), "WRONG BYTES before it failed")
            ran.require(which == "all", "sound replicas were left, and it failed")
    ran = home.run("fs", "cat", "/file")
    ran.require_ok()
    ran.require(ran.stdout == right, "WRONG BYTES with exit status 0, once mended")
    _require_all_alive(home)
    home.down()


def _damaged(damage: Damage, which: str, home: Home) -> Effect:
    """Damage one replica of each block, or all of some blocks.

    One replica the cluster mends; where all were damaged, a backup is put back.
    """
    by_block = replicas(home.run_folder())
    require(by_block, "no block files are where this attack looks for them")
    if which == "one":
        paths = [home.dice.choice(paths) for paths in by_block.values()]
    else:
        chosen = home.dice.sample(sorted(by_block), max(2, len(by_block) // 3))
        paths = [path for name in chosen for path in by_block[name]]
    saved = _contents(paths) if which == "all" else {}
    damage(home.dice, paths)
    return Effect(
        what="damaged blocks", watch=partial(replicated, home), mend=partial(_restore, saved)
    )


def _require_all_alive(home: Home) -> None:
    status = home.run("status")
    status.require_ok()
    text = status.stdout.decode()
    died = [line.strip() for line in text.splitlines() if "died" in line or "silent" in line]
    require(not died, f"a daemon is gone: {died}")


# A job --------------------------------------------------------------------------------------------
def _map_outputs(run_folder: Path) -> dict[str, list[Path]]:
    return {path.name: [path] for path in map_outputs(run_folder)}


def _of_job(damage: Damage, files: Callable[[Path], dict[str, list[Path]]], home: Home) -> None:
    """Damage one of each of the first files that there are while a job runs."""
    job = home.start_job()
    damaged: set[str] = set()
    while job.running:
        for folder in home.run_folders():
            fresh = {name: paths for name, paths in files(folder).items() if name not in damaged}
            if fresh and len(damaged) < _DAMAGED_MAX:
                with suppress(FileNotFoundError):  # removed meanwhile, by whoever made it
                    damage(home.dice, [home.dice.choice(paths) for paths in fresh.values()])
                damaged.update(fresh)
        time.sleep(0.02)
    ran = job.end()
    if ran.status == 0:
        ran.require(b"verified" in ran.stdout, "was not verified")
    else:
        ran.require_clear_failure("failed")
    home.require_nothing_left()


def _contents(paths: Iterable[Path]) -> dict[Path, bytes]:
    """What is in these files; those that are gone meanwhile are left out."""
    found = {}
    for path in paths:
        try:
            found[path] = path.read_bytes()
        except FileNotFoundError:
            continue
    return found


def _restore(saved: dict[Path, bytes]) -> None:
    """Put files back as they were."""
    for path, data in saved.items():
        path.write_bytes(data)
