"""Co-scheduler: few racks for a job's data, maps and reduces, so that its shuffle uses circuits.

Source: Li and Shen, IEEE/ACM Transactions on Networking, 2022.  Here are the late start of shuffles
(IV-A), so that all that one sends between two racks is sent at once, and Algorithm 2, the OCS and
coflow aware scheduling (OCAS, IV-G).  How many racks a job's data and maps should have (IV-D) is in
``guidelines``; which ones its reduces (IV-E, and IV-F with Algorithm 1) in ``reduceschedule``.

Left open there, chosen here:

* Reduces with slots do not wait for ever for those without.  Once such stages hold all slots of the
  cluster, the one that lacks the fewest begins with those it has; and any stage begins when its
  first reduce has waited as long as one should run (``stall_factor``), so that waiting wastes no
  more of a slot than it is used for, or when none of its reduces got a slot for ``stall_s``.
* A task of a shuffle-heavy job takes a slot off its guideline (lines 8 and 9) only once it has
  refused such slots for ``hold_out_s``, reduces from when their racks should have been free, but
  for no longer than circuits should save it; to the letter (``hold_out_s`` = 0) a job would spread
  over every idle slot of a busy cluster.
* "On fewer than R_map racks" does not keep maps off the racks in use.  Maps that reduces with slots
  wait for take any slot.  A map-only job is not shuffle-heavy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from itertools import chain, groupby
from math import inf
from typing import NamedTuple

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import JobId, RackId, StageId
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place, Wait
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.policies import (
    FOR_GOOD,
    DataPolicy,
    ShufflePolicy,
    TaskPolicy,
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
from railyard.resourcemanager.schedulers.co_scheduler.guidelines import (
    CoConfig,
    Guidelines,
    JobGuides,
    MapGuide,
    ReduceGuide,
)
from railyard.resourcemanager.schedulers.co_scheduler.reduceschedule import UNKNOWN_S
from railyard.resourcemanager.schedulers.fair import FairOrder, User


# A late start of shuffles (IV-A) ----------------------------------------------------------------
class LateStartConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "shuffle.*"."""

    #: reduces with slots wait for others for this many times what one should run (paper: no limit)
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
    steady_until_s = FOR_GOOD
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
        done = [f"{each.done} of {each.needed} tasks of {each.name}" for each in stage.reads]
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
        if stage.id in self._waiting:
            latest_s = self._waiting[stage.id].latest_s
        else:
            run_s = self._estimates.read_s(stage).value + self._estimates.computed_s(stage).value
            latest_s = now_s + config.stall_factor * run_s
        self._waiting[stage.id] = _Waiting(stage, latest_s, min(latest_s, now_s + config.stall_s))
        self._held += 1
        if latest_s <= now_s:
            self._begin(stage)

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


# Algorithm 2, lines 4 to 9 -----------------------------------------------------------------------
class Line(IntEnum):
    """The line of Algorithm 2 by which a task may have a slot of a rack."""

    SCHEDULED_REDUCE = 4  #: of a shuffle-heavy job with the rack in its best schedule
    GUIDED_MAP = 5  #: of a shuffle-heavy job with data on the rack, on fewer than R_map racks
    LIGHT_REDUCE = 6  #: of a job that is not shuffle-heavy
    LIGHT_MAP = 7  #: of a job that is not shuffle-heavy
    ANY_REDUCE = 8
    ANY_MAP = 9
    NONE = 10  #: no task of the job is ready


_OFF_GUIDELINE = (Line.ANY_REDUCE, Line.ANY_MAP)
#: Why a task has a slot, for people.
_WHY = {
    Line.SCHEDULED_REDUCE: "line 4: the rack is in its schedule",
    Line.GUIDED_MAP: "line 5: the rack is in its guideline",
    Line.LIGHT_REDUCE: "line 6: its job is not shuffle-heavy",
    Line.LIGHT_MAP: "line 7: its job is not shuffle-heavy",
    Line.ANY_REDUCE: "line 8: any rack",
    Line.ANY_MAP: "line 9: any rack",
}


class _Refusal(NamedTuple):
    """A job lets slots off its guideline pass."""

    first_s: float  #: since when
    ready_s: float  #: since when it could have had one on it, or will
    until_s: float  #: then it decides again


def first_line(job: JobGuides, rack: RackId) -> tuple[Line, StageView | None]:
    """The first line that has a task of this job for a slot of this rack, and that task's stage."""
    best, where = Line.NONE, None
    for reduces in job.reduces.values():
        line = _line_of_reduce(reduces, rack)
        if line < best and reduces.stage.next_reduce() is not None:
            best, where = line, reduces.stage
    for maps in job.maps.values():
        if maps.stage.pending.count:
            line = _line_of_map(maps, rack)
            if line < best:
                best, where = line, maps.stage
    return best, where


def _line_of_reduce(guide: ReduceGuide, rack: RackId) -> Line:
    if not guide.heavy:
        return Line.LIGHT_REDUCE
    return Line.SCHEDULED_REDUCE if guide.wants(rack) else Line.ANY_REDUCE


def _line_of_map(guide: MapGuide, rack: RackId) -> Line:
    if not guide.racks_max:
        return Line.LIGHT_MAP
    return Line.GUIDED_MAP if guide.bound and guide.admits(rack) else Line.ANY_MAP


def tier(job: JobGuides) -> int:
    """The earliest line that any rack's slot could give the job: 0 = 4 or 5, 1 = 6, 2 = 7."""
    if any(guide.racks_max and guide.stage.pending.count for guide in job.maps.values()):
        return 0
    waiting = [guide for guide in job.reduces.values() if guide.stage.pending.count]
    return 0 if any(guide.heavy for guide in waiting) else 1 if waiting else 2


class CoScheduler(FairOrder, DataPolicy, TaskPolicy):
    """Answers "data", "order" and "tasks"."""

    Config = CoConfig
    section = "co-scheduler"
    steady_until_s = FOR_GOOD
    uses_forecasts = True

    def __init__(self, config: CoConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster, lambda job: tier(self._jobs[job.id]))
        self._hold_out_s = config.hold_out_s
        self._only_if_faster = config.only_if_faster
        self.guidelines = Guidelines(config, cluster, self._guidelines_changed)
        self.parts = (self.guidelines,)
        self._jobs = self.guidelines.jobs
        self._refusing: dict[JobId, _Refusal] = {}
        self._changed: dict[JobId, JobView] = {}  #: jobs with changed guidelines

    # Data: section IV-D.3 ------------------------------------------------------------------------
    def replica_racks(self, data: DataAnnounced) -> Sequence[Sequence[RackId]]:
        return self.guidelines.data_racks(data)

    # Order: Algorithm 2 --------------------------------------------------------------------------
    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        if among is None:
            # line 3: the first user; the next one, if no task of the first takes the slot
            return (job for user in self.users() for job in self._of_user(user, slot))
        jobs = super().candidates(slot, among)
        if len(among) == 1:
            return jobs
        of_users = groupby(jobs, key=lambda job: (job.queue, job.user))  # one after the other
        return chain.from_iterable(
            sorted(group, key=lambda job: self._line(job, slot)) for _, group in of_users
        )

    def _of_user(self, user: User, slot: SlotView) -> Iterator[JobView]:
        """A user's jobs by lines 4 to 9, but for those that would only refuse the slot again."""
        heavy: list[tuple[Line, JobView]] = []
        light_from = len(user.wanting)
        for at, (key, job) in enumerate(user.wanting):
            if key[0] > 0:  # its tier
                light_from = at
                break
            heavy.append((self._line(job, slot), job))
        heavy.sort(key=lambda entry: entry[0])
        yield from [job for line, job in heavy if line < Line.ANY_REDUCE]
        yield from [job for _, job in user.wanting[light_from:]]
        now_s = self.cluster.now_s
        for line, job in heavy:
            if line in _OFF_GUIDELINE and not self._still_refuses(job, now_s):
                yield job

    def _still_refuses(self, job: JobView, now_s: float) -> bool:
        """Whether a job would only answer again that it waits.

        One without a timer is asked: its last wait ended while no slot was free.
        """
        refusal = self._refusing.get(job.id)
        return refusal is not None and job.wake_s is not None and now_s < refusal.until_s

    def _line(self, job: JobView, slot: SlotView) -> Line:
        return first_line(self._jobs[job.id], slot.rack)[0]

    # Tasks ---------------------------------------------------------------------------------------
    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        rerun = job.next_rerun()
        if rerun is not None and any(reader.held for reader in rerun.stage.readers):
            return Place(rerun, "reduces that hold slots wait for it")
        line, stage = first_line(self._jobs[job.id], slot.rack)
        if stage is None:
            return Pass("no task is ready for a slot")
        if line in _OFF_GUIDELINE:
            until_s = self._refuses_until_s(job, stage, now_s)
            if now_s < until_s:
                reason = f"{slot.rack} is off its guideline"
                return Wait(reason, until_s=None if until_s == inf else until_s)
        else:
            self._refusing.pop(job.id, None)
        return _place(stage, slot, line)

    def planned(self, task: TaskView) -> str:
        guide = self._jobs[task.stage.job.id].of(task.stage)
        return "" if guide is None else str(guide)

    def _refuses_until_s(self, job: JobView, stage: StageView, now_s: float) -> float:
        """Until when a job refuses slots off its guideline; if not in the future, it takes them."""
        refusal = self._refusing.get(job.id)
        if refusal is not None and now_s < refusal.until_s:
            return refusal.until_s
        guide = self._jobs[job.id].of(stage)
        if guide is None or not guide.bound:
            return now_s
        first_s, since_s, _ = refusal or _Refusal(now_s, now_s, now_s)
        latest_s = first_s + self.guidelines.saved_s(stage) if self._only_if_faster else inf
        ready_s = self.guidelines.ready_s(stage)
        if latest_s < ready_s < UNKNOWN_S:
            return now_s  # its racks have no slot before waiting has cost more than it saves
        # Slots may be held for longer than it would wait: it waits if it is known until when.
        if (stage.reads or refusal is not None) and now_s < ready_s < UNKNOWN_S:
            since_s = ready_s
        # It looks again meanwhile, as circuits save less once other jobs have ended.
        until_s = min(latest_s, since_s + self._hold_out_s, now_s + self._hold_out_s)
        self._refusing[job.id] = _Refusal(first_s, since_s, until_s)
        return until_s

    # What happens --------------------------------------------------------------------------------
    def job_ended(self, job: JobView) -> None:
        self._refusing.pop(job.id, None)
        self._changed.pop(job.id, None)

    def _guidelines_changed(self, job: JobView) -> None:
        self.refile(job)
        self._changed[job.id] = job
        self._refusing.pop(job.id, None)

    def reconsider(self) -> Iterable[JobView]:
        changed, self._changed = self._changed, {}
        return changed.values()


def _place(stage: StageView, slot: SlotView, line: Line) -> Decision:
    if stage.reads:
        task = stage.next_reduce()
        assert task is not None, f"{stage.id} has no task for {slot.id}"
        return Place(task, _WHY[line])
    index, level = stage.pending.closest(slot.id, slot.rack)
    assert index is not None, f"{stage.id} has no task for {slot.id}"
    return Place(stage.tasks[index], f"{_WHY[line]}, {level}")


RECIPE = Recipe(
    name="co-scheduler",
    source="Li and Shen, IEEE/ACM Transactions on Networking, 2022",
    data=CoScheduler,
    order=CoScheduler,
    tasks=CoScheduler,
    shuffle=LateStart,
    flow_scheduler="sunflow",  # section V-A: every scheduler there runs on Sunflow's circuits
)
_ABLATION = "the same paper, section V-C: "
RECIPES = (
    RECIPE,
    RECIPE.variant("ocas", f"{_ABLATION}without guidelines", {"co-scheduler.guidelines": "none"}),
    RECIPE.variant(
        "dp+ocas", f"{_ABLATION}guidelines for data and maps", {"co-scheduler.guidelines": "data"}
    ),
)
