"""Durable writes: syncs to the disk, so that data survives a power cut.

fast    data is left to the system's cache: it survives a crash of any process, not a power cut
safe    data is on the disk before the write is acknowledged
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

Durability = Literal["fast", "safe"]


def sync_file(file: int) -> None:
    """Wait until an open file's data, and the metadata needed to read it, are on the disk."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(file)
    else:
        os.fsync(file)


@contextmanager
def opened_folder(path: Path) -> Iterator[int]:
    """A descriptor of a folder, to sync it or for calls with names in it; raises ``OSError``."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


def sync_folder(path: Path) -> None:
    """Wait until a folder's entries are on the disk."""
    with opened_folder(path) as folder:
        os.fsync(folder)
