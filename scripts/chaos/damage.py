"""Block files and map outputs as they lie on a cluster's disks, and what damages them."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
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


def delete(_: random.Random, paths: list[Path]) -> None:
    """Remove."""
    for path in paths:
        path.unlink()
