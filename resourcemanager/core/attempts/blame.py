"""Failures: which task and which node they are blamed on, and which nodes a job avoids for it.

Never here: what a failed attempt leaves to be done; see ``attempts.py``.
"""

from __future__ import annotations

from railyard.cluster.ids import JobId, NodeId
from railyard.resourcemanager.core.attempts.launches import Launches
from railyard.resourcemanager.core.joblife import JobLife
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Attempt, Job, Node
from railyard.resourcemanager.core.state.records import FAILURES_KEPT, TaskFailure
from railyard.resourcemanager.interface.commands import SetTimer

#: A job is not offered the slots of a node on which so many of its attempts failed;
#: mapreduce.job.maxtaskfailures.per.tracker.
BLAME_MAX = 3
#: Nor, for so many seconds, those of a node where one of them found no room on the disk.
NO_ROOM_S = 10.0
#: Stands between job and node in the name of the timer that ends this.
ROOM = ".room."


class Blame:
    """Counts failures, and keeps jobs off nodes."""

    def __init__(self, state: ClusterState, jobs: JobLife, launches: Launches) -> None:
        self._state = state
        self._jobs = jobs
        self._launches = launches

    def count_failure(
        self, attempt: Attempt, reason: str, stderr: str, *, no_room: bool = False
    ) -> None:
        """Blame task and node; too many failures of a task end its job."""
        task, job, node = attempt.task, attempt.task.stage.job, attempt.node
        task.failures += 1
        failure = TaskFailure(
            task=task.id, attempt=attempt.id, node=node.id, reason=reason, stderr=stderr
        )
        job.record.failures = [*job.record.failures, failure][-FAILURES_KEPT:]
        if no_room:
            self._avoid_for_a_time(job, node)
        else:
            job.blame[node.id] = job.blame.get(node.id, 0) + 1
        if job.blame.get(node.id, 0) >= BLAME_MAX and len(job.avoid) < self._state.avoidable():
            self._avoid(job, node)
        if task.failures >= task.stage.max_attempts:
            tries = f"{task.failures} of {task.stage.max_attempts} attempts"
            self._jobs.fail(job, f"task {task.id} failed {tries}, the last on {node.id}: {reason}")

    def room_again(self, timer: str) -> None:
        """Offer a job the slots of a node again that it was kept off by ``_avoid_for_a_time``."""
        job_id, _, node = timer.partition(ROOM)
        job = self._state.jobs.get(JobId(job_id))
        if job is None or job.blame.get(NodeId(node), 0) >= BLAME_MAX:
            return
        if NodeId(node) in job.avoid:
            del job.avoid[NodeId(node)]
            self._state.ask(job)

    def node_lost(self, job: Job, lost: Node) -> None:
        """Forgive nodes if the job would avoid too many of those that are left."""
        job.avoid.pop(lost.id, None)
        while len(job.avoid) > self._state.avoidable():
            job.avoid.popitem()
            self._state.ask(job)

    # ---------------------------------------------------------------------------------------------
    def _avoid(self, job: Job, node: Node) -> None:
        """Offer the job no slots of the node, and have none reserved for it there."""
        job.avoid[node.id] = None
        for attempt in list(node.reserved.values()):
            if attempt.task.stage.job is job:
                self._launches.withdraw(attempt, f"{job.id} avoids {node.id}")

    def _avoid_for_a_time(self, job: Job, node: Node) -> None:
        """Keep a job off a node with a full disk, if enough other nodes are left."""
        if node.id not in job.avoid and len(job.avoid) < self._state.avoidable():
            self._avoid(job, node)
            until_s = self._state.now_s + NO_ROOM_S
            self._state.emit(SetTimer(timer=f"{job.id}{ROOM}{node.id}", at_s=until_s))
