"""``hadoop job`` and ``mapred job``: jobs are listed, looked at and killed."""

from __future__ import annotations

import re
import sys
from typing import Any

from railyard.cluster.accepted import Accepted, refused, used
from railyard.cluster.errors import UsageError
from railyard.gateway.shell.jar import counter_lines
from railyard.gateway.shell.web import Failed, Web

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
