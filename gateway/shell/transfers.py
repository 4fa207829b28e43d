"""Commands of ``hadoop fs`` that read files, and that make, copy and move them.

Files and folders are copied between two kinds of places, this machine's and the block store's, by
the same walk.  As in Hadoop's shell, a wrong destination is reported before sources are read.
"""

from __future__ import annotations

import contextlib
import grp
import io
import os
import pwd
import sys
import time
from collections.abc import Callable, Iterator
from errno import EEXIST
from pathlib import Path
from typing import IO, Any

from railyard.cluster.fileheads import (
    GZIP,
    PACKED_HEAD_BYTES,
    NotPacked,
    ending_of,
    fault_of,
    unpacked,
)
from railyard.gateway.shell.command import Command
from railyard.gateway.shell.paths import Found, Wrong, local_path
from railyard.gateway.shell.web import pieces


# Reading -----------------------------------------------------------------------------------------
def cat(command: Command) -> None:
    """-cat PATH ..."""
    command.need(1)
    _print(command)


def text(command: Command) -> None:
    """-text PATH ...: the same, and what is packed is unpacked"""
    command.need(1)
    _print(command, _unpacked)


def tail(command: Command) -> None:
    """-tail PATH: its last kilobyte"""
    command.need(1, 1)
    _print(command, lambda found: found.pieces(max(0, found.status["length"] - 1024)))


def head(command: Command) -> None:
    """-head PATH: its first kilobyte"""
    command.need(1, 1)
    _print(command, lambda found: found.pieces(0, 1024))


def getmerge(command: Command) -> None:
    """-getmerge [-nl] [-skip-empty-file] PATH ... LOCAL: all files one after the other in one"""
    command.need(2)
    *sources, local = command.arguments
    local = local_path(local)
    with command.about(local), open(local, "wb") as file:
        for found in command.found(sources):
            for each in found.entries() if found.is_folder else [found]:
                is_skipped = command.has("skip-empty-file") and not each.status["length"]
                if not each.is_folder and not is_skipped:
                    with command.about(each.shown):
                        file.writelines(each.pieces())
                    file.write(b"\n" if command.has("nl") else b"")


def _print(command: Command, reading: Callable[[Found], Iterator[bytes]] = Found.pieces) -> None:
    for found in command.files(command.arguments):
        with command.about(found.shown):
            sys.stdout.buffer.writelines(reading(found))
    sys.stdout.buffer.flush()


def _unpacked(found: Found) -> Iterator[bytes]:
    """What is in a packed file; any other file as it is."""
    file = found.web.read(found.path)
    head = file.peek(PACKED_HEAD_BYTES)[:PACKED_HEAD_BYTES]
    ending = ending_of(found.path, head)
    try:
        if not head.startswith(GZIP) and (fault := fault_of(found.path, head)):
            raise NotPacked(fault)
        yield from unpacked(ending, file) if ending else pieces(file)
    except NotPacked as error:
        raise OSError(str(error)) from None


# Copying -----------------------------------------------------------------------------------------
class _Local:
    """A file or folder of this machine, there or to be made."""

    def __init__(self, typed: str, name: str = "") -> None:
        self.shown = typed
        self.path = Path(typed)
        self.name = name or self.path.resolve().name

    @property
    def uri(self) -> str:
        return f"file:{self.path.absolute()}"

    @property
    def is_folder(self) -> bool:
        return self.path.is_dir()

    @property
    def parent(self) -> _Local:
        return _Local(str(self.path.absolute().parent))

    def exists(self) -> bool:
        return self.path.exists()

    def below(self, name: str) -> _Local:
        return _Local(str(self.path / name))

    def entries(self) -> list[_Local]:
        return [_Local(str(each), each.name) for each in sorted(self.path.iterdir())]

    def make_folder(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)

    def opened(self) -> contextlib.AbstractContextManager[IO[bytes]]:
        return open(self.path, "rb")

    def write(self, data: IO[bytes], kept: dict[str, Any], *, replaces: bool) -> None:
        if not replaces and self.exists():
            raise FileExistsError(EEXIST, "File exists")
        partly = self.path.with_name(f"{self.path.name}._COPYING_")
        with open(partly, "wb") as file:
            file.writelines(pieces(data))
        _Local(str(partly)).set_attributes(kept)
        partly.replace(self.path)

    def attributes(self) -> dict[str, Any]:
        status = self.path.stat()
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

    def set_attributes(self, kept: dict[str, Any]) -> None:
        if kept:
            self.path.chmod(int(kept["permission"], 8))
            times_ms = kept["accessTime"], kept["modificationTime"]
            os.utime(self.path, ns=(times_ms[0] * 10**6, times_ms[1] * 10**6))


class _Input(_Local):
    """Standard input, as a file to be read."""

    def exists(self) -> bool:
        return True

    def opened(self) -> contextlib.AbstractContextManager[IO[bytes]]:
        return contextlib.nullcontext(sys.stdin.buffer)

    def attributes(self) -> dict[str, Any]:
        return {}


Place = Found | _Local


def _local(typed: str) -> _Local:
    """What is read."""
    return _Input(typed) if typed == "-" else _Local(local_path(typed))


def _destination(command: Command, place: Place, sources: int) -> Callable[[str], Place]:
    """{name of a source: where it goes}: into a folder that is there, or to the place itself."""
    is_there, into = place.exists(), place.is_folder
    if sources > 1 and not is_there:
        raise Wrong(f"`{place.shown}': No such file or directory")
    if sources > 1 and not into:
        raise Wrong(f"`{place.shown}': Is not a directory")
    if is_there and not into and not command.has("f"):
        raise Wrong(f"`{place.shown}': File exists")
    if not is_there and not place.parent.exists():
        raise Wrong(f"`{place.shown}': No such file or directory: `{place.uri}'")
    return place.below if into else lambda _: place


def _copy(command: Command, source: Place, target: Place) -> None:
    """Copy a file, or a folder with all that is in it; -p keeps what it has besides bytes."""
    if not source.exists():
        command.failed(f"`{source.shown}': No such file or directory")
        return
    kept = source.attributes() if command.has("p") else {}
    if source.is_folder:
        with command.about(target.shown):
            target.make_folder()
        for entry in source.entries():
            _copy(command, entry, target.below(entry.name))
        with command.about(target.shown):
            target.set_attributes(kept)
    else:
        with command.about(target.shown), source.opened() as data:
            target.write(data, kept, replaces=command.has("f"))


# From and to local files -------------------------------------------------------------------------
def get(command: Command) -> None:
    """-get [-f] [-p] PATH ... LOCAL"""
    sources, local = _sources_and_target(command, 1)
    target = _destination(command, _Local(local_path(local)), len(sources))
    for source in command.found(sources):
        _copy(command, source, target(source.name))


def put(command: Command, *, removes: bool = False) -> None:
    """-put [-f] [-p] LOCAL ... PATH; "-": standard input"""
    sources, typed = _sources_and_target(command, 1)
    target = _destination(command, command.at(typed), len(sources))
    for source in map(_local, sources):
        before = command.failures
        _copy(command, source, target(source.name))
        if removes and command.failures == before and source.path.is_file():
            source.path.unlink()


def move_from_local(command: Command) -> None:
    """-moveFromLocal [-f] LOCAL ... PATH: put, then remove the local file"""
    put(command, removes=True)


def move_to_local(_: Command) -> None:
    """-moveToLocal PATH LOCAL: not there in Hadoop either"""
    raise Wrong("Option '-moveToLocal' is not implemented yet.")


def append_to_file(command: Command) -> None:
    """-appendToFile LOCAL ... PATH; the file is made if there is none"""
    command.need(1)
    *sources, typed = command.arguments
    if not sources:
        raise Wrong("missing destination argument")
    locals_ = list(map(_local, sources))
    for local in locals_:
        if not local.exists():
            raise Wrong(str(local.path.absolute()))
    for local in locals_:
        target = command.at(typed)
        with command.about(typed), local.opened() as file:
            command.web.write(target.path, file, append=target.exists())


def _sources_and_target(command: Command, least: int) -> tuple[list[str], str]:
    """The last argument is where to; "." if there is but one."""
    command.need(least)
    if len(command.arguments) == 1:
        return command.arguments, "."
    return command.arguments[:-1], command.arguments[-1]


# Within the block store --------------------------------------------------------------------------
def cp(command: Command) -> None:
    """-cp [-f] [-p] PATH ... PATH"""
    for source, target in _sources_and_targets(command):
        _copy(command, source, target)


def mv(command: Command) -> None:
    """-mv PATH ... PATH"""
    for source, target in _sources_and_targets(command):
        if target.exists():
            command.failed(f"`{target.shown}': File exists")
            continue
        answer = command.ask(source, "PUT", "RENAME", destination=target.path)
        if answer is not None and not answer["boolean"]:
            command.failed(f"`{target.shown}': Input/output error")


def _sources_and_targets(command: Command) -> Iterator[tuple[Found, Place]]:
    """What is copied or moved and where to; a folder into itself is refused."""
    sources, typed = _sources_and_target(command, 2)
    place = _destination(command, command.at(typed), len(sources))
    for source in command.found(sources):
        target = place(source.name)
        if source.is_folder and f"{target.path}/".startswith(f"{source.path.rstrip('/')}/"):
            command.failed(f"`{source.shown}' to `{target.shown}': is a subdirectory of itself")
        else:
            yield source, target


def touchz(command: Command) -> None:
    """-touchz PATH ...: an empty file, unless there is one that is not empty"""
    command.need(1)
    for found in _found_or_room(command):
        if found.is_folder:
            command.failed(f"`{found.shown}': Is a directory")
        elif found.status.get("length"):
            command.failed(f"`{found.shown}': Not a zero-length file")
        else:
            _make_empty(command, found)


def touch(command: Command) -> None:
    """-touch [-c] PATH ...: an empty file, or a new time for what is there"""
    command.need(1)
    for found in _found_or_room(command):
        if found.exists():
            now_ms = int(time.time() * 1000)
            command.ask(found, "PUT", "SETTIMES", modificationtime=now_ms, accesstime=now_ms)
        elif not command.has("c"):
            _make_empty(command, found)


def _found_or_room(command: Command) -> Iterator[Found]:
    """What is at the typed paths; where there is nothing, its folder must be there."""
    for found in map(command.at, command.arguments):
        if not found.exists() and not found.parent.exists():
            raise Wrong(f"`{found.shown}': No such file or directory: `{found.uri}'")
        yield found


def _make_empty(command: Command, found: Found) -> None:
    with command.about(found.shown):
        found.write(io.BytesIO(), {}, replaces=True)
