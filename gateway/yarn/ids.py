"""Ids as Hadoop writes them, of our jobs, tasks and attempts: made, and looked up.

    j12        application_1795444939124_0012, job_1795444939124_0012
    j12.m3     task_1795444939124_0012_m_000003
    j12.m3.0   attempt_1795444939124_0012_m_000003_0

A task that reads no other stage is a map, others are reduces.  Where a job has several stages of
a kind, their tasks are numbered on, in the order of the stages.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from railyard.cluster.ids import AttemptId, JobId, TaskId, job_of, stage_of
from railyard.resourcemanager.process.messages import StageStatus

_JOB = re.compile(r"(?:job|application)_(\d{1,20})_(\d{4,15})")
_TASK = re.compile(r"(?:task|attempt)_(\d{1,20}_\d{4,15})_([mr])_(\d{6,12})(?:_\d{1,12})?")


def job_id(begun_ms: int, job: JobId, kind: str = "job") -> str:
    """A job's id, or with ``kind`` "application" that of its application."""
    return f"{kind}_{begun_ms}_{int(job[1:]):04d}"


def job_named(begun_ms: int, name: str) -> JobId | None:
    """The job of such an id; None if it is no id of this cluster."""
    match = _JOB.fullmatch(name)
    if match is None or int(match[1]) != begun_ms or match[2] != f"{int(match[2]):04d}":
        return None
    return JobId(f"j{int(match[2])}")


def container_id(begun_ms: int, attempt: AttemptId) -> str:
    """The id of an attempt's container, which has stage, task and attempt in its number."""
    _, task, number = attempt.split(".")
    stage = stage_of(attempt).partition(".")[2]
    letters = 0
    for letter in stage:
        letters = 27 * letters + ord(letter) - ord("a") + 1
    index = int(task[len(stage) :])
    job = job_id(begun_ms, job_of(attempt), "container")
    return f"{job}_01_{letters}{index:07d}{int(number):03d}"


@dataclass(frozen=True)
class TaskIds:
    """The ids of a job's tasks."""

    job: str  #: its id
    stages: Sequence[StageStatus]

    @cached_property
    def _first(self) -> dict[str, tuple[str, int]]:
        """{stage: its kind, "m" or "r", and the number of its first task}"""
        counts = {"m": 0, "r": 0}
        first = {}
        for stage in self.stages:
            kind = "r" if stage.reads else "m"
            first[stage.name] = kind, counts[kind]
            counts[kind] += stage.tasks
        return first

    def kind(self, task: TaskId) -> str:
        """The letter of a task's kind: "m" for a map, "r" for a reduce."""
        return self._first[_stage(task)][0]

    def of_kind(self, kind: str) -> list[StageStatus]:
        """The stages of such tasks."""
        return [stage for stage in self.stages if self._first[stage.name][0] == kind]

    def task(self, task: TaskId) -> str:
        """A task's id."""
        stage = _stage(task)
        kind, first = self._first[stage]
        number = first + int(task.rpartition(".")[2][len(stage) :])
        return f"{self.job.replace('job_', 'task_', 1)}_{kind}_{number:06d}"

    def attempt(self, attempt: AttemptId) -> str:
        """An attempt's id."""
        task, _, number = attempt.rpartition(".")
        return f"{self.task(TaskId(task)).replace('task_', 'attempt_', 1)}_{number}"

    def position(self, name: str) -> int | None:
        """The number of a task among all of its job, by its id or by that of an attempt."""
        match = _TASK.fullmatch(name)
        if match is None or f"job_{match[1]}" != self.job:
            return None
        number, before = int(match[3]), 0
        for stage in self.stages:
            kind, first = self._first[stage.name]
            if kind == match[2] and first <= number < first + stage.tasks:
                return before + number - first
            before += stage.tasks
        return None


def _stage(task: TaskId) -> str:
    return task.rpartition(".")[2].rstrip("0123456789")
