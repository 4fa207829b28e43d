"""Block files and map outputs as they lie on a cluster's disks, and what damages them."""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterable
from pathlib import Path

Damage = Callable[[random.Random, list[Path]], None]


def replicas(run_folder: Path) -> dict[str, list[Path]]:
    """{name of a block's file: its replicas}, of all nodes."""
    found: dict[str, list[Path]] = {}
    for path in sorted(run_folder.glob("nodes/*/blocks/*")):
        if path.is_file() and path.suffix != ".part":
            found.setdefault(path.name, []).append(path)
    return found


def map_outputs(run_folder: Path) -> list[Path]:
    """The map outputs that there are now."""
    return [path for path in sorted(run_folder.glob("nodes/*/shuffle/*/*")) if path.is_file()]


def contents(paths: Iterable[Path]) -> dict[Path, bytes]:
    """What is in these files; those that are gone meanwhile are left out."""
    found = {}
    for path in paths:
        try:
            found[path] = path.read_bytes()
        except FileNotFoundError:
            continue
    return found


def restore(saved: dict[Path, bytes]) -> None:
    """Put files back as they were."""
    for path, data in saved.items():
        path.write_bytes(data)


def flip(dice: random.Random, paths: list[Path]) -> None:
    """Flip some bits, in place."""
    for path in paths:
        with path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            for _ in range(dice.choice((1, 3))):
                at = dice.randrange(max(size, 1))
                byte = os.pread(file.fileno(), 1, at)
                if byte:
                    os.pwrite(file.fileno(), bytes([byte[0] ^ 1 << dice.randrange(8)]), at)


def overwrite(dice: random.Random, paths: list[Path]) -> None:
    """Write other bytes over the middle, in place."""
    for path in paths:
        with path.open("r+b") as file:
            size = os.fstat(file.fileno()).st_size
            os.pwrite(file.fileno(), dice.randbytes(size // 2), size // 4)


def truncate(dice: random.Random, paths: list[Path]) -> None:
    """Cut short, in place."""
    for path in paths:
        os.truncate(path, dice.choice((0, 1, dice.randrange(path.stat().st_size + 1))))


def delete(_: random.Random, paths: list[Path]) -> None:
    """Remove."""
    for path in paths:
        path.unlink()


def swap(_: random.Random, paths: list[Path]) -> None:
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
    "cut short": truncate,
    "deleted": delete,
    "swapped": swap,
}
