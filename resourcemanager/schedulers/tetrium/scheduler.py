"""Tetrium: at each scheduling instance, which jobs get how many slots at which sites.

Source: Hung et al., "Wide-Area Analytics with Multiple Resources", EuroSys 2018: here is section
4.1 with 5's batches of slots, and 4.4, fairness against response time.  Of the others, 3.1, 3.2,
4.2 and 4.3 are in ``placement``, 3.3, 3.4 and 5's local slots in ``stageplans``.  A site is a rack.

Left open there, chosen here:

* A stage is planned with all slots of the sites (Table 1), and as many of its tasks start as slots
  are free.  With section 5 it would be planned with those that are free once they were collected
  for a task's time: ``slots`` = "free" and ``batch`` = 1; with fewer, nearly every plan is made for
  a few sites where a slot happens to be free, and data leaves all others.  The assignment that a
  loss of capacity leads to (``k_sites``) holds for what is left of the stage.
* T of a job is that of its open stages together.
* In 4.4 (``epsilon``), S* are all slots, and what a job holds counts.  Of the few that one instance
  has to give, parts of less than a slot are all that there is: epsilon would change nothing.  Jobs
  that lack some go first, so that what they leave goes to the others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from math import ceil
from statistics import fmean
from typing import NamedTuple

import numpy as np

from railyard.cluster.ids import JobId
from railyard.cluster.units import format_count
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.network import LinkState
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place
from railyard.resourcemanager.interface.policies import FOR_GOOD, OrderPolicy, Policy, TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    TaskView,
)
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.resourcemanager.schedulers.iridium import IridiumData, IridiumTasks
from railyard.resourcemanager.schedulers.shared.sites import SiteView
from railyard.resourcemanager.schedulers.tetrium.stageplans import (
    LOSSES_S,
    Launches,
    Remaining,
    StagePlans,
    TetriumConfig,
)

#: "recently finished tasks" (5)
_RECENT = 50


# Scheduling instances (4.1, 5) -------------------------------------------------------------------
class Instances(Policy):
    """The jobs that want slots, their stages' plans, and when to look at them next.

    At once when tasks become ready or capacity has changed; when slots are freed, after ``batch``
    of a recent task's duration, so that slots at several sites are free by then.
    """

    Config = TetriumConfig
    section = "tetrium"
    steady_until_s = FOR_GOOD
    uses_forecasts = True

    def __init__(self, config: TetriumConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._config = config
        self._sites = SiteView(cluster)
        self._plans = StagePlans(config, cluster, self._sites)
        self.parts = (self._plans,)
        self._wanting: dict[JobId, JobView] = {}
        self._due_s: float | None = None  #: when the next instance is
        self._recent_s: deque[float] = deque(maxlen=_RECENT)  #: durations of tasks

    def _in_order(self, jobs: Iterable[JobView], free: Numbers) -> Iterable[JobView]:
        return by_remaining_time(jobs, self._plans, free, self._config.remaining)

    def _begins(self) -> bool:
        """Whether an instance is due; it counts as begun then."""
        if self._due_s is None or self.cluster.now_s < self._due_s or not self._wanting:
            return False
        self._due_s = None
        return True

    def _at_most_in(self, seconds: float) -> None:
        """Let the next instance be no later than in so many seconds."""
        due_s = self.cluster.now_s + seconds
        self._due_s = due_s if self._due_s is None else min(self._due_s, due_s)

    # What happens --------------------------------------------------------------------------------
    def wake_s(self) -> float | None:
        due_s = self._due_s if self._wanting else None
        return due_s if due_s is not None and due_s > self.cluster.now_s else None

    def job_wants(self, job: JobView) -> None:
        self._wanting[job.id] = job
        self._at_most_in(0.0)

    def job_rests(self, job: JobView) -> None:
        self._wanting.pop(job.id, None)

    def attempt_ended(self, attempt: AttemptView) -> None:
        if attempt.ended_s is not None:
            self._recent_s.append(attempt.ended_s - attempt.launched_s)
        recent_s = fmean(self._recent_s) if self._recent_s else 0.0
        self._at_most_in(self._config.batch * recent_s)

    def node_joined(self, node: SlotView) -> None:
        self._at_most_in(0.0)

    def slots_changed(self, node: SlotView, before: int) -> None:
        self._at_most_in(0.0)


# Whose turn it is (4.1) ---------------------------------------------------------------------------
def by_remaining_time(
    jobs: Iterable[JobView], plans: StagePlans, free: Numbers, remaining: Remaining = "stages"
) -> Iterator[JobView]:
    """Jobs by G, their remaining stages; of equal ones that with the least T first.

    Read lazily: T is computed of the jobs that are reached only.  With ``remaining`` = "time", by
    the time of all of their stages, which the paper has for ideal and too slow to compute.
    """
    if remaining == "time":
        yield from sorted(jobs, key=lambda job: (plans.whole_time_s(job, free), job.submitted_s))
        return
    by_stages: dict[int, list[JobView]] = {}
    for job in jobs:
        left = sum(not stage.complete for stage in job.stages.values())
        by_stages.setdefault(left, []).append(job)
    for _, equal in sorted(by_stages.items()):
        if len(equal) == 1:
            yield equal[0]
            continue
        times_s = {job.id: plans.time_s(job, free) for job in equal}
        yield from sorted(equal, key=lambda job: (times_s[job.id], job.submitted_s))


class RemainingTimeOrder(Instances, OrderPolicy):
    """Answers "order", for tasks that others choose; sorted anew at each scheduling instance."""

    def __init__(self, config: TetriumConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._place: dict[JobId, int] = {}  #: of each job in the order

    def reconsider(self) -> Iterable[JobView]:
        if self._begins():
            ordered = self._in_order(self._wanting.values(), self._sites.free())
            self._place = {job.id: place for place, job in enumerate(ordered)}
        return ()

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        jobs = self._wanting.values() if among is None else among
        return sorted(jobs, key=lambda job: self._place.get(job.id, len(self._place)))

    def why(self, job: JobView) -> str:
        return f"{format_count(self._place.get(job.id, len(self._place)), 'job')} ahead"

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        self._sites.refresh_links()


# Fairness (4.4) -----------------------------------------------------------------------------------
#: Parts of slots are sums of fractions.
_ROUNDING = 1e-9


class Claim(NamedTuple):
    """What a job that wants slots has, and wants."""

    held: int  #: slots
    pending: int  #: tasks that want one


class FairParts:
    """How many slots each job may have, at one scheduling instance.

    Every job is to have (1 - epsilon) of its fair part p of the slots, in proportion to its tasks
    that are left.  A job that is served may take all but what the jobs not served yet lack.  [As
    printed, the cap is the sum of the others' parts, and (1 - epsilon) is missing where they are
    defined: with epsilon = 1 nobody would get a slot.]
    """

    def __init__(
        self, epsilon: float, slots: int, held: int, claims: Mapping[JobId, Claim]
    ) -> None:
        """``slots``, ``held``: of the cluster, also by jobs that want no more."""
        tasks = max(1, held + sum([claim.pending for claim in claims.values()]))
        part = (1 - epsilon) * slots / tasks  # of each task
        lacks = {job: (each.held + each.pending) * part - each.held for job, each in claims.items()}
        #: slots that jobs lack which are yet to be served
        self.lacking = {job: slots for job, slots in lacks.items() if slots > _ROUNDING}
        self._lacking_slots = sum(self.lacking.values())

    def cap(self, job: JobId, free: int) -> int:
        """q: how many of the free slots this job, which is served now, may have; rounded up."""
        self._lacking_slots -= self.lacking.pop(job, 0.0)
        return max(0, ceil(free - self._lacking_slots - _ROUNDING))


# The scheduler ------------------------------------------------------------------------------------
class TetriumTasks(Instances, TaskPolicy):
    """Answers "tasks": at each instance, those that a job's plans have for the slots that are free.

    Each job's are planned as if it got all of these slots; who gets them is the order's to say.
    """

    def __init__(self, config: TetriumConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        #: what may start of each job, until the next event
        self._launches: dict[JobId, Launches] = {}

    # The scheduling instance (4.1) ---------------------------------------------------------------
    def reconsider(self) -> Iterable[JobView]:
        self._launches = {}
        if not self._begins():
            return ()
        free = self._sites.free()
        if free.any():
            self._schedule(free)
        return [self._wanting[job] for job in self._launches]

    def _schedule(self, free: Numbers) -> None:
        for job in self._wanting.values():
            self._choose(job, free.copy(), int(free.sum()))

    def _choose(self, job: JobView, free: Numbers, cap: int) -> None:
        """Choose this job's tasks, ``cap`` at most; their slots are free no more."""
        found: Launches = {}
        count = 0
        for stage in job.stages.values():
            if stage.pending.count and stage.open and count < cap:
                usable = np.minimum(free, self._sites.free(job.avoid)) if job.avoid else free
                for site, chosen in self._plans.launches(stage, usable, cap - count).items():
                    found.setdefault(site, []).extend(chosen)
                    free[site] -= len(chosen)
                    count += len(chosen)
        if found:
            self._launches[job.id] = found

    # Answers -------------------------------------------------------------------------------------
    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        waiting = self._launches.get(job.id, {}).get(self._sites.number[slot.rack])
        while waiting:
            task = self._sites.nearest_to(slot, waiting)
            waiting.remove(task)
            if task.state == "pending" and task.stage.open:
                return Place(task, "its plan has a task for this site now")
        return Pass("its tasks have slots at other sites, or are planned anew")

    def planned(self, task: TaskView) -> str:
        planned = self._plans.planned(task.stage)
        return "" if planned is None else f"tasks planned at sites: {self._sites.counted(planned)}"

    def figures(self) -> Mapping[str, float]:
        return {"stages_beyond_wan_budget": len(self._plans.beyond_budget)}

    # Capacity (4.2) ------------------------------------------------------------------------------
    def node_lost(self, node: SlotView) -> None:
        self._capacity_lost()

    def slots_changed(self, node: SlotView, before: int) -> None:
        super().slots_changed(node, before)
        if node.slots < before:
            self._capacity_lost()

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        lost, gained = self._sites.refresh_links()
        if lost:
            self._capacity_lost()
        elif gained:  # what was cut off may be read again
            self._at_most_in(0.0)

    def _capacity_lost(self) -> None:
        """Stages that were assigned to sites are assigned anew, at ``k_sites`` of them."""
        self._plans.reassign()
        self._at_most_in(LOSSES_S)


class Tetrium(OrderPolicy, TetriumTasks):
    """Answers "order" and "tasks"."""

    def _schedule(self, free: Numbers) -> None:
        """Give slots to the job with the least remaining time, then the next, as there are any."""
        wanting, epsilon = self._wanting, self._config.epsilon
        claims = {
            job.id: Claim(job.held, sum([s.pending.count for s in job.stages.values() if s.open]))
            for job in wanting.values()
        }
        parts = FairParts(epsilon, self.cluster.slots, self.cluster.held, claims)
        lacking = [wanting[job] for job in parts.lacking]
        others = [job for job in wanting.values() if job.id not in parts.lacking]
        for job in chain(self._in_order(lacking, free), self._in_order(others, free)):
            if not free.any():
                break
            self._choose(job, free, parts.cap(job.id, int(free.sum())))

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        site = self._sites.number[slot.rack]
        jobs = self._wanting if among is None else {job.id: job for job in among}
        return [jobs[job] for job, at in self._launches.items() if at.get(site) and job in jobs]

    def why(self, job: JobView) -> str:
        if job.id not in self._wanting:
            return "no task is ready for a slot"
        if job.id in self._launches:
            return "it got slots at this instance"
        return "no slot for it at the last instance"


_FIG_8 = "Hung et al., EuroSys 2018, Fig. 8"
RECIPE = Recipe(
    name="tetrium",
    source="Hung et al., EuroSys 2018",
    order=Tetrium,
    tasks=Tetrium,
    settings={"shuffle.slowstart": 1.0},
)
RECIPES = (
    RECIPE,
    RECIPE.variant("reverse", "its section 3.4", {"tetrium.reverse": True}),
    RECIPE.variant("whole-time", "its section 4.1, ideally", {"tetrium.remaining": "time"}),
    RECIPE.variant("local-first", "its Fig. 9", {"tetrium.map_order": "local-first"}),
    RECIPE.variant("random-reduces", "its Fig. 9", {"tetrium.reduce_order": "random"}),
    RECIPE.variant(
        "local-first-random-reduces",
        "its Fig. 9",
        {"tetrium.map_order": "local-first", "tetrium.reduce_order": "random"},
    ),
    replace(RECIPE, name="tetrium+fair-order", source=_FIG_8, order=FairOrder, tasks=TetriumTasks),
    replace(
        RECIPE,
        name="tetrium+iridium-tasks",
        source=_FIG_8,
        order=RemainingTimeOrder,
        tasks=IridiumTasks,
    ),
    replace(
        RECIPE,
        name="tetrium+iridium-data",
        source=_FIG_8,
        data=IridiumData,
        settings={**RECIPE.settings, "iridium.move_data": True},
    ),
)
