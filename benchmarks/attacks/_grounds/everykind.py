"""A toy scheduler that duplicates all maps, the n-th in the n-th of four ways.

    early      its duplicate is taken as soon as it has ended
    at T       its duplicate is taken once all originals have ended, and it has, too
    at once    its duplicate takes its original's place
    losing     its original is taken once all originals have ended

What Shadow and KMN have in common is at work (``schedulers.shadow.pairs``); only the choices are
fixed, so that a real cluster has duplicates of each kind whatever its links and slots are like.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from railyard.cluster.ids import RackId
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import AttemptView, TaskView
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.resourcemanager.schedulers.shadow.pairs import Duplicate, Pairs, Wave

Kind = Literal["early", "at T", "at once", "losing"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class EveryKind(Pairs):
    """Proposes a duplicate of each map in the next rack, and takes one of the two."""

    def wanted(self, wave: Wave, maps: list[int]) -> list[Duplicate]:
        number = {rack: at for at, rack in enumerate(wave.racks)}
        running = [
            number[task.live[0].node.rack]
            for task in wave.stage.tasks
            if task.state == "running" and not self.is_duplicated(task)
        ]
        return [Duplicate(rack, (rack + 1) % len(maps)) for rack in running]

    def original(self, candidates: list[TaskView], _rack: RackId) -> tuple[TaskView, bool]:
        return candidates[0], _kind(candidates[0]) == "at once"

    def choose(self, wave: Wave) -> Iterable[AttemptView]:
        for pair in list(wave.pairs.values()):
            kind, kept = _kind(pair.task), pair.task.kept
            if kind == "losing":
                if wave.originals_ended and pair.original in kept:
                    yield pair.original
            elif pair.duplicate in kept and (kind != "at T" or wave.originals_ended):
                yield pair.duplicate


def _kind(task: TaskView) -> Kind:
    return KINDS[task.index % len(KINDS)]


RECIPE = Recipe(
    name="every-kind",
    source="a toy for tests: duplicates of each kind",
    order=FairOrder,
    copies=EveryKind,
)
