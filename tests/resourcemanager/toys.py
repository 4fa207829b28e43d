"""Toy policies that propose, for tests of what the core makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from railyard.cluster.ids import NodeId
from railyard.netemu.model.network import LinkState
from railyard.resourcemanager.interface.decisions import (
    Copy,
    Decision,
    Pass,
    Place,
    Proposal,
    Reserve,
)
from railyard.resourcemanager.interface.defaults import ClosestTasks
from railyard.resourcemanager.interface.policies import CopyPolicy, DataPolicy, TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    FetchView,
    JobView,
    SlotView,
    TaskView,
)
from railyard.resourcemanager.schedulers import recipe_named
from railyard.resourcemanager.schedulers.fair import FairOrder


def copying(policy: type[CopyPolicy]) -> Recipe:
    """Fair shares, and these copies."""
    return Recipe(name="copying", source="a test", order=FairOrder, copies=policy)


def moving(policy: type[DataPolicy]) -> Recipe:
    """Delay scheduling, and this placement of data."""
    return replace(recipe_named("delay"), name="moving", data=policy)


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


class ReservesReduces(ClosestTasks):
    """Reserves a node for each pending reduce, in turn, and runs it only there."""

    nodes: Sequence[str] = ("r0n1",)

    def __init__(self, config: msgspec.Struct, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self.heard: list[tuple[float, str, str]] = []  #: (time, hook, what it was about)

    def propose(self) -> Iterable[Proposal]:
        for job in self.cluster.jobs.values():
            for task in [
                task for stage in job.stages.values() if stage.reads for task in stage.tasks
            ]:
                node = self.cluster.nodes[NodeId(self.nodes[task.index % len(self.nodes)])]
                if task.state == "pending" and task.reserved is None and self.likes(job, node):
                    yield Reserve(task, node.id)

    def likes(self, job: JobView, node: SlotView) -> bool:
        return node.alive and not node.draining and node.id not in job.avoid

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        for attempt in slot.reserved.values():
            if attempt.task.stage.job is job and attempt.task.stage.open and attempt.ready:
                return Place(attempt.task)
        task, level = job.closest_pending_map(slot)
        return Pass("nothing is ready for this slot") if task is None else Place(task, level)

    def attempt_launched(self, attempt: AttemptView) -> None:
        self._hear("launched", attempt.id)

    def attempt_ended(self, attempt: AttemptView) -> None:
        self._hear("ended", attempt.id)

    def attempt_ready(self, attempt: AttemptView) -> None:
        assert attempt.ready
        assert not attempt.holds_slot
        self._hear("ready", attempt.id)

    def reservation_ended(self, attempt: AttemptView) -> None:
        assert attempt.task.reserved is None
        self._hear("reservation ended", attempt.id)

    def fetch_started(self, fetch: FetchView) -> None:
        self._hear("fetch started", f"{fetch.reader.id} from {fetch.node.id}: {fetch.size_bytes}")

    def fetch_ended(self, fetch: FetchView) -> None:
        self._hear("fetch ended", f"{fetch.reader.id} from {fetch.node.id}: {fetch.size_bytes}")

    def _hear(self, hook: str, what: str) -> None:
        self.heard.append((self.cluster.now_s, hook, what))


def reserving(policy: type[TaskPolicy]) -> Recipe:
    """Fair shares, and these tasks."""
    return Recipe(name="reserving", source="a test", order=FairOrder, tasks=policy)


class FreestRack(TaskPolicy):
    """Reduces go where most of the rack's way in is free; maps anywhere.  Uses the network."""

    uses_network = True

    def __init__(self, config: msgspec.Struct, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self.seen: list[tuple[float, dict[str, LinkState]]] = []  #: (time, links that had changed)

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        assert all(self.cluster.links[name] == link for name, link in changed.items())
        self.seen.append((self.cluster.now_s, dict(changed)))

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        task = job.next_rerun() or job.next_pending_reduce()
        if task is not None:
            return Place(task, node=self._freest(slot).id)
        task, level = job.closest_pending_map(slot)
        return Pass("no task is ready for a slot") if task is None else Place(task, level)

    def _freest(self, slot: SlotView) -> SlotView:
        """Of nodes with free slots, the one with the most bandwidth into its rack."""
        return max([slot, *self.cluster.free_nodes()], key=self._free_bytes_per_s)

    def _free_bytes_per_s(self, slot: SlotView) -> float:
        links = self.cluster.links
        link = links.get(f"{slot.rack}.down") or links[f"{slot.rack}.tor"]
        return link.free_bytes_per_s


FREEST = Recipe(name="freest", source="a test", order=FairOrder, tasks=FreestRack)
