"""Making what was written outlive a power cut.

fast    what was written is the system's: it outlives any process, not the machine's sudden end
safe    it is on the disk before anybody is told that it is done
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

Durability = Literal["fast", "safe"]


def sync_file(file: int) -> None:
    """Wait until an open file's bytes, and what is needed to read them, are on the disk."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(file)
    else:
        os.fsync(file)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
