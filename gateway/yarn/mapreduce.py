"""A MapReduce job in the words of Hadoop's history server and ApplicationMaster.

The two say the same of tasks and attempts, and differ in what they say of a job.  What Hadoop has
no name for is under "railyard".  Not here: requests (``history``).

Counters have Hadoop's names: as ``hadoop jar`` prints them, and as the history has them.  Nothing
is guessed: what a job's code does not count, say because it works on whole blocks, has no counter
here.  ``hadoop jar`` gets bytes as the block store has them.  The history's bytes are the model's,
so those of a cluster with ``scale = 1000`` are a thousand times what was stored; records are not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from railyard.cluster.ids import NodeId, rack_of
from railyard.gateway.yarn.numbers import (
    SLOT_MB,
    Row,
    TaskIds,
    address_of,
    container_id,
    own_figures,
    stage_name,
    stage_row,
    to_ms,
)
from railyard.jobs.streaming.job import hadoop_job_id
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
        return self.details.status

    @cached_property
    def ids(self) -> TaskIds:
        return TaskIds(self.id, self.details.stages)

    @property
    def id(self) -> str:
        """Such as job_1795444939124_0001."""
        return hadoop_job_id(self.begun_ms, self.status.job)

    # The job -------------------------------------------------------------------------------------
    def finished(self) -> Row:
        """``job`` of the history server."""
        return {"job": in_history(self.status, self.begun_ms) | self._counts() | self._own()}

    def running(self) -> Row:
        """``job`` of the ApplicationMaster."""
        return {"job": self.in_master() | self._counts() | self._own()}

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
        named |= {n.removeprefix(GIVEN): v for n, v in known.items() if n.startswith(GIVEN)}
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
        begin_s = min((attempt.launched_s for attempt in task.attempts), default=None)
        winner = winner_of(task)
        end_s = winner.ended_s if winner is not None else None
        if task.state in ("failed", "stopped", "left"):
            end_s = max((a.ended_s for a in task.attempts if a.ended_s is not None), default=None)
        progress = max((attempt.progress for attempt in task.attempts), default=0.0)
        return {
            "id": self.ids.task(task.task),
            "state": _TASK_STATES[task.state],
            "type": KINDS[self.ids.kind(task.task)].upper(),
            "progress": 100.0 * (1.0 if winner is not None else progress),
            "successfulAttempt": "" if winner is None else self.ids.attempt(winner.attempt),
            **self._times(begin_s, end_s),
            "railyard": {"task": task.task, "waiting": task.waiting},
        }

    def attempt(self, task: TaskReport, attempt: AttemptReport) -> Row:
        state = _ATTEMPT_STATES.get(attempt.state)
        if state is None:
            state = "STARTING" if attempt.started_s is None else "RUNNING"
        elif attempt.state in _MADE_IT and winner_of(task) is not attempt:
            state = "KILLED"  # its output was lost, and the task done again
        fetched = zip(("onNode", "inRack", "fromOtherRacks"), attempt.fetched_bytes, strict=True)
        return {
            "id": self.ids.attempt(attempt.attempt),
            "state": state,
            "type": KINDS[self.ids.kind(task.task)].upper(),
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

    # Counters ------------------------------------------------------------------------------------
    def counters(self) -> dict[str, Any]:
        """``jobCounters``: each task counts once, with the attempt that succeeded."""
        maps, reduces = (_added_up(self, kind) for kind in KINDS)
        maps.update({(JOBS, name): count for name, count in _launched(self).items()})
        rows: dict[str, list[dict[str, Any]]] = {}
        for group, name in sorted(maps.keys() | reduces.keys()):
            counts = maps[group, name], reduces[group, name]
            shown = (0, 0) if group == JOBS else counts  # the first are the job's own
            values = (*shown, sum(counts))
            keys = ("mapCounterValue", "reduceCounterValue", "totalCounterValue")
            row = {"name": name} | dict(zip(keys, values, strict=True))
            rows.setdefault(group, []).append(row)
        groups = [{"counterGroupName": group, "counter": each} for group, each in rows.items()]
        return {"jobCounters": {"id": self.id, "counterGroup": groups}}

    def task_counters(self, task: TaskReport) -> dict[str, Any]:
        """``jobTaskCounters``: those of the attempt that succeeded."""
        rows = _rows(_of_task(self, task))
        return {"jobTaskCounters": {"id": self.ids.task(task.task), "taskCounterGroup": rows}}

    def attempt_counters(self, task: TaskReport, attempt: AttemptReport) -> dict[str, Any]:
        named = {"id": self.ids.attempt(attempt.attempt)}
        rows = _rows(_of_attempt(self, task, attempt))
        return {"jobTaskAttemptCounters": named | {"taskAttemptCounterGroup": rows}}

    def _counts(self) -> Row:
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
        reduces = self._winners("r")
        fetching_s = [_fetched_s(each) - each.launched_s for each in reduces]
        reducing_s = [held_s(a) - fetch_s for a, fetch_s in zip(reduces, fetching_s, strict=True)]
        return row | {
            "avgMapTime": _mean_ms(list(map(held_s, self._winners("m")))),
            "avgShuffleTime": _mean_ms(fetching_s),
            "avgMergeTime": 0,  # outputs are merged while they are reduced
            "avgReduceTime": _mean_ms(reducing_s),
        }

    def _own(self) -> Row:
        sizes = self.network_bytes
        return {
            "railyard": {
                **own_figures(self.status),
                "networkBytesMeanwhile": {n: sizes[w] for n, w in _WAYS.items() if w in sizes},
                "stages": [stage_row(stage) for stage in self.details.stages],
            }
        }

    def _winners(self, kind: str) -> list[AttemptReport]:
        return [winner for task in self.of_kind(kind) if (winner := winner_of(task)) is not None]

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
        return {
            "startTime": to_ms(self.begun_ms, begin_s),
            "finishTime": 0 if end_s is None else to_ms(self.begun_ms, end_s),
            "elapsedTime": max(0, int(1000 * (until_s - begin_s))),
        }


def state_of(status: JobStatus) -> str:
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
        "id": hadoop_job_id(begun_ms, status.job),
        "name": status.name,
        "queue": status.queue,
        "user": status.user,
        "state": state_of(status),
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


# Counters ----------------------------------------------------------------------------------------
#: {group: {counter: count}}
Groups = dict[str, dict[str, int]]

TASKS = "org.apache.hadoop.mapreduce.TaskCounter"
FILES = "org.apache.hadoop.mapreduce.FileSystemCounter"
JOBS = "org.apache.hadoop.mapreduce.JobCounter"
#: Of what a job's code counts, if it gives no group.
OWN = "Counters"
#: Of what Hadoop does not count.
RAILYARD = "railyard"

_COMBINED = {"combine_in": "COMBINE_INPUT_RECORDS", "combine_out": "COMBINE_OUTPUT_RECORDS"}
#: {what the operators count of a map, of a reduce: Hadoop's name}
_OF_MAPS = {
    "records_in": "MAP_INPUT_RECORDS",
    "pairs_out": "MAP_OUTPUT_RECORDS",
    "bytes_out": "MAP_OUTPUT_BYTES",
    **_COMBINED,
}
_OF_REDUCES = {
    "keys_in": "REDUCE_INPUT_GROUPS",
    "records_in": "REDUCE_INPUT_RECORDS",
    "pairs_out": "REDUCE_OUTPUT_RECORDS",
}
#: {counter of a streaming job: how hadoop jar prints it, in the group "Map-Reduce Framework"}
_PRINTED = {
    f"{stage}.{ours}": name.replace("_", " ").capitalize()
    for stage, names in (("m", _OF_MAPS), ("r", _OF_REDUCES))
    for ours, name in names.items()
}
_COMBINED_AWAY = "combined_away"
#: Shown as Hadoop's counters, or not at all: it counts no bytes of what a reduce makes.
_NEVER_OWN = (_COMBINED_AWAY, "bytes_out")


def _spilled_records(stage: str, counted: Mapping[str, int]) -> int:
    """Records that maps wrote for reduces, each once: what is left of them after combining.

    In Hadoop those count again that a map or a reduce merges on its disk; here none does.
    """
    made, combined = counted[f"{stage}.pairs_out"], counted.get(f"{stage}.combine_in")
    if combined is None:
        return made - counted.get(f"{stage}.{_COMBINED_AWAY}", 0)
    return made - combined + counted.get(f"{stage}.combine_out", 0)


def hadoop_counters(figures: JobDetails, scale: int) -> Groups:
    """A streaming job's own counters are called "GROUP,NAME"; other jobs' are in a single group."""
    numbers, counted = figures.numbers, figures.counters
    read, shuffled, written = (numbers[key] // scale for key in ("read", "shuffle", "output"))
    local, in_rack, elsewhere = figures.status.locality
    reduces = numbers["reduces launched"]
    framework = {name: counted[ours] for ours, name in _PRINTED.items() if ours in counted}
    if figures.status.reduces:
        framework["Reduce shuffle bytes"] = shuffled
        if "m.pairs_out" in counted:
            framework["Spilled Records"] = _spilled_records("m", counted)
    groups = {
        "File System Counters": {
            "HDFS: Number of bytes read": read,
            "HDFS: Number of bytes written": written,
        },
        "Job Counters": {
            "Launched map tasks": numbers["launched"] - reduces,
            "Launched reduce tasks": reduces,
            "Data-local map tasks": local,
            "Rack-local map tasks": in_rack,
            "Other local map tasks": elsewhere,
            "Failed task attempts": numbers["failed"],
            "Killed task attempts": numbers["killed"],
        },
        "Map-Reduce Framework": framework,
        "File Input Format Counters": {"Bytes Read": read},
        "File Output Format Counters": {"Bytes Written": written},
    }
    for name, count in sorted(counted.items()):
        group, comma, rest = name.partition(",")
        if comma:
            groups.setdefault(group, {})[rest] = count
        elif name not in _PRINTED:
            groups.setdefault(RAILYARD, {})[name] = count
    return groups


def counters_of(stage: str, attempt: AttemptReport, *, is_map: bool, scale: int = 1) -> Groups:
    """An attempt's counters, as far as known; ``scale``: the model's bytes of each written one."""
    groups: Groups = {TASKS: {}, FILES: {}, RAILYARD: {}}
    _add_counted(groups, stage, attempt.counters, is_map=is_map)
    tasks = groups[TASKS]
    if is_map:
        if "MAP_OUTPUT_BYTES" in tasks:
            tasks["MAP_OUTPUT_BYTES"] *= scale
        groups[FILES]["HDFS_BYTES_READ"] = sum(attempt.read_bytes)
        if attempt.shuffle_bytes:
            tasks["MAP_OUTPUT_MATERIALIZED_BYTES"] = attempt.shuffle_bytes
            if f"{stage}.pairs_out" in attempt.counters:
                tasks["SPILLED_RECORDS"] = _spilled_records(stage, attempt.counters)
            if "COMBINE_INPUT_RECORDS" not in tasks:
                tasks.setdefault("MAP_OUTPUT_BYTES", attempt.shuffle_bytes)
    else:
        tasks["REDUCE_SHUFFLE_BYTES"] = sum(attempt.fetched_bytes)
        for near, count in zip(("NODE", "RACK", "CROSS_RACK"), attempt.fetched_bytes, strict=True):
            groups[RAILYARD][f"SHUFFLE_{near}_BYTES"] = count
        if attempt.shuffle_bytes:  # a later stage reads it
            groups[RAILYARD]["SHUFFLE_OUTPUT_BYTES"] = attempt.shuffle_bytes
    groups[FILES]["HDFS_BYTES_WRITTEN"] = attempt.output_bytes
    groups[RAILYARD]["COMPUTED_MILLISECONDS"] = int(1000 * attempt.computed_s)
    return {group: counted for group, counted in groups.items() if counted}


def _add_counted(groups: Groups, stage: str, counters: Mapping[str, int], *, is_map: bool) -> None:
    names = _OF_MAPS if is_map else _OF_REDUCES | _COMBINED
    prefix = f"{stage}."
    for counter, count in counters.items():
        what = counter.removeprefix(prefix) if counter.startswith(prefix) else ""
        if what in names:
            groups[TASKS][names[what]] = count
        elif what not in _NEVER_OWN:
            group, comma, name = counter.partition(",")
            groups.setdefault(group if comma else OWN, {})[name if comma else counter] = count
    away, pairs = counters.get(prefix + _COMBINED_AWAY), counters.get(f"{prefix}pairs_out")
    if away is not None and pairs is not None and f"{prefix}combine_in" not in counters:
        groups[TASKS] |= {"COMBINE_INPUT_RECORDS": pairs, "COMBINE_OUTPUT_RECORDS": pairs - away}


def _added_up(job: MapReduceJob, kind: str) -> Counter[tuple[str, str]]:
    """{(group, counter): the sum over the tasks of a kind}"""
    sums: Counter[tuple[str, str]] = Counter()
    for task in job.of_kind(kind):
        for group, counted in _of_task(job, task).items():
            sums.update({(group, name): count for name, count in counted.items()})
    return sums


def _of_task(job: MapReduceJob, task: TaskReport) -> Groups:
    winner = winner_of(task)
    return {} if winner is None else _of_attempt(job, task, winner)


def _of_attempt(job: MapReduceJob, task: TaskReport, attempt: AttemptReport) -> Groups:
    stage = stage_name(task.task)
    is_map = job.ids.kind(task.task) == "m"
    return counters_of(stage, attempt, is_map=is_map, scale=job.scale)


def _launched(job: MapReduceJob) -> dict[str, int]:
    """Hadoop's JobCounter: attempts and the time that they had slots."""
    counts: dict[str, int] = {}
    for kind, word in KINDS.items():
        launched = [
            (task, attempt)
            for task in job.of_kind(kind)
            for attempt in task.attempts
            if attempt.state != "reserved"
        ]
        states = Counter(job.attempt(task, attempt)["state"] for task, attempt in launched)
        millis = sum(int(1000 * held_s(attempt)) for _, attempt in launched)
        many = f"{word.upper()}S"
        counts[f"TOTAL_LAUNCHED_{many}"] = len(launched)
        counts[f"NUM_FAILED_{many}"] = states["FAILED"]
        counts[f"NUM_KILLED_{many}"] = states["KILLED"]
        for unit in ("MILLIS", "SLOTS_MILLIS", "VCORES_MILLIS"):
            counts[f"{unit}_{many}"] = millis
        counts[f"MB_MILLIS_{many}"] = millis * SLOT_MB
    levels = ("DATA_LOCAL_MAPS", "RACK_LOCAL_MAPS", "OTHER_LOCAL_MAPS")
    counts |= dict(zip(levels, job.status.locality, strict=True))
    return {name: count for name, count in counts.items() if count}


def _rows(groups: Groups) -> list[dict[str, Any]]:
    return [
        {
            "counterGroupName": group,
            "counter": [{"name": name, "value": n} for name, n in sorted(counted.items())],
        }
        for group, counted in sorted(groups.items())
    ]
