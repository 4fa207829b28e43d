"""What ``hadoop``, ``hdfs``, ``yarn`` and ``mapred`` do with their arguments.

``fs`` has the commands of Hadoop's file system shell, with its texts and exit statuses: a command
that fails on one path goes on with the next, and its exit status is 1 then; of one that is misused
it is 255, with how commands are used on standard error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from railyard.cluster.errors import UsageError
from railyard.gateway.shell import names, transfers
from railyard.gateway.shell.command import TEXTS, Command, Misused
from railyard.gateway.shell.generic import Generic, user_name
from railyard.gateway.shell.paths import Wrong
from railyard.gateway.shell.web import Failed, NoGateway, Web

MISUSED = 255  #: exit status
#: Commands that are called like the functions that carry them out.
_NAMED = (
    *(names.ls, names.lsr, names.find, names.du, names.df, names.count, names.stat, names.test),
    *(names.checksum, names.getfacl, names.mkdir, names.rm, names.rmdir, names.setrep, names.chmod),
    *(names.chown, names.chgrp, names.truncate, names.concat, names.expunge),
    *(transfers.cat, transfers.text, transfers.tail, transfers.head, transfers.getmerge),
    *(transfers.get, transfers.put, transfers.touchz, transfers.touch, transfers.cp, transfers.mv),
)
#: {command: what carries it out}
COMMANDS: dict[str, Callable[[Command], None]] = {
    **{each.__name__: each for each in _NAMED},
    "copyToLocal": transfers.get,
    "copyFromLocal": transfers.put,
    "moveFromLocal": transfers.move_from_local,
    "moveToLocal": transfers.move_to_local,
    "appendToFile": transfers.append_to_file,
    **dict.fromkeys(names.REFUSED, names.refused),
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
        command = Command(name, arguments[1:], web, takes_any=name in names.REFUSED)
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
    _, _, words = (act.__doc__ or "").partition(" ")
    return f"-{name} {words}".rstrip()


# hadoop, hdfs, yarn and mapred ------------------------------------------------------------------
#: Of Hadoop, whose commands these are.
VERSION = "3.4.1"
_USAGE = """Usage: {name} COMMAND
\tfs -COMMAND ...                   the block store: {name} fs -help
\tdfsadmin -report|-safemode ...    the nodes of the block store, and its safe mode
\tjar JAR -input ... -output ...    a streaming job: {name} jar any.jar -help
\tapplication -list [-appStates STATES] [-appTypes TYPES] [-appTags TAGS]|-kill ID|-status ID
\tjob -list|-kill ID|-status ID|-counter ID GROUP COUNTER
\tversion"""


def main(name: str, arguments: list[str]) -> int:
    """Run a command; returns its exit status."""
    user = user_name()
    command = ""
    try:
        generic = Generic()
        command, *rest = generic.take_all(arguments) or [""]
        status = _run(command, rest, generic, user)
        if status is not None:
            return status
    except (NoGateway, Failed, UsageError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to say
        return 1
    print(_USAGE.format(name=name), file=sys.stderr)
    return 0 if command in ("-help", "--help") else 1


def _run(command: str, rest: list[str], generic: Generic, user: str) -> int | None:
    """Run a command; returns its exit status, None if there is none of that name."""
    if command == "version":
        print(f"Hadoop {VERSION}\nSource: Railyard, which is not Hadoop but speaks to its clients")
        return 0
    if command in ("jar", "streaming"):
        from railyard.gateway.shell import jar  # only this command needs it

        return jar.run(["streaming.jar", *rest] if command == "streaming" else rest, generic, user)
    from railyard.gateway.shell import admin

    runs = {
        **dict.fromkeys(("fs", "dfs"), run),
        "job": admin.run_job,
        "dfsadmin": admin.run_dfsadmin,
        **dict.fromkeys(("application", "app"), admin.run_application),
    }
    rest = generic.take_all(rest)
    return runs[command](rest, generic.connect_checked(user)) if command in runs else None
