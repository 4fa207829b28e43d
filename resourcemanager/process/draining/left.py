"""What a node that is drained has yet, as people read it.  Pure."""

from __future__ import annotations

from railyard.cluster.ids import JobId
from railyard.cluster.units import format_count
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Job, Node

_JOBS_NAMED = 3


def what_is_left(state: ClusterState, node: Node, replicas: int | None) -> str:
    """Such as "2 attempts, map output of j3, 14 blocks"; "" if the node is empty.

    ``replicas``: how many the NameNode says that it has; None = it has not answered.
    """
    left = []
    attempts = len(node.attempts) + len(node.reserved)
    if attempts:
        left.append(format_count(attempts, "attempt"))
    jobs = jobs_with_output(state, node)
    if jobs:
        more = f" and {len(jobs) - _JOBS_NAMED} more" if len(jobs) > _JOBS_NAMED else ""
        left.append(f"map output of {' '.join(jobs[:_JOBS_NAMED])}{more}")
    if replicas is None:
        left.append("blocks, as the NameNode has not answered")
    elif replicas:
        left.append(format_count(replicas, "block"))
    return ", ".join(left)


def jobs_with_output(state: ClusterState, node: Node) -> list[JobId]:
    """The jobs that run and have output on a node for which they may ask, as they were submitted.

    Until a job has ended a task that has read it may have to run again.
    """
    return [job.id for job in state.jobs.values() if job.state == "running" and _has(job, node)]


def _has(job: Job, node: Node) -> bool:
    """Whether a job has output on a node's disk, fetched or not."""
    for stage in job.stages.values():
        if any(not output.output_lost for output in stage.outputs.get(node.id, ())):
            return True
        if stage.readers and any(a.node is node for task in stage.tasks for a in task.kept):
            return True
    return False
