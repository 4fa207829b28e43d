"""Reservations: what a task reads is sent to a node as it becomes ready, before it has a slot.

The task stays pending, and is offered slots as any other; its attempt is given the first slot of
its node that the tasks policy answers with ``Place``.

Never here: what a launch, a beginning or an end entails; see ``attempts.py``.
"""

from __future__ import annotations

from railyard.resourcemanager.core.attempts.launches import Launches
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Node, Task
from railyard.resourcemanager.interface.decisions import Reserve, Withdraw


class Reservations:
    """Carries out what tasks policies propose."""

    def __init__(self, state: ClusterState, launches: Launches) -> None:
        self._state = state
        self._launches = launches

    def reserve(self, proposal: Reserve) -> None:
        """Have an attempt of a task read on a node, without a slot."""
        state = self._state
        task, node = state.running_task(proposal.task.id), state.nodes.get(proposal.node)
        wrong = _why_not_reserved(task, node)
        if wrong or task is None or node is None:
            what = f"proposed to reserve {proposal.node} for {proposal.task.id}"
            raise state.policies.invalid("tasks", what, wrong, proposal.task.id, proposal.node)
        self._launches.reserve(task, node)

    def withdraw(self, proposal: Withdraw) -> None:
        """Forget a reservation."""
        name = proposal.attempt.id
        attempt = self._state.reserved.get(name)
        if attempt is None:
            what, why = f"proposed to withdraw {name}", "that is no reservation"
            raise self._state.policies.invalid("tasks", what, why, proposal.attempt.task.id)
        self._launches.withdraw(attempt, proposal.why or "its reservation was withdrawn")


def _why_not_reserved(task: Task | None, node: Node | None) -> str:
    """Why the task can't have a reservation on the node; "" if it can."""
    if task is None:
        return "no job that runs has such a task"
    if node is None:
        return "there is no such node"
    if not node.alive or node.draining:
        return node.why_not_free
    if task.state != "pending":
        return f"{task.id} is {task.state}, not pending"
    if task.reserved is not None:
        return f"it has a reservation on {task.reserved.node.id}: withdraw that first"
    job = task.stage.job
    if node.id in job.avoid:
        return f"{job.id} avoids it, and is not offered its slots"
    return ""
