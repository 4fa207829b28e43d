"""A late start of shuffles: reduces wait for all maps, and fetches until all reduces have slots.

Source: Co-scheduler, section IV-A: all that a shuffle sends between two racks is then sent at once.
Left open there, chosen here: reduces with slots do not wait for ever for those without.  Once such
stages hold all slots of the cluster, the one that lacks the fewest begins with those it has; and
any stage begins when its first reduce has waited as long as one should run (``stall_factor``), so
that waiting wastes no more of a slot than it is used for, or when none of its reduces got a slot
for ``stall_s``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import StageId
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.policies import ShufflePolicy
from railyard.resourcemanager.interface.views import AttemptView, ClusterView, JobView, StageView


class LateStartConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "shuffle.*"."""

    #: reduces with slots wait for others for this many times what one of them should run; the
    #: paper has no limit
    stall_factor: float = 1.0
    stall_s: float = 60.0  #: seconds for which they wait at most for the next one to get a slot
    #: seconds for which reduces keep slots while maps that they wait for have none
    patience_s: float = 5.0

    def __post_init__(self) -> None:
        require(self.stall_factor >= 0, "shuffle.stall_factor", self.stall_factor, "a number >= 0")
        require(self.stall_s > 0, "shuffle.stall_s", self.stall_s, "seconds > 0")
        require(self.patience_s >= 0, "shuffle.patience_s", self.patience_s, "seconds >= 0")


class _Waiting(NamedTuple):
    """A stage that holds slots and waits for more before it fetches."""

    stage: StageView
    latest_s: float  #: when its first reduce has waited long enough
    until_s: float  #: when it begins with those it has; no later than ``latest_s``


class LateStart(ShufflePolicy):
    """Answers "shuffle": maps, fetches and reduces of a stage do not overlap."""

    Config = LateStartConfig
    section = "shuffle"
    uses_forecasts = True

    def __init__(self, config: LateStartConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._config = config
        self._estimates = Estimates(cluster)
        self.parts = (self._estimates,)
        #: stages that hold slots and wait for more before they fetch
        self._waiting: dict[StageId, _Waiting] = {}
        self._held = 0  #: slots that these stages hold
        self._begun: dict[StageId, None] = {}  #: stages that may fetch

    def limit(self, stage: StageView) -> int:
        return stage.size if all(source.complete for source in stage.reads) else 0

    def why(self, stage: StageView) -> str:
        done = [
            f"{source.done} of {source.needed} tasks of {source.name}" for source in stage.reads
        ]
        return f"waits for all it reads: {', '.join(done)} done"

    def may_fetch(self, stage: StageView) -> bool:
        if stage.pending.count == 0:
            self._begin(stage)
        return stage.id in self._begun

    def patience_s(self, job: JobView) -> float:
        return self._config.patience_s

    def attempt_launched(self, attempt: AttemptView) -> None:
        stage = attempt.task.stage
        if not stage.reads or stage.id in self._begun:
            return
        now_s, config = self.cluster.now_s, self._config
        known = self._waiting.get(stage.id)
        latest_s = known.latest_s if known else now_s + config.stall_factor * self._run_s(stage)
        self._waiting[stage.id] = _Waiting(stage, latest_s, min(latest_s, now_s + config.stall_s))
        self._held += 1
        if latest_s <= now_s:
            self._begin(stage)

    def _run_s(self, stage: StageView) -> float:
        """How long one of the stage's reduces should fetch and compute."""
        return self._estimates.read_s(stage).value + self._estimates.computed_s(stage).value

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
        now_s = self.cluster.now_s
        due = [waiting.stage for waiting in self._waiting.values() if waiting.until_s <= now_s]
        if not due and not self.cluster.free and self._held == self.cluster.held:
            stages = (waiting.stage for waiting in self._waiting.values())
            due = [min(stages, key=lambda stage: stage.pending.count)]
        for stage in due:
            self._begin(stage)
        return [stage.job for stage in due]

    def wake_s(self) -> float | None:
        return min((waiting.until_s for waiting in self._waiting.values()), default=None)

    def _begin(self, stage: StageView) -> None:
        self._begun[stage.id] = None
        if self._waiting.pop(stage.id, None) is not None:
            self._held -= stage.held
