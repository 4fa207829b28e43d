"""Damage to block files and map outputs, before and during reads.

What is read is right, or the command fails and says so: never wrong bytes with exit status 0.
While a sound replica is left it is right; and once the damage is mended, fsck is healthy again.
"""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks._grounds.home import Home, Ran, require
from railyard.benchmarks.attacks._grounds.trials import SEED, Trial, run_trials
from railyard.chaos.targets import Damage, delete, flip, map_outputs, overwrite, replicas

_FILE_BYTES = 6_000_000  # 24 blocks
_READ_BYTES = 2**18
_HEALTH_TIMEOUT_S = 60.0
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
            attack=partial(attack, damage, which),
            quick=f"{name} {which} {when}" in _QUICK,
        )
        for when, attack in (("before", _before_read), ("during", _during_read))
        for which in ("one", "all")
    ]
    every.append(
        Trial(
            name=f"{word}-map-outputs",
            row=f"map outputs {name} during a job",
            attack=partial(_map_outputs, damage),
            quick=name == "cut short",
        )
    )
    every.append(
        Trial(
            name=f"{word}-job",
            row=f"blocks {name}, one of their replicas, during a job",
            attack=partial(_blocks_of_job, damage),
            quick=name == "swapped",
        )
    )
    return every


def _stored_file(home: Home) -> Path:
    """A cluster that is up, with a file in it; its local twin."""
    local = home.random_file("local", _FILE_BYTES)
    home.up()
    home.run("fs", "put", local, "/file").require_ok()
    return local


def _targets(home: Home, which: str) -> list[Path]:
    """One replica of each block, or all of some blocks."""
    by_block = replicas(home.run_folder())
    require(by_block, "no block files are where this attack looks for them")
    if which == "one":
        return [home.dice.choice(paths) for paths in by_block.values()]
    chosen = home.dice.sample(sorted(by_block), max(2, len(by_block) // 3))
    return [path for name in chosen for path in by_block[name]]


def _before_read(damage: Damage, which: str, home: Home) -> None:
    local = _stored_file(home)
    targets = _targets(home, which)
    saved = _contents(targets)
    damage(home.dice, targets)
    ran = home.run("fs", "cat", "/file")
    _check(ran, ran.stdout, local, which)
    _mend(home, local, which, saved)


def _during_read(damage: Damage, which: str, home: Home) -> None:
    """Damage while half of the file is on its way: its reader is slow to take it."""
    local = _stored_file(home)
    readable, writable = os.pipe()
    command = home.start("fs", "cat", "/file", stdout=writable)
    os.close(writable)
    saved: dict[Path, bytes] = {}
    got = bytearray()
    with open(readable, "rb", buffering=0) as pipe:
        while data := pipe.read(_READ_BYTES):
            got += data
            if not saved and len(got) > _FILE_BYTES // 10:
                targets = _targets(home, which)
                saved = _contents(targets)
                damage(home.dice, targets)
    _check(command.end(), bytes(got), local, which)
    _mend(home, local, which, saved)


def _check(ran: Ran, got: bytes, local: Path, which: str) -> None:
    if ran.status == 0:
        ran.require(got == local.read_bytes(), "WRONG BYTES with exit status 0")
    else:
        ran.require_clear_failure()
        ran.require(local.read_bytes().startswith(got), "WRONG BYTES before it failed")
        ran.require(which == "all", "sound replicas were left, and it failed")


def _mend(home: Home, local: Path, which: str, saved: dict[Path, bytes]) -> None:
    """Of one replica the cluster mends it; where all were damaged, a backup is put back."""
    if which == "all":
        _restore(saved)
    home.wait_for("fsck to be healthy", lambda: _is_healthy(home), _HEALTH_TIMEOUT_S)
    ran = home.run("fs", "cat", "/file")
    ran.require_ok()
    ran.require(ran.stdout == local.read_bytes(), "WRONG BYTES with exit status 0, once mended")
    _require_all_alive(home)
    home.run("down").require_ok()
    home.require_nothing_left()


def _is_healthy(home: Home) -> bool:
    time.sleep(0.5)
    return home.run("fs", "fsck").status == 0


def _require_all_alive(home: Home) -> None:
    status = home.run("status")
    status.require_ok()
    text = status.stdout.decode()
    died = [line.strip() for line in text.splitlines() if "died" in line or "silent" in line]
    require(not died, f"a daemon is gone: {died}")


def _map_outputs(damage: Damage, home: Home) -> None:
    job = home.start_job()
    damaged: set[Path] = set()
    while job.running:
        for folder in home.run_folders():
            fresh = [path for path in map_outputs(folder) if path not in damaged]
            if fresh and len(damaged) < 8:
                _try(damage, home, fresh)
                damaged.update(fresh)
        time.sleep(0.02)
    _require_verified_or_clear(job.end(), home)


def _blocks_of_job(damage: Damage, home: Home) -> None:
    job = home.start_job()
    damaged: set[str] = set()
    while job.running:
        for folder in home.run_folders():
            fresh = {n: p for n, p in replicas(folder).items() if n not in damaged}
            if fresh and len(damaged) < 12:
                _try(damage, home, [home.dice.choice(paths) for paths in fresh.values()])
                damaged.update(fresh)
        time.sleep(0.02)
    _require_verified_or_clear(job.end(), home)


def _try(damage: Damage, home: Home, paths: list[Path]) -> None:
    try:
        damage(home.dice, paths)
    except FileNotFoundError:
        return  # it was removed meanwhile, by whoever made it


def _require_verified_or_clear(ran: Ran, home: Home) -> None:
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
