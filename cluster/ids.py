"""Ids of racks, nodes, jobs, stages, tasks and attempts: r0, r0n1, j3, j3.m, j3.m7, j3.m7.0.

A rack is ``r0``; a node ``r0n1``; a job ``j3``; its stage ``j3.m`` (the stage's name consists of
letters: ``m`` and ``r`` in plain MapReduce); a task ``j3.m7``; an attempt of it ``j3.m7.0``.
Ids are strings with types of their own, so that the type checker finds mix-ups.
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
else:  # a simulation makes millions of ids: str(...) takes a tenth of the time of NewType's call
    RackId = NodeId = JobId = StageId = TaskId = AttemptId = FlowId = CoflowId = str

#: The end of a flow that is no node: all clients outside of the racks together.
OUTSIDE = NodeId("outside")
STAGE_NAME = re.compile(r"[a-z]+")
_NODE = re.compile(r"(r\d+)n\d+")
_JOB = re.compile(r"j\d+")
_ATTEMPT = re.compile(r"j\d+\.([a-z]+)(\d+)\.\d+")


def is_job(name: str) -> bool:
    """Whether ``name`` is a job id, and so cannot be a path."""
    return _JOB.fullmatch(name) is not None


def is_attempt(name: str) -> bool:
    """Whether ``name`` is an attempt id."""
    return _ATTEMPT.fullmatch(name) is not None


def rack_id(index: int) -> RackId:
    """The id of rack number ``index``."""
    return RackId(f"r{index}")


def node_id(rack: RackId, index: int) -> NodeId:
    """The id of node number ``index`` of a rack."""
    return NodeId(f"{rack}n{index}")


@functools.lru_cache(maxsize=2**16)
def rack_of(node: NodeId) -> RackId:
    """The rack of a node; raises ``ValueError`` if ``node`` is not a node id."""
    match = _NODE.fullmatch(node)
    if match is None:
        raise ValueError(f'"{node}" is no node: need rack and node such as r0n1')
    return RackId(match[1])


def stage_id(job: JobId, name: str) -> StageId:
    """The id of a job's stage called ``name``."""
    return StageId(f"{job}.{name}")


def task_id(stage: StageId, index: int) -> TaskId:
    """The id of task number ``index`` of a stage."""
    return TaskId(f"{stage}{index}")


def attempt_id(task: TaskId, number: int) -> AttemptId:
    """The id of attempt number ``number`` of a task."""
    return AttemptId(f"{task}.{number}")


def job_of(identifier: str) -> JobId:
    """The job of a stage, task or attempt."""
    return JobId(identifier.split(".", 1)[0])


def task_of(attempt: AttemptId) -> TaskId:
    """The task of an attempt."""
    return TaskId(attempt.rsplit(".", 1)[0])


@functools.lru_cache(maxsize=2**12)
def stage_of(attempt: AttemptId) -> StageId:
    """The stage of an attempt; raises ``ValueError`` if ``attempt`` is not an attempt id."""
    return stage_id(job_of(attempt), task_place(attempt)[0])


def task_index(attempt: AttemptId) -> int:
    """The index of the attempt's task within its stage."""
    return task_place(attempt)[1]


@functools.lru_cache(maxsize=2**12)
def task_place(attempt: AttemptId) -> tuple[str, int]:
    """(name of the stage, index within it) of the attempt's task."""
    match = _ATTEMPT.fullmatch(attempt)
    if match is None:
        raise ValueError(f'"{attempt}" is no attempt: need a name such as j3.m7.0')
    return match[1], int(match[2])
