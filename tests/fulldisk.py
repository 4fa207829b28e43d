"""Disks without room: a small file system where that can be mounted, a limit on files elsewhere."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class SmallDisk:
    """A file system in memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self, but_bytes: int = 0) -> None:
        """Leave so much room, to the page, whoever else writes meanwhile."""
        with self._filler.open("ab") as file:
            while True:
                free = os.statvfs(self.path)
                room = free.f_bavail * free.f_frsize - but_bytes
                try:
                    return os.posix_fallocate(file.fileno(), self._filler.stat().st_size, room)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def free(self) -> None:
        """Give the room back."""
        self._filler.unlink(missing_ok=True)


@contextmanager
def small_disk(path: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Mount one, which only root can; whoever cannot skips the test."""
    path.mkdir(exist_ok=True)
    options = f"size={size_bytes},mode=0700"
    mount = ["mount", "-t", "tmpfs", "-o", options, "railyard-test", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("needs to mount a small file system: run as root")
    try:
        yield SmallDisk(path)
    finally:
        # Lazily: it is gone from here at once, whatever still holds a file of it.
        subprocess.run(["umount", "--lazy", str(path)], check=True)


@contextmanager
def files_of_at_most(size_bytes: int) -> Iterator[None]:
    """Have this process, and those that it starts, fail to write beyond that in any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
