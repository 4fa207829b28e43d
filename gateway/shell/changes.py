"""Commands that change names and attributes."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Any

from railyard.gateway.shell.command import Command, below
from railyard.gateway.shell.paths import Found, Wrong, find, status_of


def mkdir(command: Command) -> None:
    """-mkdir [-p] PATH ..."""
    command.need(1)
    for typed in command.arguments:
        path = command.path(typed)
        there = status_of(command.web, path)
        if there is not None and there["type"] != "DIRECTORY":
            command.failed(f"`{typed}': Is not a directory")
        elif there is not None and not command.has("p"):
            command.failed(f"`{typed}': File exists")
        elif not command.has("p") and status_of(command.web, posixpath.dirname(path)) is None:
            command.failed(f"`{posixpath.dirname(path)}': No such file or directory")
        else:
            with command.about(typed):
                command.web.ask("PUT", path, "MKDIRS")


def rm(command: Command) -> None:
    """-rm [-f] [-r|-R] [-skipTrash] PATH ..."""
    if not command.has("f"):
        command.need(1)
    for typed in command.arguments:
        try:
            found = find(command.web, typed)
        except Wrong as wrong:
            if not command.has("f"):
                command.failed(str(wrong))
            continue
        for each in found:
            if each.is_folder and not command.has("r", "R"):
                command.failed(f"`{each.shown}': Is a directory")
                continue
            with command.about(each.shown):
                if command.web.ask("DELETE", each.path, "DELETE", recursive="true")["boolean"]:
                    print(f"Deleted {each.shown}")


def rmdir(command: Command) -> None:
    """-rmdir PATH ..."""
    command.need(1)
    for found in command.found(command.arguments):
        if not found.is_folder:
            command.failed(f"`{found.shown}': Is not a directory")
            continue
        with command.about(found.shown):
            command.web.ask("DELETE", found.path, "DELETE", recursive="false")


def setrep(command: Command) -> None:
    """-setrep [-w] NUMBER PATH ..."""
    command.need(2)
    number, *paths = command.arguments
    for found in command.found(paths):
        for each in _files(command, found):
            with command.about(each.shown):
                command.web.ask("PUT", each.path, "SETREPLICATION", replication=number)
                print(f"Replication {number} set: {each.shown}")


def chmod(command: Command) -> None:
    """-chmod [-R] MODE PATH ...; MODE in octal digits"""
    _attribute(command, "SETPERMISSION", lambda mode: {"permission": mode})


def chown(command: Command) -> None:
    """-chown [-R] [OWNER][:[GROUP]] PATH ..."""

    def parameters(text: str) -> dict[str, str]:
        owner, _, group = text.partition(":")
        return {name: value for name, value in (("owner", owner), ("group", group)) if value}

    _attribute(command, "SETOWNER", parameters)


def chgrp(command: Command) -> None:
    """-chgrp [-R] GROUP PATH ..."""
    _attribute(command, "SETOWNER", lambda group: {"group": group})


def _attribute(command: Command, op: str, parameters: Callable[[str], dict[str, Any]]) -> None:
    command.need(2)
    value, *paths = command.arguments
    for found in command.found(paths):
        others = below(command, found) if command.has("R") and found.is_folder else []
        for each in (found, *others):
            with command.about(each.shown):
                command.web.ask("PUT", each.path, op, **parameters(value))


def truncate(command: Command) -> None:
    """-truncate [-w] LENGTH PATH ..."""
    command.need(2)
    length, *paths = command.arguments
    for found in command.found(paths):
        with command.about(found.shown):
            command.web.ask("POST", found.path, "TRUNCATE", newlength=length)
            print(f"Truncated {found.shown} to length: {length}")


def _files(command: Command, found: Found) -> list[Found]:
    everything = below(command, found) if found.is_folder else [found]
    return [each for each in everything if not each.is_folder]
