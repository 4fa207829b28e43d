"""``hadoop fs``: the commands of Hadoop's file system shell, with its texts and exit statuses.

A command that fails on one path goes on with the next; its exit status is 1 then.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from railyard.gateway.shell import changes, looking, transfers
from railyard.gateway.shell.command import TEXTS, Command
from railyard.gateway.shell.paths import Wrong
from railyard.gateway.shell.web import Failed, Web

UNKNOWN = 255  #: exit status
#: {command: what carries it out, its options}
COMMANDS: dict[str, tuple[Callable[[Command], None], str]] = {
    "ls": (looking.ls, "d h R C"),
    "lsr": (looking.ls, "R"),
    "du": (looking.du, "s h"),
    "count": (looking.count, "q h"),
    "stat": (looking.stat, ""),
    "test": (looking.test, "d e f s z"),
    "checksum": (looking.checksum, ""),
    "cat": (transfers.cat, ""),
    "text": (transfers.cat, ""),
    "tail": (transfers.tail, ""),
    "head": (transfers.head, ""),
    "get": (transfers.get, "f p"),
    "copyToLocal": (transfers.get, "f p"),
    "getmerge": (transfers.getmerge, ""),
    "put": (transfers.put, "f p d"),
    "copyFromLocal": (transfers.put, "f p d"),
    "appendToFile": (transfers.append_to_file, ""),
    "touchz": (transfers.touchz, ""),
    "cp": (transfers.cp, "f p"),
    "mv": (transfers.mv, ""),
    "mkdir": (changes.mkdir, "p"),
    "rm": (changes.rm, "f r R skipTrash"),
    "rmdir": (changes.rmdir, ""),
    "setrep": (changes.setrep, "w R"),
    "chmod": (changes.chmod, "R"),
    "chown": (changes.chown, "R"),
    "chgrp": (changes.chgrp, "R"),
    "truncate": (changes.truncate, "w"),
}


def run(arguments: list[str], web: Web) -> int:
    """Carry out ``-ls /x`` and so on; returns the exit status."""
    if not arguments or not arguments[0].startswith("-"):
        print(usage(), file=sys.stderr)
        return UNKNOWN
    name = arguments[0][1:]
    if name in ("help", "usage"):
        print(usage())
        return 0
    if name not in COMMANDS:
        print(f"{arguments[0]}: Unknown command\n{usage()}", file=sys.stderr)
        return UNKNOWN
    act, options = COMMANDS[name]
    try:
        command = Command(name, arguments[1:], web, options)
        act(command)
    except Wrong as wrong:
        print(f"{name}: {wrong}", file=sys.stderr)
        return 1
    except Failed as failed:
        print(f"{name}: {TEXTS.get(failed.exception, str(failed))}", file=sys.stderr)
        return 1
    return command.status


def usage() -> str:
    """All commands."""
    lines = [act.__doc__ or "" for act in dict.fromkeys(act for act, _ in COMMANDS.values())]
    return "\n".join(["Usage: hadoop fs COMMAND", *(f"\t{line}" for line in lines)])
