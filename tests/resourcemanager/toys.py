"""Toy policies that propose, for tests of what the core makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from railyard.resourcemanager.interface.decisions import Copy, Proposal
from railyard.resourcemanager.interface.policies import CopyPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView, SlotView, TaskView
from railyard.resourcemanager.schedulers.fair import FairOrder


def copying(policy: type[CopyPolicy]) -> Recipe:
    """Fair shares, and these copies."""
    return Recipe(name="copying", source="a test", order=FairOrder, copies=policy)


def running_tasks(cluster: ClusterView) -> Iterator[TaskView]:
    """Tasks that could have a copy."""
    for job in cluster.jobs.values():
        for stage in job.stages.values():
            for task in stage.tasks:
                if task.state == "running":
                    yield task


def free_node(cluster: ClusterView, task: TaskView) -> SlotView | None:
    """A node with a free slot where the task does not run."""
    beside = {attempt.node.id for attempt in task.live}
    return next((node for node in cluster.free_nodes() if node.id not in beside), None)


class CopyEach(CopyPolicy):
    """One copy of each running task of a stage."""

    stage = "m"

    def propose(self) -> Iterable[Proposal]:
        for task in running_tasks(self.cluster):
            if task.stage.name == self.stage and len(task.live) == 1:
                node = free_node(self.cluster, task)
                if node is not None:
                    yield Copy(task, node.id)
