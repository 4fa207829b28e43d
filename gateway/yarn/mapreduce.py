"""A MapReduce job in the words of Hadoop's history server and ApplicationMaster.

The two say the same of tasks and attempts, and differ in what they say of a job.  What Hadoop has
no name for is under "railyard".  Counters are in ``jobcounters``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from railyard.cluster.ids import NodeId, TaskId, rack_of
from railyard.gateway.yarn.numbers import TaskIds, address_of, container_id, job_id, stage_row
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
    "mapreduce.job.name": "name",
    "mapreduce.job.user.name": "user",
    "mapreduce.job.queuename": "queue",
    "mapreduce.input.fileinputformat.inputdir": "input_paths",
    "mapreduce.output.fileoutputformat.outputdir": "output_path",
    "mapreduce.map.maxattempts": "max_attempts",
    "mapreduce.reduce.maxattempts": "max_attempts",
    "railyard.output.replication": "output_replication",
    "railyard.code": "code",
}


#: Of these, what the job runs with is shown, whatever its user gave.
_AS_RUN = (
    "mapreduce.job.name",
    "mapreduce.job.user.name",
    "mapreduce.job.queuename",
    "mapreduce.input.fileinputformat.inputdir",
    "mapreduce.output.fileoutputformat.outputdir",
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
    def finished(self) -> dict[str, Any]:
        """``job`` of the history server."""
        return {
            "job": in_history(self.status, self.begun_ms) | self._attempt_counts() | self._own()
        }

    def running(self) -> dict[str, Any]:
        """``job`` of the ApplicationMaster."""
        return {"job": self.in_master() | self._attempt_counts() | self._own()}

    def in_master(self) -> dict[str, Any]:
        """A row of the ApplicationMaster's ``jobs``."""
        told = in_history(self.status, self.begun_ms)
        for name in ("submitTime", "queue"):
            del told[name]
        end_s = self.details.now_s if self.status.finished_s is None else self.status.finished_s
        told["elapsedTime"] = int(1000 * (end_s - self.status.submitted_s))
        for kind, word in KINDS.items():
            stages = self.ids.of_kind(kind)
            size = sum(stage.tasks for stage in stages)
            done = told[f"{word}sCompleted"]
            told[f"{word}Progress"] = 100.0 * done / size if size else 0.0
            told[f"{word}sPending"] = sum(stage.pending for stage in stages)
            told[f"{word}sRunning"] = sum(stage.running for stage in stages)
        return told

    def attempts(self) -> dict[str, Any]:
        """``jobAttempts``: one, since a job's master lives in the ResourceManager."""
        one = {"id": 1, "startTime": self._ms(self.status.submitted_s), "nodeId": ""}
        one |= {"nodeHttpAddress": "", "containerId": "", "logsLink": ""}
        return {"jobAttempts": {"jobAttempt": [one]}}

    def settings(self) -> dict[str, Any]:
        """``conf``: with what the job was submitted."""
        known = self.details.settings
        own = {name: known[ours] for name, ours in _SETTINGS.items() if known.get(ours)}
        given = {
            name.removeprefix(GIVEN): text for name, text in known.items() if name.startswith(GIVEN)
        }
        named = own | given | {name: own[name] for name in _AS_RUN if name in own}
        named["mapreduce.job.maps"] = str(self.status.maps)
        named["mapreduce.job.reduces"] = str(self.status.reduces)
        named |= {name: text for name, text in known.items() if name.startswith("params.")}
        rows = [{"name": n, "value": v, "source": ["job"]} for n, v in sorted(named.items())]
        return {"conf": {"path": "", "property": rows}}

    # Tasks ---------------------------------------------------------------------------------------
    def task(self, task: TaskReport) -> dict[str, Any]:
        """A task."""
        begin_s = min((attempt.launched_s for attempt in task.attempts), default=None)
        winner = winner_of(task)
        end_s = winner.ended_s if winner is not None else None
        if task.state in ("failed", "stopped", "left"):
            end_s = max((a.ended_s for a in task.attempts if a.ended_s is not None), default=None)
        progress = max((attempt.progress for attempt in task.attempts), default=0.0)
        told = {
            "id": self.ids.task(task.task),
            "state": _TASK_STATES[task.state],
            "type": self._type(task.task),
            "progress": 100.0 * (1.0 if winner is not None else progress),
            "successfulAttempt": "" if winner is None else self.ids.attempt(winner.attempt),
            **self._times(begin_s, end_s),
        }
        return told | {"railyard": {"task": task.task, "waiting": task.waiting}}

    def task_rows(self, kind: str) -> list[dict[str, Any]]:
        """Rows of all tasks, or of those of a kind: "m" or "r"."""
        return [self.task(task) for task in self.tasks if kind in ("", self.ids.kind(task.task))]

    def attempt(self, task: TaskReport, attempt: AttemptReport) -> dict[str, Any]:
        """An attempt."""
        state = _ATTEMPT_STATES.get(attempt.state)
        if state is None:
            state = "STARTING" if attempt.started_s is None else "RUNNING"
        elif attempt.state in _MADE_IT and winner_of(task) is not attempt:
            state = "KILLED"  # its output was lost, and the task done again
        told = {
            "id": self.ids.attempt(attempt.attempt),
            "state": state,
            "type": self._type(task.task),
            "rack": f"/{rack_of(attempt.node)}",
            "nodeHttpAddress": address_of(attempt.node, self.addresses, self.gateway),
            "progress": 100.0 * attempt.progress,
            "diagnostics": attempt.reason,
            "assignedContainerId": container_id(self.begun_ms, attempt.attempt),
            **self._times(attempt.launched_s, attempt.ended_s),
        }
        if self.ids.kind(task.task) == "r":
            told |= self._phases(attempt)
        counted = zip(("onNode", "inRack", "fromOtherRacks"), attempt.fetched_bytes, strict=True)
        told["railyard"] = {
            "attempt": attempt.attempt,
            "node": attempt.node,
            "locality": attempt.level,
            "state": attempt.state,
            "copy": attempt.copy,
            "fetchedBytes": dict(counted),
            "readSeconds": attempt.read_s,
            "computedSeconds": attempt.computed_s,
        }
        return told

    # ---------------------------------------------------------------------------------------------
    def _attempt_counts(self) -> dict[str, Any]:
        """Attempts by how they ended, and mean times; the tasks must be all of the job's."""
        told: dict[str, Any] = {"uberized": False, "acls": []}
        for kind, word in KINDS.items():
            states = Counter(a["state"] for a in self._all_attempts(kind))
            running = states["STARTING"] + states["RUNNING"] + states["COMMIT_PENDING"]
            counts = {"new": states["NEW"], "running": running, "failed": states["FAILED"]}
            counts |= {"killed": states["KILLED"], "successful": states["SUCCEEDED"]}
            for name, count in counts.items():
                told[f"{name}{word.capitalize()}Attempts"] = count
        maps, reduces = self._winners("m"), self._winners("r")
        told["avgMapTime"] = _mean_ms([held_s(a) for a in maps])
        told["avgShuffleTime"] = _mean_ms([_fetched_s(a) - a.launched_s for a in reduces])
        told["avgMergeTime"] = 0  # outputs are merged while they are reduced
        told["avgReduceTime"] = _mean_ms(
            [held_s(a) - _fetched_s(a) + a.launched_s for a in reduces]
        )
        return told

    def _own(self) -> dict[str, Any]:
        local, in_rack, elsewhere = self.status.locality
        return {
            "railyard": {
                "job": self.status.job,
                "mapsOnNode": local,
                "mapsInRack": in_rack,
                "mapsElsewhere": elsewhere,
                "shuffledBytes": self.status.shuffled_bytes,
                "crossRackShuffleBytes": self.status.cross_rack_bytes,
                "networkBytesMeanwhile": {
                    name: self.network_bytes[way]
                    for name, way in _WAYS.items()
                    if way in self.network_bytes
                },
                "stages": [stage_row(stage) for stage in self.details.stages],
            }
        }

    def of_kind(self, kind: str) -> list[TaskReport]:
        """The maps, "m", or the reduces, "r"."""
        return [task for task in self.tasks if self.ids.kind(task.task) == kind]

    def _all_attempts(self, kind: str) -> list[dict[str, Any]]:
        return [self.attempt(task, each) for task in self.of_kind(kind) for each in task.attempts]

    def _winners(self, kind: str) -> list[AttemptReport]:
        return [winner for task in self.of_kind(kind) if (winner := winner_of(task)) is not None]

    def _type(self, task: TaskId) -> str:
        return "MAP" if self.ids.kind(task) == "m" else "REDUCE"

    def _phases(self, attempt: AttemptReport) -> dict[str, int]:
        """When a reduce had fetched everything; it merges while it reduces."""
        if attempt.ended_s is None and attempt.progress < 1 / 3:  # it fetches
            return dict.fromkeys(_PHASES, 0)
        fetched_s, end_s = _fetched_s(attempt), attempt.ended_s
        fetched_ms = self._ms(fetched_s)
        shuffle_ms = int(1000 * (fetched_s - attempt.launched_s))
        reduce_ms = 0 if end_s is None else int(1000 * (end_s - fetched_s))
        return dict(zip(_PHASES, (fetched_ms, fetched_ms, shuffle_ms, 0, reduce_ms), strict=True))

    def _times(self, begin_s: float | None, end_s: float | None) -> dict[str, int]:
        if begin_s is None:
            return {"startTime": 0, "finishTime": 0, "elapsedTime": 0}
        until_s = self.details.now_s if end_s is None else end_s
        elapsed_ms = max(0, int(1000 * (until_s - begin_s)))
        finish_ms = 0 if end_s is None else self._ms(end_s)
        return {"startTime": self._ms(begin_s), "finishTime": finish_ms, "elapsedTime": elapsed_ms}

    def _ms(self, time_s: float) -> int:
        return self.begun_ms + int(1000 * time_s)


_PHASES = (
    "shuffleFinishTime",
    "mergeFinishTime",
    "elapsedShuffleTime",
    "elapsedMergeTime",
    "elapsedReduceTime",
)


def job_state(status: JobStatus) -> str:
    """A job's state as MapReduce calls it."""
    if status.state == "failed":
        return "KILLED" if status.stopped else "FAILED"
    return "SUCCEEDED" if status.state == "succeeded" else "RUNNING"


def in_history(status: JobStatus, begun_ms: int) -> dict[str, Any]:
    """A row of the history server's ``jobs``."""
    begin_ms = begun_ms + int(1000 * status.submitted_s)
    finished_s = status.finished_s
    return {
        "submitTime": begin_ms,
        "startTime": begin_ms,
        "finishTime": 0 if finished_s is None else begun_ms + int(1000 * finished_s),
        "id": job_id(begun_ms, status.job),
        "name": status.name,
        "queue": status.queue,
        "user": status.user,
        "state": job_state(status),
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
