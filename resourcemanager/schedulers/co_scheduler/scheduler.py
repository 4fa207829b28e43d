"""Co-scheduler: few racks for a job's data, maps and reduces, so that its shuffle rides circuits.

Source: Li and Shen, IEEE/ACM Transactions on Networking, 2022, Algorithm 2 (OCAS); how many racks
and which is in ``resourcemanager.coscheduling``.  T_e, delta, W and both networks' bandwidths are
the topology's; without [ocs] no job is shuffle-heavy.
Left open there, chosen here: a task of a shuffle-heavy job takes a slot off its guideline (lines 8
and 9) only once it has let such slots pass for ``hold_out_s``, reduces from when their racks should
have been free; to the letter (``hold_out_s`` = 0) a job would spread over every idle cluster.  "On
fewer than R_map racks" does not keep maps off the racks in use.  Maps that reduces with slots wait
for take any slot.  A map-only job is not shuffle-heavy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import inf
from typing import ClassVar, Literal

from railyard.cluster.errors import require
from railyard.cluster.ids import JobId, RackId
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.policies import (
    DataPolicy,
    Decision,
    Pass,
    Place,
    TaskPolicy,
    Wait,
)
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.co_scheduler.explore import UNKNOWN_S
from railyard.resourcemanager.schedulers.co_scheduler.planner import Figures, Line, Planner
from railyard.resourcemanager.schedulers.fair import FairConfig, FairOrder, User
from railyard.resourcemanager.schedulers.shared.latestart import LateStart

_OFF = (Line.ANY_REDUCE, Line.ANY_MAP)


class CoConfig(FairConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "co-scheduler.*"; those of the fair order of users are as in "fair.*"."""

    section: ClassVar[str] = "co-scheduler"

    guidelines: Literal["all", "data", "none"] = "all"  #: "data": for data and maps only
    sir: float = 1.0  #: shuffle / input of a job before any of its maps has ended
    zone_factor: float = 1.1  #: a recurring job's latency may be so much above its best
    shuffle_bound: bool = False  #: predict shuffles by eq. 2 (without delta) instead of eq. 10
    hold_out_s: float = 30.0  #: how long a job lets slots off its guideline pass; 0 = never
    remaining_error: float = 0.0  #: by which share T_rem is wrong, up or down
    forecast_error: float = 0.0  #: by which share predicted sizes are wrong, up or down

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.sir >= 0, "co-scheduler.sir", self.sir, "a number >= 0")
        require(self.zone_factor >= 1, "co-scheduler.zone_factor", self.zone_factor, "at least 1")
        require(self.hold_out_s >= 0, "co-scheduler.hold_out_s", self.hold_out_s, "seconds >= 0")
        for name in ("remaining_error", "forecast_error"):
            error = getattr(self, name)
            require(0 <= error < 1, f"co-scheduler.{name}", error, "a share in [0, 1)")


class CoScheduler(FairOrder, DataPolicy, TaskPolicy):
    """Answers "data", "order" and "tasks"."""

    Config = CoConfig
    section = "co-scheduler"
    uses_forecasts = True

    def __init__(self, config: CoConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._hold_out_s = config.hold_out_s
        self.planner = Planner(
            Figures(
                sir=config.sir,
                factor=config.zone_factor,
                guide_maps=config.guidelines != "none",
                guide_reduces=config.guidelines == "all",
                remaining_error=config.remaining_error,
                forecast_error=config.forecast_error,
                bounded=config.shuffle_bound,
            ),
            cluster,
        )
        #: jobs that let slots off their guideline pass: since when they could have had one on it,
        #: and until when
        self._passing: dict[JobId, tuple[float, float]] = {}
        self._changed: dict[JobId, JobView] = {}  #: jobs whose guides are others now

    # Data ----------------------------------------------------------------------------------------
    def replica_racks(self, data: DataAnnounced) -> Sequence[Sequence[RackId]]:
        return self.planner.data_racks(data)

    # Order: Algorithm 2 --------------------------------------------------------------------------
    def rank(self, job: JobView) -> int:
        return self.planner.guides(job).rank()

    def turns(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        if among is None:
            return (job for user in self.users() for job in self._of_user(user, slot))
        jobs = super().turns(slot, among)
        if len(among) == 1:
            return jobs
        first: dict[str, int] = {}  # users come one after the other
        for job in jobs:
            first.setdefault(f"{job.queue} {job.user}", len(first))
        return sorted(
            jobs, key=lambda job: (first[f"{job.queue} {job.user}"], self._line(job, slot))
        )

    def _of_user(self, user: User, slot: SlotView) -> Iterator[JobView]:
        """Lines 4 to 9; jobs that are letting such slots pass are not asked again."""
        heavy: list[tuple[Line, JobView]] = []
        light_from = len(user.wanting)
        for at, (key, job) in enumerate(user.wanting):
            if key[0] > 0:
                light_from = at
                break
            heavy.append((self._line(job, slot), job))
        heavy.sort(key=lambda entry: entry[0])
        yield from [job for line, job in heavy if line < Line.ANY_REDUCE]
        yield from [job for _, job in user.wanting[light_from:]]
        now_s = self.cluster.now_s
        for line, job in heavy:
            if line in _OFF and not self._lets_pass(job, now_s):
                yield job

    def _lets_pass(self, job: JobView, now_s: float) -> bool:
        """Whether a job would only say again that it waits.

        One that is not to be woken has to: an older wait ended while no slot was free.
        """
        return job.wake_s is not None and now_s < self._passing.get(job.id, (now_s, now_s))[1]

    def _line(self, job: JobView, slot: SlotView) -> Line:
        return self.planner.guides(job).line(slot.rack)[0]

    # Tasks ---------------------------------------------------------------------------------------
    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        rerun = _urgent_rerun(job)
        if rerun is not None:
            return Place(rerun, "reduces that hold slots wait for it")
        line, stage = self.planner.guides(job).line(slot.rack)
        if stage is None:
            return Pass("no task is ready for a slot")
        if line in _OFF:
            until_s = self._holds_out_until_s(job, stage, now_s)
            if now_s < until_s:
                reason = f"{slot.rack} is off its guideline"
                return Wait(reason, until_s=None if until_s == inf else until_s)
        else:
            self._passing.pop(job.id, None)
        return _place(stage, slot, line)

    def _holds_out_until_s(self, job: JobView, stage: StageView, now_s: float) -> float:
        """Until when a job lets slots off its guideline pass; not in the future = no more."""
        since_s, until_s = self._passing.get(job.id, (now_s, now_s))
        if now_s < until_s or not self.planner.has_racks(job, stage):
            return until_s
        # Its racks' slots may be held for longer than it would wait: that is no reason to give up
        # as long as it is known when they come free.
        if stage.reads or job.id in self._passing:
            ready_s = self.planner.ready_s(job, stage)
            since_s = ready_s if now_s < ready_s < UNKNOWN_S else since_s
        until_s = since_s + self._hold_out_s
        self._passing[job.id] = since_s, until_s
        return until_s

    # What happens --------------------------------------------------------------------------------
    def job_submitted(self, job: JobView) -> None:
        super().job_submitted(job)
        self.planner.job_submitted(job)

    def job_ended(self, job: JobView) -> None:
        self.planner.job_ended(job)
        self._passing.pop(job.id, None)
        self._changed.pop(job.id, None)

    def attempt_launched(self, attempt: AttemptView) -> None:
        self.planner.attempt_launched(attempt)
        super().attempt_launched(attempt)

    def attempt_progressed(self, attempt: AttemptView) -> None:
        self.planner.attempt_progressed(attempt)

    def attempt_ended(self, attempt: AttemptView) -> None:
        self.planner.attempt_ended(attempt)
        super().attempt_ended(attempt)

    def task_done(self, task: TaskView) -> None:
        job = task.stage.job
        if self.planner.task_done(task):
            self._change(job)

    def node_joined(self, node: SlotView) -> None:
        self.planner.node_joined(node.rack, node.slots)

    def node_lost(self, node: SlotView) -> None:
        for job in self.planner.node_lost(node.rack, node.slots):
            self._change(job)

    def _change(self, job: JobView) -> None:
        self.refile(job)
        self._changed[job.id] = job
        self._passing.pop(job.id, None)

    def reconsider(self) -> Iterable[JobView]:
        changed, self._changed = self._changed, {}
        return changed.values()


def _urgent_rerun(job: JobView) -> TaskView | None:
    rerun = job.next_rerun()
    return rerun if rerun and any(reader.held for reader in rerun.stage.readers) else None


def _place(stage: StageView, slot: SlotView, line: Line) -> Decision:
    if stage.reads:
        task = stage.next_reduce()
        assert task is not None, f"{stage.id} has no task for {slot.id}"
        return Place(task, f"line {line.value}")
    index, level = stage.pending.closest(slot.id, slot.rack)
    assert index is not None, f"{stage.id} has no task for {slot.id}"
    return Place(stage.tasks[index], f"line {line.value}, {level}")


RECIPE = Recipe(
    name="co-scheduler",
    source="Li and Shen, IEEE/ACM Transactions on Networking, 2022",
    data=CoScheduler,
    order=CoScheduler,
    tasks=CoScheduler,
    shuffle=LateStart,
)
_ABLATION = "the same paper, section V-C: "
RECIPES = (
    RECIPE,
    RECIPE.variant("ocas", f"{_ABLATION}without guidelines", {"co-scheduler.guidelines": "none"}),
    RECIPE.variant(
        "dp+ocas", f"{_ABLATION}guidelines for data and maps", {"co-scheduler.guidelines": "data"}
    ),
)
