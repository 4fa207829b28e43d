"""``hdfs dfsadmin``: safe mode, and a report on the nodes, in the words of Hadoop's DFSAdmin."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from railyard.cluster.acceptance import Accepted, Effect, refused, used
from railyard.gateway.shell.web import Failed, Web

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
OPTIONS = Accepted(
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


def run(arguments: list[str], web: Web) -> int:
    """Carry out ``-safemode`` or ``-report``; returns the exit status."""
    command, *rest = arguments or [""]
    try:
        if command == "-safemode" and len(rest) == 1:
            return _safe_mode(rest[0].lower(), web)
        if command == "-report" and set(rest) <= _KINDS.keys():
            _report(web.own("GET", "/storage"), rest or list(_KINDS), asked=bool(rest))
            return 0
    except Failed as failed:
        print(f"{command[1:]}: {failed}", file=sys.stderr)
        return _WRONG
    known = OPTIONS.entries.get(command)
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
    verb, body = (
        ("GET", None) if action in ("get", "wait") else ("PUT", {"safeMode": action == "enter"})
    )
    while (is_on := web.own(verb, "/storage/safemode", body)["safeMode"]) and action == "wait":
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
