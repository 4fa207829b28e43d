"""Commands of ``hadoop fs`` on names: what is there and how large, and what changes it."""

from __future__ import annotations

import fnmatch
import posixpath
import re
import sys
import time
from collections.abc import Callable
from stat import S_ISVTX, filemode
from typing import Any

from railyard.gateway.shell.command import Command, Misused, options_of
from railyard.gateway.shell.paths import Found, Wrong

_QUOTAS = f"{'none':>12} {'inf':>15} {'none':>15} {'inf':>15}"
_UNITS = " KMGTPE"
_QUOTA_HEADS = f"{'QUOTA':>12} {'REM_QUOTA':>15} {'SPACE_QUOTA':>15} REM_SPACE_QUOTA"


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
    shown = _sorted(folder.entries(), command)
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
        for entry in shown:
            widths = map(len, self._cells(entry))
            self._widths = list(map(max, self._widths, widths))

    def print(self, entry: Found) -> None:
        if self._command.has("C"):
            print(entry.shown)
            return
        mode, copies, owner, group, length = self._cells(entry)
        _, *widths = self._widths
        changed = time.localtime(entry.status[self._time] / 1000)
        print(
            f"{mode} {copies:>{widths[0]}} {owner:<{widths[1]}} {group:<{widths[2]}} "
            f"{length:>{widths[3]}} {time.strftime('%Y-%m-%d %H:%M', changed)} {entry.shown}"
        )

    def _cells(self, entry: Found) -> tuple[str, str, str, str, str]:
        status = entry.status
        copies = "-" if entry.is_folder else str(status["replication"])
        mode = ("d" if entry.is_folder else "-") + filemode(int(status["permission"], 8))[1:]
        length = size(status["length"], self._command.has("h"))
        return mode, copies, status["owner"], status["group"], length


def find(command: Command) -> None:
    """-find PATH ... [-name PATTERN] [-iname PATTERN] [-print] [-print0]"""
    paths, matches, end = _expression(command.arguments)
    for found in command.found(paths or ["."]):
        for each in found.everything():
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


# Sizes, attributes, checksums ---------------------------------------------------------------------
def size(count: int, human: bool) -> str:
    """Bytes, or in units of 1024 as -h has them."""
    if not human or count < 1024:
        return str(count)
    number, unit = float(count), 0
    while number >= 1024 and unit < len(_UNITS) - 1:
        number, unit = number / 1024, unit + 1
    return f"{number:.1f} {_UNITS[unit]}"


def du(command: Command) -> None:
    """-du [-s] [-h] [-v] PATH ..."""
    heads = ("SIZE", "DISK_SPACE_CONSUMED_WITH_ALL_REPLICAS", "FULL_PATH_NAME")
    rows = [heads] if command.has("v") else []
    for found in command.found(command.arguments or ["."]):
        if command.has("s") or not found.is_folder:
            rows.append(_used(command, found))
        else:
            rows += [_used(command, entry) for entry in found.entries()]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(2)]
    for length, disk, shown in rows:
        print(f"{length:<{widths[0]}}  {disk:<{widths[1]}}  {shown}")


def _used(command: Command, entry: Found) -> tuple[str, str, str]:
    answer = _summary(command, entry)
    human = command.has("h")
    return size(answer["length"], human), size(answer["spaceConsumed"], human), entry.shown


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
        answer = _summary(command, found)
        keys, widths = ("directoryCount", "fileCount", "length"), (12, 12, 18)
        numbers = [size(answer[key], command.has("h")) for key in keys]
        shown = " ".join(f"{text:>{width}}" for text, width in zip(numbers, widths, strict=True))
        print(*[_QUOTAS] * quotas, *[shown] * counts, found.shown)


def df(command: Command) -> None:
    """-df [-h] [PATH ...]: how full the block store is, and the disk that it is on"""
    rows = [("Filesystem", "Size", "Used", "Available", "Use%")]
    for found in command.found(command.arguments or ["/"]):
        answer = command.web.ask("GET", found.path, "GETSTATUS")["FsStatus"]
        sizes = [size(answer[key], command.has("h")) for key in ("capacity", "used", "remaining")]
        share = f"{100 * answer['used'] // max(1, answer['capacity'])}%"
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
        "A": filemode(int(status["permission"], 8))[1:],
        "F": "directory" if found.is_folder else "regular file",
        "y": _utc_time(changed_ms),
        "Y": changed_ms,
        "x": _utc_time(read_ms),
        "X": read_ms,
        "%": "%",
    }
    return re.sub(rf"%([{''.join(values)}])", lambda match: str(values[match[1]]), pattern)


def _utc_time(since_1970_ms: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(since_1970_ms / 1000))


def test(command: Command) -> None:
    """-test -[defswrz] PATH: exit status 0 or 1, and nothing is said"""
    command.need(1, 1)
    if not command.options:
        raise Misused("No test flag given")
    found = command.at(command.arguments[0])
    is_file = found.exists() and not found.is_folder
    length, entries = found.status.get("length", 0), found.status.get("childrenNum", 0)
    holds = {
        **dict.fromkeys("ewr", found.exists()),  # permissions are not enforced
        "d": found.is_folder,
        "f": is_file,
        "s": length > 0 or entries > 0,
        "z": is_file and length == 0,
    }
    command.status = 0 if all(holds[option] for option in command.options) else 1


def checksum(command: Command) -> None:
    """-checksum PATH ..."""
    command.need(1)
    for found in command.files(command.arguments):
        answer = command.web.ask("GET", found.path, "GETFILECHECKSUM")["FileChecksum"]
        digits = answer["bytes"][: 2 * answer["length"]]
        print(f"{found.shown}\t{answer['algorithm']}\t{digits}")


def getfacl(command: Command) -> None:
    """-getfacl [-R] PATH: owner and permission, as there are no access lists"""
    command.need(1)
    if len(command.arguments) > 1:
        raise Misused("Too many arguments")
    every = [*command.found(command.arguments)]
    if command.has("R"):
        every = [each for top in every for each in top.everything()]
    for found in every:
        answer = command.web.ask("GET", found.path, "GETACLSTATUS")["AclStatus"]
        print(f"# file: {found.shown}\n# owner: {answer['owner']}\n# group: {answer['group']}")
        bits = int(answer["permission"], 8)
        if answer["stickyBit"]:
            print(f"# flags: --{'t' if bits & 1 else 'T'}")
        shown = filemode(bits)[1:]
        print(f"user::{shown[:3]}\ngroup::{shown[3:6]}\nother::{shown[6:]}\n")


# Changes -----------------------------------------------------------------------------------------
_NAME = r"[-_./@a-zA-Z0-9]+"
_OWNER = re.compile(rf"({_NAME})?(?::({_NAME})?)?")
_WHOLE = re.compile(r"[0-9]{1,15}", re.ASCII)
_CLAUSE = r"[ugoa]*[-+=][rwxXt]+"
#: What ``new_mode`` understands.
MODE = re.compile(rf"[01]?[0-7]{{1,3}}|{_CLAUSE}(?:,{_CLAUSE})*", re.ASCII)
_SHIFTS = {"u": 6, "g": 3, "o": 0}
_BITS = {"r": 4, "w": 2, "x": 1}
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


def new_mode(text: str, now: int, is_folder: bool) -> int:
    """The bits that a text makes of the bits now; the text must match ``MODE``.

    ``X`` is ``x`` of a folder, or of a file that somebody may execute already.
    """
    if text.isdigit():
        return int(text, 8)
    for clause in text.split(","):
        at = next(i for i, letter in enumerate(clause) if letter in "+-=")
        who, sign, what = clause[:at], clause[at], clause[at + 1 :]
        bits = sum(_BITS[letter] for letter in set(what) if letter in _BITS)
        if "X" in what and (is_folder or now & 0o111):
            bits |= 1
        shifts = [_SHIFTS[letter] for letter in _SHIFTS if letter in who or not who or "a" in who]
        given = sum(bits << shift for shift in shifts)
        if "t" in what:
            given |= S_ISVTX
        if sign == "=":
            now &= ~sum(7 << shift for shift in shifts)
        now = now & ~given if sign == "-" else now | given
    return now


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
    if not re.fullmatch(_NAME, group):
        raise Misused(f"'{group}' does not match expected pattern for group")
    _attribute(command, "SETOWNER", lambda _, __: {"group": group})


def _attribute(command: Command, op: str, change: Callable[[str, Found], dict[str, Any]]) -> None:
    value, *paths = command.arguments
    for found in command.found(paths):
        for each in found.everything() if command.has("R") else [found]:
            command.ask(each, "PUT", op, **change(value, each))


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
