"""Commands that list names: -ls and -find."""

from __future__ import annotations

import fnmatch
import re
import sys
import time

from railyard.gateway.shell.fs.command import Command, below, entries, size
from railyard.gateway.shell.fs.modes import letters
from railyard.gateway.shell.fs.options import options_of
from railyard.gateway.shell.paths import Found, Wrong


def ls(command: Command) -> None:
    """-ls [-C] [-d] [-h] [-R] [-t] [-S] [-r] [-u] [PATH ...]"""
    table = _Table(command)
    for found in command.found(command.arguments or ["."]):
        if found.is_folder and not command.has("d"):
            _list(found, command, table)
        else:
            table.widen([found])
            table.print(found)


def lsr(command: Command) -> None:
    """-lsr PATH ...: the same as -ls -R"""
    command.options.add("R")
    ls(command)


def _list(folder: Found, command: Command, table: _Table) -> None:
    shown = _sorted(entries(command, folder), command)
    if shown and not command.has("C", "R"):
        print(f"Found {len(shown)} items")
    table.widen(shown)
    for entry in shown:
        table.print(entry)
        if command.has("R") and entry.is_folder:
            _list(entry, command, table)


def _sorted(shown: list[Found], command: Command) -> list[Found]:
    """By name, the latest first (-t), or the largest first (-S); -r: the other way round."""
    if command.has("t"):
        key = "accessTime" if command.has("u") else "modificationTime"
    elif command.has("S"):
        key = "length"
    else:
        return shown[::-1] if command.has("r") else shown
    sign = 1 if command.has("r") else -1
    return sorted(shown, key=lambda each: sign * each.status[key])


class _Table:
    """The lines of a listing: a column is as wide as its widest text so far."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._time = "accessTime" if command.has("u") else "modificationTime"
        self._widths = [0, 3, 0, 0, 10]

    def widen(self, shown: list[Found]) -> None:
        """Make room for these."""
        for entry in shown:
            cells = self._cells(entry)
            self._widths = [
                max(width, len(cell)) for width, cell in zip(self._widths, cells, strict=True)
            ]

    def print(self, entry: Found) -> None:
        """Print a line."""
        if self._command.has("C"):
            print(entry.shown)
            return
        mode, copies, owner, group, length = self._cells(entry)
        _, *widths = self._widths
        changed_s = entry.status[self._time] / 1000
        print(
            f"{mode} {copies:>{widths[0]}} {owner:<{widths[1]}} {group:<{widths[2]}} "
            f"{length:>{widths[3]}} {_time(changed_s)} {entry.shown}"
        )

    def _cells(self, entry: Found) -> tuple[str, str, str, str, str]:
        status = entry.status
        copies = "-" if entry.is_folder else str(status["replication"])
        mode = ("d" if entry.is_folder else "-") + letters(int(status["permission"], 8))
        length = size(status["length"], self._command.has("h"))
        return mode, copies, status["owner"], status["group"], length


def _time(since_1970_s: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(since_1970_s))


def find(command: Command) -> None:
    """-find PATH ... [-name PATTERN] [-iname PATTERN] [-print] [-print0]"""
    paths, matches, end = _expression(command.arguments)
    for found in command.found(paths or ["."]):
        for each in (found, *(below(command, found) if found.is_folder else ())):
            name = each.path.rsplit("/", 1)[1]
            if all(pattern.match(name) for pattern in matches):
                sys.stdout.write(f"{each.shown}{end}")


def _expression(arguments: list[str]) -> tuple[list[str], list[re.Pattern[str]], str]:
    """(paths, what names must match, what is written after each)"""
    paths: list[str] = []
    matches: list[re.Pattern[str]] = []
    end, left = "\n", list(arguments)
    while left:
        word = left.pop(0)
        if word in ("-name", "-iname"):
            if not left:
                raise Wrong(f"{word}: need a pattern")
            flags = re.IGNORECASE if word == "-iname" else 0
            matches.append(re.compile(fnmatch.translate(left.pop(0)), flags))
        elif word == "-print0":
            end = "\0"
        elif not word.startswith("-"):
            paths.append(word)
        elif word[1:] not in options_of("find"):
            raise Wrong(f"Unexpected argument: {word}")
    return paths, matches, end
