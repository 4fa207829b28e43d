"""While no node is alive, jobs wait; they fail when that lasts too long.

Nodes that are lost mostly come back (their NodeManagers are started again); where none does, a
job would wait for ever.

Never here: what a lost node means for tasks; see ``attempts.py``.
"""

from __future__ import annotations

from railyard.resourcemanager.core.joblife import JobLife
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Job
from railyard.resourcemanager.interface.commands import SetTimer

OUTAGE = "outage"  #: the timer; no job is called so


class Outage:
    """Fails the jobs that have waited for a node too long."""

    def __init__(self, state: ClusterState, jobs: JobLife) -> None:
        self._state = state
        self._jobs = jobs
        self._patience_s = state.topology.liveness.without_nodes
        self._timer_s: float | None = None  #: when the timer fires, if it is set

    def timer_fired(self) -> None:
        """Jobs may have waited for too long; ``review`` is to follow."""
        self._timer_s = None

    def review(self) -> None:
        """Fail the jobs that have waited too long for a node, and set a timer for the others.

        To be called after each event as long as there is no node.  O(jobs).
        """
        state = self._state
        waiting = [job for job in state.jobs.values() if job.state == "running"]
        for job in waiting:
            if self._due_s(job) <= state.now_s:
                self._jobs.fail(job, self._reason())
        due_s = min((self._due_s(job) for job in waiting if job.state == "running"), default=None)
        if due_s is not None and due_s != self._timer_s:
            self._timer_s = due_s
            state.emit(SetTimer(timer=OUTAGE, at_s=due_s))

    def _due_s(self, job: Job) -> float:
        """When a job has waited for too long."""
        return max(job.submitted_s, self._state.empty_since_s or 0.0) + self._patience_s

    def _reason(self) -> str:
        waited_s = f"{self._patience_s:g} s"
        reason = f"no node has been alive for {waited_s} (liveness.without_nodes of the topology)"
        lost = self._state.lost_last
        return reason if lost is None else f"{reason}; the last was {lost.id}: {lost.lost_because}"
