"""An optical switch in Chrome's trace format: which coflow's circuit each port had when.

A circuit holds two ports and is shown at both, dark and then lit.  A port with several wavelengths
has a lane for each that was in use.  Pure.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from railyard.netemu.record.circuits import CircuitUse

NAME = "optical ports"
#: Circuits this close follow one another: microseconds, rounded.
_SAME_TIME_S = 1e-9


def optical_rows(circuits: Sequence[CircuitUse], process: int) -> list[dict[str, Any]]:
    """The rows for these circuits, in a "process" of that number; none without circuits."""
    lanes: dict[str, list[float]] = {}  #: {port: until when each of its lanes is taken}
    shown = [
        (port, _take_lane(lanes.setdefault(port, []), use), use)
        for use in sorted(circuits, key=lambda use: (use.begin_s, use.src, use.dst))
        for port in (f"{use.src}.ocs.up", f"{use.dst}.ocs.down")
    ]
    number = {
        (port, lane): place
        for place, (port, lane) in enumerate(
            (port, lane) for port in sorted(lanes, key=_natural) for lane in range(len(lanes[port]))
        )
    }
    rows = [row_name("thread_name", process, place, port) for (port, _), place in number.items()]
    if rows:
        rows.insert(0, row_name("process_name", process, 0, NAME))
    for port, lane, use in shown:
        rows += _phases(use, {"pid": process, "tid": number[port, lane]})
    return rows


def _take_lane(until_s: list[float], use: CircuitUse) -> int:
    for lane, taken_s in enumerate(until_s):
        if taken_s <= use.begin_s + _SAME_TIME_S:
            until_s[lane] = use.end_s
            return lane
    until_s.append(use.end_s)
    return len(until_s) - 1


def _phases(use: CircuitUse, where: dict[str, int]) -> list[dict[str, Any]]:
    """The time in which it was dark, if it was, and that in which it carried, if it did."""
    lit_s = use.end_s if use.lit_s is None else use.lit_s
    args = {"coflow": use.coflow, "from": use.src, "to": use.dst}
    return [
        {
            "name": name,
            "cat": "circuit",
            "ph": "X",
            "ts": begin_s * 1e6,
            "dur": (end_s - begin_s) * 1e6,
            **where,
            "args": {**args, "phase": phase},
        }
        for name, phase, begin_s, end_s in (
            (f"dark for {use.coflow}", "dark", use.begin_s, lit_s),
            (use.coflow, "lit", lit_s, use.end_s),
        )
        if end_s > begin_s
    ]


def _natural(port: str) -> tuple[bool, int]:
    """Outgoing ports come first, r2's before r10's."""
    return port.endswith(".down"), int(re.findall(r"\d+", port)[0])


def row_name(kind: str, process: int, lane: int, name: str) -> dict[str, Any]:
    """The event that names a process or one of its lanes; ``kind``: "thread_name", say."""
    return {"name": kind, "ph": "M", "pid": process, "tid": lane, "args": {"name": name}}
