"""The policies of a recipe that does not name its own: plain Hadoop.

Its copies are those of ``speculation``.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import RackId
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.policies import DataPolicy, ShufflePolicy, TaskPolicy
from railyard.resourcemanager.interface.views import (
    ClusterView,
    JobView,
    Level,
    SlotView,
    StageView,
    TaskView,
)

#: Why tasks go before pending maps.
RERUN = "it runs again, and readers may wait for it"
REDUCE = "reduces go before maps"


class ClosestTasks(TaskPolicy):
    """Answers "tasks": the task nearest to its input, without waiting for a better slot.

    Hadoop's MRAppMaster has the same priorities: failed maps, reduces, maps.
    """

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        if (task := job.next_rerun() or job.next_pending_reduce()) is not None:
            return Place(task, REDUCE if task.stage.reads else RERUN)
        task, level = job.closest_pending_map(slot)
        if task is None:
            return Pass("no task is ready for a slot")
        return self.offer_map(job, task, level, now_s)

    def offer_map(self, job: JobView, task: TaskView, level: Level, now_s: float) -> Decision:
        """Run this map, which is the closest to the slot; others may wait for a better slot."""
        return Place(task, level)


class SlowStartConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "shuffle.*"."""

    #: share of the tasks read that must be done; mapreduce.job.reduce.slowstart.completedmaps
    slowstart: float = 0.05
    #: largest share of a job's slots for reduces while maps are pending;
    #: yarn.app.mapreduce.am.job.reduce.rampup.limit
    ramp_up: float = 0.5
    #: seconds for which reduces keep slots while maps that they wait for have none
    patience_s: float = 5.0

    def __post_init__(self) -> None:
        require(0 <= self.slowstart <= 1, "shuffle.slowstart", self.slowstart, "a share in [0, 1]")
        require(0 <= self.ramp_up <= 1, "shuffle.ramp_up", self.ramp_up, "a share in [0, 1]")
        require(self.patience_s >= 0, "shuffle.patience_s", self.patience_s, "seconds >= 0")


class SlowStart(ShufflePolicy):
    """Answers "shuffle": reduces start early and fetch while maps still run.

    Source: RMContainerAllocator.scheduleReduces of Hadoop 3.  Its "headroom" is the cluster's free
    slots here; container sizes do not differ.
    """

    Config = SlowStartConfig
    section = "shuffle"

    def __init__(self, config: SlowStartConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._config = config

    def limit(self, stage: StageView) -> int:
        # Asked after nearly every map: one loop, no lists.
        done = needed = pending = running = 0
        for source in stage.reads:
            done += source.done
            needed += source.needed
            pending += source.pending.count
            running += source.running
        if done < ceil(self._config.slowstart * needed):
            return 0
        if pending == 0:
            return stage.size
        slots = stage.job.held + self.cluster.free
        for_reduces = min(done / needed, self._config.ramp_up) * slots
        for_maps = slots - for_reduces
        unused_by_maps = for_maps - pending - running
        return int(for_reduces + max(0.0, unused_by_maps))

    def why(self, stage: StageView) -> str:
        done = sum([source.done for source in stage.reads])
        needed = sum([source.needed for source in stage.reads])
        names = "+".join(source.name for source in stage.reads)
        least = ceil(self._config.slowstart * needed)
        if done < least:
            return f"slow start: {done} of {needed} tasks of {names} done, needs {least}"
        return f"ramp-up: {stage.held} may hold slots while {names} has pending tasks"

    def may_fetch(self, stage: StageView) -> bool:
        return True

    def patience_s(self, job: JobView) -> float:
        return self._config.patience_s


class StoreDecides(DataPolicy):
    """Answers "data": the block store's own rule, which is HDFS's."""

    def replica_racks(self, data: DataAnnounced) -> Sequence[Sequence[RackId]]:
        return ()
