"""``yarn application``, ``mapred job`` and ``hdfs dfsadmin``: jobs, and nodes of the block store.

Jobs are listed and ended, nodes reported in the words of Hadoop's DFSAdmin, safe mode is set.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from railyard.cluster.acceptance import Accepted, Effect, refused, used
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
JOB_OPTIONS = Accepted(
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
                name = typed.replace("job_", "application_", 1)
                app = web.rest("GET", f"/cluster/apps/{name}")["app"]
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
def run_job(arguments: list[str], web: Web) -> int:
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
            counters = web.rest("GET", f"/railyard/jobs/{_id(typed)}")["counters"]
            print(counters.get(group, {}).get(counter, 0))
            return 0
    try:
        for word in arguments[:1]:
            JOB_OPTIONS.check(word)
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
    job = web.rest("GET", f"/railyard/jobs/{name}")
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
    answer = web.rest("GET", f"/cluster/apps{query}")["apps"]
    return list(answer["app"]) if answer else []


def _kill(app: str, web: Web) -> bool:
    """End an application; false if it has ended already."""
    answer = web.rest("PUT", f"/cluster/apps/{app}/state", {"state": "KILLED"})
    return answer["state"] in ("ACCEPTED", "RUNNING")


# hdfs dfsadmin -----------------------------------------------------------------------------------
#: Exit status of a command that was misused, or refused: -1 in Hadoop's source.
_WRONG = 255
_SAFE_MODE = "[-safemode enter | leave | get | wait | forceExit]"
_REPORT = "[-report] [-live] [-dead] [-decommissioning]"
#: {option of -report: its heading, which of the nodes}
_KINDS: dict[str, tuple[str, Callable[[dict[str, Any]], bool]]] = {
    "-live": ("Live datanodes", lambda node: node["alive"]),
    "-dead": ("Dead datanodes", lambda node: not node["alive"]),
    "-decommissioning": ("Decommissioning datanodes", lambda node: node["drain"] == "draining"),
}
_NO_SUCH = refused("the block store has none")
DFSADMIN_OPTIONS = Accepted(
    "hdfs dfsadmin: commands",
    "command",
    {
        "-report": used("the nodes, and what is stored on them"),
        "-safemode": used("enter, leave, get, wait, forceExit"),
        **dict.fromkeys(("-setQuota", "-clrQuota", "-setSpaceQuota", "-clrSpaceQuota"), _NO_SUCH),
        **dict.fromkeys(("-allowSnapshot", "-disallowSnapshot", "-upgrade"), _NO_SUCH),
        **dict.fromkeys(("-finalizeUpgrade", "-rollingUpgrade", "-setBalancerBandwidth"), _NO_SUCH),
        "-refreshNodes": refused("need railyard drain, which empties a node"),
        "-saveNamespace": refused("its journal has all changes at once"),
        "-printTopology": refused("need -report, or railyard nodes"),
        "-metasave": refused("need railyard fsck"),
    },
)
_BLOCKS = {
    "Under replicated blocks": "underReplicated",
    "Blocks with corrupt replicas": "corrupt",
    "Missing blocks": "missing",
    "Missing blocks (with replication factor 1)": "missingWithOneReplica",
    "Low redundancy blocks with highest priority to recover": "urgent",
    "Pending deletion blocks": "pendingDeletion",
}
_STATES = {"": "Normal", "draining": "Decommission in progress", "drained": "Decommissioned"}
_UNITS = ("KB", "MB", "GB", "TB", "PB", "EB")
#: Between two questions of "-safemode wait".
_ASK_EVERY_S = 0.5


def run_dfsadmin(arguments: list[str], web: Web) -> int:
    """Carry out ``-safemode`` or ``-report``; returns the exit status."""
    command, *rest = arguments or [""]
    try:
        if command == "-safemode" and len(rest) == 1:
            return _safe_mode(rest[0].lower(), web)
        if command == "-report" and set(rest) <= _KINDS.keys():
            _report(web.rest("GET", "/railyard/storage"), rest or list(_KINDS), asked=bool(rest))
            return 0
    except Failed as failed:
        print(f"{command[1:]}: {failed}", file=sys.stderr)
        return _WRONG
    known = DFSADMIN_OPTIONS.entries.get(command)
    if known is not None and known.effect is Effect.REFUSED:
        print(f"{command}: not supported: {known.note}", file=sys.stderr)
    elif known is None and command:
        print(f"{command.removeprefix('-')}: Unknown command", file=sys.stderr)
    words = {"-safemode": [_SAFE_MODE], "-report": [_REPORT]}.get(command, [_REPORT, _SAFE_MODE])
    print("Usage: hdfs dfsadmin " + "\n\t".join(words), file=sys.stderr)
    return _WRONG


def _safe_mode(action: str, web: Web) -> int:
    if action not in ("get", "enter", "leave", "wait", "forceexit"):
        print(f"Usage: hdfs dfsadmin {_SAFE_MODE}", file=sys.stderr)
        return 0  # as Hadoop does
    body = None if action in ("get", "wait") else {"safeMode": action == "enter"}
    verb = "GET" if body is None else "PUT"
    asked = verb, "/railyard/storage/safemode", body
    while (is_on := web.rest(*asked)["safeMode"]) and action == "wait":
        time.sleep(_ASK_EVERY_S)
    print(f"Safe mode is {'ON' if is_on else 'OFF'}")
    return 0


def _report(report: dict[str, Any], kinds: list[str], *, asked: bool) -> None:
    if report["safeMode"]:
        print("Safe mode is ON")
    present = report["used"] + report["remaining"]
    for name, count in (
        ("Configured Capacity", report["capacity"]),
        ("Present Capacity", present),
        ("DFS Remaining", report["remaining"]),
        ("DFS Used", report["used"]),
    ):
        print(f"{name}: {described(count)}")
    print(f"DFS Used%: {_share(report['used'], present)}")
    print("Replicated Blocks:")
    for name, key in _BLOCKS.items():
        print(f"\t{name}: {report[key]}")
    print("\n-------------------------------------------------")
    for kind, (heading, belongs) in _KINDS.items():
        nodes = [node for node in report["nodes"] if belongs(node)]
        if kind not in kinds or not (nodes or asked):
            continue
        print(f"{heading} ({len(nodes)}):\n")
        for node in nodes:
            _node(node)


def _node(node: dict[str, Any]) -> None:
    contact_s = node["lastContactSeconds"]
    contact = time.localtime(contact_s or 0.0)
    for name, value in (
        ("Name", f"{node['name']} ({node['host']})"),
        ("Hostname", node["host"]),
        ("Rack", node["rack"]),
        ("Decommission Status ", _STATES[node["drain"]]),
        ("Configured Capacity", described(node["capacity"])),
        ("DFS Used", described(node["used"])),
        ("Non DFS Used", described(0)),
        ("DFS Remaining", described(node["remaining"])),
        ("DFS Used%", _share(node["used"], node["capacity"])),
        ("DFS Remaining%", _share(node["remaining"], node["capacity"])),
        ("Last contact", time.strftime("%a %b %d %H:%M:%S %Z %Y", contact)),
        ("Num of Blocks", node["blocks"]),
    ):
        print(f"{name}: {value}")
    print("\n")


def described(count: int) -> str:
    """A number of bytes as "24576 (24 KB)": whole where it is, or with two decimals."""
    at = min((count.bit_length() - 1) // 10, len(_UNITS)) if count >= 1024 else 0
    if not at:
        return f"{count} ({count} B)"
    unit = 1024**at
    if count % unit == 0:
        return f"{count} ({count // unit} {_UNITS[at - 1]})"
    text = f"{count / unit:.2f}"
    if text.startswith("1024") and at < len(_UNITS):
        text, at = "1.00", at + 1
    return f"{count} ({text} {_UNITS[at - 1]})"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole if whole else 0.0:.2f}%"
