"""A run as data for the parts that draw in browsers (``gateway.page``): columns of plain numbers.

Times are seconds since the first submission, to a millisecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nlargest
from typing import Any, Protocol, TypeVar

import numpy as np

from railyard.cluster.ids import NodeId, rack_of
from railyard.gateway.page.theme import LIGHT
from railyard.scripts.report.cdf import Curve
from railyard.scripts.report.heatmap import in_order
from railyard.scripts.report.results import LinkLoads, Results, natural

#: Attempts, and circuits, of a page.  Of more, the longest are drawn.
DRAWN_MAX = 40_000
#: Columns of the links' loads.
_COLUMNS = 480
#: Phases by their letters in a page's data.
_PHASES = {"start": "t", "read": "r", "shuffle": "f", "compute": "c", "sort, write": "w"}
_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


class _Stretch(Protocol):
    @property
    def begin_s(self) -> float: ...
    @property
    def end_s(self) -> float: ...


S = TypeVar("S", bound=_Stretch)


def run_data(results: Results, until_s: float, drawn_max: int = DRAWN_MAX) -> dict[str, Any]:
    """The data of one run; ``until_s``: where the time axis ends."""
    jobs = results.summary["jobs"]
    number = {job["name"]: n for n, job in enumerate(jobs)}
    nodes = {node: n for n, node in enumerate(results.nodes)}
    held = _longest(results.held, drawn_max)
    waiting = _longest(results.waiting, drawn_max)
    loads = results.loads(_COLUMNS)
    return {
        "until_s": _ms(until_s),
        "makespan_s": _ms(results.makespan_s),
        "jobs": [
            {
                "id": job["id"],
                "name": job["name"],
                "begin_s": _ms(job["submitted_s"] - results.begin_s),
                "end_s": None
                if job["finished_s"] is None
                else _ms(job["finished_s"] - results.begin_s),
                "ok": job["ok"],
            }
            for job in jobs
        ],
        "nodes": {
            "name": list(nodes),
            "rack": [rack_of(NodeId(node)) for node in nodes],
            "slots": list(results.nodes.values()),
        },
        "left_out": len(results.held) - len(held),
        "attempts": {
            "name": [one.attempt for one in held],
            "node": [nodes[one.node] for one in held],
            "lane": [one.lane for one in held],
            "job": [number[one.job] for one in held],
            "stage": [0 if one.first_stage else 1 for one in held],
            "outcome": [one.outcome for one in held],
            "locality": [one.locality for one in held],
            "phases": [
                [[_PHASES[name], _ms(length_s)] for name, length_s in one.phases_s.items()]
                for one in held
            ],
            **_times(held),
        },
        "waiting": {"job": [number[one.job] for one in waiting], **_times(waiting)},
        "circuits": _circuits(results, drawn_max),
        "links": None if loads is None else _links(loads),
    }


def curve_data(curve: Curve) -> dict[str, Any]:
    """A curve of a distribution of times."""
    return {
        "label": curve.label,
        "style": f"s{curve.colour % len(LIGHT.colours)}",
        "dashed": curve.dashed,
        "times_s": [float(f"{seconds:.5g}") for seconds in curve.times_s],
    }


def _circuits(results: Results, drawn_max: int) -> dict[str, Any]:
    of = _longest(results.circuits, drawn_max)
    ports = sorted({end for one in of for end in (one.src, one.dst)}, key=natural)
    place = {port: n for n, port in enumerate(ports)}
    return {
        "ports": ports,
        "of": {
            "src": [place[one.src] for one in of],
            "dst": [place[one.dst] for one in of],
            "coflow": [one.coflow for one in of],
            "lit_s": [_ms(one.lit_s) for one in of],
            **_times(of),
        },
    }


def _links(loads: LinkLoads) -> dict[str, Any]:
    """A digit of base 36 for each cell, so that many links are small."""
    order = in_order(loads.links)
    levels = np.rint(loads.loads[order] * (len(_DIGITS) - 1)).astype(int)
    return {
        "names": [loads.links[n] for n in order],
        "loads": ["".join(_DIGITS[level] for level in row) for row in levels],
    }


def _longest(found: Sequence[S], count: int) -> Sequence[S]:
    if len(found) <= count:
        return found
    longest = nlargest(count, range(len(found)), key=lambda n: found[n].end_s - found[n].begin_s)
    return [found[n] for n in sorted(longest)]


def _times(found: Sequence[_Stretch]) -> dict[str, list[float]]:
    return {
        "begin_s": [_ms(one.begin_s) for one in found],
        "end_s": [_ms(one.end_s) for one in found],
    }


def _ms(seconds: float) -> float:
    return round(seconds, 3)
