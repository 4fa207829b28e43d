"""Why tasks wait, as people are shown it: every answer that leaves a slot free has a reason."""

from __future__ import annotations

from typing import Literal, NamedTuple

from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Job, Task, stuck
from railyard.resourcemanager.interface.decisions import Wait


class Cause(NamedTuple):
    """What a pending task waits for."""

    #: "order", "tasks" or "shuffle": that policy's answer; "nodes": one that is alive; "sources": a
    #: task of a stage that it reads; "slots": one that is free
    what: Literal["order", "tasks", "shuffle", "nodes", "sources", "slots"]
    why: str  #: in a few words


def cause_of(state: ClusterState, task: Task) -> Cause:
    """What a pending task waits for."""
    stage, job, policies = task.stage, task.stage.job, state.policies
    if state.empty_since_s is not None:
        return Cause("nodes", "no node is alive")
    if stage.reads and stage.held >= policies.ask_number(policies.shuffle.limit, stage):
        return Cause("shuffle", policies.ask(policies.shuffle.why, stage))
    for source in filter(stuck, stage.reads):
        return Cause("sources", f"no task of {source.name}, which it reads, has a slot")
    if not state.free:
        return Cause("slots", "no slot is free" if state.slots else "no node has a slot")
    if job.answer is not None:
        return Cause("tasks", job.answer.reason)
    return Cause("order", policies.ask(policies.order.why, job))


def why_waiting(state: ClusterState, task: Task) -> str:
    """Why a pending task has no slot, in a few words."""
    if task.state != "pending":
        return f"it does not wait: it is {task.state}"
    return cause_of(state, task).why


def explain(state: ClusterState, task: Task, now_s: float) -> str:
    """Say "j3.m7 pending 12.4 s: order: 2 jobs ahead; tasks: only a rack-local slot is free"."""
    job = task.stage.job
    if task.state != "pending":
        return f"{task.id} is {task.state}"
    since_s = now_s - task.pending_since_s
    order, tasks = state.policies.ask(state.policies.order.why, job), why_waiting(state, task)
    until = ""
    if isinstance(job.answer, Wait) and job.wake_s is not None and tasks == job.answer.reason:
        until = f", until {job.wake_s:.1f} s"
    reserved = ""
    if task.reserved is not None:
        has = "with all" if task.reserved.ready else "without all"
        reserved = f"; reserved on {task.reserved.node.id}, {has} that it reads"
    return f"{task.id} pending {since_s:.1f} s: order: {order}; tasks: {tasks}{until}{reserved}"


def why_job_waits(state: ClusterState, job: Job) -> str:
    """Why nothing of a job is being started; "" if there is nothing to start."""
    for stage in job.stages.values():
        first = stage.pending.first() if stage.pending.count else None
        if first is not None:
            return why_waiting(state, stage.tasks[first])
    return ""
