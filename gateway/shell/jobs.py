"""``yarn application`` and ``mapred job``: what runs is listed, looked at and ended."""

from __future__ import annotations

import re
import sys
from typing import Any
from urllib.parse import urlencode

from railyard.cluster.acceptance import Accepted, refused, used
from railyard.cluster.errors import UsageError
from railyard.gateway.shell.web import Failed, Web

_AS_SUBMITTED = refused("an application stays as it was submitted")
_BY_HISTORY = refused("need the REST interfaces, or the page of the gateway")
_BY_ITSELF = refused("an attempt can't be ended by itself: need -kill")
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
        **dict.fromkeys(("-movetoqueue", "-queue", "-changeQueue"), _AS_SUBMITTED),
        **dict.fromkeys(("-updatePriority", "-updateLifetime"), _AS_SUBMITTED),
        "-appId": refused("need -status ID or -kill ID"),
        "-clusterId": refused("need HADOOP_CONF_DIR, which names a cluster"),
    },
)
OPTIONS = Accepted(
    "mapred job: options",
    "option",
    {
        "-list": used("jobs that wait or run; with all: those that have ended, too"),
        "-status": used("how far a job is, and its counters"),
        "-kill": used("end a job"),
        "-counter": used("a counter of a job"),
        "-submit": refused("need hadoop jar"),
        **dict.fromkeys(("-events", "-history", "-logs", "-config"), _BY_HISTORY),
        "-list-active-trackers": refused("need yarn's REST interface, or railyard nodes"),
        "-list-blacklisted-trackers": refused("no node is blacklisted"),
        "-list-attempt-ids": _BY_HISTORY,
        "-kill-task": _BY_ITSELF,
        "-fail-task": _BY_ITSELF,
        "-set-priority": refused("a job stays as it was submitted"),
    },
)
#: {option of -list: filter of the REST interface}
_FILTERS = {"-appStates": "states", "-appTypes": "applicationTypes", "-appTags": "applicationTags"}
_ALL = "ALL"
_COLUMNS = "%-40s%-24s%-20s%-12s%-12s%-12s%-18s%-10s"
_HEADS = (
    *("Application-Id", "Application-Name", "Type", "User"),
    *("Queue", "State", "Final-State", "Progress"),
)
_JOB_USAGE = """Usage: mapred job
\t-list [all]
\t-status JOB
\t-kill JOB
\t-counter JOB GROUP COUNTER"""
_JOB_COLUMNS = "%23s\t%10s\t%14s\t%12s\t%12s"
_JOB_STATES = {"ACCEPTED": "PREP", "RUNNING": "RUNNING", "FINISHED": "SUCCEEDED"}


# yarn application --------------------------------------------------------------------------------
def run_application(arguments: list[str], web: Web) -> int | None:
    """Carry out ``-list`` and so on; returns the exit status, None for what is no command."""
    try:
        for word in arguments:
            if word.startswith("-"):
                APPLICATION_OPTIONS.check(word)
        match arguments:
            case ["-list", *rest]:
                return _list_applications(rest, web)
            case ["-kill", typed]:
                app = typed.replace("job_", "application_", 1)
                already = f"Application {app} has already finished"
                print(f"Killing application {app}" if _kill(app, web) else already)
                return 0
            case ["-status", typed]:
                app = web.rest("GET", f"/apps/{typed.replace('job_', 'application_', 1)}")["app"]
                for key in ("id", "name", "user", "queue", "state", "finalStatus", "progress"):
                    print(f"\t{key} : {app[key]}")
                return 0
    except UsageError as error:
        print(f"application: {error}", file=sys.stderr)
        return 1
    return None


def _list_applications(rest: list[str], web: Web) -> int:
    wanted = {"states": "SUBMITTED,ACCEPTED,RUNNING"}
    for option, value in _pairs(rest):
        wanted[_FILTERS[option]] = value.upper() if option == "-appStates" else value
    if wanted["states"] == _ALL:
        del wanted["states"]
    apps = _apps(web, f"?{urlencode(wanted)}")
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


# mapred job --------------------------------------------------------------------------------------
def run(arguments: list[str], web: Web) -> int:
    """Carry out ``-list`` and so on; returns the exit status."""
    match arguments:
        case ["-list"] | ["-list", "all"]:
            return _list(web, everything=len(arguments) == 2)
        case ["-status", typed]:
            return _status(web, typed)
        case ["-kill", typed]:
            if _kill(_id(typed).replace("job_", "application_", 1), web):
                print(f"Killed job {typed}")
                return 0
            print(f"Could not kill {typed}: it has ended", file=sys.stderr)
            return 1
        case ["-counter", typed, group, counter]:
            counters = web.own("GET", f"/jobs/{_id(typed)}")["counters"]
            print(counters.get(group, {}).get(counter, 0))
            return 0
    try:
        for word in arguments[:1]:
            OPTIONS.check(word)
    except UsageError as error:
        print(f"job: {error}", file=sys.stderr)
    print(_JOB_USAGE, file=sys.stderr)
    return 1


def _id(typed: str) -> str:
    if re.fullmatch(r"(job|application)_\d+_\d+", typed):
        return typed.replace("application_", "job_", 1)
    raise Failed(404, "NotFoundException", f"Could not find job {typed}")


def _list(web: Web, everything: bool) -> int:
    apps = _apps(web, "" if everything else "?states=ACCEPTED,RUNNING")
    print(f"Total jobs:{len(apps)}")
    print(_JOB_COLUMNS % ("JobId", "State", "StartTime", "UserName", "Queue"))
    for app in apps:
        job = app["id"].replace("application_", "job_", 1)
        state = _JOB_STATES.get(app["state"], app["state"])
        print(_JOB_COLUMNS % (job, state, app["startedTime"], app["user"], app["queue"]))
    return 0


def _status(web: Web, typed: str) -> int:
    name = _id(typed)
    job = web.own("GET", f"/jobs/{name}")
    print(f"\nJob: {name}\nNumber of maps: {job['maps']}\nNumber of reduces: {job['reduces']}")
    print(f"map() completion: {job['mapProgress']}\nreduce() completion: {job['reduceProgress']}")
    print(f"Job state: {job['state']}\nreason for failure: {job['reason']}")
    print("\n".join(counter_lines(job["counters"])))
    return 0


def counter_lines(groups: dict[str, dict[str, int]]) -> list[str]:
    """{group: {counter: count}} as Hadoop shows it."""
    lines = [f"Counters: {sum(map(len, groups.values()))}"]
    for group, counters in groups.items():
        lines += [f"\t{group}", *(f"\t\t{name}={count}" for name, count in counters.items())]
    return lines


# Both --------------------------------------------------------------------------------------------
def _apps(web: Web, query: str) -> list[dict[str, Any]]:
    answer = web.rest("GET", f"/apps{query}")["apps"]
    return list(answer["app"]) if answer else []


def _kill(app: str, web: Web) -> bool:
    """End an application; false if it has ended already."""
    answer = web.rest("PUT", f"/apps/{app}/state", {"state": "KILLED"})
    return answer["state"] in ("ACCEPTED", "RUNNING")
