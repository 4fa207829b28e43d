"""``hadoop fs``: the commands of Hadoop's file system shell, with its texts and exit statuses.

A command that fails on one path goes on with the next; its exit status is 1 then.  One that is
misused is 255, with how commands are used on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from railyard.cluster.errors import UsageError
from railyard.gateway.shell.fs import changes, listing, looking, reading, transfers
from railyard.gateway.shell.fs.command import ANY, TEXTS, Command, Misused
from railyard.gateway.shell.paths import Wrong
from railyard.gateway.shell.web import Failed, Web

MISUSED = 255  #: exit status
#: {command: what carries it out, its options}
COMMANDS: dict[str, tuple[Callable[[Command], None], str]] = {
    "ls": (listing.ls, "C d e h q R t S r u"),
    "lsr": (listing.lsr, "C d e h q t S r u"),
    "find": (listing.find, ""),
    "du": (looking.du, "s h v x"),
    "df": (looking.df, "h"),
    "count": (looking.count, "q u h v x"),
    "stat": (looking.stat, ""),
    "test": (looking.test, "d e f s w r z"),
    "checksum": (looking.checksum, "v"),
    "getfacl": (looking.getfacl, "R"),
    "cat": (reading.cat, "ignoreCrc"),
    "text": (reading.text, "ignoreCrc"),
    "tail": (reading.tail, ""),
    "head": (reading.head, ""),
    "getmerge": (reading.getmerge, "nl skip-empty-file"),
    "get": (transfers.get, "f p crc ignoreCrc"),
    "copyToLocal": (transfers.get, "f p crc ignoreCrc"),
    "put": (transfers.put, "f p l d"),
    "copyFromLocal": (transfers.put, "f p l d"),
    "moveFromLocal": (transfers.move_from_local, "f p l d"),
    "moveToLocal": (transfers.move_to_local, ""),
    "appendToFile": (transfers.append_to_file, "n"),
    "touchz": (transfers.touchz, ""),
    "touch": (transfers.touch, "c"),
    "cp": (transfers.cp, "f p d"),
    "mv": (transfers.mv, ""),
    "mkdir": (changes.mkdir, "p"),
    "rm": (changes.rm, "f r R skipTrash safely"),
    "rmdir": (changes.rmdir, "-ignore-fail-on-non-empty"),
    "setrep": (changes.setrep, "w R"),
    "chmod": (changes.chmod, "R"),
    "chown": (changes.chown, "R"),
    "chgrp": (changes.chgrp, "R"),
    "truncate": (changes.truncate, "w"),
    "concat": (changes.concat, ""),
    "expunge": (changes.expunge, "immediate"),
    **dict.fromkeys(changes.REFUSED, (changes.refused, ANY)),
}


def run(arguments: list[str], web: Web) -> int:
    """Carry out ``-ls /x`` and so on; returns the exit status."""
    if not arguments or not arguments[0].startswith("-"):
        print(usage(), file=sys.stderr)
        return MISUSED
    name = arguments[0][1:]
    if name in ("help", "usage"):
        return _help(name, arguments[1:])
    if name not in COMMANDS:
        print(f"{arguments[0]}: Unknown command\n{usage()}", file=sys.stderr)
        return MISUSED
    act, options = COMMANDS[name]
    try:
        command = Command(name, arguments[1:], web, options)
        act(command)
    except Misused as misused:
        print(f"-{name}: {misused}\n{usage()}", file=sys.stderr)
        return MISUSED
    except (Wrong, UsageError) as wrong:
        print(f"{name}: {wrong}", file=sys.stderr)
        return 1
    except Failed as failed:
        print(f"{name}: {TEXTS.get(failed.exception, str(failed))}", file=sys.stderr)
        return 1
    return command.status


def usage() -> str:
    """All commands."""
    lines = [f"\t[{_how(name)}]" for name in sorted(COMMANDS)]
    return "\n".join(["Usage: hadoop fs [generic options]", *lines])


def _help(name: str, about: list[str]) -> int:
    if not about:
        print(usage())
    for each in about:
        known = each.removeprefix("-")
        if known not in COMMANDS:
            print(f"-{name}: `{each}': Unknown command\n{usage()}", file=sys.stderr)
            return MISUSED
        print(f"Usage: hadoop fs [generic options] {_how(known)}")
    return 0


def _how(name: str) -> str:
    """A command with its options and arguments, as the function says it that carries it out."""
    act = COMMANDS[name][0]
    _, _, told = (act.__doc__ or "").partition(" ")
    return f"-{name} {told}".rstrip()
