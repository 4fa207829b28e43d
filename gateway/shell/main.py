"""What ``hadoop``, ``hdfs`` and ``yarn`` do with their arguments."""

from __future__ import annotations

import os
import sys
from typing import Any

from railyard.cluster.errors import UsageError
from railyard.gateway.shell.fs import fsshell
from railyard.gateway.shell.generic import Generic, user_name
from railyard.gateway.shell.web import Failed, NoGateway, Web

#: Of Hadoop, whose commands these are.
VERSION = "3.4.1"
_COLUMNS = "%-40s%-24s%-20s%-12s%-12s%-12s%-18s%-10s"
_USAGE = """Usage: {name} COMMAND
\tfs -COMMAND ...                   the block store: {name} fs -help
\tdfsadmin -report|-safemode ...    the nodes of the block store, and its safe mode
\tjar JAR -input ... -output ...    a streaming job: {name} jar any.jar -help
\tapplication -list|-kill ID|-status ID
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
        return _applications(rest, generic.connect_checked(user))
    return None


def _applications(arguments: list[str], web: Web) -> int:
    match arguments:
        case ["-list", *_]:
            return _list(web)
        case ["-kill", job]:
            app = job.replace("job_", "application_", 1)
            told = web.rest("PUT", f"/apps/{app}/state", {"state": "KILLED"})
            ended = told["state"] not in ("ACCEPTED", "RUNNING")
            print(
                f"Application {app} has already finished" if ended else f"Killing application {app}"
            )
            return 0
        case ["-status", job]:
            app = web.rest("GET", f"/apps/{job.replace('job_', 'application_', 1)}")["app"]
            for key in ("id", "name", "user", "queue", "state", "finalStatus", "progress"):
                print(f"\t{key} : {app[key]}")
            return 0
    print(_USAGE.format(name="yarn"), file=sys.stderr)
    return 1


def _list(web: Web) -> int:
    told = web.rest("GET", "/apps?states=ACCEPTED,RUNNING")["apps"]
    apps: list[dict[str, Any]] = told["app"] if told else []
    print(f"Total number of applications (states: [ACCEPTED, RUNNING]): {len(apps)}")
    heads = [
        "Application-Id",
        "Application-Name",
        "Type",
        "User",
        "Queue",
        "State",
        "Final-State",
        "Progress",
    ]
    print(_COLUMNS % tuple(heads))
    for app in apps:
        keys = ["id", "name", "applicationType", "user", "queue", "state", "finalStatus"]
        print(_COLUMNS % (*(app[key] for key in keys), f"{app['progress']:.0f}%"))
    return 0
