"""Where run folders are kept: in the folder ``clusters`` of Railyard's home, and nowhere else.

The home is $RAILYARD_HOME, which may hold anything else of its user's, or a folder of this user's
in the system's folder for temporary files.  Nothing in it but ``clusters`` is touched.  In a shared
place others may have put something there first, so each folder is checked before it is used.
"""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from railyard.cluster.errors import UsageError
from railyard.cluster.files.resources import unusable

_NAME = "clusters"
_RIGHT = "set RAILYARD_HOME to a folder of your own"


def clusters_folder() -> Path | None:
    """The folder of run folders; None if there is none yet.  ``UsageError`` if it is not ours."""
    path = home()
    try:
        _check_home(path)
        _check_own(path / _NAME)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(f"{path}: cannot hold run folders", error, path) from None
    return path / _NAME


def make_clusters_folder() -> Path:
    """The folder of run folders, made if there is none yet.  ``UsageError`` if it is not ours."""
    path = home()
    try:
        with suppress(FileExistsError):  # whatever it is, it is checked
            path.mkdir(mode=0o700, parents=True)
        _check_home(path)
        with suppress(FileExistsError):
            (path / _NAME).mkdir(mode=0o700)
        _check_own(path / _NAME)
    except OSError as error:
        raise unusable(f"{path}: cannot hold run folders", error, path) from None
    return path / _NAME


def home() -> Path:
    """Where clusters are kept, there or not: $RAILYARD_HOME, or one of this user's in /tmp."""
    chosen = _chosen_home()
    return chosen or Path(tempfile.gettempdir()).absolute() / f"railyard-{os.geteuid()}"


def _chosen_home() -> Path | None:
    chosen = os.environ.get("RAILYARD_HOME")
    return Path(chosen).absolute() if chosen else None  # daemons have another working folder


def _check_home(path: Path) -> None:
    if _chosen_home() is None:
        _check_own(path, others=stat.S_IWGRP | stat.S_IWOTH)
        return
    status = path.stat()  # what the user chose may be a link
    if not stat.S_ISDIR(status.st_mode):
        raise UsageError(f"{path}: is not a folder: {_RIGHT}")
    if status.st_uid != os.geteuid():
        raise UsageError(f"{path}: belongs to another user: {_RIGHT}")
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise UsageError(f"{path}: every user may write to it: chmod o-w it, or {_RIGHT}")


def _check_own(path: Path, others: int = 0o077) -> None:
    """Refuse a path that is no folder of this user, or gives others one of these permissions."""
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode):
        what = "a link" if stat.S_ISLNK(status.st_mode) else "not a folder"
        raise UsageError(f"{path}: is {what}: move it away, or {_RIGHT}")
    if status.st_uid != os.geteuid():
        raise UsageError(f"{path}: belongs to another user: {_RIGHT}")
    if status.st_mode & others:
        mode = f"others have access to it (mode {stat.S_IMODE(status.st_mode):o})"
        raise UsageError(f"{path}: {mode}: chmod 700 it if it is Railyard's, or {_RIGHT}")
