"""``yarn application``: applications are listed, looked at and killed."""

from __future__ import annotations

import re
import sys
from typing import Any
from urllib.parse import urlencode

from railyard.cluster.acceptance import Accepted, refused, used
from railyard.cluster.errors import UsageError
from railyard.gateway.shell.jar import counter_lines
from railyard.gateway.shell.web import Failed, Web

_APPLICATION_AS_SUBMITTED = refused("an application stays as it was submitted")

APPLICATION_OPTIONS = Accepted(
    "yarn application: options",
    "option",
    {
        "-list": used("applications that wait or run"),
        "-appStates": used("with -list: only those in these states, or ALL"),
        "-appTypes": used("with -list: only those of these types"),
        "-appTags": used("with -list: only those with one of these tags"),
        "-status": used("how an application is"),
        "-kill": used("end an application"),
        "-movetoqueue": _APPLICATION_AS_SUBMITTED,
        "-queue": _APPLICATION_AS_SUBMITTED,
        "-changeQueue": _APPLICATION_AS_SUBMITTED,
        "-updatePriority": _APPLICATION_AS_SUBMITTED,
        "-updateLifetime": _APPLICATION_AS_SUBMITTED,
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


def run_application(arguments: list[str], web: Web) -> int | None:
    """Carry out ``-list`` and so on; returns the exit status, None for what is no command."""
    try:
        for word in arguments:
            if word.startswith("-"):
                APPLICATION_OPTIONS.check(word)
        match arguments:
            case ["-list", *rest]:
                return _list_applications(rest, web)
            case ["-kill", job]:
                return _kill_application(job, web)
            case ["-status", job]:
                return _show_application(job, web)
    except UsageError as error:
        print(f"application: {error}", file=sys.stderr)
        return 1
    return None


def _list_applications(rest: list[str], web: Web) -> int:
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


def _kill_application(job: str, web: Web) -> int:
    app = job.replace("job_", "application_", 1)
    told = web.rest("PUT", f"/apps/{app}/state", {"state": "KILLED"})
    ended = told["state"] not in ("ACCEPTED", "RUNNING")
    print(f"Application {app} has already finished" if ended else f"Killing application {app}")
    return 0


def _show_application(job: str, web: Web) -> int:
    app = web.rest("GET", f"/apps/{job.replace('job_', 'application_', 1)}")["app"]
    for key in ("id", "name", "user", "queue", "state", "finalStatus", "progress"):
        print(f"\t{key} : {app[key]}")
    return 0


# ``hadoop job`` and ``mapred job``: jobs are listed, looked at and killed.


_AS_SUBMITTED = refused("a job stays as it was submitted")
_BY_HISTORY = refused("need the REST interfaces, or the page of the gateway")
OPTIONS = Accepted(
    "mapred job: options",
    "option",
    {
        "-list": used("jobs that wait or run; with all: those that have ended, too"),
        "-status": used("how far a job is, and its counters"),
        "-kill": used("end a job"),
        "-counter": used("a counter of a job"),
        "-submit": refused("need hadoop jar"),
        "-events": _BY_HISTORY,
        "-history": _BY_HISTORY,
        "-logs": _BY_HISTORY,
        "-config": _BY_HISTORY,
        "-list-active-trackers": refused("need yarn's REST interface, or railyard nodes"),
        "-list-blacklisted-trackers": refused("no node is blacklisted"),
        "-list-attempt-ids": _BY_HISTORY,
        "-kill-task": refused("an attempt can't be ended by itself: need -kill"),
        "-fail-task": refused("an attempt can't be ended by itself: need -kill"),
        "-set-priority": _AS_SUBMITTED,
    },
)
USAGE = """Usage: mapred job
\t-list [all]
\t-status JOB
\t-kill JOB
\t-counter JOB GROUP COUNTER"""
_ROW = "%23s\t%10s\t%14s\t%12s\t%12s"
_STATES = {"ACCEPTED": "PREP", "RUNNING": "RUNNING", "FINISHED": "SUCCEEDED"}
_ENDED = ("FINISHED", "FAILED", "KILLED")


def run(arguments: list[str], web: Web) -> int:
    """Carry out ``-list`` and so on; returns the exit status."""
    match arguments:
        case ["-list"] | ["-list", "all"]:
            return _list(web, everything=len(arguments) == 2)
        case ["-status", job]:
            return _status(web, job)
        case ["-kill", job]:
            return _kill(web, job)
        case ["-counter", job, group, counter]:
            print(web.own("GET", f"/jobs/{_id(job)}")["counters"].get(group, {}).get(counter, 0))
            return 0
    try:
        for word in arguments[:1]:
            OPTIONS.check(word)
    except UsageError as error:
        print(f"job: {error}", file=sys.stderr)
    print(USAGE, file=sys.stderr)
    return 1


def _id(typed: str) -> str:
    if re.fullmatch(r"(job|application)_\d+_\d+", typed):
        return typed.replace("application_", "job_", 1)
    raise Failed(404, "NotFoundException", f"Could not find job {typed}")


def _list(web: Web, everything: bool) -> int:
    told = web.rest("GET", "/apps" if everything else "/apps?states=ACCEPTED,RUNNING")["apps"]
    apps: list[dict[str, Any]] = told["app"] if told else []
    print(f"Total jobs:{len(apps)}")
    print(_ROW % ("JobId", "State", "StartTime", "UserName", "Queue"))
    for app in apps:
        job = app["id"].replace("application_", "job_", 1)
        state = _STATES.get(app["state"], app["state"])
        print(_ROW % (job, state, app["startedTime"], app["user"], app["queue"]))
    return 0


def _status(web: Web, typed: str) -> int:
    name = _id(typed)
    job = web.own("GET", f"/jobs/{name}")
    print(f"\nJob: {name}\nNumber of maps: {job['maps']}\nNumber of reduces: {job['reduces']}")
    print(f"map() completion: {job['mapProgress']}\nreduce() completion: {job['reduceProgress']}")
    print(f"Job state: {job['state']}\nreason for failure: {job['reason']}")
    print("\n".join(counter_lines(job["counters"])))
    return 0


def _kill(web: Web, typed: str) -> int:
    app = _id(typed).replace("job_", "application_", 1)
    if web.rest("PUT", f"/apps/{app}/state", {"state": "KILLED"})["state"] in _ENDED:
        print(f"Could not kill {typed}: it has ended", file=sys.stderr)
        return 1
    print(f"Killed job {typed}")
    return 0
