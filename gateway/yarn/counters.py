"""What a job has counted, in the groups and under the names that Hadoop has for it."""

from __future__ import annotations

from collections.abc import Mapping

from railyard.resourcemanager.process.messages import JobFigures

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
