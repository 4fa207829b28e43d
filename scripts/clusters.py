"""Which clusters there are on this machine: which live, which is the one that was left running.

A run folder's ``alive`` file is locked by its cluster's supervisor, and by the daemons forked from
it, for as long as one of them lives: a lock cannot be left behind, as a pid in a file can.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.errors import UsageError
from cluster.runfolder import RunFolder, home

_CURRENT = "current"
_ALIVE = "alive"


def new_folder(*, current: bool) -> tuple[RunFolder, int]:
    """A new run folder and the locked file that marks its cluster as alive.

    Folders of dead clusters are removed on the way.  With ``current`` it becomes the cluster that
    other commands use; raises ``UsageError`` if there is one already.
    """
    with _home_locked() as place:
        if current and _live_current(place) is not None:
            raise UsageError(
                "a cluster is up already: railyard status shows it, railyard down ends"
            )
        _remove_dead(place)
        folder = RunFolder.create(place)
        alive = os.open(folder.path / _ALIVE, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(alive, fcntl.LOCK_EX)
        if current:
            (place / _CURRENT).symlink_to(folder.path.name)
    return folder, alive


def current_folder() -> RunFolder | None:
    """The run folder of the cluster that was left running; None if there is none, or it died."""
    return _live_current(home())


def dead_current_folder() -> RunFolder | None:
    """The run folder of a cluster that was left running and died since."""
    path = home() / _CURRENT
    return RunFolder(path.resolve()) if path.exists() and not _lives(path) else None


def wait_until_dead(folder: RunFolder, timeout_s: float) -> bool:
    """Whether a cluster's last daemon ended within ``timeout_s``."""
    deadline_s = time.monotonic() + timeout_s
    while folder.path.exists() and _lives(folder.path):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.01)
    return True


def forget(folder: RunFolder) -> None:
    """Remove the folder of a cluster that has ended."""
    link = home() / _CURRENT
    if link.is_symlink() and link.readlink().name == folder.path.name:
        link.unlink(missing_ok=True)
    folder.remove()


def _live_current(place: Path) -> RunFolder | None:
    path = place / _CURRENT
    return RunFolder(path.resolve()) if path.exists() and _lives(path) else None


def _remove_dead(place: Path) -> None:
    for path in place.glob("c-*"):
        if not _lives(path):
            RunFolder(path).remove()
    link = place / _CURRENT
    if link.is_symlink() and not link.exists():
        link.unlink()


def _lives(path: Path) -> bool:
    try:
        with open(path / _ALIVE, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@contextmanager
def _home_locked() -> Iterator[Path]:
    """Keep others from making or removing run folders meanwhile."""
    place = home().absolute()  # daemons have another working folder
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if place.stat().st_uid != os.getuid():
            right = "set RAILYARD_HOME to a folder of your own"
            raise UsageError(f"{place}: belongs to another user: {right}")
        with open(place / "lock", "w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield place
    except OSError as error:
        raise UsageError(f"{place}: cannot hold run folders: {error.strerror}") from None
