"""A plan as a file: TOML, a line for each job, in the order of their priorities.

    { name = "w1-17", priority = 1, start_s = 0.0, ..., racks = ["r0", "r3"] },

A person may write or change one; a plan that makes no sense is refused when it is read.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from railyard.cluster.errors import UsageError, require
from railyard.cluster.ids import RackId, rack_id
from railyard.cluster.tomlfile import load_toml
from railyard.resourcemanager.schedulers.corral.heuristics import Scenario


class PlannedJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One job of a plan; times are seconds from the workload's beginning."""

    name: str
    racks: tuple[RackId, ...]  #: R_j
    priority: int  #: p_j: 1 goes first
    arrive_s: float = 0.0  #: A_j; 0 in a batch
    start_s: float = 0.0  #: T_j
    planned_s: float = 0.0  #: L'_j: planned duration, penalty for imbalance included
    latency_s: float = 0.0  #: L_j: planned duration without the penalty

    @property
    def end_s(self) -> float:
        """The planned end of the job."""
        return self.start_s + self.planned_s


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """{R_j, p_j, T_j} of all jobs that are known ahead."""

    scenario: Scenario
    racks: int  #: R: the cluster has r0 to r(R-1)
    workload: str = ""  #: where the jobs are from
    topology: str = ""
    jobs: tuple[PlannedJob, ...]

    def __post_init__(self) -> None:
        known = {rack_id(number) for number in range(self.racks)}
        names: set[str] = set()
        priorities: set[int] = set()
        for job in self.jobs:
            where = f"job {job.name}"
            require(job.name not in names, "job", job.name, "a name that no other job has")
            names.add(job.name)
            right = "a number that no other job has"
            require(job.priority not in priorities, f"{where}: priority", job.priority, right)
            priorities.add(job.priority)
            right = f"racks of r0 to r{self.racks - 1}, each once"
            sound = bool(job.racks) and known.issuperset(job.racks)
            once = len(set(job.racks)) == len(job.racks)
            require(sound and once, f"{where}: racks", list(job.racks), right)

    @property
    def makespan_s(self) -> float:
        """The planned end of the last job, in seconds."""
        return max((job.end_s for job in self.jobs), default=0.0)

    @property
    def completion_s(self) -> float:
        """The mean over all jobs of planned end - arrival, in seconds."""
        return sum(job.end_s - job.arrive_s for job in self.jobs) / max(1, len(self.jobs))


def load_plan(path: Path) -> Plan:
    """Read a plan; raises ``UsageError``, one line, if it is wrong."""
    return load_toml(path, Plan)


def save_plan(plan: Plan, path: Path) -> None:
    """Write a plan; raises ``UsageError`` if the file can't be written."""
    try:
        path.write_text(as_toml(plan), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written: {error.strerror}") from None


def as_toml(plan: Plan) -> str:
    """The text of a plan's file."""
    makespan, average = f"{plan.makespan_s:.3f} s", f"{plan.completion_s:.3f} s"
    lines = [
        f"# Corral's plan: {len(plan.jobs)} jobs on {plan.racks} racks.",
        f"# Planned: makespan {makespan}; from arrival to completion {average} on average.",
        "# racks = R_j, priority = p_j (1 goes first), start_s = T_j, planned_s = L_j(r_j) with",
        "# the penalty for data out of balance, latency_s = without.",
        f"scenario = {_text(plan.scenario)}",
        f"racks = {plan.racks}",
        f"workload = {_text(plan.workload)}",
        f"topology = {_text(plan.topology)}",
        "jobs = [",
        *(f"  {_line(job)}," for job in sorted(plan.jobs, key=lambda job: job.priority)),
        "]",
    ]
    return "\n".join(lines) + "\n"


def _line(job: PlannedJob) -> str:
    fields = {
        "name": _text(job.name),
        "priority": str(job.priority),
        "arrive_s": repr(job.arrive_s),
        "start_s": repr(job.start_s),
        "planned_s": repr(job.planned_s),
        "latency_s": repr(job.latency_s),
        "racks": f"[{', '.join(_text(rack) for rack in job.racks)}]",
    }
    return f"{{ {', '.join(f'{key} = {value}' for key, value in fields.items())} }}"


def _text(value: str) -> str:
    """A TOML string: as in JSON, but for DEL, which TOML escapes."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
