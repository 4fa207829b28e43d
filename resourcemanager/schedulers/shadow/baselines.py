"""Shadow's baselines: KMN and Even.

Source: Wu et al., IEEE Transactions on Big Data 2019.

``even`` (6.1 and Fig. 12) "simply distributes the same number of tasks to different racks without
considering data locality".  Left open there, chosen here: maps are dealt to the racks in which the
job may have slots, one by one, and start in the order of their numbers.  A job that is offered no
slot in a rack that is to have more waits for a while, then takes any.  Reduces are as under Shadow,
so that the two differ in maps only.

``kmn`` is Venkataraman et al., "The Power of Choice in Data-Aware Cluster Scheduling", OSDI 2014,
as Shadow's authors describe and compare with it (2.2 and 6.3): a few more maps than are needed, and
of their outputs those that load the links alike.  Of a job that needs K of its maps
(``StagePlan.needed``), M = 1.15 K are launched, and any K of them with the least skew count.  A job
that needs all K has duplicates of 15 % of them, in random racks; of each pair the output with which
the skew is least counts.  Left open there, chosen here: which maps get duplicates is drawn;
duplicates are launched and wait for slots as Shadow's are.  Outputs are chosen once all maps have
ended.  Skew is that of section 3 with equal outputs; of equal choices, the one with the least load
on the busiest link.  Finding the best is not said to be quick: outputs are dropped one by one, and
duplicates preferred one by one, whichever helps most.  Maps wait for their rack, reduces run round
robin over racks that hold maps, which is KMN's own rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import ceil

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import RackId, StageId
from railyard.resourcemanager.interface.decisions import Decision, Place, Proposal, Take
from railyard.resourcemanager.interface.defaults import RERUN
from railyard.resourcemanager.interface.policies import TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.speculation import Speculation, SpeculationConfig
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.delay import DelayConfig
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.resourcemanager.schedulers.shadow.pairs import Duplicate, Pairs, Wave
from railyard.resourcemanager.schedulers.shadow.reduces import (
    RackTurns,
    ReducesInTurn,
    RoundRobinReduces,
    next_reduce,
    reduces_in,
    tasks_by_rack,
)
from railyard.resourcemanager.schedulers.shadow.scheduler import HADOOP, RACK_WAIT_ONLY, link_loads


# Even --------------------------------------------------------------------------------------------
class EvenConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "even.*"."""

    rack_wait_s: float = 5.0  #: how long a job waits for a slot where it is a rack's turn

    def __post_init__(self) -> None:
        wait_s = self.rack_wait_s
        require(wait_s >= 0, "even.rack_wait_s", wait_s, "seconds >= 0 (0 never waits)")


class EvenTasks(ReducesInTurn):
    """Answers "tasks"."""

    Config = EvenConfig
    section = "even"

    def __init__(self, config: EvenConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self.turns = RackTurns(cluster, config.rack_wait_s)
        self.parts = (self.turns,)

    def offer_map(self, job: JobView, slot: SlotView, now_s: float, reduce: Decision) -> Decision:
        maps = [
            stage.tasks[index]
            for stage in job.stages.values()
            if not stage.reads and (index := stage.pending.first()) is not None
        ]
        if not maps:
            return reduce
        return self.turns.place(maps, slot, now_s, "its maps are for other racks")


EVEN = Recipe(
    name="even",
    source="Wu et al., IEEE Transactions on Big Data 2019, Fig. 12",
    order=FairOrder,
    tasks=EvenTasks,
    settings=HADOOP,
)


# KMN ----------------------------------------------------------------------------------------------
#: Rounds over all pairs until no choice changes; it hardly ever takes more than three.
_ROUNDS_MAX = 10


class KmnConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "kmn.*"."""

    extra: float = 0.15  #: M / K - 1: maps that are launched beyond those that are needed

    def __post_init__(self) -> None:
        require(0 <= self.extra <= 1, "kmn.extra", self.extra, "a share of the maps in [0, 1]")


class Kmn(Pairs, TaskPolicy):
    """Answers "tasks", proposes duplicates, and takes outputs."""

    Config = KmnConfig
    section = "kmn"
    part_settings = (Speculation, RoundRobinReduces)

    def __init__(
        self, config: KmnConfig, cluster: ClusterView, copies: SpeculationConfig, waits: DelayConfig
    ) -> None:
        super().__init__(config, cluster, copies)
        self._extra = config.extra
        self._tasks = RoundRobinReduces(waits, cluster)
        self.parts = (*self.parts, self._tasks)
        self._sampled: dict[StageId, StageView] = {}  #: some of their maps are enough; to look at

    # Any K of M ----------------------------------------------------------------------------------
    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        if not any(map(self._has_enough, job.stages.values())):
            return self._tasks.offer(job, slot, now_s)
        rerun = job.next_rerun()
        return Place(rerun, RERUN) if rerun else next_reduce(job, slot, self._tasks.turns, now_s)

    def planned(self, task: TaskView) -> str:
        return self._tasks.planned(task)

    def _has_enough(self, stage: StageView) -> bool:
        return _is_sampled(stage) and stage.size - stage.pending.count >= self._launched_max(stage)

    def _launched_max(self, stage: StageView) -> int:
        """M."""
        return min(stage.size, stage.needed + ceil(self._extra * stage.needed))

    def proposals(self) -> Iterable[Proposal]:
        sampled, self._sampled = self._sampled, {}
        for stage in sampled.values():
            yield from self._sample(stage)
        yield from super().proposals()

    def _sample(self, stage: StageView) -> Iterable[Proposal]:
        """Once M outputs are there, take K."""
        if stage.size - stage.pending.count - stage.running < self._launched_max(stage):
            return
        kept = [task for task in stage.tasks if task.state == "kept"]
        wanted = stage.needed - stage.done
        racks = [self.number[task.kept[0].node.rack] for task in kept]
        for at in least_skewed(racks, wanted, self._reduces(stage)):
            yield Take(kept[at].kept[0], why="one of the K with the least skew")

    # A duplicate or its original -----------------------------------------------------------------
    def wanted(self, wave: Wave, maps: list[int]) -> list[Duplicate]:
        number, dice = len(maps), self.cluster.random
        extra = ceil(self._extra * wave.stage.size) - len(wave.duplicates)
        if extra <= 0 or not any(maps):
            return []
        originals = dice.choices(range(number), weights=maps, k=extra)
        return [Duplicate(rack, dice.randrange(number)) for rack in originals]

    def original(self, candidates: list[TaskView], rack: RackId) -> tuple[TaskView, bool]:
        return self.cluster.random.choice(candidates), False

    def first_counts(self, task: TaskView) -> bool:
        sampled = _is_sampled(task.stage)
        return task.stage.complete if sampled else super().first_counts(task)

    def choose(self, wave: Wave) -> Iterable[AttemptView]:
        stage = wave.stage
        if stage.pending.count or stage.running or not wave.pairs:
            return
        pairs = list(wave.pairs.values())
        maps = [0] * len(self.racks)
        for rack, count in tasks_by_rack(stage).items():
            maps[self.number[rack]] += count
        both = []
        for pair in pairs:
            both.append([self.number[attempt.node.rack] for attempt in pair.task.kept])
            maps[both[-1][-1]] -= 1  # the later one was counted
        for pair, at in zip(pairs, prefer(maps, both, self._reduces(stage)), strict=True):
            yield pair.task.kept[at]

    def _reduces(self, stage: StageView) -> list[int]:
        """h: reduces in each rack of the topology, those to come dealt as they will be."""
        readers = [reduces_in(reader, self.racks) for reader in stage.readers]
        return [sum(here) for here in zip(*readers, strict=True)] or [0] * len(self.racks)

    # What happens --------------------------------------------------------------------------------
    def attempt_ended(self, attempt: AttemptView) -> None:
        super().attempt_ended(attempt)
        stage = attempt.task.stage
        if _is_sampled(stage):
            self._sampled[stage.id] = stage
            self.quiet = False

    def job_ended(self, job: JobView) -> None:
        super().job_ended(job)
        for stage in job.stages.values():
            self._sampled.pop(stage.id, None)


def _is_sampled(stage: StageView) -> bool:
    """Whether some of its maps are enough."""
    return stage.needed < stage.size and not stage.reads and bool(stage.readers)


# Choices -----------------------------------------------------------------------------------------
def least_skewed(racks: Sequence[int], wanted: int, reduces: Sequence[int]) -> list[int]:
    """Which of the outputs to take, by number: ``racks`` of the outputs, ``reduces`` [racks].

    Outputs are dropped one by one, from whichever rack the loads are most alike without.
    """
    taken: list[list[int]] = [[] for _ in reduces]
    for at, rack in enumerate(racks):
        taken[rack].append(at)
    maps = [len(some) for some in taken]
    for _ in range(len(racks) - wanted):
        holding = [rack for rack, count in enumerate(maps) if count]
        rack = min(holding, key=lambda rack: _loads_with(maps, reduces, rack, -1))
        maps[rack] -= 1
        taken[rack].pop()
    return sorted(at for some in taken for at in some)


def prefer(maps: Sequence[int], both: Sequence[Sequence[int]], reduces: Sequence[int]) -> list[int]:
    """Which of each pair's outputs to take, 0 or 1: ``both`` have their racks.

    ``maps`` [racks] are all other outputs.  Begins with the first of each.
    """
    counts, chosen = list(maps), [0] * len(both)
    for racks in both:
        counts[racks[0]] += 1
    for _ in range(_ROUNDS_MAX):
        changed = False
        for number, racks in enumerate(both):
            counts[racks[chosen[number]]] -= 1
            best = min(range(len(racks)), key=lambda at: _loads_with(counts, reduces, racks[at], 1))
            changed |= best != chosen[number]
            chosen[number] = best
            counts[racks[best]] += 1
        if not changed:
            break
    return chosen


def _loads_with(
    maps: Sequence[int], reduces: Sequence[int], rack: int, more: int
) -> tuple[float, float]:
    """(skew, load of the busiest link) with more maps in a rack."""
    changed = [count + more * (at == rack) for at, count in enumerate(maps)]
    loads = link_loads(changed, reduces)
    return loads.skew, loads.most


KMN = Recipe(
    name="kmn",
    source="Venkataraman et al., OSDI 2014, as in Wu et al., 2019",
    order=FairOrder,
    tasks=Kmn,
    copies=Kmn,
    settings=RACK_WAIT_ONLY,
)
