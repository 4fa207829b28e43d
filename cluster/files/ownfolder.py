"""Folders that Railyard makes, marks, and removes with all that is in them: these and no others.

A folder is ours if it is a folder and no link, belongs to this user, nobody else may enter it, and
its mark (the file ``railyard.json``) says what it is for, its name and its inode number.  So what a
user has put beside it, and what a user has copied or moved from it, is not ours.

What is checked is opened first, and emptied by its descriptor: nobody can put something else in its
place in between.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

import msgspec

MARK = "railyard.json"
_MARK_BYTES_MAX = 4096
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


class Mark(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the mark of a folder says."""

    made_by: Literal["railyard"] = "railyard"
    purpose: str  #: "run folder" or "compiled loops"
    folder: str  #: its name
    inode: int
    id: str  #: no other folder has the same


def mark(path: Path, purpose: str) -> Mark:
    """Mark a new, empty folder as ours; if that fails, the folder is removed (``OSError``)."""
    try:
        with _opened(path) as folder:
            made = Mark(
                purpose=purpose,
                folder=path.name,
                inode=os.fstat(folder).st_ino,
                id=secrets.token_hex(16),
            )
            _write_mark(folder, made)
    except OSError:
        with suppress(OSError):
            (path / MARK).unlink(missing_ok=True)
            path.rmdir()
        raise
    return made


def mark_of(path: Path, purpose: str) -> Mark | None:
    """The mark of a folder that we made for ``purpose``; None if it is not ours, or is not there.

    Raises ``OSError`` where that cannot be known now, as without a free file descriptor.
    """
    try:
        with _opened(path) as folder:
            return _mark_of(folder, path.name, purpose)
    except (FileNotFoundError, NotADirectoryError):  # a link is no directory either
        return None


def remove(path: Path, purpose: str) -> bool:
    """Remove a folder with all that is in it, if it is ours; whether it is gone.

    What can't be removed stays, and the mark with it, so that it can be tried again.
    """
    try:
        with _opened(path.parent, links=True) as parent, _opened(path, parent) as folder:
            if _mark_of(folder, path.name, purpose) is None:
                return False
            if _empty(folder):
                os.unlink(MARK, dir_fd=folder)
                os.rmdir(path.name, dir_fd=parent)  # by its name, but then what is there is empty
                return True
    except FileNotFoundError:
        return True  # somebody else was faster
    except OSError:
        pass
    return False


def _write_mark(folder: int, made: Mark) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(MARK, flags, 0o600, dir_fd=folder), "wb") as file:
        file.write(msgspec.json.encode(made))


def _mark_of(folder: int, name: str, purpose: str) -> Mark | None:
    status = os.fstat(folder)
    if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
        return None
    # O_NONBLOCK: somebody's FIFO of that name would have us wait for its other end.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(os.open(MARK, flags, dir_fd=folder), "rb") as file:
            made = msgspec.json.decode(file.read(_MARK_BYTES_MAX), type=Mark)
    except (FileNotFoundError, IsADirectoryError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:  # a link
            return None
        raise
    ours = (made.purpose, made.folder, made.inode) == (purpose, name, status.st_ino)
    return made if ours else None


def _empty(folder: int) -> bool:
    """Remove what is in a folder, but for its mark; whether that is all that is left."""
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                with suppress(RecursionError):  # user code has made very many, one in the other
                    shutil.rmtree(entry.name, ignore_errors=True, dir_fd=folder)
            elif entry.name != MARK:
                with suppress(OSError):
                    os.unlink(entry.name, dir_fd=folder)
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries] == [MARK]


@contextmanager
def _opened(path: Path, parent: int | None = None, *, links: bool = False) -> Iterator[int]:
    """A descriptor of a folder, by its name in ``parent`` if that is given."""
    flags = _FOLDER if links else _FOLDER | os.O_NOFOLLOW
    folder = os.open(path if parent is None else path.name, flags, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)
