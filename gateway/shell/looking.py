"""Commands that look: names, sizes, attributes."""

from __future__ import annotations

import posixpath
import time

from railyard.gateway.shell.command import Command, below, entries, size
from railyard.gateway.shell.paths import Found, status_of


def ls(command: Command) -> None:
    """-ls [-d] [-h] [-R] [-C] [PATH ...]"""
    for found in command.found(command.arguments or ["."]):
        if found.is_folder and not command.has("d"):
            shown = below(command, found) if command.has("R") else entries(command, found)
            if shown and not command.has("R", "C"):
                print(f"Found {len(shown)} items")
        else:
            shown = [found]
        _print_listing(shown, command)


def _print_listing(shown: list[Found], command: Command) -> None:
    if command.has("C"):
        for entry in shown:
            print(entry.shown)
        return
    rows = [_listed(entry, command.has("h")) for entry in shown]
    widths = [max([len(row[at]) for row in rows], default=0) for at in range(5)]
    for mode, copies, owner, group, length, changed, name in rows:
        print(
            f"{mode:<{widths[0]}} {copies:>{max(3, widths[1])}} {owner:<{widths[2]}} "
            f"{group:<{widths[3]}} {length:>{max(10, widths[4])}} {changed} {name}"
        )


def _listed(entry: Found, human: bool) -> tuple[str, ...]:
    status = entry.status
    bits = int(status["permission"], 8)
    letters = ["-" if not bits >> at & 1 else "xwr"[at % 3] for at in range(8, -1, -1)]
    if bits & 0o1000:
        letters[-1] = "t" if bits & 1 else "T"
    changed = time.strftime("%Y-%m-%d %H:%M", time.localtime(status["modificationTime"] / 1000))
    copies = "-" if entry.is_folder else str(status["replication"])
    mode = ("d" if entry.is_folder else "-") + "".join(letters)
    names = status["owner"], status["group"]
    return (mode, copies, *names, size(status["length"], human), changed, entry.shown)


def du(command: Command) -> None:
    """-du [-s] [-h] [PATH ...]"""
    for found in command.found(command.arguments or ["."]):
        each = [found] if command.has("s") or not found.is_folder else entries(command, found)
        rows = []
        for entry in each:
            told = command.web.ask("GET", entry.path, "GETCONTENTSUMMARY")["ContentSummary"]
            sizes = [size(told[key], command.has("h")) for key in ("length", "spaceConsumed")]
            rows.append((*sizes, entry.shown))
        widths = [max(len(row[at]) for row in rows) if rows else 0 for at in range(2)]
        for length, disk, shown in rows:
            print(f"{length:<{widths[0]}}  {disk:<{widths[1]}}  {shown}")


def count(command: Command) -> None:
    """-count PATH ..."""
    command.need(1)
    for found in command.found(command.arguments):
        told = command.web.ask("GET", found.path, "GETCONTENTSUMMARY")["ContentSummary"]
        folders, files, length = (told[key] for key in ("directoryCount", "fileCount", "length"))
        print(f"{folders:12} {files:12} {length:18} {found.shown}")


def stat(command: Command) -> None:
    """-stat [FORMAT] PATH ...: %b bytes, %n name, %o block, %r replicas, %u, %g, %a, %F, %y, %Y"""
    command.need(1)
    pattern = "%y"
    if len(command.arguments) > 1 and "%" in command.arguments[0]:
        pattern, *command.arguments = command.arguments
    for found in command.found(command.arguments):
        print(_stat(pattern, found))


def _stat(pattern: str, found: Found) -> str:
    status = found.status
    changed_ms = status["modificationTime"]
    values = {
        "b": status["length"],
        "n": posixpath.basename(found.path),
        "o": status["blockSize"],
        "r": status["replication"],
        "u": status["owner"],
        "g": status["group"],
        "a": status["permission"],
        "F": "directory" if found.is_folder else "regular file",
        "y": time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(changed_ms / 1000)),
        "Y": changed_ms,
        "%": "%",
    }
    text, at = "", 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "%" and pattern[at + 1 : at + 2] in values:
            at += 1
            text += str(values[pattern[at]])
        else:
            text += letter
        at += 1
    return text


def test(command: Command) -> None:
    """-test -[defsz] PATH: exit status 0 or 1, and nothing is said"""
    command.need(1, 1)
    status = status_of(command.web, command.path(command.arguments[0]))
    folder = status is not None and status["type"] == "DIRECTORY"
    holds = {
        "e": status is not None,
        "d": folder,
        "f": status is not None and not folder,
        "s": status is not None and (status["length"] > 0 or status["childrenNum"] > 0),
        "z": status is not None and not folder and status["length"] == 0,
    }
    command.status = 0 if all(holds[option] for option in command.options) else 1


def checksum(command: Command) -> None:
    """-checksum PATH ..."""
    command.need(1)
    for found in command.found(command.arguments):
        if found.is_folder:
            command.failed(f"`{found.shown}': Is a directory")
            continue
        told = command.web.ask("GET", found.path, "GETFILECHECKSUM")["FileChecksum"]
        print(f"{found.shown}\t{told['algorithm']}\t{told['bytes']}")
