"""Counters with Hadoop's names, from what attempts report.  Nothing is guessed: what a job's code
does not count, say because it works on whole blocks, has no counter here.

Bytes are the model's, so those of a cluster with ``scale = 1000`` are a thousand times what was
stored; records are those that there were.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from railyard.gateway.yarn.counters import spilled_records
from railyard.resourcemanager.process.messages import AttemptReport

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
