"""The rows of a run as the page gets them: bounded, and read from logs of events.

What is known of a run's attempts and jobs comes from its ``Feed``, of its network from the records
of links and circuits.  Not here: who is sent them (``viewers``).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import RailyardError, UsageError
from railyard.cluster.files import NewLines
from railyard.cluster.ids import job_of
from railyard.gateway.page.feed import Feed, Row
from railyard.netemu.model.flows import CircuitChange
from railyard.netemu.model.network import Network
from railyard.netemu.record import (
    CircuitLog,
    CircuitUse,
    LinkLog,
    Sample,
    or_none,
    read_circuits,
    read_samples,
)
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.coredriver import core_for
from railyard.resourcemanager.driving.eventlog import Diverged, events_in, read_log, replay_on

log = logging.getLogger(__name__)
_encoded = msgspec.json.encode
#: Rows that the page of a run that goes on gets; with more it would be slow, as with more of one
#: that has ended.
ROWS_MAX = 100_000
RECORDED_ROWS_MAX = 500_000
#: Rows that are sent together.
_PIECE_ROWS = 4000
#: Kinds of rows that belong to no job.
_OF_NO_JOB = ("node", "pairs", "links", "circuit", "note", "left-out")
#: Of a log that has grown while nobody watched, about so much is read before others get a turn.
_READ_BYTES = 2**18
#: So often over a run that has ended there is a row with how far jobs are, within these bounds.
_STATUSES = 600
_PERIOD_S_MIN = 0.1


def head_of(config: ClusterConfig, **more: Any) -> dict[str, Any]:
    """The cluster's figures; ``more`` goes in, too."""
    topology = config.topology
    network = Network(topology)
    links = (*network.cross_rack, *network.ports)
    capacities = {name: float(network.capacities[network.number[name]]) for name in links}
    return {
        "scheduler": config.scheduler,
        "flow_scheduler": config.flow_scheduler,
        "topology": topology.name,
        "about": topology.description,
        "scale": topology.scale,
        "racks": [rack.id for rack in topology.rack_list()],
        "slots": topology.slots,
        "capacities": {
            name: rate if math.isfinite(rate) else None for name, rate in capacities.items()
        },
        **more,
    }


class RunHistory:
    """The rows of a run, in the order in which they came, and its network's record.

    Of a run with more rows than ``rows_max`` those of the oldest jobs that have ended are dropped,
    and the page gets how many jobs these were.
    """

    def __init__(self, head: Mapping[str, Any], rows_max: int = ROWS_MAX) -> None:
        """``head``: what the page says of the run as a whole; JSON."""
        self.head = dict(head)
        self._rows_max = rows_max
        self._rows: list[tuple[str, bytes]] = []  #: each with its job, or ""
        self._ended: dict[str, None] = {}  #: jobs that have ended, in order
        self._dropped = 0  #: jobs
        self._links = LinkLog(period_s=1.0)
        self._totals: dict[str, int] = {}  #: bytes that each link had carried by the latest row
        self._now: dict[str, float] = {}  #: capacities that are not the stated ones, likewise
        self._circuits = CircuitLog()
        self._sent: dict[tuple[str, str, float], tuple[float | None, float]] = {}

    # Taking --------------------------------------------------------------------------------------
    def take(self, rows: Iterable[Row]) -> list[bytes]:
        """Add rows of a feed; returns them as they are sent."""
        sent = []
        for row in rows:
            job = "" if row[1] in _OF_NO_JOB else job_of(row[2])
            if row[1] == "done":
                self._ended[job] = None
            sent.append(_encoded(row))
            self._rows.append((job, sent[-1]))
        if len(self._rows) > self._rows_max:
            self._drop()
            sent += self._dropped_row()
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
        self._circuits.take(changes, offset_s)
        new = []
        for use in self._circuits.uses(math.inf) if changes else ():
            key, state = (use.src, use.dst, use.begin_s), (use.lit_s, use.end_s)
            if self._sent.get(key) != state:
                self._sent[key] = state
                new.append(_encoded(circuit_row(use)))
        return new

    # Sending -------------------------------------------------------------------------------------
    def whole(self) -> list[bytes]:
        """Everything, as JSON lists of rows of a size that is sent at once."""
        rows = [row for _, row in self._rows] + self._dropped_row()
        rows += map(_encoded, map(links_row, self._links.changes()))
        rows += map(_encoded, map(circuit_row, self._circuits.uses(math.inf)))
        return [listed(rows[at : at + _PIECE_ROWS]) for at in range(0, len(rows), _PIECE_ROWS)]

    def _drop(self) -> None:
        """Forget the older half of the jobs that have ended, and what no other job needs."""
        jobs = set(list(self._ended)[: -(-len(self._ended) // 2)])
        self._ended = {job: None for job in self._ended if job not in jobs}
        self._dropped += len(jobs)
        rows = [(job, row) for job, row in self._rows if job not in jobs]
        first = next((at for at, (job, _) in enumerate(rows) if job), len(rows))
        self._rows = _still_true([row for _, row in rows[:first]]) + rows[first:]

    def _dropped_row(self) -> list[bytes]:
        return [_encoded([0, "left-out", self._dropped])] if self._dropped else []


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


# A run that goes on ------------------------------------------------------------------------------
class EventTail:
    """The rows of a log of events that is being written."""

    def __init__(self, path: Path, config: ClusterConfig) -> None:
        self._path = path
        self._lines = NewLines(path)
        self._config = config
        self._line = 1  #: number of the next line
        self._made: tuple[Core, Feed] | None = None
        self._over = False

    def read(self) -> tuple[list[Row], bool]:
        """The rows of what has come, and whether there may be more to read at once."""
        if self._over:
            return [], False
        if self._made is None:
            core = core_for(self._config)
            self._made = core, Feed(core)
        core, feed = self._made
        lines = self._lines.read(_READ_BYTES)
        more = sum(map(len, lines)) >= _READ_BYTES
        first, self._line = self._line, self._line + len(lines)
        if first == 1 and lines:  # what the core was made with
            first, lines = 2, lines[1:]
        events = events_in(self._path, [line.decode() for line in lines], first)
        try:
            for step in replay_on(core, self._path, events, first):
                feed.take(step)
        except RailyardError as error:
            self._over = True
            log.warning("the page shows nothing after this: %s", error)
            return [*feed.drain(), [0, "note", f"what follows cannot be shown: {error}"]], False
        return feed.drain(), more


# A run that has ended ----------------------------------------------------------------------------
def recorded(events: Path, network: Path, **head: Any) -> RunHistory:
    """All that the page needs of a run; ``head`` goes into what it says of the run as a whole.

    ``network``: the record of its network, if it is there.  Raises ``UsageError`` for files that
    are not what they should be.
    """
    config, logged = read_log(events)
    every = list(logged)
    last_s = every[-1].at_s if every else 0.0
    history = RunHistory(head_of(config, **({"live": False} | head)), RECORDED_ROWS_MAX)
    core = core_for(config)
    feed = Feed(core, max(_PERIOD_S_MIN, last_s / _STATUSES))
    try:
        for step in replay_on(core, events, every):
            feed.take(step)
    except Diverged as error:
        history.take(feed.drain())
        history.take([[0, "note", f"The run can only be shown up to here: {error}"]])
    history.take(feed.drain())
    links, circuits = read_samples(network), read_circuits(network)
    history.take([*map(links_row, links), *map(circuit_row, circuits)])
    return history


def events_of(path: Path) -> Path:
    """The events of a run's folder; raises ``UsageError`` if it has none."""
    events = path / "events.jsonl" if path.is_dir() else path
    if not events.is_file():
        why = "need the folder that run or simulate wrote with --out, or its events.jsonl"
        raise UsageError(f"{path}: {why}")
    return events
