"""What a new viewer of the page is sent: the rows so far, in the order in which they came.

Bounded: of a run with more rows than ``ROWS_MAX`` those of the oldest jobs that have ended are
dropped, and the page is told of how many jobs.  Pure, but for what it holds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from railyard.cluster.ids import job_of
from railyard.gateway.page.feed import Row
from railyard.netemu.model.circuits import CircuitChange
from railyard.netemu.record.circuits import CircuitLog, CircuitUse
from railyard.netemu.record.links import LinkLog, Sample, or_none

ROWS_MAX = 100_000
#: Rows that are sent together.
_PIECE_ROWS = 4000
#: Kinds of rows that belong to no job.
_OF_NO_JOB = ("node", "pairs", "links", "circuit", "note", "left-out")


class Kept:
    """The rows of a run, and its network's record."""

    def __init__(self, head: Mapping[str, Any], rows_max: int = ROWS_MAX) -> None:
        """``head``: what the page says of the run as a whole; JSON."""
        self.head = dict(head)
        self._rows_max = rows_max
        self._rows: list[tuple[str, bytes]] = []  #: each with its job, or ""
        self._ended: dict[str, None] = {}  #: jobs that have ended, in order
        self._left_out = 0  #: jobs
        self._links = LinkLog(period_s=1.0)
        self._totals: dict[str, int] = {}  #: bytes that each link had carried, as told last
        self._now: dict[str, float] = {}  #: capacities that are not the stated ones, likewise
        self._circuits = CircuitLog()
        self._told: dict[tuple[str, str, float], tuple[float | None, float]] = {}

    # Taking --------------------------------------------------------------------------------------
    def take(self, rows: Iterable[Row]) -> list[bytes]:
        """Add rows of a feed; returns them as they are sent."""
        sent = []
        for row in rows:
            job = "" if row[1] in _OF_NO_JOB else job_of(row[2])
            if row[1] == "done":
                self._ended[job] = None
            sent.append(msgspec.json.encode(row))
            self._rows.append((job, sent[-1]))
        if len(self._rows) > self._rows_max:
            self._drop()
            sent.append(self._left_out_row())
        return sent

    def take_links(
        self, at_s: float, totals: Mapping[str, int], now_bytes_per_s: Mapping[str, float]
    ) -> list[bytes]:
        """Add what each link had carried by a time; returns the row that is sent, if any.

        ``now_bytes_per_s``: see ``LinkLog.take``.
        """
        self._links.take(at_s, dict(totals), now_bytes_per_s)
        changed = {name: n for name, n in totals.items() if n != self._totals.get(name, 0)}
        self._totals |= changed
        is_other, self._now = now_bytes_per_s != self._now, dict(now_bytes_per_s)
        if not changed and not is_other:
            return []
        now = or_none(now_bytes_per_s) if is_other else None
        return [_encoded(links_row(Sample(at_s, changed, now)))]

    def take_circuits(self, changes: Sequence[CircuitChange], offset_s: float = 0.0) -> list[bytes]:
        """Add changes of circuits; returns the rows of those that have changed."""
        if not changes:
            return []
        self._circuits.take(changes, offset_s)
        new = []
        for use in self._circuits.uses(math.inf):
            key, state = (use.src, use.dst, use.begin_s), (use.lit_s, use.end_s)
            if self._told.get(key) != state:
                self._told[key] = state
                new.append(circuit_row(use))
        return list(map(_encoded, new))

    # Sending -------------------------------------------------------------------------------------
    def whole(self) -> list[bytes]:
        """Everything, as JSON lists of rows of a size that is sent at once."""
        rows = [row for _, row in self._rows]
        if self._left_out:
            rows.append(self._left_out_row())
        rows += map(_encoded, map(links_row, self._links.changes()))
        rows += map(_encoded, map(circuit_row, self._circuits.uses(math.inf)))
        return [listed(rows[at : at + _PIECE_ROWS]) for at in range(0, len(rows), _PIECE_ROWS)]

    def _drop(self) -> None:
        """Forget the older half of the jobs that have ended, and what no other job needs."""
        gone = set(list(self._ended)[: -(-len(self._ended) // 2)])
        self._ended = {job: None for job in self._ended if job not in gone}
        self._left_out += len(gone)
        rows = [(job, row) for job, row in self._rows if job not in gone]
        first = next((at for at, (job, _) in enumerate(rows) if job), len(rows))
        self._rows = _still_true([row for _, row in rows[:first]]) + rows[first:]

    def _left_out_row(self) -> bytes:
        return _encoded([0, "left-out", self._left_out])


def _still_true(rows: Iterable[bytes]) -> list[tuple[str, bytes]]:
    """Of rows before those of all jobs, the latest of each node, and notes; fetches are over."""
    latest: dict[tuple[str, str], bytes] = {}
    for row in rows:
        _, kind, about, *_ = msgspec.json.decode(row)
        if kind != "pairs":
            latest.pop((kind, about), None)
            latest[kind, about] = row
    return [("", row) for row in latest.values()]


def links_row(sample: Sample) -> Row:
    """What links had carried by a time, and what they carry from then on, if that is new."""
    row: Row = [round(sample.at_s, 3), "links", sample.bytes]
    return row if sample.now_bytes_per_s is None else [*row, sample.now_bytes_per_s]


def circuit_row(use: CircuitUse) -> Row:
    """A circuit that a coflow had; null for what has not come yet."""
    end_s = None if use.end_s == math.inf else round(use.end_s, 4)
    lit_s = None if use.lit_s is None else round(use.lit_s, 4)
    begin_s = round(use.begin_s, 4)
    return [begin_s, "circuit", use.src, use.dst, use.coflow, begin_s, lit_s, end_s]


def listed(rows: Sequence[bytes]) -> bytes:
    """A JSON list of rows that are JSON."""
    return b"[" + b",".join(rows) + b"]"


def _encoded(row: Row) -> bytes:
    return msgspec.json.encode(row)
