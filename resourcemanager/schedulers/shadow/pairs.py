"""Tasks that run twice: an original and its duplicate, of which one is to count.

What Shadow and KMN have in common.  When the last original map of a stage is scheduled, duplicates
are wanted; their launches wait for free slots until all originals have ended.  The outputs of both
are kept until one is chosen.  A duplicate may replace its original at once; that is asked to end
then, and if it succeeds all the same, its output is kept in case the duplicate fails.

Left open there, chosen here: a stage of which some tasks are enough, one that nobody reads, and one
that was submitted without copies have no duplicates.

Never here: which tasks are duplicated, and which output counts (``scheduler``, ``baselines``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import msgspec

from railyard.cluster.ids import RackId, StageId, TaskId
from railyard.resourcemanager.interface.decisions import Copy, Proposal, Take
from railyard.resourcemanager.interface.policies import FOR_GOOD, CopyPolicy, Policy
from railyard.resourcemanager.interface.speculation import Late, Speculation, SpeculationConfig
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.shared.sites import racks_with_slots


class Duplicate(NamedTuple):
    """A map of one rack gets a duplicate in another; by their numbers."""

    heavy: int
    light: int


@dataclass(eq=False)
class Pair:
    """A task with an original and a duplicate."""

    task: TaskView
    original: AttemptView
    duplicate: AttemptView
    chosen: bool  #: the duplicate is to count once it has ended, whatever the original does
    replaces: bool = False  #: the original was asked to end when the duplicate was launched

    @property
    def is_late(self) -> bool:
        """Whether the original has ended with an output that is kept, and the duplicate runs."""
        return self.original in self.task.kept and self.duplicate.holds_slot

    @property
    def was_moved(self) -> bool:
        """Whether the original has ended for the duplicate: the task runs once, elsewhere."""
        return self.replaces and not self.original.holds_slot


@dataclass(eq=False)
class Wave:
    """The last wave of a stage's maps, with its duplicates."""

    stage: StageView
    racks: list[RackId]  #: those that maps may run in
    pairs: dict[TaskId, Pair] = field(default_factory=dict)
    #: duplicates that wait for a slot; racks by their numbers in ``racks``
    wanted: list[Duplicate] = field(default_factory=list)
    duplicates: list[AttemptView] = field(default_factory=list)  #: all that were launched

    @property
    def originals_ended(self) -> bool:
        """Whether it is T: of all tasks the original has ended."""
        if self.stage.pending.count:
            return False
        alone = [pair for pair in self.pairs.values() if not pair.original.holds_slot]
        return self.stage.running == sum(pair.task.state == "running" for pair in alone)


class Pairs(CopyPolicy):
    """Base of copies policies that duplicate maps in their last wave."""

    steady_until_s = FOR_GOOD
    part_settings: ClassVar[tuple[type[Policy], ...]] = (Speculation,)

    def __init__(
        self, config: msgspec.Struct, cluster: ClusterView, speculation: SpeculationConfig
    ) -> None:
        super().__init__(config, cluster)
        if speculation.on:
            self.parts = (Late(speculation, cluster, self._is_run_twice),)
        self.racks: list[RackId] = [rack.id for rack in cluster.topology.rack_list()]
        self.number = {rack: number for number, rack in enumerate(self.racks)}
        self.waves: dict[StageId, Wave] = {}  #: those that want duplicates, or had some
        self._duplicated: dict[TaskId, None] = {}  #: of jobs that run
        self._last: dict[StageId, StageView] = {}  #: their last map was just scheduled
        self._touched: dict[StageId, Wave] = {}  #: attempts of theirs have ended
        self._slot_freed = False  #: since duplicates were last launched
        self.quiet = True  #: none of these three says that there is something to propose
        self._started, self._won = 0, 0  #: figures: duplicates, those with the output that counts

    # To be answered by subclasses ----------------------------------------------------------------
    def wanted(self, wave: Wave, maps: list[int]) -> list[Duplicate]:
        """The duplicates to launch, for these ``maps`` in each of ``wave.racks``."""
        raise NotImplementedError

    def original(self, candidates: list[TaskView], rack: RackId) -> tuple[TaskView, bool]:
        """Which of a rack's maps to duplicate in another, and whether that replaces it at once."""
        raise NotImplementedError

    def choose(self, wave: Wave) -> Iterable[AttemptView]:
        """Attempts whose kept output is to count; asked after an attempt of the wave has ended."""
        raise NotImplementedError

    # Duplicates ----------------------------------------------------------------------------------
    def is_duplicated(self, task: TaskView) -> bool:
        return task.id in self._duplicated

    def _is_run_twice(self, task: TaskView) -> bool:
        """Whether a task needs no copy even if it is slow; one that was just moved may."""
        pair = self.pair_of(task)
        return self.is_duplicated(task) and not (pair and pair.was_moved)

    def first_counts(self, task: TaskView) -> bool:
        return self.pair_of(task) is None

    def pair_of(self, task: TaskView) -> Pair | None:
        """The task's two attempts, if both are there or to be chosen from."""
        wave = self.waves.get(task.stage.id)
        return None if wave is None else wave.pairs.get(task.id)

    def propose(self) -> Iterable[Proposal]:
        self.quiet = True
        return self.proposals()

    def proposals(self) -> Iterable[Proposal]:
        last, self._last = self._last, {}
        touched, self._touched = self._touched, {}
        for wave in touched.values():
            _forget_broken(wave)
        for stage in last.values():
            touched[stage.id] = self._begin(stage)
        for wave in touched.values():
            for attempt in self.choose(wave):
                yield Take(attempt, why="its output was chosen")
        if self._slot_freed or last:
            self._slot_freed = False
            for wave in list(self.waves.values()):
                yield from self._launch(wave)
                if not (wave.wanted or wave.duplicates):
                    self.waves.pop(wave.stage.id, None)

    def _begin(self, stage: StageView) -> Wave:
        """All maps of a stage are scheduled: which duplicates are wanted?"""
        racks = list(racks_with_slots(self.cluster, stage.job.avoid))
        wave = self.waves.setdefault(stage.id, Wave(stage, racks))
        wave.racks = racks
        _forget_broken(wave)
        wave.wanted = self.wanted(wave, self._maps(wave))
        return wave

    def _maps(self, wave: Wave) -> list[int]:
        """l: how many of the stage's outputs are or will be in each rack of the wave."""
        number = {rack: at for at, rack in enumerate(wave.racks)}
        maps = [0] * len(wave.racks)
        for task in wave.stage.tasks:
            pair, there = wave.pairs.get(task.id), task.live or task.kept
            attempt = pair.duplicate if pair else task.winner or (there[0] if there else None)
            at = None if attempt is None else number.get(attempt.node.rack)
            if at is not None:
                maps[at] += 1
        return maps

    def _launch(self, wave: Wave) -> Iterable[Proposal]:
        if not wave.wanted or not self.cluster.free:
            return
        if wave.originals_ended:
            wave.wanted = []
            return
        candidates = self._candidates(wave)
        nodes: dict[RackId, list[SlotView]] = {}
        for node in self.cluster.free_nodes():
            nodes.setdefault(node.rack, []).append(node)
        waiting = []
        for each in wave.wanted:
            from_rack, rack = wave.racks[each.heavy], wave.racks[each.light]
            there = nodes.get(rack, ())
            free = [node for node in there if node.free and not node.is_full(reduces=False)]
            if not free:
                waiting.append(each)
                continue
            here = candidates.get(from_rack, [])
            if not here:
                continue  # all of the rack's are done, or duplicated
            task, replaces = self.original(here, rack)
            found = _node_for_copy(task, free)
            if found is None:
                waiting.append(each)
                continue
            here.remove(task)
            (original,) = task.live
            self._duplicated[task.id] = None
            why = f"a duplicate for {rack}, of a map in {from_rack}"
            yield Copy(task, found.id, instead_of=original if replaces else None, why=why)
            duplicate = task.live[-1]
            wave.pairs[task.id] = Pair(task, original, duplicate, replaces, replaces)
            wave.duplicates.append(duplicate)
            self._started += 1
        wave.wanted = waiting

    def _candidates(self, wave: Wave) -> dict[RackId, list[TaskView]]:
        """{rack: the maps that run there and could be duplicated}."""
        found: dict[RackId, list[TaskView]] = {}
        for task in wave.stage.tasks:
            if task.state == "running" and len(task.live) == 1:
                (attempt,) = task.live
                if not attempt.killing and not self.is_duplicated(task):
                    found.setdefault(attempt.node.rack, []).append(task)
        return found

    # What happens --------------------------------------------------------------------------------
    def attempt_launched(self, attempt: AttemptView) -> None:
        stage = attempt.task.stage
        if stage.pending.count or stage.reads or len(attempt.task.live) > 1:
            return
        if stage.may_copy and stage.readers and stage.needed == stage.size:
            self._last[stage.id] = stage
            self.quiet = False

    def attempt_ended(self, attempt: AttemptView) -> None:
        self._wake()
        wave = self.waves.get(attempt.task.stage.id)
        if wave is not None:
            self._touched[attempt.task.stage.id] = wave

    def task_done(self, task: TaskView) -> None:
        wave = self.waves.get(task.stage.id)
        pair = None if wave is None else wave.pairs.pop(task.id, None)
        if pair is not None and task.winner is pair.duplicate:
            self._won += 1

    def job_ended(self, job: JobView) -> None:
        for stage in job.stages.values():
            self._last.pop(stage.id, None)
            self._touched.pop(stage.id, None)
            if self.waves.pop(stage.id, None) is not None:
                for task in stage.tasks:
                    self._duplicated.pop(task.id, None)

    def node_joined(self, node: SlotView) -> None:
        self._wake()

    def slots_changed(self, node: SlotView, before: int) -> None:
        self._wake()

    def _wake(self) -> None:
        """There may be a slot for a duplicate."""
        if self.waves:
            self._slot_freed, self.quiet = True, False

    def figures(self) -> Mapping[str, float]:
        return {"duplicates": self._started, "duplicates_chosen": self._won}


def _forget_broken(wave: Wave) -> None:
    """Forget pairs whose duplicate has ended without an output."""
    for name, pair in list(wave.pairs.items()):
        if not pair.duplicate.holds_slot and pair.duplicate not in pair.task.kept:
            del wave.pairs[name]


def _node_for_copy(task: TaskView, free: Iterable[SlotView]) -> SlotView | None:
    """A node for a copy, of some with free slots; one with the task's input goes first."""
    not_on = [*task.stage.job.avoid, *(attempt.node.id for attempt in task.live)]
    usable = [node for node in free if node.id not in not_on]
    return min(usable, key=lambda node: node.id not in task.input.nodes, default=None)
