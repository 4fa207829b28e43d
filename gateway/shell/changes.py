"""Commands of ``hadoop fs`` that change names and attributes."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from typing import Any

from railyard.gateway.shell.command import MODE, Command, Misused, new_mode
from railyard.gateway.shell.paths import Found, Wrong

_NAME = r"[-_./@a-zA-Z0-9]+"
_OWNER = re.compile(rf"({_NAME})?(?::({_NAME})?)?")
_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
_GROUP = re.compile(_NAME)
#: Between two questions of "-setrep -w".
_ASK_EVERY_S = 0.25

#: {command: (verb, operation)} of what is refused
REFUSED = {
    "setfacl": ("PUT", "SETACL"),
    "setfattr": ("PUT", "SETXATTR"),
    "getfattr": ("GET", "GETXATTRS"),
    "createSnapshot": ("PUT", "CREATESNAPSHOT"),
    "deleteSnapshot": ("DELETE", "DELETESNAPSHOT"),
    "renameSnapshot": ("PUT", "RENAMESNAPSHOT"),
}


def mkdir(command: Command) -> None:
    """-mkdir [-p] PATH ..."""
    command.need(1)
    for folder in map(command.at, command.arguments):
        if folder.exists() and not folder.is_folder:
            command.failed(f"`{folder.shown}': Is not a directory")
        elif folder.exists() and not command.has("p"):
            command.failed(f"`{folder.shown}': File exists")
        elif not command.has("p") and not folder.parent.exists():
            command.failed(f"`{folder.parent.uri}': No such file or directory")
        else:
            command.ask(folder, "PUT", "MKDIRS")


def rm(command: Command) -> None:
    """-rm [-f] [-r|-R] [-skipTrash] PATH ..."""
    if not command.has("f"):
        command.need(1)
    for found in command.found(command.arguments, missing_ok=command.has("f")):
        if found.is_folder and not command.has("r", "R"):
            command.failed(f"`{found.shown}': Is a directory")
            continue
        answer = command.ask(found, "DELETE", "DELETE", recursive="true")
        if answer and answer["boolean"]:
            print(f"Deleted {found.shown}")


def rmdir(command: Command) -> None:
    """-rmdir [--ignore-fail-on-non-empty] PATH ..."""
    command.need(1)
    for found in command.found(command.arguments):
        if not found.is_folder:
            command.failed(f"`{found.shown}': Is not a directory")
        elif not (command.has("-ignore-fail-on-non-empty") and found.status["childrenNum"]):
            command.ask(found, "DELETE", "DELETE", recursive="false")


def setrep(command: Command) -> None:
    """-setrep [-w] NUMBER PATH ..."""
    command.need(2)
    number, *paths = command.arguments
    if not _WHOLE.fullmatch(number):
        print("setrep: Illegal replication, a positive integer expected", file=sys.stderr)
        raise Misused(f'For input string: "{number}"')
    if int(number) < 1:
        raise Misused("replication must be >= 1")
    for found in command.found(paths):
        for each in found.everything():
            if each.is_folder:
                continue
            with command.about(each.shown):
                command.web.ask("PUT", each.path, "SETREPLICATION", replication=number)
                print(f"Replication {number} set: {each.shown}")
                if command.has("w"):
                    _await_replicas(command, each)


def _await_replicas(command: Command, found: Found) -> None:
    """Wait until each block has as many replicas as the file should have."""
    replicas = Found(found.web, found.shown, found.path).status.get("replication")
    print(f"Waiting for {found.shown} ...", end="", flush=True)
    while replicas is not None:
        located = command.web.ask("GET", found.path, "GETFILEBLOCKLOCATIONS")["BlockLocations"]
        if all(len(block["hosts"]) == replicas for block in located["BlockLocation"]):
            break
        print(".", end="", flush=True)
        time.sleep(_ASK_EVERY_S)
    print(" done")


def chmod(command: Command) -> None:
    """-chmod [-R] MODE PATH ...; MODE in octal digits, or as u+x,g=r"""

    def parameters(mode: str, found: Found) -> dict[str, str]:
        now = new_mode(mode, int(found.status["permission"], 8), found.is_folder)
        return {"permission": f"{now:o}"}

    command.need(2)
    if not MODE.fullmatch(command.arguments[0]):
        why = "does not match the expected pattern."
        raise Misused(f"chmod : mode '{command.arguments[0]}' {why}")
    _attribute(command, "SETPERMISSION", parameters)


def chown(command: Command) -> None:
    """-chown [-R] [OWNER][:[GROUP]] PATH ..."""
    command.need(2)
    match = _OWNER.fullmatch(command.arguments[0])
    if match is None:
        why = "does not match expected pattern for [owner][:group]."
        raise Misused(f"'{command.arguments[0]}' {why}")
    named = {"owner": match[1], "group": match[2]}
    given = {name: value for name, value in named.items() if value}
    _attribute(command, "SETOWNER", lambda _, __: given)


def chgrp(command: Command) -> None:
    """-chgrp [-R] GROUP PATH ..."""
    command.need(2)
    group = command.arguments[0]
    if not _GROUP.fullmatch(group):
        raise Misused(f"'{group}' does not match expected pattern for group")
    _attribute(command, "SETOWNER", lambda _, __: {"group": group})


def _attribute(
    command: Command, op: str, parameters: Callable[[str, Found], dict[str, Any]]
) -> None:
    value, *paths = command.arguments
    for found in command.found(paths):
        for each in found.everything() if command.has("R") else [found]:
            command.ask(each, "PUT", op, **parameters(value, each))


def truncate(command: Command) -> None:
    """-truncate [-w] LENGTH PATH ..."""
    command.need(2)
    length, *paths = command.arguments
    if not _WHOLE.fullmatch(length):
        print("truncate: Illegal length, a non-negative integer expected", file=sys.stderr)
        raise Misused(f'For input string: "{length}"')
    for found in command.files(paths):
        now = found.status["length"]
        if int(length) > now:
            why = f"Current size: {now}, truncate size: {length}."
            raise Misused(f"Cannot truncate to a larger file size. {why}")
        if command.ask(found, "POST", "TRUNCATE", newlength=length) is not None:
            print(f"Truncated {found.shown} to length: {length}")


def concat(command: Command) -> None:
    """-concat TARGET PATH PATH ...: move what is in files to the end of another"""
    command.need(1)
    target, *sources = command.arguments
    if len(sources) < 2:
        why = "The number of source paths is less than 2."
        raise Wrong(f"{why} <target path> <src path> <src path> ...")
    paths = ",".join(command.path(source) for source in sources)
    command.ask(command.at(target), "POST", "CONCAT", sources=paths)


def expunge(_: Command) -> None:
    """-expunge: nothing, as there is no trash"""


def refused(command: Command) -> None:
    """-REFUSED PATH ...: refused, as the block store has not got it"""
    command.need(1)
    verb, op = REFUSED[command.name]
    typed = command.arguments[0 if "Snapshot" in command.name else -1]
    path = command.path(typed)
    if command.name == "getfattr":
        print(f"# file: {typed}")
    command.web.ask(verb, path, op)
