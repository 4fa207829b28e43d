"""Where put, get, cp and mv write to: into a folder that is there, or to the path itself.

What is wrong with the destination is said before anything of the sources is looked at, as in
Hadoop's shell.
"""

from __future__ import annotations

import contextlib
import grp
import io
import os
import posixpath
import pwd
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from railyard.cluster.fileheads import (
    GZIP,
    PACKED_HEAD_BYTES,
    NotPacked,
    ending_of,
    fault_of,
    unpacked,
)
from railyard.gateway.shell.command import Command, entries
from railyard.gateway.shell.paths import Found, Wrong, local_path, status_of
from railyard.gateway.shell.web import PIECE_BYTES

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class Destination:
    """A path of the block store as it was typed: a folder that is there, or a new name."""

    def __init__(self, command: Command, typed: str, sources: int) -> None:
        self._typed = typed
        self._path = command.path(typed)
        there = status_of(command.web, self._path)
        self._into = there is not None and there["type"] == "DIRECTORY"
        _check(command, typed, sources, there is not None, self._into)
        if there is None and status_of(command.web, posixpath.dirname(self._path)) is None:
            raise Wrong(f"`{typed}': No such file or directory: `{command.uri(typed)}'")

    def of(self, name: str) -> tuple[str, str]:
        """For a source of this name: (its path, how it is shown)."""
        if not self._into:
            return self._path, self._typed
        return posixpath.join(self._path, name), posixpath.join(self._typed, name)


class LocalDestination:
    """The same of a local path."""

    def __init__(self, command: Command, typed: str, sources: int) -> None:
        self._path = Path(typed)
        self._into = self._path.is_dir()
        _check(command, typed, sources, self._path.exists(), self._into)
        whole = self._path.absolute()
        if not whole.exists() and not whole.parent.is_dir():
            raise Wrong(f"`{typed}': No such file or directory: `file:{whole}'")

    def of(self, name: str) -> Path:
        """For a source of this name: its path."""
        return self._path / name if self._into else self._path


def _check(command: Command, typed: str, sources: int, is_there: bool, into: bool) -> None:
    if sources > 1 and not is_there:
        raise Wrong(f"`{typed}': No such file or directory")
    if sources > 1 and not into:
        raise Wrong(f"`{typed}': Is not a directory")
    if is_there and not into and not command.has("f"):
        raise Wrong(f"`{typed}': File exists")


# Commands that read files: to standard output, or all of them into one local file.


def cat(command: Command) -> None:
    """-cat PATH ..."""
    command.need(1)
    for found in command.found(command.arguments):
        copy_out(command, found, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def text(command: Command) -> None:
    """-text PATH ...: the same, and what is packed is unpacked"""
    command.need(1)
    for found in command.found(command.arguments):
        copy_out(command, found, sys.stdout.buffer, unpacked=True)
    sys.stdout.buffer.flush()


def tail(command: Command) -> None:
    """-tail PATH: its last kilobyte"""
    command.need(1, 1)
    for found in command.found(command.arguments):
        copy_out(command, found, sys.stdout.buffer, max(0, found.status["length"] - 1024))
    sys.stdout.buffer.flush()


def head(command: Command) -> None:
    """-head PATH: its first kilobyte"""
    command.need(1, 1)
    for found in command.found(command.arguments):
        copy_out(command, found, sys.stdout.buffer, 0, 1024)
    sys.stdout.buffer.flush()


def getmerge(command: Command) -> None:
    """-getmerge [-nl] [-skip-empty-file] PATH ... LOCAL: all files one after the other in one"""
    command.need(2)
    *sources, local = command.arguments
    local = local_path(local)
    with command.about(local), open(local, "wb") as file:
        for found in command.found(sources):
            for each in entries(command, found) if found.is_folder else [found]:
                is_skipped = command.has("skip-empty-file") and not each.status["length"]
                if not each.is_folder and not is_skipped:
                    copy_out(command, each, file)
                    file.write(b"\n" if command.has("nl") else b"")


def copy_out(
    command: Command,
    found: Found,
    file: IO[bytes],
    offset: int = 0,
    length: int | None = None,
    *,
    unpacked: bool = False,
) -> None:
    """Copy bytes of a file of the block store to one that is open."""
    if found.is_folder:
        command.failed(f"`{found.shown}': Is a directory")
        return
    with command.about(found.shown):
        pieces = command.web.read(found.path, offset, length)
        for piece in _unpacked(found.path, pieces) if unpacked else pieces:
            file.write(piece)


def _unpacked(path: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """What is in a packed file; any other file as it is."""
    file = io.BufferedReader(_Pieces(pieces), PIECE_BYTES)
    head = file.peek(PACKED_HEAD_BYTES)[:PACKED_HEAD_BYTES]
    ending = ending_of(path, head)
    try:
        if not head.startswith(GZIP) and (fault := fault_of(path, head)):
            raise NotPacked(fault)
        yield from unpacked(ending, file) if ending else iter(partial(file.read, PIECE_BYTES), b"")
    except NotPacked as error:
        raise OSError(str(error)) from None


class _Pieces(io.RawIOBase):
    """Pieces as a file that is read from its beginning."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """The next bytes, as many as there are and fit."""
        target = memoryview(buffer)
        if not self._left:
            self._left = memoryview(next(self._pieces, b""))
        count = min(len(target), len(self._left))
        target[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


# Commands that make and move files, from and to local ones or within the block store.


# From and to local files -------------------------------------------------------------------------
def get(command: Command) -> None:
    """-get [-f] [-p] PATH ... LOCAL"""
    sources, local = _sources_and_target(command, 1)
    target = LocalDestination(command, local_path(local), len(sources))
    for found in command.found(sources):
        _get(command, found, target.of(posixpath.basename(found.path) or "root"))


def _get(command: Command, found: Found, target: Path) -> None:
    if found.is_folder:
        with command.about(str(target)):
            target.mkdir(parents=True, exist_ok=True)
        for entry in entries(command, found):
            _get(command, entry, target / entry.status["pathSuffix"])
        if command.has("p"):
            _keep_local(target, found)
        return
    if target.exists() and not command.has("f"):
        command.failed(f"`{target}': File exists")
        return
    partial = target.with_name(f"{target.name}._COPYING_")
    with command.about(str(target)):
        with open(partial, "wb") as file:
            copy_out(command, found, file)
        if command.has("p"):
            _keep_local(partial, found)
        partial.replace(target)


def put(command: Command) -> None:
    """-put [-f] [-p] LOCAL ... PATH; "-": standard input"""
    locals_, typed = _locals_and_target(command)
    target = Destination(command, typed, len(locals_))
    for local in locals_:
        _put(command, local, *target.of(Path(local).resolve().name))


def move_from_local(command: Command) -> None:
    """-moveFromLocal [-f] LOCAL ... PATH: put, then remove the local file"""
    locals_, typed = _locals_and_target(command)
    target = Destination(command, typed, len(locals_))
    for local in locals_:
        before = command.failures
        _put(command, local, *target.of(Path(local).resolve().name))
        if command.failures == before and Path(local).is_file():
            Path(local).unlink()


def move_to_local(_: Command) -> None:
    """-moveToLocal PATH LOCAL: not there in Hadoop either"""
    raise Wrong("Option '-moveToLocal' is not implemented yet.")


def _put(command: Command, local: str, path: str, shown: str) -> None:
    if local != "-" and not Path(local).exists():
        command.failed(f"`{local}': No such file or directory")
        return
    if local != "-" and Path(local).is_dir():
        with command.about(shown):
            command.web.ask("PUT", path, "MKDIRS")
        for each in sorted(Path(local).iterdir()):
            below = posixpath.join(path, each.name), posixpath.join(shown, each.name)
            _put(command, str(each), *below)
        _keep_stored(command, path, shown, Path(local))
        return
    if not command.has("f") and status_of(command.web, path) is not None:
        command.failed(f"`{shown}': File exists")
        return
    with command.about(shown), _opened(local) as file:
        command.web.write(path, file, overwrite=str(command.has("f")).lower())
        if local != "-":
            _keep_stored(command, path, shown, Path(local))


def append_to_file(command: Command) -> None:
    """-appendToFile LOCAL ... PATH; the file is made if there is none"""
    command.need(1)
    if len(command.arguments) == 1:
        raise Wrong("missing destination argument")
    locals_, typed = _locals_and_target(command)
    path = command.path(typed)
    for local in locals_:
        if local != "-" and not Path(local).exists():
            raise Wrong(str(Path(local).absolute()))
    for local in locals_:
        with command.about(typed), _opened(local) as file:
            command.web.write(path, file, append=status_of(command.web, path) is not None)


def _opened(local: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    return contextlib.nullcontext(sys.stdin.buffer) if local == "-" else open(local, "rb")


def _locals_and_target(command: Command) -> tuple[list[str], str]:
    """The same with sources of this machine, which may be URIs."""
    sources, target = _sources_and_target(command, 1)
    return [local_path(each) for each in sources], target


def _sources_and_target(command: Command, least: int) -> tuple[list[str], str]:
    """The last argument is where to; "." if there is but one."""
    command.need(least)
    if len(command.arguments) == 1:
        return command.arguments, "."
    return command.arguments[:-1], command.arguments[-1]


# Within the block store --------------------------------------------------------------------------
def cp(command: Command) -> None:
    """-cp [-f] [-p] PATH ... PATH"""
    sources, typed = _sources_and_target(command, 2)
    target = Destination(command, typed, len(sources))
    for found in command.found(sources):
        path, shown = target.of(posixpath.basename(found.path))
        if found.is_folder and f"{path}/".startswith(f"{found.path}/"):
            command.failed(f"`{found.shown}' to `{shown}': is a subdirectory of itself")
        else:
            _cp(command, found, path, shown)


def _cp(command: Command, found: Found, path: str, shown: str) -> None:
    if found.is_folder:
        with command.about(shown):
            command.web.ask("PUT", path, "MKDIRS")
        for entry in entries(command, found):
            name = entry.status["pathSuffix"]
            _cp(command, entry, posixpath.join(path, name), posixpath.join(shown, name))
        _keep_stored(command, path, shown, found)
    elif not command.has("f") and status_of(command.web, path) is not None:
        command.failed(f"`{shown}': File exists")
    else:
        with command.about(shown):
            _copy(command, found, path)
            _keep_stored(command, path, shown, found)


def _copy(command: Command, found: Found, path: str) -> None:
    """By a second connection: one reads, the other writes."""
    reader = command.web.another()
    try:
        source = _Stream(reader.read(found.path))
        command.web.write(path, source, overwrite=str(command.has("f")).lower())
    finally:
        reader.close()


class _Stream:
    """Pieces, to be read like a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, _: int) -> bytes:
        """The next piece, of any length; none at the end."""
        return next(self._pieces, b"")


def mv(command: Command) -> None:
    """-mv PATH ... PATH"""
    sources, typed = _sources_and_target(command, 2)
    target = Destination(command, typed, len(sources))
    for found in command.found(sources):
        path, shown = target.of(posixpath.basename(found.path))
        with command.about(found.shown):
            if found.is_folder and f"{path}/".startswith(f"{found.path}/"):
                command.failed(f"`{found.shown}' to `{shown}': is a subdirectory of itself")
            elif status_of(command.web, path) is not None:
                command.failed(f"`{shown}': File exists")
            elif not command.web.ask("PUT", found.path, "RENAME", destination=path)["boolean"]:
                command.failed(f"`{found.shown}': Input/output error")


def touchz(command: Command) -> None:
    """-touchz PATH ...: an empty file, unless there is one that is not empty"""
    command.need(1)
    for typed in command.arguments:
        there = _status_or_room(command, typed)
        if there is None:
            _make_empty(command, typed)
        elif there["type"] == "DIRECTORY":
            command.failed(f"`{typed}': Is a directory")
        elif there["length"]:
            command.failed(f"`{typed}': Not a zero-length file")
        else:
            _make_empty(command, typed)


def touch(command: Command) -> None:
    """-touch [-c] PATH ...: an empty file, or a new time for what is there"""
    command.need(1)
    for typed in command.arguments:
        there = _status_or_room(command, typed)
        if there is not None:
            now_ms = int(time.time() * 1000)
            with command.about(typed):
                path, times = command.path(typed), {"modificationtime": now_ms}
                command.web.ask("PUT", path, "SETTIMES", accesstime=now_ms, **times)
        elif not command.has("c"):
            _make_empty(command, typed)


def _status_or_room(command: Command, typed: str) -> dict[str, Any] | None:
    """What is at a path; if there is nothing, its folder must be there."""
    path = command.path(typed)
    there = status_of(command.web, path)
    if there is None and status_of(command.web, posixpath.dirname(path)) is None:
        raise Wrong(f"`{typed}': No such file or directory: `{command.uri(typed)}'")
    return there


def _make_empty(command: Command, typed: str) -> None:
    with command.about(typed), open(os.devnull, "rb") as nothing:
        command.web.write(command.path(typed), nothing, overwrite="true")


# What -p keeps: times and permission, and in the store owner and group ----------------------------
def _keep_local(target: Path, found: Found) -> None:
    """Give a local file or folder the times and the permission of one of the block store."""
    status = found.status
    target.chmod(int(status["permission"], 8))
    times_ms = status["accessTime"], status["modificationTime"]
    os.utime(target, ns=(times_ms[0] * 10**6, times_ms[1] * 10**6))


def _keep_stored(command: Command, path: str, shown: str, source: Path | Found) -> None:
    """With -p, give what was written those of its source, and owner and group, too."""
    if not command.has("p"):
        return
    kept = _of_local(source) if isinstance(source, Path) else source.status
    times = {"modificationtime": kept["modificationTime"], "accesstime": kept["accessTime"]}
    with command.about(shown):
        web = command.web
        web.ask("PUT", path, "SETPERMISSION", permission=kept["permission"])
        web.ask("PUT", path, "SETOWNER", owner=kept["owner"], group=kept["group"])
        web.ask("PUT", path, "SETTIMES", **times)


def _of_local(path: Path) -> dict[str, Any]:
    status = path.stat()
    try:
        owner, group = pwd.getpwuid(status.st_uid).pw_name, grp.getgrgid(status.st_gid).gr_name
    except KeyError:  # as others see them who have no name for them
        owner, group = str(status.st_uid), str(status.st_gid)
    return {
        "owner": owner,
        "group": group,
        "permission": f"{status.st_mode & 0o1777:o}",
        "modificationTime": int(status.st_mtime * 1000),
        "accessTime": int(status.st_atime * 1000),
    }
