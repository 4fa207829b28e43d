"""Counters of a job, its tasks and their attempts, in the words of Hadoop's history server."""

from __future__ import annotations

from collections import Counter
from typing import Any

from railyard.gateway.yarn.history.mapreduce import KINDS, MapReduceJob, held_s, winner_of
from railyard.gateway.yarn.history.taskcounters import JOBS, Groups, added_up, counters_of
from railyard.gateway.yarn.numbers import SLOT_MB
from railyard.resourcemanager.process.messages import AttemptReport, TaskReport


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
