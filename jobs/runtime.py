"""Runs one task of a job; all of a job's code runs through here.

    job = load_job(package)
    result = run_task(job, task, io)

Never here: processes and sockets; those are behind ``TaskIO``.
"""

from __future__ import annotations

from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.model import Job
from railyard.jobs.taskio import (
    BadInput,
    Buffer,
    Counters,
    FileReader,
    JobError,
    TaskIO,
    TaskResult,
)

__all__ = [
    "BadInput",
    "Buffer",
    "Counters",
    "FileReader",
    "JobError",
    "TaskIO",
    "TaskResult",
    "run_task",
]


def run_task(job: Job, task: TaskSpec, io: TaskIO) -> TaskResult:
    """Run ``task`` and return its result.

    Exceptions of the job's code are not caught, and may also be raised while a lazy output is read.
    Raises ``BadInput`` for a file that does not fit its format, and ``JobError`` for code that
    breaks a rule, such as a partition number out of range.
    """
    counters: Counters = {}
    job.counters = counters
    return job.stage(task.stage).operator.run(task, io, counters)
