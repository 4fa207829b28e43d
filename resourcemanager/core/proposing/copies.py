"""Copies: one more attempt of a task, perhaps in a slot that another one gives up; which counts.

A slot is held until the end of its attempt is known, here as everywhere; until then it is promised.

Never here: what a launch or an end entails; see ``attempts.py``.
"""

from __future__ import annotations

from railyard.resourcemanager.core.attempts.attempts import Attempts
from railyard.resourcemanager.core.attempts.launches import Launches
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Attempt, Node, Task
from railyard.resourcemanager.interface.decisions import Copy, Take


class Copies:
    """Carries out what copies policies propose."""

    def __init__(self, state: ClusterState, launches: Launches, attempts: Attempts) -> None:
        self._state = state
        self._launches = launches
        self._attempts = attempts

    def copy(self, proposal: Copy) -> None:
        """Launch a copy, or have the slot given up in which it is to start."""
        state = self._state
        task, node = state.running_task(proposal.task.id), state.nodes.get(proposal.node)
        ending = None
        wrong = _why_not_copied(task, node)
        if isinstance(proposal.task, Attempt):
            wrong = f"that is an attempt: a copy is of a task, here {proposal.task.task.id}"
        if not wrong and proposal.instead_of is not None:
            ending = state.attempts.get(proposal.instead_of.id)
            wrong = _why_not_ended(ending, task, node) if ending else "it has ended"
            wrong = wrong and f"not instead of {proposal.instead_of.id}: {wrong}"
        if not wrong and node and not (ending and ending.node is node):
            wrong = node.why_not_free
        if wrong or task is None or node is None:
            what = f"proposed a copy of {proposal.task.id} on {proposal.node}"
            raise state.policies.invalid("copies", what, wrong, proposal.task.id, proposal.node)
        if node.free:
            self._launches.launch_copy(task, node)
        else:
            node.promised.append(task)
        if ending is not None:
            self._attempts.give_up(ending, f"gives its slot up for a copy of {task.id}")

    def take(self, proposal: Take) -> None:
        """Let a kept output count."""
        attempt = proposal.attempt
        task = self._state.running_task(attempt.task.id)
        kept = next((each for each in task.kept if each.id == attempt.id), None) if task else None
        if kept is None:
            known = attempt.state if isinstance(attempt, Attempt) else "unknown"
            why = f"nothing of {attempt.id} is kept: it is {known}"
            what = f"took the output of {attempt.id}"
            raise self._state.policies.invalid("copies", what, why, attempt.task.id)
        self._attempts.take(kept)

    def keep_promises(self) -> None:
        """Launch the copies for which slots were given up, in those that are free now."""
        for node in self._state.freed.values():
            while node.promised and node.free:
                task = node.promised.pop(0)
                if not _why_not_copied(task, node):  # else it needs no copy any more
                    self._launches.launch_copy(task, node)


def _why_not_copied(task: Task | None, node: Node | None) -> str:
    """Why the task can't have one more attempt on the node; "" if it can, given a slot."""
    if task is None:
        return "no job that runs has such a task"
    if node is None:
        return "there is no such node"
    if not node.alive:
        return node.why_not_free
    if task.state not in ("running", "kept") or task.stage.job.state != "running":
        return f"{task.id} is {task.state}, not running"
    if not task.stage.may_copy:
        return f"{task.stage.id} was submitted without copies: StageView.may_copy is false"
    if task in node.promised:
        return "it gets a copy there already"
    # Nor does Hadoop since MAPREDUCE-7169: what is wrong with one attempt may be the node.
    beside = [attempt.id for attempt in task.live if attempt.node is node]
    return f"{beside[0]} runs there" if beside else ""


def _why_not_ended(ending: Attempt, task: Task | None, node: Node | None) -> str:
    """Why the attempt can't end for a copy of the task on the node; "" if it can."""
    if ending.killing:
        return "it was asked to end already"
    if ending.task is not task and ending.node is not node:
        return "it is on another node, and of another task"
    return ""
