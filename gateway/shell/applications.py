"""``yarn application``: applications are listed, looked at and killed."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import urlencode

from railyard.cluster.accepted import Accepted, refused, used
from railyard.cluster.errors import UsageError
from railyard.gateway.shell.web import Web

_AS_SUBMITTED = refused("an application stays as it was submitted")

OPTIONS = Accepted(
    "yarn application: options",
    "option",
    {
        "-list": used("applications that wait or run"),
        "-appStates": used("with -list: only those in these states, or ALL"),
        "-appTypes": used("with -list: only those of these types"),
        "-appTags": used("with -list: only those with one of these tags"),
        "-status": used("how an application is"),
        "-kill": used("end an application"),
        "-movetoqueue": _AS_SUBMITTED,
        "-queue": _AS_SUBMITTED,
        "-changeQueue": _AS_SUBMITTED,
        "-updatePriority": _AS_SUBMITTED,
        "-updateLifetime": _AS_SUBMITTED,
        "-appId": refused("need -status ID or -kill ID"),
        "-clusterId": refused("need HADOOP_CONF_DIR, which names a cluster"),
    },
)
#: {option of -list: (filter of the REST interface, its name in the heading)}
_FILTERS = {"-appStates": "states", "-appTypes": "applicationTypes", "-appTags": "applicationTags"}
_ALL = "ALL"
_WAITING_OR_RUNNING = "SUBMITTED,ACCEPTED,RUNNING"
_COLUMNS = "%-40s%-24s%-20s%-12s%-12s%-12s%-18s%-10s"
_HEADS = (
    *("Application-Id", "Application-Name", "Type", "User"),
    *("Queue", "State", "Final-State", "Progress"),
)


def run(arguments: list[str], web: Web) -> int | None:
    """Carry out ``-list`` and so on; returns the exit status, None for what is no command."""
    try:
        for word in arguments:
            if word.startswith("-"):
                OPTIONS.check(word)
        match arguments:
            case ["-list", *rest]:
                return _list(rest, web)
            case ["-kill", job]:
                return _kill(job, web)
            case ["-status", job]:
                return _status(job, web)
    except UsageError as error:
        print(f"application: {error}", file=sys.stderr)
        return 1
    return None


def _list(rest: list[str], web: Web) -> int:
    wanted = {"states": _WAITING_OR_RUNNING}
    for option, value in _pairs(rest):
        wanted[_FILTERS[option]] = value.upper() if option == "-appStates" else value
    if wanted["states"] == _ALL:
        del wanted["states"]
    told = web.rest("GET", f"/apps?{urlencode(wanted)}")["apps"]
    apps: list[dict[str, Any]] = told["app"] if told else []
    types, states, tags = (
        ", ".join(wanted.get(name, "").split(","))
        for name in ("applicationTypes", "states", "applicationTags")
    )
    chosen = f"application-types: [{types}], states: [{states or _ALL}] and tags: [{tags}]"
    print(f"Total number of applications ({chosen}):{len(apps)}")
    print(_COLUMNS % _HEADS)
    for app in apps:
        keys = ["id", "name", "applicationType", "user", "queue", "state", "finalStatus"]
        print(_COLUMNS % (*(app[key] for key in keys), f"{app['progress']:.0f}%"))
    return 0


def _pairs(rest: list[str]) -> list[tuple[str, str]]:
    """Options of -list with their values; ``UsageError`` for anything else."""
    pairs = list(zip(rest[::2], rest[1::2], strict=False))
    if len(rest) % 2 or any(option not in _FILTERS for option, _ in pairs):
        given = " ".join(rest)[:80]
        raise UsageError(f"-list {given}: need {', '.join(_FILTERS)}, each with values")
    if len(dict(pairs)) < len(pairs):
        raise UsageError(f"-list {' '.join(rest)[:80]}: an option is given twice: need it once")
    return pairs


def _kill(job: str, web: Web) -> int:
    app = job.replace("job_", "application_", 1)
    told = web.rest("PUT", f"/apps/{app}/state", {"state": "KILLED"})
    ended = told["state"] not in ("ACCEPTED", "RUNNING")
    print(f"Application {app} has already finished" if ended else f"Killing application {app}")
    return 0


def _status(job: str, web: Web) -> int:
    app = web.rest("GET", f"/apps/{job.replace('job_', 'application_', 1)}")["app"]
    for key in ("id", "name", "user", "queue", "state", "finalStatus", "progress"):
        print(f"\t{key} : {app[key]}")
    return 0
