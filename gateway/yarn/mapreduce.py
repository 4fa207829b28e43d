"""A MapReduce job in the words of Hadoop's history server and ApplicationMaster.

The two say the same of tasks and attempts, and differ in what they say of a job.  What Hadoop has
no name for is under "railyard".  Not here: counters (``counters``), requests (``history``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from railyard.cluster.ids import NodeId, TaskId, rack_of
from railyard.gateway.yarn.numbers import (
    Row,
    TaskIds,
    address_of,
    container_id,
    job_id,
    own_figures,
    stage_row,
    to_ms,
)
from railyard.resourcemanager.process.messages import (
    GIVEN,
    AttemptReport,
    JobDetails,
    JobStatus,
    TaskReport,
)

_TASK_STATES = {
    "pending": "SCHEDULED",
    "running": "RUNNING",
    "kept": "RUNNING",
    "done": "SUCCEEDED",
    "left": "KILLED",
    "failed": "FAILED",
    "stopped": "KILLED",
}
_ATTEMPT_STATES = {
    "reserved": "NEW",
    "ending": "RUNNING",
    "kept": "COMMIT_PENDING",
    "succeeded": "SUCCEEDED",
    "output lost": "SUCCEEDED",
    "failed": "FAILED",
    "killed": "KILLED",
}
_MADE_IT = ("succeeded", "output lost")
#: {our name of a figure: the network's}
_WAYS = {
    "withinRacks": "rack",
    "betweenRacks": "cross_rack",
    "byPackets": "eps",
    "byCircuits": "ocs",
    "betweenSites": "wan",
}
KINDS = {"m": "map", "r": "reduce"}
#: {what Hadoop calls a setting: what we do}
_SETTINGS = {
    "mapreduce.map.maxattempts": "max_attempts",
    "mapreduce.reduce.maxattempts": "max_attempts",
    "railyard.output.replication": "output_replication",
    "railyard.code": "code",
}
#: Of these, what the job runs with is shown, whatever its user gave.
_AS_RUN = {
    "mapreduce.job.name": "name",
    "mapreduce.job.user.name": "user",
    "mapreduce.job.queuename": "queue",
    "mapreduce.input.fileinputformat.inputdir": "input_paths",
    "mapreduce.output.fileoutputformat.outputdir": "output_path",
}
_PHASES = (
    *("shuffleFinishTime", "mergeFinishTime"),
    *("elapsedShuffleTime", "elapsedMergeTime", "elapsedReduceTime"),
)


@dataclass(frozen=True)
class MapReduceJob:
    """A job; ``tasks``: all or some of its tasks, as the question needs them.

    ``network_bytes``: of the whole network while the job ran: {distance or way: bytes}.
    """

    details: JobDetails
    begun_ms: int
    tasks: Sequence[TaskReport] = ()
    network_bytes: Mapping[str, int] = field(default_factory=dict)
    scale: int = 1  #: the cluster's
    addresses: Mapping[NodeId, str] = field(default_factory=dict)  #: of nodes that have their own
    gateway: str = ""  #: where it was asked: of the other nodes

    @property
    def status(self) -> JobStatus:
        """What the cluster's status says of it."""
        return self.details.status

    @cached_property
    def ids(self) -> TaskIds:
        """The ids of its tasks."""
        return TaskIds(self.id, self.details.stages)

    @property
    def id(self) -> str:
        """Such as job_1795444939124_0001."""
        return job_id(self.begun_ms, self.status.job)

    # The job -------------------------------------------------------------------------------------
    def finished(self) -> Row:
        """``job`` of the history server."""
        row = in_history(self.status, self.begun_ms)
        return {"job": row | self._attempt_counts() | self._own()}

    def running(self) -> Row:
        """``job`` of the ApplicationMaster."""
        return {"job": self.in_master() | self._attempt_counts() | self._own()}

    def in_master(self) -> Row:
        """A row of the ApplicationMaster's ``jobs``."""
        row = in_history(self.status, self.begun_ms)
        for name in ("submitTime", "queue"):
            del row[name]
        end_s = self.details.now_s if self.status.finished_s is None else self.status.finished_s
        row["elapsedTime"] = int(1000 * (end_s - self.status.submitted_s))
        for kind, word in KINDS.items():
            stages = self.ids.of_kind(kind)
            size = sum(stage.tasks for stage in stages)
            row[f"{word}Progress"] = 100.0 * row[f"{word}sCompleted"] / size if size else 0.0
            row[f"{word}sPending"] = sum(stage.pending for stage in stages)
            row[f"{word}sRunning"] = sum(stage.running for stage in stages)
        return row

    def attempts(self) -> Row:
        """``jobAttempts``: one, since a job's master lives in the ResourceManager."""
        row = {"id": 1, "startTime": to_ms(self.begun_ms, self.status.submitted_s)}
        empty = dict.fromkeys(("nodeId", "nodeHttpAddress", "containerId", "logsLink"), "")
        return {"jobAttempts": {"jobAttempt": [row | empty]}}

    def settings(self) -> Row:
        """``conf``: with what the job was submitted."""
        known = self.details.settings
        named = {name: known[ours] for name, ours in _SETTINGS.items() if known.get(ours)}
        named |= {
            name.removeprefix(GIVEN): text for name, text in known.items() if name.startswith(GIVEN)
        }
        named |= {name: known[ours] for name, ours in _AS_RUN.items() if known.get(ours)}
        named["mapreduce.job.maps"] = str(self.status.maps)
        named["mapreduce.job.reduces"] = str(self.status.reduces)
        named |= {name: text for name, text in known.items() if name.startswith("params.")}
        rows = [{"name": n, "value": v, "source": ["job"]} for n, v in sorted(named.items())]
        return {"conf": {"path": "", "property": rows}}

    # Tasks ---------------------------------------------------------------------------------------
    def of_kind(self, kind: str) -> list[TaskReport]:
        """The maps, "m", the reduces, "r", or all tasks, ""."""
        return [task for task in self.tasks if kind in ("", self.ids.kind(task.task))]

    def task(self, task: TaskReport) -> Row:
        """A task."""
        begin_s = min((attempt.launched_s for attempt in task.attempts), default=None)
        winner = winner_of(task)
        end_s = winner.ended_s if winner is not None else None
        if task.state in ("failed", "stopped", "left"):
            end_s = max((a.ended_s for a in task.attempts if a.ended_s is not None), default=None)
        progress = max((attempt.progress for attempt in task.attempts), default=0.0)
        return {
            "id": self.ids.task(task.task),
            "state": _TASK_STATES[task.state],
            "type": self._type(task.task),
            "progress": 100.0 * (1.0 if winner is not None else progress),
            "successfulAttempt": "" if winner is None else self.ids.attempt(winner.attempt),
            **self._times(begin_s, end_s),
            "railyard": {"task": task.task, "waiting": task.waiting},
        }

    def attempt(self, task: TaskReport, attempt: AttemptReport) -> Row:
        """An attempt."""
        state = _ATTEMPT_STATES.get(attempt.state)
        if state is None:
            state = "STARTING" if attempt.started_s is None else "RUNNING"
        elif attempt.state in _MADE_IT and winner_of(task) is not attempt:
            state = "KILLED"  # its output was lost, and the task done again
        fetched = zip(("onNode", "inRack", "fromOtherRacks"), attempt.fetched_bytes, strict=True)
        return {
            "id": self.ids.attempt(attempt.attempt),
            "state": state,
            "type": self._type(task.task),
            "rack": f"/{rack_of(attempt.node)}",
            "nodeHttpAddress": address_of(attempt.node, self.addresses, self.gateway),
            "progress": 100.0 * attempt.progress,
            "diagnostics": attempt.reason,
            "assignedContainerId": container_id(self.begun_ms, attempt.attempt),
            **self._times(attempt.launched_s, attempt.ended_s),
            **(self._phases(attempt) if self.ids.kind(task.task) == "r" else {}),
            "railyard": {
                "attempt": attempt.attempt,
                "node": attempt.node,
                "locality": attempt.level,
                "state": attempt.state,
                "copy": attempt.copy,
                "fetchedBytes": dict(fetched),
                "readSeconds": attempt.read_s,
                "computedSeconds": attempt.computed_s,
            },
        }

    # ---------------------------------------------------------------------------------------------
    def _attempt_counts(self) -> Row:
        """Attempts by how they ended, and mean times; the tasks must be all of the job's."""
        row: Row = {"uberized": False, "acls": []}
        for kind, word in KINDS.items():
            states = Counter(
                self.attempt(task, each)["state"]
                for task in self.of_kind(kind)
                for each in task.attempts
            )
            running = states["STARTING"] + states["RUNNING"] + states["COMMIT_PENDING"]
            counts = {"new": states["NEW"], "running": running, "failed": states["FAILED"]}
            counts |= {"killed": states["KILLED"], "successful": states["SUCCEEDED"]}
            row |= {f"{name}{word.capitalize()}Attempts": n for name, n in counts.items()}
        maps, reduces = self._winners("m"), self._winners("r")
        fetching_s = [_fetched_s(each) - each.launched_s for each in reduces]
        reducing_s = [held_s(a) - fetch_s for a, fetch_s in zip(reduces, fetching_s, strict=True)]
        return row | {
            "avgMapTime": _mean_ms(list(map(held_s, maps))),
            "avgShuffleTime": _mean_ms(fetching_s),
            "avgMergeTime": 0,  # outputs are merged while they are reduced
            "avgReduceTime": _mean_ms(reducing_s),
        }

    def _own(self) -> Row:
        return {
            "railyard": {
                **own_figures(self.status),
                "networkBytesMeanwhile": {
                    name: self.network_bytes[way]
                    for name, way in _WAYS.items()
                    if way in self.network_bytes
                },
                "stages": [stage_row(stage) for stage in self.details.stages],
            }
        }

    def _winners(self, kind: str) -> list[AttemptReport]:
        return [winner for task in self.of_kind(kind) if (winner := winner_of(task)) is not None]

    def _type(self, task: TaskId) -> str:
        return "MAP" if self.ids.kind(task) == "m" else "REDUCE"

    def _phases(self, attempt: AttemptReport) -> dict[str, int]:
        """When a reduce had fetched everything; it merges while it reduces."""
        if attempt.ended_s is None and attempt.progress < 1 / 3:  # it fetches
            return dict.fromkeys(_PHASES, 0)
        fetched_s, end_s = _fetched_s(attempt), attempt.ended_s
        fetched_ms = to_ms(self.begun_ms, fetched_s)
        shuffle_ms = int(1000 * (fetched_s - attempt.launched_s))
        reduce_ms = 0 if end_s is None else int(1000 * (end_s - fetched_s))
        return dict(zip(_PHASES, (fetched_ms, fetched_ms, shuffle_ms, 0, reduce_ms), strict=True))

    def _times(self, begin_s: float | None, end_s: float | None) -> dict[str, int]:
        if begin_s is None:
            return {"startTime": 0, "finishTime": 0, "elapsedTime": 0}
        until_s = self.details.now_s if end_s is None else end_s
        elapsed_ms = max(0, int(1000 * (until_s - begin_s)))
        finish_ms = 0 if end_s is None else to_ms(self.begun_ms, end_s)
        return {
            "startTime": to_ms(self.begun_ms, begin_s),
            "finishTime": finish_ms,
            "elapsedTime": elapsed_ms,
        }


def _state(status: JobStatus) -> str:
    """A job's state as MapReduce calls it."""
    if status.state == "failed":
        return "KILLED" if status.stopped else "FAILED"
    return "SUCCEEDED" if status.state == "succeeded" else "RUNNING"


def in_history(status: JobStatus, begun_ms: int) -> Row:
    """A row of the history server's ``jobs``."""
    begin_ms, finished_s = to_ms(begun_ms, status.submitted_s), status.finished_s
    return {
        "submitTime": begin_ms,
        "startTime": begin_ms,
        "finishTime": 0 if finished_s is None else to_ms(begun_ms, finished_s),
        "id": job_id(begun_ms, status.job),
        "name": status.name,
        "queue": status.queue,
        "user": status.user,
        "state": _state(status),
        "mapsTotal": status.maps,
        "mapsCompleted": status.maps_done,
        "reducesTotal": status.reduces,
        "reducesCompleted": status.reduces_done,
        "diagnostics": status.reason,
    }


def winner_of(task: TaskReport) -> AttemptReport | None:
    """The attempt that did a task; the latest, if that was done again."""
    if task.state != "done":
        return None
    return next((each for each in reversed(task.attempts) if each.state in _MADE_IT), None)


def held_s(attempt: AttemptReport) -> float:
    """For how long an attempt that has ended had its slot."""
    return 0.0 if attempt.ended_s is None else attempt.ended_s - attempt.launched_s


def _fetched_s(attempt: AttemptReport) -> float:
    """When a reduce had what it fetched: what came before it got its slot took no time."""
    return max(attempt.fetched_s or 0.0, attempt.launched_s)


def _mean_ms(times_s: Sequence[float]) -> int:
    return int(1000 * sum(times_s) / len(times_s)) if times_s else 0
