"""What a job has counted, in the groups and under the names that Hadoop has for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from railyard.gateway.yarn.mapreduce import KINDS, MapReduceJob, held_s, winner_of
from railyard.gateway.yarn.numbers import SLOT_MB
from railyard.resourcemanager.process.messages import AttemptReport, JobFigures, TaskReport

#: {counter of ours: its name in the group "Map-Reduce Framework"}
_FRAMEWORK = {
    "m.records_in": "Map input records",
    "m.pairs_out": "Map output records",
    "m.bytes_out": "Map output bytes",
    "m.combine_in": "Combine input records",
    "m.combine_out": "Combine output records",
    "r.keys_in": "Reduce input groups",
    "r.records_in": "Reduce input records",
    "r.pairs_out": "Reduce output records",
}


def spilled_records(stage: str, counted: Mapping[str, int]) -> int:
    """Records that maps wrote for reduces, each once: what is left of them after combining.

    In Hadoop those count again that a map or a reduce merges on its disk; here none does.
    """
    made, combined = counted[f"{stage}.pairs_out"], counted.get(f"{stage}.combine_in")
    if combined is None:
        return made - counted.get(f"{stage}.combined_away", 0)
    return made - combined + counted.get(f"{stage}.combine_out", 0)


def hadoop_counters(figures: JobFigures, scale: int) -> dict[str, dict[str, int]]:
    """{group: {counter: count}}; bytes are those that the block store has, as everywhere here.

    A streaming job's own counters are called "GROUP,NAME"; those of other jobs are in a group of
    their own.
    """
    numbers, counted = figures.numbers, figures.counters
    read, shuffled, written = (numbers[key] // scale for key in ("read", "shuffle", "output"))
    local, in_rack, elsewhere = figures.status.locality
    reduces = numbers["reduces launched"]
    launched = {
        "Launched map tasks": numbers["launched"] - reduces,
        "Launched reduce tasks": reduces,
    }
    framework = {name: counted[ours] for ours, name in _FRAMEWORK.items() if ours in counted}
    if figures.status.reduces:
        framework["Reduce shuffle bytes"] = shuffled
        if "m.pairs_out" in counted:
            framework["Spilled Records"] = spilled_records("m", counted)
    groups = {
        "File System Counters": {
            "HDFS: Number of bytes read": read,
            "HDFS: Number of bytes written": written,
        },
        "Job Counters": launched
        | {
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
        elif name not in _FRAMEWORK:
            groups.setdefault("railyard", {})[name] = count
    return groups


# Counters with Hadoop's names, from what attempts report.  Nothing is guessed: what a job's code
# does not count, say because it works on whole blocks, has no counter here.
#
# Bytes are the model's, so those of a cluster with ``scale = 1000`` are a thousand times what was
# stored; records are those that there were.


#: {group: {counter: count}}
Groups = dict[str, dict[str, int]]

TASKS = "org.apache.hadoop.mapreduce.TaskCounter"
FILES = "org.apache.hadoop.mapreduce.FileSystemCounter"
JOBS = "org.apache.hadoop.mapreduce.JobCounter"
#: Of what a job's code counts, if it gives no group.
OWN = "Counters"
#: Of what Hadoop does not count.
RAILYARD = "railyard"

#: {what the operators count of a map, of a reduce: Hadoop's name}
_OF_MAPS = {
    "records_in": "MAP_INPUT_RECORDS",
    "pairs_out": "MAP_OUTPUT_RECORDS",
    "bytes_out": "MAP_OUTPUT_BYTES",
    "combine_in": "COMBINE_INPUT_RECORDS",
    "combine_out": "COMBINE_OUTPUT_RECORDS",
}
_OF_REDUCES = {
    "keys_in": "REDUCE_INPUT_GROUPS",
    "records_in": "REDUCE_INPUT_RECORDS",
    "pairs_out": "REDUCE_OUTPUT_RECORDS",
    "combine_in": "COMBINE_INPUT_RECORDS",
    "combine_out": "COMBINE_OUTPUT_RECORDS",
}
_COMBINED_AWAY = "combined_away"
#: Shown as Hadoop's counters, or not at all: it counts no bytes of what a reduce makes.
_NEVER_OWN = (_COMBINED_AWAY, "bytes_out")


def counters_of(stage: str, attempt: AttemptReport, *, is_map: bool, scale: int = 1) -> Groups:
    """The counters of an attempt that succeeded; of others, those that are known.

    ``scale``: the model's bytes of each that a program has written.
    """
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
                tasks["SPILLED_RECORDS"] = spilled_records(stage, attempt.counters)
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


def added_up(many: Iterable[Groups]) -> Groups:
    """The sums of several attempts' counters."""
    sums: dict[str, Counter[str]] = {}
    for groups in many:
        for group, counted in groups.items():
            sums.setdefault(group, Counter()).update(counted)
    return {group: dict(counted) for group, counted in sums.items()}


def _add_counted(groups: Groups, stage: str, counters: Mapping[str, int], *, is_map: bool) -> None:
    names = _OF_MAPS if is_map else _OF_REDUCES
    prefix = f"{stage}."
    for counter, count in counters.items():
        what = counter.removeprefix(prefix) if counter.startswith(prefix) else ""
        if what in names:
            groups.setdefault(TASKS, {})[names[what]] = count
        elif what not in _NEVER_OWN:
            group, comma, name = counter.partition(",")
            groups.setdefault(group if comma else OWN, {})[name if comma else counter] = count
    away, pairs = counters.get(prefix + _COMBINED_AWAY), counters.get(f"{prefix}pairs_out")
    if away is not None and pairs is not None and f"{prefix}combine_in" not in counters:
        groups.setdefault(TASKS, {}).update(
            COMBINE_INPUT_RECORDS=pairs, COMBINE_OUTPUT_RECORDS=pairs - away
        )


# Counters of a job, its tasks and their attempts, in the words of Hadoop's history server.


def job_counters(job: MapReduceJob) -> dict[str, Any]:
    """``jobCounters``: each task counts once, with the attempt that succeeded."""
    by_kind = {
        kind: added_up([_of_task(job, task) for task in job.of_kind(kind)]) for kind in KINDS
    }
    by_kind["m"][JOBS] = _launched(job)
    groups: dict[str, set[str]] = {}
    for kind in by_kind.values():
        for group, counted in kind.items():
            groups.setdefault(group, set()).update(counted)
    rows = [
        {
            "counterGroupName": group,
            "counter": [_both(by_kind, group, name) for name in sorted(names)],
        }
        for group, names in sorted(groups.items())
    ]
    return {"jobCounters": {"id": job.id, "counterGroup": rows}}


def task_counters(job: MapReduceJob, task: TaskReport) -> dict[str, Any]:
    """``jobTaskCounters``: those of the attempt that succeeded."""
    told = {"id": job.ids.task(task.task), "taskCounterGroup": _rows(_of_task(job, task))}
    return {"jobTaskCounters": told}


def attempt_counters(job: MapReduceJob, task: TaskReport, attempt: AttemptReport) -> dict[str, Any]:
    """``jobTaskAttemptCounters``."""
    rows = _rows(_of_attempt(job, task, attempt))
    told = {"id": job.ids.attempt(attempt.attempt), "taskAttemptCounterGroup": rows}
    return {"jobTaskAttemptCounters": told}


def _of_task(job: MapReduceJob, task: TaskReport) -> Groups:
    winner = winner_of(task)
    return {} if winner is None else _of_attempt(job, task, winner)


def _of_attempt(job: MapReduceJob, task: TaskReport, attempt: AttemptReport) -> Groups:
    stage = task.task.rpartition(".")[2].rstrip("0123456789")
    is_map = job.ids.kind(task.task) == "m"
    return counters_of(stage, attempt, is_map=is_map, scale=job.scale)


def _launched(job: MapReduceJob) -> dict[str, int]:
    """Hadoop's JobCounter: attempts and the time that they had slots."""
    told: dict[str, int] = {}
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
        told[f"TOTAL_LAUNCHED_{many}"] = len(launched)
        told[f"NUM_FAILED_{many}"] = states["FAILED"]
        told[f"NUM_KILLED_{many}"] = states["KILLED"]
        for unit in ("MILLIS", "SLOTS_MILLIS", "VCORES_MILLIS"):
            told[f"{unit}_{many}"] = millis
        told[f"MB_MILLIS_{many}"] = millis * SLOT_MB
    levels = ("DATA_LOCAL_MAPS", "RACK_LOCAL_MAPS", "OTHER_LOCAL_MAPS")
    told |= dict(zip(levels, job.status.locality, strict=True))
    return {name: count for name, count in told.items() if count}


def _rows(groups: Groups) -> list[dict[str, Any]]:
    return [
        {
            "counterGroupName": group,
            "counter": [{"name": name, "value": n} for name, n in sorted(counted.items())],
        }
        for group, counted in sorted(groups.items())
    ]


def _both(by_kind: dict[str, Groups], group: str, name: str) -> dict[str, Any]:
    of_maps = by_kind["m"].get(group, {}).get(name, 0)
    of_reduces = by_kind["r"].get(group, {}).get(name, 0)
    total = of_maps + of_reduces
    if group == JOBS:  # these are the job's own
        of_maps = of_reduces = 0
    told = {"name": name, "mapCounterValue": of_maps, "reduceCounterValue": of_reduces}
    return told | {"totalCounterValue": total}
