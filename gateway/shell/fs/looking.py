"""Commands that look: sizes, attributes, checksums."""

from __future__ import annotations

import posixpath
import time
from typing import Any

from railyard.gateway.shell.fs.command import Command, Misused, below, entries, size
from railyard.gateway.shell.fs.modes import letters
from railyard.gateway.shell.paths import Found, status_of

_QUOTAS = f"{'none':>12} {'inf':>15} {'none':>15} {'inf':>15}"
_QUOTA_HEADS = f"{'QUOTA':>12} {'REM_QUOTA':>15} {'SPACE_QUOTA':>15} REM_SPACE_QUOTA"


def du(command: Command) -> None:
    """-du [-s] [-h] [-v] PATH ..."""
    heads = ("SIZE", "DISK_SPACE_CONSUMED_WITH_ALL_REPLICAS", "FULL_PATH_NAME")
    rows = [heads] if command.has("v") else []
    for found in command.found(command.arguments or ["."]):
        if command.has("s") or not found.is_folder:
            rows.append(_used(command, found))
        else:
            rows += [_used(command, entry) for entry in entries(command, found)]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(2)]
    for length, disk, shown in rows:
        print(f"{length:<{widths[0]}}  {disk:<{widths[1]}}  {shown}")


def _used(command: Command, entry: Found) -> tuple[str, str, str]:
    told = _summary(command, entry)
    human = command.has("h")
    return size(told["length"], human), size(told["spaceConsumed"], human), entry.shown


def _summary(command: Command, found: Found) -> dict[str, Any]:
    return dict(command.web.ask("GET", found.path, "GETCONTENTSUMMARY")["ContentSummary"])


def count(command: Command) -> None:
    """-count [-q] [-u] [-h] [-v] PATH ...: folders, files and bytes; no quota is ever set"""
    command.need(1)
    quotas, counts = command.has("q", "u"), not command.has("u")
    if command.has("v"):
        names = f"{'DIR_COUNT':>12} {'FILE_COUNT':>12} {'CONTENT_SIZE':>18}"
        print(*[_QUOTA_HEADS] * quotas, *[names] * counts, "PATHNAME")
    for found in command.found(command.arguments):
        told = _summary(command, found)
        keys, widths = ("directoryCount", "fileCount", "length"), (12, 12, 18)
        numbers = [size(told[key], command.has("h")) for key in keys]
        shown = " ".join(f"{text:>{width}}" for text, width in zip(numbers, widths, strict=True))
        print(*[_QUOTAS] * quotas, *[shown] * counts, found.shown)


def df(command: Command) -> None:
    """-df [-h] [PATH ...]: how full the block store is, and the disk that it is on"""
    command.arguments = command.arguments or ["/"]
    rows = [("Filesystem", "Size", "Used", "Available", "Use%")]
    for found in command.found(command.arguments):
        told = command.web.ask("GET", found.path, "GETSTATUS")["FsStatus"]
        sizes = [size(told[key], command.has("h")) for key in ("capacity", "used", "remaining")]
        share = f"{100 * told['used'] // max(1, told['capacity'])}%"
        rows.append((f"webhdfs://{command.web.address}", sizes[0], sizes[1], sizes[2], share))
    widths = [max(len(row[at]) for row in rows) for at in range(5)]
    for first, *others in rows if len(rows) > 1 else ():
        right = [f"{text:>{width}}" for text, width in zip(others, widths[1:], strict=True)]
        print("  ".join([f"{first:<{widths[0]}}", *right]))


def stat(command: Command) -> None:
    """-stat [FORMAT] PATH ...: %b bytes, %n name, %o block, %r replicas, %u %g %a %A %F %y %x"""
    command.need(1)
    pattern = "%y"
    if len(command.arguments) > 1 and "%" in command.arguments[0]:
        pattern, *command.arguments = command.arguments
    for found in command.found(command.arguments):
        print(_stat(pattern, found))


def _stat(pattern: str, found: Found) -> str:
    status = found.status
    changed_ms, read_ms = status["modificationTime"], status["accessTime"]
    values = {
        "b": status["length"],
        "n": posixpath.basename(found.path),
        "o": status["blockSize"],
        "r": status["replication"],
        "u": status["owner"],
        "g": status["group"],
        "a": status["permission"],
        "A": letters(int(status["permission"], 8)),
        "F": "directory" if found.is_folder else "regular file",
        "y": _time(changed_ms),
        "Y": changed_ms,
        "x": _time(read_ms),
        "X": read_ms,
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


def _time(since_1970_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(since_1970_ms / 1000))


def test(command: Command) -> None:
    """-test -[defswrz] PATH: exit status 0 or 1, and nothing is said"""
    command.need(1, 1)
    if not command.options:
        raise Misused("No test flag given")
    status = status_of(command.web, command.path(command.arguments[0]))
    folder = status is not None and status["type"] == "DIRECTORY"
    holds = {
        **dict.fromkeys("ewr", status is not None),  # permissions are not enforced
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
        digits = told["bytes"][: 2 * told["length"]]
        print(f"{found.shown}\t{told['algorithm']}\t{digits}")


def getfacl(command: Command) -> None:
    """-getfacl [-R] PATH: owner and permission, as there are no access lists"""
    command.need(1)
    if len(command.arguments) > 1:
        raise Misused("Too many arguments")
    every = [*command.found(command.arguments)]
    if command.has("R"):
        every += [each for top in every if top.is_folder for each in below(command, top)]
    for found in every:
        told = command.web.ask("GET", found.path, "GETACLSTATUS")["AclStatus"]
        print(f"# file: {found.shown}\n# owner: {told['owner']}\n# group: {told['group']}")
        bits = int(told["permission"], 8)
        if told["stickyBit"]:
            print(f"# flags: --{'t' if bits & 1 else 'T'}")
        shown = letters(bits)
        print(f"user::{shown[:3]}\ngroup::{shown[3:6]}\nother::{shown[6:]}\n")
