"""Even: as many maps in each rack, wherever their input is; a baseline of Shadow's.

Source: Wu et al., IEEE Transactions on Big Data 2019, section 6.1 and Fig. 12: "simply distributes
the same number of tasks to different racks without considering data locality".

Left open there, chosen here.  Maps are dealt to the racks in which the job may have slots, one by
one, and start in the order of their numbers.  A job that is offered no slot in a rack that is to
have more waits for a while, then takes any.  Reduces are as under Shadow, so that the two differ in
maps only.
"""

from __future__ import annotations

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import RackId
from railyard.resourcemanager.interface.decisions import Decision, Place, Wait
from railyard.resourcemanager.interface.defaults import RERUN
from railyard.resourcemanager.interface.policies import TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.resourcemanager.schedulers.shadow.parameters import HADOOP
from railyard.resourcemanager.schedulers.shadow.reduces import (
    TURN,
    RackTurns,
    next_reduce,
    usable_racks,
)


class EvenConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "even.*"."""

    rack_wait_s: float = 5.0  #: how long a job waits for a slot where it is a rack's turn

    def __post_init__(self) -> None:
        wait_s = self.rack_wait_s
        require(wait_s >= 0, "even.rack_wait_s", wait_s, "seconds >= 0 (0 never waits)")


class EvenTurns(RackTurns):
    """Deals maps to all racks alike."""

    def order_of(self, stage: StageView) -> list[RackId]:
        if stage.reads:
            return super().order_of(stage)
        return list(usable_racks(self.cluster, stage.job))


class EvenTasks(TaskPolicy):
    """Answers "tasks"."""

    Config = EvenConfig
    section = "even"

    def __init__(self, config: EvenConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._turns = EvenTurns(cluster, config.rack_wait_s)
        self.parts = (self._turns,)

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        rerun = job.next_rerun()
        if rerun is not None:
            return Place(rerun, RERUN)
        reduce = next_reduce(job, slot, self._turns, now_s)
        if isinstance(reduce, Place):
            return reduce
        waiting = [s for s in job.stages.values() if not s.reads and s.pending.count]
        for stage in waiting:
            if self._turns.is_turn(stage, slot):
                return self._first(stage, TURN)
        if not waiting:
            return reduce
        until_s = self._turns.until_s(job)
        if now_s >= until_s:
            return self._first(waiting[0], f"no slot where it was its turn until {until_s:g} s")
        return Wait("its maps are for other racks", until_s=until_s)

    def planned(self, task: TaskView) -> str:
        return self._turns.planned(task.stage)

    def _first(self, stage: StageView, why: str) -> Place:
        index = stage.pending.first()
        assert index is not None, f"{stage.id} has pending tasks"
        return Place(stage.tasks[index], why)


RECIPE = Recipe(
    name="even",
    source="Wu et al., IEEE Transactions on Big Data 2019, Fig. 12",
    order=FairOrder,
    tasks=EvenTasks,
    settings=HADOOP,
)
