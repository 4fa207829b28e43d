"""The rows of a run as the page gets them: made of its events, bounded, and read from logs.

Those of attempts and jobs come from a core's events, commands and policies' answers (``Feed``),
those of the network from the records of links and circuits.  Not here: to whom they are sent.

A row is a list: when, its kind, and what belongs to that kind.

    [at_s, "node", node, rack, slots, "" or why it is lost, whether it is drained]
    [at_s, "job", job, name, queue, user, {stage: how many tasks}, [stages that read no other]]
    [at_s, "launch", attempt, node, lane, level, why here, why its job]   it has a slot from now on
    [at_s, "reserve", attempt, node, why here]             it reads, and waits for a slot
    [at_s, "start", attempt]                               its process runs
    [at_s, "fetch", attempt, whether it fetches now]
    [at_s, "end", attempt, outcome, [[phase, seconds], ...]]
    [at_s, "taken", attempt]                               its output, which was kept, counts
    [at_s, "pairs", [[from rack, to rack, bytes], ...]]    of fetches that ended since then
    [at_s, "status", job, state, progress, waiting, locality, shuffled, to shuffle, across racks]
    [at_s, "done", job, ok, reason, stopped]

Times are seconds of the core's clock, bytes the model's.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import RailyardError, UsageError
from railyard.cluster.files import NewLines
from railyard.cluster.ids import AttemptId, JobId, NodeId, TaskId, job_of, rack_of, task_of
from railyard.cluster.messages import AttemptStarted
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
from railyard.resourcemanager.core.jobs import Job, Node
from railyard.resourcemanager.core.policies import Observer
from railyard.resourcemanager.driving.coredriver import core_for
from railyard.resourcemanager.driving.eventlog import Diverged, Step, events_in, read_log, replay_on
from railyard.resourcemanager.driving.history import AttemptSpan, FetchSpan, History, NodeSpan
from railyard.resourcemanager.interface.commands import EndJob
from railyard.resourcemanager.interface.decisions import (
    Copy,
    Decision,
    Place,
    Proposal,
    Reserve,
    Take,
)
from railyard.resourcemanager.interface.events import JobSubmitted
from railyard.resourcemanager.process.messages import JobStatus
from railyard.resourcemanager.process.progress import job_status

log = logging.getLogger(__name__)
Row = list[Any]
#: Phases by their letters.
PHASES = {"start": "t", "read": "r", "shuffle": "f", "compute": "c", "sort, write": "w"}
#: Outcomes of attempts, where the page has other words.
_OUTCOMES = {"lost with its node": "failed", "given up": "killed"}
_WHY_LETTERS_MAX = 300
_encoded = msgspec.json.encode
#: Rows that a page gets, of a run that goes on and of one that has ended; more would be slow.
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
        "capacities": or_none(capacities),
        **more,
    }


class Feed(Observer):
    """Makes rows of the steps of a core; it observes that core's policies."""

    def __init__(self, core: Core, period_s: float = 0.5) -> None:
        """``period_s``: at most so often there are rows with how far jobs are."""
        self._core = core
        self._period_s = period_s
        self._at_s = 0.0
        self._rows: list[Row] = []
        #: why a task goes to a node, and why it was its job's turn
        self._whys: dict[tuple[TaskId, NodeId], tuple[str, str]] = {}
        self._history = History()
        self._fetching: dict[AttemptId, bool] = {}  #: whether it does, by the latest row
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._statuses: dict[JobId, Row] = {}  #: each job's latest
        self._statuses_s = float("-inf")
        core.observe(self)

    def take(self, step: Step) -> None:
        """Add what an event and its commands show."""
        self._at_s = round(step.at_s, 3)
        match step.event:
            case JobSubmitted() as job:
                stages = {stage.name: stage.tasks for stage in job.stages}
                first = [stage.name for stage in job.stages if not stage.reads]
                self._add("job", job.job, job.name, job.queue, job.user, stages, first)
            case AttemptStarted(attempt=attempt):
                self._add("start", attempt)
        for what, span in self._history.take(step.state, step.at_s, step.event, step.commands):
            match span:
                case NodeSpan(id=name):
                    node = self._core.state.nodes[name]
                    lost = "" if node.alive else node.lost_because or "lost"
                    self._add("node", name, node.rack, node.slots, lost, node.draining)
                case AttemptSpan():
                    self._attempt(what, span)
                case FetchSpan(outcome="finished", order=order) if span.crosses:
                    self._pairs[rack_of(order.src), rack_of(order.dst)] += order.size_bytes
        for command in step.commands:
            if isinstance(command, EndJob):
                self._job_ends(command.job)
        if self._at_s >= self._statuses_s + self._period_s:
            self._statuses_s = self._at_s
            self._add_statuses()

    def drain(self) -> list[Row]:
        """The rows since the last call."""
        rows, self._rows = self._rows, []
        return rows

    def _add(self, kind: str, *row: object) -> None:
        self._rows.append([self._at_s, kind, *row])

    # As an observer ------------------------------------------------------------------------------
    def answered(self, job: Job, slot: Node, answer: Decision) -> None:
        """Keep why a task goes where it does until it is launched."""
        if isinstance(answer, Place):
            policies = self._core.state.policies
            turn = policies.ask(policies.order.why, job)
            self._because(answer.task.id, answer.node or slot.id, answer.why, turn)

    def proposed(self, proposal: Proposal) -> None:
        """Likewise for what no slot was offered for."""
        match proposal:
            case Copy(task=task, node=node, why=why):
                self._because(task.id, node, f"a copy: {why}" if why else "a copy")
            case Reserve(task=task, node=node, why=why):
                self._because(task.id, node, why)
            case Take(attempt=attempt):
                self._rows.append([round(self._core.state.now_s, 3), "taken", attempt.id])

    def _because(self, task: TaskId, node: NodeId, why: str, turn: str = "") -> None:
        self._whys[task, node] = why[:_WHY_LETTERS_MAX], turn[:_WHY_LETTERS_MAX]

    # What happened -------------------------------------------------------------------------------
    def _attempt(self, what: str, span: AttemptSpan) -> None:
        node = span.node.id
        if what == "slot":
            level = "" if span.attempt is None else span.attempt.level
            whys = self._whys.pop((task_of(span.id), node), ("", ""))
            self._add("launch", span.id, node, span.lane, level, *whys)
        elif what == "began" and span.reserved:
            why, _ = self._whys.pop((task_of(span.id), node), ("", ""))
            self._add("reserve", span.id, node, why)
        elif what == "ended":
            self._fetching.pop(span.id, None)
            late = span.success is not None and span.outcome == "killed"
            how = "lost" if late else _OUTCOMES.get(span.outcome, span.outcome)
            phases = [[PHASES[name], round(s, 3)] for name, s in span.phases_s().items()]
            self._add("end", span.id, how, phases)

    # Jobs ----------------------------------------------------------------------------------------
    def _job_ends(self, job: JobId) -> None:
        record = self._core.records.get(job)
        if record is None:
            return
        self._add_status(job_status(self._core, record, None))
        self._add_pairs()
        self._statuses.pop(job, None)
        self._add("done", job, bool(record.ok), record.reason, record.stopped)
        for known in [key for key in self._whys if job_of(key[0]) == job]:
            del self._whys[known]

    def _add_statuses(self) -> None:
        """Add how far jobs are, who fetches, and what was fetched from rack to rack."""
        for job in self._core.state.jobs.values():
            self._add_status(job_status(self._core, job.record, job))
        for span in (*self._history.reserved.values(), *self._history.held.values()):
            fetches = span.open_fetches > 0
            if self._fetching.get(span.id, False) != fetches:
                self._fetching[span.id] = fetches
                self._add("fetch", span.id, fetches)
        self._add_pairs()

    def _add_pairs(self) -> None:
        if self._pairs:
            self._add("pairs", [[src, dst, count] for (src, dst), count in self._pairs.items()])
            self._pairs.clear()

    def _add_status(self, status: JobStatus) -> None:
        record = self._core.records[status.job]
        row = [
            *("status", status.job, status.state, round(status.progress, 3), status.waiting),
            *(list(status.locality), status.shuffled_bytes, record.shuffle_bytes),
            status.cross_rack_bytes,
        ]
        if self._statuses.get(status.job) != row:
            self._statuses[status.job] = row
            self._rows.append([self._at_s, *row])


class RunHistory:
    """The rows of a run, in the order in which they came, and its network's record.

    Beyond ``rows_max`` the oldest ended jobs' rows are dropped; the page gets how many jobs' were.
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
        """Add what ``LinkLog.take`` does; returns the row that is sent, if any."""
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

    ``network``: the record of its network, if it is there.  ``UsageError`` for malformed files.
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
