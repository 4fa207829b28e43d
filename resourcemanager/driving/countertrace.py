"""Links and circuits as counters in Chrome's trace format.  Pure.

A link's counter is its rate in Gbps from one sample of the network's record to the next; a link
without a sample carried as much as before.  The circuits' counter has how many are lit and dark.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from railyard.netemu.record.circuits import CircuitUse
from railyard.netemu.record.links import Sample
from railyard.resourcemanager.driving.opticaltrace import row_name


def link_rows(samples: Sequence[Sample], process: int) -> list[dict[str, Any]]:
    """Counters of the links that carried anything, in a "process" of that number."""
    rows: list[dict[str, Any]] = []
    totals: dict[str, int] = {}
    shown: dict[str, float] = {}
    if samples:
        totals |= samples[0].bytes
    for (begin_s, *_), (end_s, now, _) in pairwise(samples):
        rates = {
            link: (total - totals.get(link, 0)) * 8e-9 / (end_s - begin_s)
            for link, total in now.items()
            if end_s > begin_s
        }
        totals |= now
        for link in [*rates, *(link for link in shown if link not in rates)]:
            rate = round(rates.get(link, 0.0), 6)
            if rate != shown.get(link, 0.0):
                rows.append(_counter(link, begin_s, process, {"Gbps": rate}))
            shown[link] = rate
    if samples:
        rows += [
            _counter(link, samples[-1][0], process, {"Gbps": 0.0})
            for link, rate in shown.items()
            if rate
        ]
    return [row_name("process_name", process, 0, "links"), *rows] if rows else []


def circuit_counters(circuits: Sequence[CircuitUse], process: int) -> Iterator[dict[str, Any]]:
    """How many circuits are lit and dark, whenever that changes."""
    changes: dict[float, Counter[str]] = {}
    for use in circuits:
        lit_s = use.end_s if use.lit_s is None else use.lit_s
        for state, begin_s, end_s in (("dark", use.begin_s, lit_s), ("lit", lit_s, use.end_s)):
            if end_s > begin_s:
                changes.setdefault(begin_s, Counter())[state] += 1
                changes.setdefault(end_s, Counter())[state] -= 1
    now = {"lit": 0, "dark": 0}
    for at_s, by in sorted(changes.items()):
        now = {state: count + by[state] for state, count in now.items()}
        yield _counter("circuits", at_s, process, now)


def _counter(name: str, at_s: float, process: int, values: Mapping[str, float]) -> dict[str, Any]:
    return {"name": name, "ph": "C", "ts": at_s * 1e6, "pid": process, "tid": 0, "args": values}
