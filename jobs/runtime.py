"""Doing one task of a job: the only way in which a job's code is run.

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
    """Do ``task`` and return what it made.

    Whatever the job's code raises comes through with its traceback, also while a lazy output is
    read.  Raises ``BadInput`` for a file that is not what its format says and ``JobError`` for
    code that breaks a rule, such as a partition number out of range.
    """
    counters: Counters = {}
    job.counters = counters
    return job.stage(task.stage).operator.run(task, io, counters)
