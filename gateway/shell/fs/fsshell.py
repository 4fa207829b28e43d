"""``hadoop fs``: the commands of Hadoop's file system shell, with its texts and exit statuses.

A command that fails on one path goes on with the next; its exit status is 1 then.  One that is
misused is 255, with how commands are used on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from railyard.cluster.errors import UsageError
from railyard.gateway.shell.fs import changes, listing, looking, reading, transfers
from railyard.gateway.shell.fs.command import TEXTS, Command, Misused
from railyard.gateway.shell.paths import Wrong
from railyard.gateway.shell.web import Failed, Web

MISUSED = 255  #: exit status
#: {command: what carries it out}
COMMANDS: dict[str, Callable[[Command], None]] = {
    "ls": listing.ls,
    "lsr": listing.lsr,
    "find": listing.find,
    "du": looking.du,
    "df": looking.df,
    "count": looking.count,
    "stat": looking.stat,
    "test": looking.test,
    "checksum": looking.checksum,
    "getfacl": looking.getfacl,
    "cat": reading.cat,
    "text": reading.text,
    "tail": reading.tail,
    "head": reading.head,
    "getmerge": reading.getmerge,
    "get": transfers.get,
    "copyToLocal": transfers.get,
    "put": transfers.put,
    "copyFromLocal": transfers.put,
    "moveFromLocal": transfers.move_from_local,
    "moveToLocal": transfers.move_to_local,
    "appendToFile": transfers.append_to_file,
    "touchz": transfers.touchz,
    "touch": transfers.touch,
    "cp": transfers.cp,
    "mv": transfers.mv,
    "mkdir": changes.mkdir,
    "rm": changes.rm,
    "rmdir": changes.rmdir,
    "setrep": changes.setrep,
    "chmod": changes.chmod,
    "chown": changes.chown,
    "chgrp": changes.chgrp,
    "truncate": changes.truncate,
    "concat": changes.concat,
    "expunge": changes.expunge,
    **dict.fromkeys(changes.REFUSED, changes.refused),
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
    try:
        command = Command(name, arguments[1:], web, takes_any=name in changes.REFUSED)
        COMMANDS[name](command)
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
    act = COMMANDS[name]
    _, _, told = (act.__doc__ or "").partition(" ")
    return f"-{name} {told}".rstrip()
