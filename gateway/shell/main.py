"""What ``hadoop``, ``hdfs`` and ``yarn`` do with their arguments."""

from __future__ import annotations

import os
import sys

from railyard.gateway.shell.fs import fsshell
from railyard.gateway.shell.web import Failed, NoGateway, Web, find_gateway

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
    user = os.environ.get("HADOOP_USER_NAME") or os.environ.get("USER") or "user"
    arguments = _without_settings(arguments)
    command, *rest = arguments or [""]
    try:
        status = _run(command, rest, user)
        if status is not None:
            return status
    except NoGateway as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1
    except Failed as failed:
        print(f"{name}: {failed}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nothing is left to say
        return 1
    print(_USAGE.format(name=name), file=sys.stderr)
    return 0 if command in ("-help", "--help") else 1


def _run(command: str, rest: list[str], user: str) -> int | None:
    """Run a command; returns its exit status, None if there is none of that name."""
    if command == "version":
        print(f"Hadoop {VERSION}\nSource: Railyard, which is not Hadoop but speaks to its clients")
        return 0
    if command in ("fs", "dfs"):
        rest = _without_settings(rest)
        return fsshell.run(rest, Web(find_gateway(), user))
    if command in ("jar", "streaming", "job"):
        from railyard.gateway.shell import jar, jobs  # only these commands need them

        web = Web(find_gateway(), user)
        if command == "job":
            return jobs.run(rest, web)
        return jar.run(["streaming.jar", *rest] if command == "streaming" else rest, web)
    if command == "dfsadmin":
        from railyard.gateway.shell import admin

        return admin.run(rest, Web(find_gateway(), user))
    if command in ("application", "app"):
        from railyard.gateway.shell import applications

        return applications.run(rest, Web(find_gateway(), user))
    return None


def _without_settings(arguments: list[str]) -> list[str]:
    """Generic options (-D key=value, -conf FILE, -fs URI) change nothing here."""
    while arguments and arguments[0] in ("-D", "-conf", "-fs", "-jt", "--config"):
        arguments = arguments[2:]
    while arguments and arguments[0].startswith("-D") and "=" in arguments[0]:
        arguments = arguments[1:]
    return arguments
