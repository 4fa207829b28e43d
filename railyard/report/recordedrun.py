"""A run's folder as data for the pictures: attempts in slots and without, bytes on links.

Reads ``trace.json`` and ``network.jsonl``; of either clock.  Times are seconds since the first of
the run's jobs was submitted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from railyard.cluster.ids import AttemptId, job_of, stage_of
from railyard.netemu.record import CircuitUse, read_circuits, read_rows
from railyard.resourcemanager.driving.trace import CATEGORY, NAME, NOT_TAKEN, TAKEN
from railyard.runs.folder import NETWORK, TRACE

Floats = npt.NDArray[np.float64]

#: A larger trace has too many attempts for a picture.
_TRACE_BYTES_MAX = 300 * 10**6
#: Whether an attempt's output counts: at once, or after it was kept for a while; or not, though it
#: was kept, or as it failed, was killed or came too late.
Outcome = Literal["counted", "taken", "not taken", "lost"]
_OUTCOMES: dict[str, Outcome] = {"succeeded": "counted", TAKEN: "taken", NOT_TAKEN: "not taken"}
_LOCALITIES = {"node-local": "node", "rack-local": "rack", "remote": "remote"}


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt in a slot."""

    attempt: str  #: its id
    node: str
    lane: int  #: which of the node's slots
    job: str  #: its name: "terasort-2"
    first_stage: bool  #: a map
    begin_s: float
    end_s: float
    outcome: Outcome
    locality: str | None = None  #: of a map's input: "node", "rack" or "remote"
    phases_s: Mapping[str, float] = field(default_factory=dict)  #: in order


@dataclass(frozen=True, slots=True)
class Reservation:
    """An attempt without a slot: a reservation."""

    job: str  #: its name
    begin_s: float
    end_s: float


@dataclass(frozen=True, kw_only=True)
class LinkLoads:
    """The load of each link over time, as a share of what it could carry then."""

    links: list[str]  #: those out of racks first, then those into them
    edges_s: Floats  #: of the columns
    loads: Floats  #: [link, column]


class Results:
    """One run."""

    def __init__(self, folder: Path | None, summary: dict[str, Any]) -> None:
        """Without a folder nothing but its summary is known."""
        self.folder = folder
        self.summary = summary

    @property
    def begin_s(self) -> float:
        """When the first job was submitted, on the run's own clock."""
        return min((job["submitted_s"] for job in self.summary["jobs"]), default=0.0)

    @property
    def makespan_s(self) -> float:
        return float(self.summary["makespan_s"])

    @cached_property
    def nodes(self) -> dict[str, int]:
        """Each node's number of slots, in order."""
        slots: dict[str, int] = {}
        for row in self._trace:
            if row["ph"] == "M" and row["name"] == "thread_name" and row["pid"] in self._node_of:
                node = self._node_of[row["pid"]]
                slots[node] = max(slots.get(node, 0), row["tid"] + 1)
        return dict(sorted(slots.items(), key=lambda item: natural(item[0])))

    @cached_property
    def attempts(self) -> list[Attempt]:
        """Attempts of the jobs in the summary."""
        names = self._names
        rows = [
            row
            for row in self._trace
            if row.get("cat") == "attempt" and job_of(row["args"]["attempt"]) in names
        ]
        first: dict[str, str] = {}  #: each job's first stage
        for row in sorted(rows, key=lambda row: float(row["ts"])):
            attempt = AttemptId(row["args"]["attempt"])
            first.setdefault(job_of(attempt), stage_of(attempt))
        return [
            Attempt(
                attempt=attempt,
                node=self._node_of[row["pid"]],
                lane=row["tid"],
                job=names[job_of(attempt)],
                first_stage=stage_of(attempt) == first[job_of(attempt)],
                locality=_LOCALITIES.get(row["args"]["locality"]),
                phases_s=row["args"]["phases_s"],
                begin_s=row["ts"] / 1e6 - self.begin_s,
                end_s=(row["ts"] + row["dur"]) / 1e6 - self.begin_s,
                outcome=_OUTCOMES.get(row["args"]["outcome"], "lost"),
            )
            for row in rows
            for attempt in [AttemptId(row["args"]["attempt"])]
        ]

    @cached_property
    def reservations(self) -> list[Reservation]:
        """Reservations of the jobs in the summary."""
        rows = [row for row in self._trace if row.get("cat") == CATEGORY]
        ends_s = {row["id"]: row["ts"] / 1e6 for row in rows if row["ph"] == "e"}
        return [
            Reservation(
                job=self._names[job_of(row["id"])],
                begin_s=row["ts"] / 1e6 - self.begin_s,
                end_s=ends_s[row["id"]] - self.begin_s,
            )
            for row in rows
            if row["ph"] == "b" and job_of(row["id"]) in self._names
        ]

    @cached_property
    def circuits(self) -> list[CircuitUse]:
        """The circuits of an optical switch, in the order in which they ended."""
        begin_s = self.begin_s
        return [
            use._replace(
                begin_s=use.begin_s - begin_s,
                lit_s=None if use.lit_s is None else use.lit_s - begin_s,
                end_s=use.end_s - begin_s,
            )
            for use in ([] if self.folder is None else read_circuits(self.folder / NETWORK))
        ]

    def loads(self, columns: int = 240) -> LinkLoads | None:
        """The links' loads while the jobs ran; None if there is no record of them.

        The capacity of an unlimited link is taken as its largest load in a column; a link that
        could carry nothing is full.
        """
        head = next((row for row in self._network if row.get("type") == "links"), None)
        samples = [row for row in self._network if "at_s" in row]
        if head is None or len(samples) < 2 or self.makespan_s <= 0:
            return None
        stated = head["capacity_bytes_per_s"]
        links = sorted(stated, key=link_kind)
        at_s = np.array([row["at_s"] for row in samples]) - self.begin_s
        edges_s = np.linspace(0.0, self.makespan_s, columns + 1)
        totals = dict.fromkeys(links, 0)
        by_sample = np.zeros((len(links), len(samples)))
        for number, row in enumerate(samples):
            totals |= row["bytes"]
            by_sample[:, number] = [totals[name] for name in links]
        carried = np.stack([np.interp(edges_s, at_s, row) for row in by_sample])
        rates = np.diff(carried, axis=1) / np.diff(edges_s)
        could = _could_carry({name: stated[name] for name in links}, samples, at_s, edges_s)
        loads = np.where(could > 0, 0.0, 1.0)
        could = np.where(np.isfinite(could), could, rates.max(axis=1)[:, None])
        np.divide(rates, could, out=loads, where=(could > 0) & (rates > 0))
        return LinkLoads(links=links, edges_s=edges_s, loads=np.clip(loads, 0.0, 1.0))

    @cached_property
    def _names(self) -> dict[str, str]:
        """The name of each job in the summary, by the id of each of its steps."""
        return {
            step: job["name"]
            for job in self.summary["jobs"]
            for step in job.get("steps", [job["id"]])
        }

    @cached_property
    def _trace(self) -> list[dict[str, Any]]:
        file = None if self.folder is None else self.folder / TRACE
        if file is None or not file.is_file() or file.stat().st_size > _TRACE_BYTES_MAX:
            return []
        rows: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["traceEvents"]
        return rows

    @cached_property
    def _node_of(self) -> dict[int, str]:
        """The trace's "processes" that are nodes."""
        return {
            row["pid"]: row["args"]["name"]
            for row in self._trace
            if row["name"] == "process_name" and row["args"]["name"] not in ("network", NAME)
        }

    @cached_property
    def _network(self) -> list[dict[str, Any]]:
        return [] if self.folder is None else read_rows(self.folder / NETWORK, dict)


def _could_carry(
    stated: Mapping[str, float | None],
    samples: Sequence[Mapping[str, Any]],
    at_s: Floats,
    edges_s: Floats,
) -> Floats:
    """[link, column]: bytes/s that each link could carry, on average; inf: without limit."""
    now: Mapping[str, float | None] = {}
    each = []
    for row in samples:
        now = row.get("now_bytes_per_s", now)
        rates = {**stated, **now}
        each.append([np.inf if rates[name] is None else rates[name] for name in stated])
    capacities = np.array(each, float).T
    begins_s = np.append(at_s, max(at_s[-1], edges_s[-1]))
    begins_s[0] = min(at_s[0], edges_s[0])
    limited = np.isfinite(capacities)
    parts = np.where(limited, capacities, 0.0), np.where(limited, 0.0, 1.0)
    means = []
    for part in parts:
        sums = np.cumsum(part * np.diff(begins_s), axis=1)
        room = np.stack([np.interp(edges_s, begins_s, np.append(0.0, row)) for row in sums])
        means.append(np.diff(room, axis=1) / np.diff(edges_s))
    return np.where(means[1] > 0, np.inf, means[0])


def link_kind(link: str) -> tuple[str, str, list[tuple[int, str]]]:
    """The kind of a link, by which rows are grouped: "r3.up" and "r4.up" have the same."""
    place, _, kind = link.rpartition(".")
    return re.sub(r"\d+", "", place), {"up": "0", "down": "1"}.get(kind, kind), natural(place)


def natural(name: str) -> list[tuple[int, str]]:
    """A sort key for names by which r2 comes before r10."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]
