"""Commands that move bytes, to and from local files or within the block store."""

from __future__ import annotations

import contextlib
import os
import posixpath
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from railyard.gateway.shell.command import Command, entries
from railyard.gateway.shell.paths import Found, Wrong, status_of
from railyard.gateway.shell.web import Web


def cat(command: Command) -> None:
    """-cat PATH ..."""
    command.need(1)
    for found in command.found(command.arguments):
        _copy_out(command, found, sys.stdout.buffer)
    sys.stdout.buffer.flush()


def tail(command: Command) -> None:
    """-tail PATH: its last kilobyte"""
    command.need(1, 1)
    for found in command.found(command.arguments):
        _copy_out(command, found, sys.stdout.buffer, max(0, found.status["length"] - 1024))


def head(command: Command) -> None:
    """-head PATH: its first kilobyte"""
    command.need(1, 1)
    for found in command.found(command.arguments):
        _copy_out(command, found, sys.stdout.buffer, 0, 1024)


def get(command: Command) -> None:
    """-get [-f] PATH ... LOCAL"""
    command.need(1)
    *sources, local = command.arguments if len(command.arguments) > 1 else [*command.arguments, "."]
    for found in command.found(sources):
        target = Path(local)
        if target.is_dir():
            target /= posixpath.basename(found.path) or "root"
        _get(command, found, target)


def _get(command: Command, found: Found, target: Path) -> None:
    if found.is_folder:
        with command.about(str(target)):
            target.mkdir(parents=True, exist_ok=True)
        for entry in entries(command, found):
            _get(command, entry, target / entry.status["pathSuffix"])
        return
    if target.exists() and not command.has("f"):
        command.failed(f"`{target}': File exists")
        return
    partial = target.with_name(f"{target.name}._COPYING_")
    with command.about(str(target)), open(partial, "wb") as file:
        _copy_out(command, found, file)
        partial.replace(target)


def getmerge(command: Command) -> None:
    """-getmerge PATH ... LOCAL: all files one after the other in a local one"""
    command.need(2)
    *sources, local = command.arguments
    with command.about(local), open(local, "wb") as file:
        for found in command.found(sources):
            for each in entries(command, found) if found.is_folder else [found]:
                if not each.is_folder:
                    _copy_out(command, each, file)


def _copy_out(
    command: Command, found: Found, file: IO[bytes], offset: int = 0, length: int | None = None
) -> None:
    if found.is_folder:
        command.failed(f"`{found.shown}': Is a directory")
        return
    with command.about(found.shown):
        for piece in command.web.read(found.path, offset, length):
            file.write(piece)


def put(command: Command) -> None:
    """-put [-f] LOCAL ... PATH; "-": standard input"""
    command.need(1)
    *locals_, typed = command.arguments if len(command.arguments) > 1 else [*command.arguments, "."]
    target = command.path(typed)
    there = status_of(command.web, target)
    into = there is not None and there["type"] == "DIRECTORY"
    if len(locals_) > 1 and not into:
        raise Wrong(f"`{typed}': No such file or directory")
    for local in locals_:
        name = Path(local).resolve().name
        path = posixpath.join(target, name) if into else target
        _put(command, local, path, posixpath.join(typed, name) if into else typed)


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
        return
    there = status_of(command.web, path)
    if there is not None and not command.has("f"):
        command.failed(f"`{shown}': File exists")
        return
    if there is None and status_of(command.web, posixpath.dirname(path)) is None:
        command.failed(f"`{shown}': No such file or directory: `{posixpath.dirname(path)}'")
        return
    with command.about(shown), _opened(local) as file:
        command.web.write(path, file, overwrite=str(command.has("f")).lower())


def append_to_file(command: Command) -> None:
    """-appendToFile LOCAL ... PATH; the file is made if there is none"""
    command.need(2)
    *locals_, typed = command.arguments
    path = command.path(typed)
    for local in locals_:
        with command.about(typed), _opened(local) as file:
            command.web.write(path, file, append=status_of(command.web, path) is not None)


def touchz(command: Command) -> None:
    """-touchz PATH ...: an empty file, unless there is one that is not empty"""
    command.need(1)
    for typed in command.arguments:
        path = command.path(typed)
        there = status_of(command.web, path)
        if there is not None and there["length"]:
            command.failed(f"`{typed}': Not a zero-length file")
            continue
        with command.about(typed), open(os.devnull, "rb") as nothing:
            command.web.write(path, nothing, overwrite="true")


def cp(command: Command) -> None:
    """-cp [-f] PATH ... PATH"""
    command.need(2)
    *sources, typed = command.arguments
    for found, path, shown in _targets(command, sources, typed):
        if found.is_folder:
            command.failed(f"`{found.shown}': Is a directory")
        elif status_of(command.web, path) is not None and not command.has("f"):
            command.failed(f"`{shown}': File exists")
        else:
            with command.about(shown):
                _copy(command, found, path)


def _copy(command: Command, found: Found, path: str) -> None:
    """By a second connection: one reads, the other writes."""
    reader = Web(command.web.address, command.web.user)
    source = _Stream(reader.read(found.path))
    command.web.write(path, source, overwrite=str(command.has("f")).lower())


class _Stream:
    """Pieces, to be read like a file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, _: int) -> bytes:
        """The next piece, of any length; none at the end."""
        return next(self._pieces, b"")


def mv(command: Command) -> None:
    """-mv PATH ... PATH"""
    command.need(2)
    *sources, typed = command.arguments
    for found, path, shown in _targets(command, sources, typed):
        with command.about(found.shown):
            if status_of(command.web, path) is not None:
                command.failed(f"`{shown}': File exists")
            elif not command.web.ask("PUT", found.path, "RENAME", destination=path)["boolean"]:
                parent = posixpath.dirname(path)
                command.failed(f"`{shown}': No such file or directory: `{parent}'")


def _targets(command: Command, sources: list[str], typed: str) -> Iterator[tuple[Found, str, str]]:
    """For each source where it goes to: into a folder, or to the path itself."""
    target = command.path(typed)
    there = status_of(command.web, target)
    into = there is not None and there["type"] == "DIRECTORY"
    if len(sources) > 1 and not into:
        raise Wrong(f"`{typed}': No such file or directory")
    for found in command.found(sources):
        name = posixpath.basename(found.path)
        path = posixpath.join(target, name) if into else target
        yield found, path, posixpath.join(typed, name) if into else typed


def _opened(local: str) -> contextlib.AbstractContextManager[IO[bytes]]:
    return contextlib.nullcontext(sys.stdin.buffer) if local == "-" else open(local, "rb")
