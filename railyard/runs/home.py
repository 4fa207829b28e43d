"""The clusters of this machine: their run folders, which are alive, and which was left running.

    clusters/lock         held while a run folder is made or removed
    clusters/permits      to compute, for all clusters together: see nodemanager/permits.py
    clusters/current      a link to the run folder of the cluster that was left running
    clusters/c-.../       run folders: see cluster/runfolder.py

``clusters`` is in Railyard's home: $RAILYARD_HOME, which may hold anything else of its user's, or a
folder of this user's in the system's folder for temporary files.  Nothing else in it is touched.
In a shared place others may have put something there first, so each folder is checked before it is
used.

A run folder's ``alive`` file is locked by its cluster's supervisor, and by nobody else, for as long
as it lives: a lock cannot be left behind, as a pid in a file can.  If the supervisor is dead, the
cluster's other processes are killed before its folder is removed.
"""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from railyard.cluster.errors import RailyardError, UsageError
from railyard.cluster.machine import unusable
from railyard.cluster.processes import kill_members, signal_member
from railyard.cluster.runfolder import PREFIX, RunFolder

_NAME = "clusters"
_RIGHT = "set RAILYARD_HOME to a folder of your own"
_CURRENT = "current"
_ALIVE = "alive"
_END_TIMEOUT_S = 5.0
#: A process that ends has lost its environment, by which it is found, a moment before its locks.
_UNLOCK_TIMEOUT_S = 2.0


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


def new_folder(*, current: bool) -> tuple[RunFolder, int]:
    """Make a run folder, and the locked file that marks its cluster as alive.

    Folders of dead clusters are removed first.  With ``current`` it becomes the cluster that
    other commands use; raises ``UsageError`` if there is one already.
    """
    place = make_clusters_folder()
    with _locked(place):
        if current and _live_current(place) is not None:
            commands = "railyard status shows it, railyard down ends"
            raise UsageError(f"a cluster is up already: {commands}")
        _remove_dead(place)
        if current:
            _make_way_for_current(place)
        folder = RunFolder.create(place)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            alive = os.open(folder.path / _ALIVE, flags, 0o600)
            fcntl.flock(alive, fcntl.LOCK_EX)
            if current:
                (place / _CURRENT).symlink_to(folder.path.name)
        except OSError as error:
            folder.remove()
            raise unusable(f"{place}: cannot hold run folders", error, place) from None
    return folder, alive


def current_folder() -> RunFolder | None:
    """The run folder of the cluster that was left running; None if there is none, or it died."""
    place = clusters_folder()
    return None if place is None else _live_current(place)


def folder_named(name: str) -> RunFolder | None:
    """The run folder of this name, such as "c-dm7zomey"; None if there is none, or it is dead."""
    place = clusters_folder()
    if place is None or not name.startswith(PREFIX) or "/" in name:
        return None
    folder = RunFolder(place / name)
    return folder if folder.path.is_dir() and folder.id and _lives(folder.path) else None


def dead_current_folder() -> RunFolder | None:
    """The run folder of a cluster that was left running and died since."""
    place = clusters_folder()
    folder = None if place is None else _current(place)
    return None if folder is None or _lives(folder.path) else folder


def wait_until_dead(folder: RunFolder, timeout_s: float) -> bool:
    """Whether a cluster's supervisor ended within ``timeout_s``."""
    deadline_s = time.monotonic() + timeout_s
    while folder.path.exists() and _lives(folder.path):
        if time.monotonic() > deadline_s:
            return False
        time.sleep(0.01)
    return True


def forget(folder: RunFolder) -> None:
    """Kill what is left of a cluster, its supervisor too, and remove its folder.

    Raises ``RailyardError`` if a process does not end.
    """
    place = folder.path.parent
    if not place.is_dir():  # somebody has removed it
        return
    with _locked(place):
        _end(folder)
        if _current_name(place) == folder.path.name:
            (place / _CURRENT).unlink()
        folder.remove()


def _current_name(place: Path) -> str | None:
    """The run folder's name in the link to the current cluster; None without a link of ours."""
    try:
        name = str((place / _CURRENT).readlink())
    except OSError:  # there is none, or it is somebody's file
        return None
    return name if name.startswith(PREFIX) and "/" not in name else None


def _current(place: Path) -> RunFolder | None:
    name = _current_name(place)
    if name is None:
        return None
    folder = RunFolder(place / name)
    try:
        return folder if folder.id else None
    except OSError as error:
        raise UsageError(f"{folder.path}: cannot be read: {error.strerror}") from None


def _live_current(place: Path) -> RunFolder | None:
    folder = _current(place)
    return folder if folder is not None and _lives(folder.path) else None


def _make_way_for_current(place: Path) -> None:
    """Remove the link to a dead cluster, even if its folder could not be removed."""
    link = place / _CURRENT
    if _current_name(place) is not None:
        link.unlink()
    elif os.path.lexists(link):
        raise UsageError(f"{link}: is not Railyard's: move it away")


def _remove_dead(place: Path) -> None:
    for path in place.glob(f"{PREFIX}*"):
        with suppress(RailyardError, OSError):  # the next command tries again
            folder = RunFolder(path)
            if not _lives(path):
                _end(folder)
                folder.remove()
    name = _current_name(place)
    if name is not None and not (place / name).exists():
        (place / _CURRENT).unlink()


def _end(folder: RunFolder) -> None:
    """Kill what is left of a cluster; ``RailyardError`` if something survives."""
    cluster = folder.id
    if cluster is None:
        return
    left = ", ".join(map(str, kill_members(cluster, _END_TIMEOUT_S)))
    if left or not wait_until_dead(folder, _UNLOCK_TIMEOUT_S):
        who = f"process {left}" if left else f"whoever has locked {folder.path / _ALIVE}"
        raise RailyardError(f"the cluster in {folder.path} does not end: kill {who}")


def _lives(path: Path) -> bool:
    """Whether the cluster's lock is held, or can't be checked just now."""
    try:
        file = os.open(path / _ALIVE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(file)
    return False


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """Hold the lock for making and removing run folders while the block runs."""
    path = place / "lock"
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UsageError(f"{path}: cannot be locked: {error.strerror}: move it away") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


# Daemons ------------------------------------------------------------------------------------------
#: Roles of daemons that a cluster can't do without.
CENTRAL = ("ResourceManager", "NameNode", "NetworkEmulator")
#: Roles of all daemons; a run folder's processes are also their helpers and attempts.
DAEMONS = (*CENTRAL, "DataNode", "NodeManager", "Gateway")
#: A little more than the supervisor itself allows for stopping.
STOP_TIMEOUT_S = 10.0


def daemons_of(folder: RunFolder) -> list[dict[str, Any]]:
    """The daemons, each as it was started last: role, name, pid."""
    latest = {row["name"]: row for row in folder.processes() if row["role"] in DAEMONS}
    return list(latest.values())


def stop_running(folder: RunFolder) -> None:
    """End a cluster that was left running, from any process, and remove its folder."""
    pid, cluster = _supervisor_pid(folder), folder.id
    if pid is not None and cluster is not None and signal_member(cluster, pid, signal.SIGTERM):
        wait_until_dead(folder, STOP_TIMEOUT_S)
    forget(folder)


def _supervisor_pid(folder: RunFolder) -> int | None:
    """The pid of a live cluster's supervisor, which may be starting at this moment."""
    deadline_s = time.monotonic() + STOP_TIMEOUT_S
    while time.monotonic() < deadline_s and not wait_until_dead(folder, 0):
        for row in folder.processes():
            if row["role"] == "Supervisor":
                return int(row["pid"])
        time.sleep(0.01)
    return None
