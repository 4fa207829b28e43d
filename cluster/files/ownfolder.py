"""Folders that Railyard makes, marks and removes recursively: these and no others.

A folder is ours if it is a directory and no link, belongs to this user, is closed to all others,
and its mark (the file ``railyard.json``) has its purpose, its name and its inode number.  So what a
user has put beside it, and copies that a user has made of it, are not ours.

A folder is opened before it is checked, and emptied through that descriptor, so nothing else can be
put in its place in between.
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
    """The content of a folder's mark."""

    made_by: Literal["railyard"] = "railyard"
    purpose: str  #: "run folder" or "compiled loops"
    folder: str  #: the folder's name
    inode: int
    id: str  #: unique, 32 hex digits


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

    Raises ``OSError`` if that cannot be determined for now, as without a free file descriptor.
    """
    try:
        with _opened(path) as folder:
            return _mark_of(folder, path.name, purpose)
    except (FileNotFoundError, NotADirectoryError):  # a link is no directory either
        return None


def remove(path: Path, purpose: str) -> bool:
    """Remove a folder recursively if it is ours; return whether it is gone.

    If an entry cannot be removed, the mark stays too, so that the removal can be retried.
    """
    try:
        with _opened(path.parent, links=True) as parent, _opened(path, parent) as folder:
            if _mark_of(folder, path.name, purpose) is None:
                return False
            if _empty(folder):
                os.unlink(MARK, dir_fd=folder)
                os.rmdir(path.name, dir_fd=parent)  # by name, but only if it is empty
                return True
    except FileNotFoundError:
        return True  # another process was faster
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
    # O_NONBLOCK: opening a FIFO of that name would block.
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
    """Remove all entries of a folder but its mark; return whether only the mark is left."""
    with os.scandir(folder) as entries:
        for entry in list(entries):
            if entry.is_dir(follow_symlinks=False):
                with suppress(RecursionError):  # user code made very deeply nested folders
                    shutil.rmtree(entry.name, ignore_errors=True, dir_fd=folder)
            elif entry.name != MARK:
                with suppress(OSError):
                    os.unlink(entry.name, dir_fd=folder)
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries] == [MARK]


@contextmanager
def _opened(path: Path, parent: int | None = None, *, links: bool = False) -> Iterator[int]:
    """Open a folder, by its name in ``parent`` if that is given; yield the descriptor."""
    flags = _FOLDER if links else _FOLDER | os.O_NOFOLLOW
    folder = os.open(path if parent is None else path.name, flags, dir_fd=parent)
    try:
        yield folder
    finally:
        os.close(folder)
