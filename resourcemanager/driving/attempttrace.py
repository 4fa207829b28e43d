"""Attempts in Chrome's trace format: what an attempt did while it had its slot, and its fetches.

Phases are slices within the attempt's: ``start`` (until its process runs), ``read`` or ``shuffle``,
``compute``, ``sort, write`` (what is left).  An attempt computes while it reads on, so the lengths
are right and the order within the slice is by when each began.  A fetch from another node is an
arrow from the map output's slice to the reader's.  Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from railyard.cluster.ids import AttemptId
from railyard.cluster.messages.execution import AttemptSucceeded, StartFlow

#: So many arrows are in a trace; viewers cannot show more, and each flow is shown by itself, too.
ARROWS_MAX = 20_000


class Slice(NamedTuple):
    """An attempt's time in its slot, and where that is in the trace."""

    process: int
    lane: int
    begin_s: float
    end_s: float


@dataclass
class Fetches:
    """What an attempt has fetched from other nodes: each flow, with its begin and end."""

    flows: list[tuple[StartFlow, float, float]] = field(default_factory=list)

    @property
    def end_s(self) -> float | None:
        """When the last of them ended."""
        return max((end_s for _, _, end_s in self.flows), default=None)


def phases_of(
    at: Slice, started_s: float | None, fetches: Fetches, success: AttemptSucceeded | None
) -> dict[str, float]:
    """Seconds of each phase that took time, in order; of one that failed, only its start."""
    begin_s = at.begin_s if started_s is None else min(max(started_s, at.begin_s), at.end_s)
    phases = {"start": begin_s - at.begin_s}
    if success is not None:
        fetched_s, left_s = fetches.end_s, at.end_s - begin_s
        if fetched_s is None:
            phases["read"] = min(success.read_s, left_s)
        else:
            phases["shuffle"] = min(max(0.0, fetched_s - begin_s), left_s)
        left_s -= phases.get("read", 0.0) + phases.get("shuffle", 0.0)
        phases["compute"] = min(success.computed_s, left_s)
        phases["sort, write"] = left_s - phases["compute"]
    return {name: length_s for name, length_s in phases.items() if length_s > 1e-6}


def phase_rows(at: Slice, phases: dict[str, float]) -> Iterator[dict[str, Any]]:
    """A slice for each phase, one after the other."""
    begin_s = at.begin_s
    for name, length_s in phases.items():
        where = {"pid": at.process, "tid": at.lane}
        times = {"ts": begin_s * 1e6, "dur": length_s * 1e6}
        yield {"name": name, "cat": "phase", "ph": "X", **times, **where}
        begin_s += length_s


def arrow_rows(
    reader: Slice, fetches: Fetches, ended: dict[AttemptId, Slice]
) -> Iterator[dict[str, Any]]:
    """Two rows for each fetch: where its bytes were made, and where they arrived."""
    for order, _, end_s in fetches.flows:
        sources = [ended[output] for output in order.outputs if output in ended]
        if order.src == order.dst or not sources:
            continue
        source = max(sources, key=lambda one: one.end_s)
        common = {"name": "shuffle", "cat": "shuffle", "id": order.flow}
        # A time within the slice, so that viewers find it.
        left_s = source.begin_s + 0.999 * (source.end_s - source.begin_s)
        arrived_s = min(max(end_s, reader.begin_s), reader.end_s)
        yield {**common, "ph": "s", "ts": left_s * 1e6, "pid": source.process, "tid": source.lane}
        bound = {"ph": "f", "bp": "e", "ts": arrived_s * 1e6}
        yield {**common, **bound, "pid": reader.process, "tid": reader.lane}
