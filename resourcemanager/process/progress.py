"""The core's state as people see it: progress, status, how a job ended.  Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.units import format_count
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.jobs import Job, Node, Stage
from railyard.resourcemanager.core.offers import why_job_waits
from railyard.resourcemanager.core.records import JobRecord
from railyard.resourcemanager.process import messages


def job_progress(core: Core, job: JobId, now_s: float) -> messages.JobProgress | None:
    """How far a job is; None once it has ended."""
    known = core.state.jobs.get(job)
    if known is None:
        return None
    return messages.JobProgress(
        job=job,
        elapsed_s=now_s - known.submitted_s,
        stages=tuple(
            messages.StageProgress(
                name=stage.name,
                reads=stage.plan.reads,
                tasks=stage.needed,
                running=stage.running,
                done=stage.done,
                progress=_share(stage.progress),
            )
            for stage in known.stages.values()
        ),
        shuffled_bytes=core.records[job].shuffled_bytes,
        shuffle_bytes=known.record.shuffle_bytes,
        failed_attempts=known.record.failed,
        waiting=why_job_waits(core.state, known),
    )


def job_ended(record: JobRecord) -> messages.JobEnded:
    """How a job that has ended did so."""
    return messages.JobEnded(
        job=record.id,
        ok=bool(record.ok),
        jct_s=record.jct_s or 0.0,
        reason=record.reason,
        failures=tuple(record.failures),
    )


def mean_progress(stages: Collection[Stage]) -> float:
    """The done share of all tasks of some stages."""
    tasks = sum(stage.size for stage in stages)
    done = sum(stage.progress * stage.size for stage in stages)
    return _share(done / tasks) if tasks else 1.0


def cluster_status(
    core: Core, flow_scheduler: str, now_s: float, events: int, replicas: Mapping[NodeId, int]
) -> messages.ClusterStatus:
    """The cluster's nodes and jobs now, after so many events.

    ``replicas``: {drained node: how many it has yet}.
    """
    cluster = core.state
    return messages.ClusterStatus(
        scheduler=cluster.policies.name,
        flow_scheduler=flow_scheduler,
        topology=cluster.topology.name,
        now_s=now_s,
        events=events,
        nodes=tuple(
            _node_status(cluster, node, replicas.get(node.id)) for node in cluster.nodes.values()
        ),
        jobs=tuple(
            job_status(core, record, cluster.jobs.get(record.id))
            for record in core.records.values()
        ),
    )


def _node_status(cluster: ClusterState, node: Node, replicas: int | None) -> messages.NodeStatus:
    left = what_is_left(cluster, node, replicas) if node.draining else ""
    return messages.NodeStatus(
        node=node.id,
        rack=node.rack,
        slots=node.slots,
        attempts=tuple(node.attempts),
        reserved=tuple(node.reserved),
        alive=node.alive,
        lost_because=node.lost_because,
        drain="" if not node.draining else "draining" if left else "drained",
        left=left,
    )


def job_status(core: Core, record: JobRecord, job: Job | None) -> messages.JobStatus:
    """A job's row of the status; ``job`` is None once it has ended."""
    maps_done, reduces_done = record.maps_done, record.reduces_done
    if job is None:
        state, waiting = "succeeded" if record.ok else "failed", ""
        progress = 1.0 if record.ok else record.succeeded / (record.maps + record.reduces)
    else:
        maps_done = sum(stage.done for stage in job.maps)
        reduces_done = sum(stage.done for stage in job.reduces)
        state, waiting = job.state, why_job_waits(core.state, job)
        progress = mean_progress(job.stages.values())
    return messages.JobStatus(
        job=record.id,
        name=record.name,
        user=record.user,
        queue=record.queue,
        tags=record.tags,
        state=state,
        progress=_share(progress),
        submitted_s=record.submitted_s,
        finished_s=record.finished_s,
        waiting=waiting,
        reason=record.reason,
        stopped=record.stopped,
        slot_s=record.slot_s,
        locality=(record.locality.local, record.locality.rack, record.locality.remote),
        shuffled_bytes=record.shuffled_bytes,
        cross_rack_bytes=record.fetched.remote,
        maps=record.maps,
        reduces=record.reduces,
        maps_done=maps_done,
        reduces_done=reduces_done,
    )


def _share(progress: float) -> float:
    """A sum of shares within 0 to 1, without the rounding errors of adding them up."""
    return min(max(0.0, progress), 1.0)


_JOBS_NAMED = 3


def what_is_left(state: ClusterState, node: Node, replicas: int | None) -> str:
    """Such as "2 attempts, map output of j3, 14 blocks"; "" if the node is empty.

    ``replicas``: how many the NameNode says that it has; None = it has not answered.
    """
    left = []
    attempts = len(node.attempts) + len(node.reserved)
    if attempts:
        left.append(format_count(attempts, "attempt"))
    # Until a job has ended, a task that has read its output may have to run again.
    jobs = [job.id for job in state.jobs.values() if job.state == "running" and _has(job, node)]
    if jobs:
        more = f" and {len(jobs) - _JOBS_NAMED} more" if len(jobs) > _JOBS_NAMED else ""
        left.append(f"map output of {' '.join(jobs[:_JOBS_NAMED])}{more}")
    if replicas is None:
        left.append("blocks, as the NameNode has not answered")
    elif replicas:
        left.append(format_count(replicas, "block"))
    return ", ".join(left)


def _has(job: Job, node: Node) -> bool:
    """Whether a job has output on a node's disk, fetched or not."""
    for stage in job.stages.values():
        if any(not output.output_lost for output in stage.outputs.get(node.id, ())):
            return True
        if stage.readers and any(a.node is node for task in stage.tasks for a in task.kept):
            return True
    return False
