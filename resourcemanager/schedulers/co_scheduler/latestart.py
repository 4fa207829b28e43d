"""A late start of shuffles: reduces wait for all maps, and fetches until all reduces have slots.

Source: Co-scheduler, section IV-A: all that a shuffle sends between two racks is then sent at once.
Left open there, chosen here: reduces with slots do not wait for ever for those without.  Once such
stages hold all slots of the cluster, the one that lacks the fewest begins with those it has; and
any stage begins when none of its reduces got a slot for ``stall_s``.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import StageId
from railyard.resourcemanager.interface.policies import ShufflePolicy
from railyard.resourcemanager.interface.views import AttemptView, ClusterView, JobView, StageView


class LateStartConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "shuffle.*"."""

    #: seconds for which reduces with slots wait for others to get one; the paper has no limit
    stall_s: float = 60.0
    #: seconds for which reduces keep slots while maps that they wait for have none
    patience_s: float = 5.0

    def __post_init__(self) -> None:
        require(self.stall_s > 0, "shuffle.stall_s", self.stall_s, "seconds > 0")
        require(self.patience_s >= 0, "shuffle.patience_s", self.patience_s, "seconds >= 0")


class LateStart(ShufflePolicy):
    """Answers "shuffle": maps, fetches and reduces of a stage do not overlap."""

    Config = LateStartConfig
    section = "shuffle"

    def __init__(self, config: LateStartConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._config = config
        #: {stage that holds slots and waits for more before it fetches: when it got the last one}
        self._waiting: dict[StageId, tuple[StageView, float]] = {}
        self._held = 0  #: slots that these stages hold
        self._begun: dict[StageId, None] = {}  #: stages that may fetch

    def limit(self, stage: StageView) -> int:
        return stage.size if all(source.complete for source in stage.reads) else 0

    def why(self, stage: StageView) -> str:
        done = [f"{source.done} of {source.needed} {source.name}" for source in stage.reads]
        return f"waits for all it reads: {', '.join(done)} tasks done"

    def may_fetch(self, stage: StageView) -> bool:
        if stage.pending.count == 0:
            self._begin(stage)
        return stage.id in self._begun

    def patience_s(self, job: JobView) -> float:
        return self._config.patience_s

    def attempt_launched(self, attempt: AttemptView) -> None:
        stage = attempt.task.stage
        if stage.reads and stage.id not in self._begun:
            self._waiting[stage.id] = stage, self.cluster.now_s
            self._held += 1

    def attempt_ended(self, attempt: AttemptView) -> None:
        stage = attempt.task.stage
        if stage.id in self._waiting:
            self._held -= 1
            if stage.held == 0:
                del self._waiting[stage.id]

    def job_ended(self, job: JobView) -> None:
        for stage in job.stages.values():
            self._begun.pop(stage.id, None)

    def reconsider(self) -> Iterable[JobView]:
        if not self._waiting:
            return ()
        now_s, stall_s = self.cluster.now_s, self._config.stall_s
        due = [stage for stage, since_s in self._waiting.values() if since_s + stall_s <= now_s]
        if not due and not self.cluster.free and self._held == self.cluster.held:
            stages = (stage for stage, _ in self._waiting.values())
            due = [min(stages, key=lambda stage: stage.pending.count)]
        for stage in due:
            self._begin(stage)
        return [stage.job for stage in due]

    def wake_s(self) -> float | None:
        times_s = (since_s for _, since_s in self._waiting.values())
        first_s = min(times_s, default=None)
        return None if first_s is None else first_s + self._config.stall_s

    def _begin(self, stage: StageView) -> None:
        self._begun[stage.id] = None
        if self._waiting.pop(stage.id, None) is not None:
            self._held -= stage.held
