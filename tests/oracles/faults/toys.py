"""Toy policies that propose by dice whatever can be proposed, to find out what breaks.

In random scenarios (``scenarios``), and on real clusters in tests.  A new kind of proposal gets its
toy here, as does a new kind of event that policies may heed.  The dice are the core's own, so that
a run can be repeated and replayed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from random import Random

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.netemu.model.network import LinkState
from railyard.resourcemanager.interface.decisions import (
    Copy,
    Decision,
    MoveInput,
    Place,
    Proposal,
    Reserve,
    Take,
    Wait,
    Withdraw,
)
from railyard.resourcemanager.interface.defaults import ClosestTasks, StoreDecides
from railyard.resourcemanager.interface.policies import CopyPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    FetchView,
    JobView,
    SlotView,
    TaskView,
)
from railyard.resourcemanager.schedulers.fair import FairOrder

#: Attempts of one task at one time, and attempts that end for a copy in one run: jobs must end.
_LIVE_MAX, _ENDED_MAX = 3, 20


class DiceCopies(CopyPolicy):
    """Copies tasks, keeps outputs and takes them, with luck."""

    def __init__(self, config: msgspec.Struct, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._ended = 0  #: attempts asked to end for a copy
        self._promised: set[tuple[str, str]] = set()  #: (task, node) of copies in others' slots

    def first_counts(self, task: TaskView) -> bool:
        return self.cluster.random.random() < (0.7 if task.kept else 0.4)

    def propose(self) -> Iterable[Proposal]:
        dice = self.cluster.random
        if dice.random() < 0.7:
            return
        tasks = list(_tasks(self.cluster))
        kept = [attempt for task in tasks for attempt in task.kept]
        if kept and dice.random() < 0.3:
            yield Take(dice.choice(kept), "by dice")
            return
        nodes = [node for node in self.cluster.nodes.values() if node.free]
        if tasks and nodes:
            yield from self._copies(dice, dice.choice(tasks), dice.choice(nodes))
        if tasks and self._ended < _ENDED_MAX and dice.random() < 0.2:
            yield from self._in_place_of(dice, dice.choice(tasks), tasks)

    def _copies(self, dice: Random, task: TaskView, node: SlotView) -> Iterator[Proposal]:
        """A copy in a free slot, or a move to it."""
        if not _fits(task, node):
            return
        moved = [attempt for attempt in task.live if not attempt.killing]
        if moved and self._ended < _ENDED_MAX and dice.random() < 0.2:
            self._ended += 1
            yield Copy(task, node.id, dice.choice(moved), "moved by dice")
        elif len(task.live) < _LIVE_MAX:
            yield Copy(task, node.id, why="by dice")

    def _in_place_of(
        self, dice: Random, task: TaskView, among: list[TaskView]
    ) -> Iterator[Proposal]:
        """A copy in the slot of another task's attempt."""
        others = [a for other in among if other is not task for a in other.live if not a.killing]
        if not others or len(task.live) >= _LIVE_MAX:
            return
        ending: AttemptView = dice.choice(others)
        asked = (task.id, ending.node.id)
        if asked in self._promised:  # its slot may not have come yet
            return
        if _fits(task, ending.node) and not self._is_awaited(ending.node):
            self._ended += 1
            self._promised.add(asked)
            yield Copy(task, ending.node.id, ending, "in its slot, by dice")

    def _is_awaited(self, node: SlotView) -> bool:
        """Whether an attempt on a node was asked to end, perhaps for a copy of the same task."""
        return any(a.node is node and a.killing for t in _tasks(self.cluster) for a in t.live)


class DiceTasks(ClosestTasks):
    """Reserves places, and lets slots pass for a while where little gets into the rack: with luck.

    Counts the fetches that it hears of: each begins and ends once.
    """

    uses_network = True

    def __init__(self, config: msgspec.Struct, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._changed = False  #: whether links have, or slots are fewer, since it was asked last
        self._fetches: dict[int, FetchView] = {}  #: {identity: fetch under way}

    def propose(self) -> Iterable[Proposal]:
        dice = self.cluster.random
        if dice.random() < 0.6:
            return
        jobs = list(self.cluster.jobs.values())
        stages = [stage for job in jobs for stage in job.stages.values()]
        pending = [stage.tasks[index] for stage in stages for index in stage.pending]
        reserved = [task.reserved for task in pending if task.reserved is not None]
        if reserved and dice.random() < 0.1:
            yield Withdraw(dice.choice(reserved), "by dice")
        free = [task for task in pending if task.reserved is None]
        nodes = [node for node in self.cluster.nodes.values() if node.alive and not node.draining]
        if free and nodes:
            task, node = dice.choice(free), dice.choice(nodes)
            if node.id not in task.stage.job.avoid:
                yield Reserve(task, node.id, "by dice")

    def attempt_ready(self, attempt: AttemptView) -> None:
        if attempt.task.reserved is not attempt or attempt.holds_slot:
            raise InvariantError(f"{attempt.id} is ready, and is no reservation")

    def reservation_ended(self, attempt: AttemptView) -> None:
        if attempt.task.reserved is not None or attempt.ended_s != self.cluster.now_s:
            raise InvariantError(f"{attempt.id} has ended, and is a reservation")

    def fetch_started(self, fetch: FetchView) -> None:
        if fetch.reader.ended_s is not None or id(fetch) in self._fetches:
            raise InvariantError(f"a fetch was started for {fetch.reader.id}, which has ended")
        self._fetches[id(fetch)] = fetch

    def fetch_ended(self, fetch: FetchView) -> None:
        if self._fetches.pop(id(fetch), None) is None:
            raise InvariantError(f"a fetch of {fetch.reader.id} has ended that was not started")

    def job_ended(self, job: JobView) -> None:
        if any(fetch.reader.task.stage.job is job for fetch in self._fetches.values()):
            raise InvariantError(f"{job.id} has ended, and is fetching")

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        self._changed |= bool(changed)

    def slots_changed(self, node: SlotView, before: int) -> None:
        self._changed |= node.slots < before

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        links = self.cluster.links
        link = links.get(f"{slot.rack}.down") or links[f"{slot.rack}.tor"]
        busy = link.free_bytes_per_s < link.capacity_bytes_per_s / 2
        if busy and self.cluster.random.random() < 0.3:
            return Wait(f"little gets into {slot.rack}", until_s=now_s + 1.0)
        here = [attempt.task for attempt in slot.reserved.values()]
        ready = [task for task in here if task.stage.job is job and task.stage.open]
        if ready and self.cluster.random.random() < 0.7:
            return Place(self.cluster.random.choice(ready), "its reservation, by dice")
        return super().offer(job, slot, now_s)

    def reconsider(self) -> Iterable[JobView]:
        changed, self._changed = self._changed, False
        if changed and self.cluster.random.random() < 0.5:
            return list(self.cluster.jobs.values())
        return ()


class DiceMoves(StoreDecides):
    """Moves blocks, with luck, wherever the block store has placed them."""

    def propose(self) -> Iterable[Proposal]:
        cluster, dice = self.cluster, self.cluster.random
        if not cluster.data or dice.random() < 0.9:
            return
        path = dice.choice(list(cluster.data))
        number = dice.randrange(len(cluster.data[path]))
        block, node = cluster.data[path][number], dice.choice(list(cluster.nodes.values()))
        if node.alive and block.moving_to is None and node.id not in block.nodes:
            yield MoveInput(path, number, node.id, dice.choice((None, *block.nodes)), "by dice")


def _tasks(cluster: ClusterView) -> Iterator[TaskView]:
    """Tasks of jobs that may have copies.  O(tasks)."""
    for job in cluster.jobs.values():
        for stage in job.stages.values():
            yield from (task for task in stage.tasks if task.state in ("running", "kept"))


def _fits(task: TaskView, node: SlotView) -> bool:
    return all(attempt.node is not node for attempt in task.live)


RECIPE = Recipe(
    name="dice",
    source="toys for tests: what can be proposed, proposed by dice",
    order=FairOrder,
    tasks=DiceTasks,
    data=DiceMoves,
    copies=DiceCopies,
)
