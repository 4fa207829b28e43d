"""Counters with Hadoop's names: as ``hadoop jar`` prints them, and as the history has them.

Nothing is guessed: what a job's code does not count, say because it works on whole blocks, has no
counter here.  ``hadoop jar`` gets bytes as the block store has them.  The history's bytes are the
model's, so those of a cluster with ``scale = 1000`` are a thousand times what was stored; records
are those that there were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from railyard.gateway.yarn.mapreduce import KINDS, MapReduceJob, held_s, winner_of
from railyard.gateway.yarn.numbers import SLOT_MB
from railyard.resourcemanager.process.messages import AttemptReport, JobDetails, TaskReport

#: {group: {counter: count}}
Groups = dict[str, dict[str, int]]

TASKS = "org.apache.hadoop.mapreduce.TaskCounter"
FILES = "org.apache.hadoop.mapreduce.FileSystemCounter"
JOBS = "org.apache.hadoop.mapreduce.JobCounter"
#: Of what a job's code counts, if it gives no group.
OWN = "Counters"
#: Of what Hadoop does not count.
RAILYARD = "railyard"

_COMBINED = {
    "combine_in": "COMBINE_INPUT_RECORDS",
    "combine_out": "COMBINE_OUTPUT_RECORDS",
}
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


# As hadoop jar prints them -----------------------------------------------------------------------
def hadoop_counters(figures: JobDetails, scale: int) -> Groups:
    """A streaming job's own counters are called "GROUP,NAME"; those of other jobs are in a group
    of their own.
    """
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


# As the history has them -------------------------------------------------------------------------
def job_counters(job: MapReduceJob) -> dict[str, Any]:
    """``jobCounters``: each task counts once, with the attempt that succeeded."""
    by_kind = {kind: _added_up(_of_task(job, task) for task in job.of_kind(kind)) for kind in KINDS}
    by_kind["m"][JOBS] = _launched(job)
    names = {(group, name) for of in by_kind.values() for group in of for name in of[group]}
    rows: dict[str, list[dict[str, Any]]] = {}
    for group, name in sorted(names):
        counts = [by_kind[kind].get(group, {}).get(name, 0) for kind in KINDS]
        shown = [0, 0] if group == JOBS else counts  # the first are the job's own
        values = (*shown, sum(counts))
        keys = ("mapCounterValue", "reduceCounterValue", "totalCounterValue")
        row = {"name": name} | dict(zip(keys, values, strict=True))
        rows.setdefault(group, []).append(row)
    groups = [{"counterGroupName": group, "counter": each} for group, each in rows.items()]
    return {"jobCounters": {"id": job.id, "counterGroup": groups}}


def task_counters(job: MapReduceJob, task: TaskReport) -> dict[str, Any]:
    """``jobTaskCounters``: those of the attempt that succeeded."""
    rows = _rows(_of_task(job, task))
    return {"jobTaskCounters": {"id": job.ids.task(task.task), "taskCounterGroup": rows}}


def attempt_counters(job: MapReduceJob, task: TaskReport, attempt: AttemptReport) -> dict[str, Any]:
    """``jobTaskAttemptCounters``."""
    named = {"id": job.ids.attempt(attempt.attempt)}
    rows = _rows(_of_attempt(job, task, attempt))
    return {"jobTaskAttemptCounters": named | {"taskAttemptCounterGroup": rows}}


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


def _added_up(many: Iterable[Groups]) -> Groups:
    """The sums of several attempts' counters."""
    sums: dict[str, Counter[str]] = {}
    for groups in many:
        for group, counted in groups.items():
            sums.setdefault(group, Counter()).update(counted)
    return {group: dict(counted) for group, counted in sums.items()}


def _of_task(job: MapReduceJob, task: TaskReport) -> Groups:
    winner = winner_of(task)
    return {} if winner is None else _of_attempt(job, task, winner)


def _of_attempt(job: MapReduceJob, task: TaskReport, attempt: AttemptReport) -> Groups:
    stage = task.task.rpartition(".")[2].rstrip("0123456789")
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
