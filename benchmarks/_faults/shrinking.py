"""Makes a failing schedule of faults short: it fails still, and without any part of it no more.

Parts are left out by halves, then one by one (delta debugging; Zeller and Hildebrandt, TSE 2002).

Not here: what counts as failing.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from railyard.benchmarks._faults.schedules import Schedule

#: ("f", place of a fault) or ("j", place of a job).
Part = tuple[str, int]


def parts_of(schedule: Schedule) -> list[Part]:
    """All faults and jobs of a schedule."""
    faults = [("f", place) for place in range(len(schedule.faults))]
    return [*faults, *(("j", place) for place in range(len(schedule.jobs)))]


def of_parts(schedule: Schedule, parts: list[Part]) -> Schedule:
    """The schedule with these parts alone."""
    jobs = [place for kind, place in parts if kind == "j"]
    return schedule.only(jobs, [place for kind, place in parts if kind == "f"])


def shrunk(schedule: Schedule, fails: Callable[[Schedule], bool]) -> list[Part]:
    """The parts of a failing schedule that are needed for it to fail."""
    parts, size = parts_of(schedule), len(parts_of(schedule)) // 2
    while size:
        at = 0
        while at < len(parts):
            fewer = parts[:at] + parts[at + size :]
            if any(kind == "j" for kind, _ in fewer) and fails(of_parts(schedule, fewer)):
                parts = fewer
            else:
                at += size
        size //= 2
    return parts


def in_words(schedule: Schedule) -> list[str]:
    """A line for the cluster, one for each job and one for each fault."""
    config, topology = schedule.config, schedule.config.topology
    racks = topology.racks
    shape = f"{racks.count} racks x {racks.nodes} nodes x {racks.slots} slots"
    lines = [f"{config.scheduler}, {config.flow_scheduler}, {shape}, seed {config.seed}"]
    for job in schedule.jobs:
        stages = " > ".join(f"{stage.tasks} {stage.name}" for stage in job.stages)
        lines.append(f"{job.submit_s:.3f} s: {job.name} of {job.user}, tasks {stages}")
    for fault in sorted(schedule.faults, key=lambda fault: fault.at_s):
        row = msgspec.to_builtins(fault)
        at_s, lasts_s, kind = row.pop("at_s"), row.pop("lasts_s"), row.pop("type")
        words = " ".join(f"{name}={value}" for name, value in row.items() if value)
        lines.append(f"{at_s:.3f} s: {kind} for {lasts_s:g} s, {words}")
    return lines
