"""How things are called: r0, r0n1, j3, j3.m7, j3.m7.0.

A rack is ``r0``; a node is ``r0n1``; a job ``j3``; a stage of it ``j3.m`` (its name is made of
letters: ``m`` and ``r`` in plain MapReduce); a task ``j3.m7``; an attempt of it ``j3.m7.0``.
They are plain strings with a type of their own, so that a mistake is seen by the type checker.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    RackId = NewType("RackId", str)
    NodeId = NewType("NodeId", str)
    JobId = NewType("JobId", str)
    StageId = NewType("StageId", str)
    TaskId = NewType("TaskId", str)
    AttemptId = NewType("AttemptId", str)
    FlowId = NewType("FlowId", str)
    CoflowId = NewType("CoflowId", str)
else:  # a million names are made in a simulation: str(...) is a tenth of NewType's call
    RackId = NodeId = JobId = StageId = TaskId = AttemptId = FlowId = CoflowId = str

STAGE_NAME = re.compile(r"[a-z]+")
_NODE = re.compile(r"(r\d+)n\d+")
_JOB = re.compile(r"j\d+")
_ATTEMPT = re.compile(r"(((j\d+)\.([a-z]+))(\d+))\.(\d+)")


def is_job(name: str) -> bool:
    """Whether that is a job's name, and so no path to somewhere else."""
    return _JOB.fullmatch(name) is not None


def is_attempt(name: str) -> bool:
    """Whether that is an attempt's name."""
    return _ATTEMPT.fullmatch(name) is not None


def rack_id(index: int) -> RackId:
    """Rack number ``index``."""
    return RackId(f"r{index}")


def node_id(rack: RackId, index: int) -> NodeId:
    """Node number ``index`` of a rack."""
    return NodeId(f"{rack}n{index}")


@functools.lru_cache(maxsize=2**16)
def rack_of(node: NodeId) -> RackId:
    """The rack of a node; ``ValueError`` if that is no node's name."""
    match = _NODE.fullmatch(node)
    if match is None:
        raise ValueError(f'"{node}" is no node: need rack and node such as r0n1')
    return RackId(match[1])


def stage_id(job: JobId, name: str) -> StageId:
    """The stage called ``name`` of a job."""
    return StageId(f"{job}.{name}")


def task_id(stage: StageId, index: int) -> TaskId:
    """Task number ``index`` of a stage."""
    return TaskId(f"{stage}{index}")


def attempt_id(task: TaskId, number: int) -> AttemptId:
    """Attempt number ``number`` of a task."""
    return AttemptId(f"{task}.{number}")


def job_of(identifier: str) -> JobId:
    """The job of a stage, task or attempt."""
    return JobId(identifier.split(".", 1)[0])


def task_of(attempt: AttemptId) -> TaskId:
    """The task of an attempt."""
    return TaskId(attempt.rsplit(".", 1)[0])


def stage_of(attempt: AttemptId) -> StageId:
    """The stage of an attempt; ``ValueError`` if that is no attempt's name."""
    match = _ATTEMPT.fullmatch(attempt)
    if match is None:
        raise ValueError(f'"{attempt}" is no attempt: need a name such as j3.m7.0')
    return StageId(match[2])


def task_index(attempt: AttemptId) -> int:
    """The number of the attempt's task within its stage."""
    return task_place(attempt)[1]


def task_place(attempt: AttemptId) -> tuple[str, int]:
    """The name of the stage of the attempt's task, and its number within that."""
    match = _ATTEMPT.fullmatch(attempt)
    if match is None:
        raise ValueError(f'"{attempt}" is no attempt: need a name such as j3.m7.0')
    return match[4], int(match[5])
