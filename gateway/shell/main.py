"""What ``hadoop``, ``hdfs`` and ``yarn`` do with their arguments."""

from __future__ import annotations

import os
import sys

from railyard.cluster.errors import UsageError
from railyard.gateway.shell.fs import fsshell
from railyard.gateway.shell.generic import Generic, user_name
from railyard.gateway.shell.web import Failed, NoGateway

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
    rest = generic.take_all(rest)
    if command in ("fs", "dfs"):
        return fsshell.run(rest, generic.connect_checked(user))
    if command == "job":
        from railyard.gateway.shell import jobs

        return jobs.run(rest, generic.connect_checked(user))
    if command == "dfsadmin":
        from railyard.gateway.shell import admin

        return admin.run(rest, generic.connect_checked(user))
    if command in ("application", "app"):
        from railyard.gateway.shell import applications

        return applications.run(rest, generic.connect_checked(user))
    return None
