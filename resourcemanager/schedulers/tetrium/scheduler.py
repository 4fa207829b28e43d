"""Tetrium: at each scheduling instance, which jobs get how many slots at which sites.

Source: Hung et al., "Wide-Area Analytics with Multiple Resources", EuroSys 2018, section 4.1.  Of
the others, 3.1 and 3.2 are in ``placement``, 3.3 and 5's local slots in ``sitetasks``, 4.2 and 4.3
in ``stageplans``, 4.4 in ``sharing``.  A site is a rack.
Left open there, chosen here: an instance comes at once when tasks become ready, and when slots are
freed after ``batch`` of a recent task's duration.  T of a job is that of its open stages together.
A stage is planned with all slots of the sites, and as many of its tasks start as slots are free:
planned with the free ones only (``slots`` = "free", to the letter), nearly every plan is made for a
few sites where a slot happens to be free, and data leaves all others.  The assignment that a loss
of capacity leads to holds for what is left of the stage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

import numpy as np

from railyard.cluster.ids import JobId
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.observed import LinkState
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.policies import OrderPolicy, TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    TaskView,
)
from railyard.resourcemanager.schedulers.shared.sites import SiteView
from railyard.resourcemanager.schedulers.tetrium.parameters import TetriumConfig
from railyard.resourcemanager.schedulers.tetrium.sharing import FairParts
from railyard.resourcemanager.schedulers.tetrium.stageplans import StagePlans

#: "recently finished tasks" (5)
_RECENT = 50


class Tetrium(OrderPolicy, TaskPolicy):
    """Answers "order" and "tasks"."""

    Config = TetriumConfig
    section = TetriumConfig.section
    uses_forecasts = True
    uses_network = True

    def __init__(self, config: TetriumConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._config = config
        self._sites = SiteView(cluster)
        estimates = Estimates(cluster)
        self._plans = StagePlans(config, cluster, self._sites, estimates)
        self.parts = (estimates, self._plans)
        self._wanting: dict[JobId, JobView] = {}
        #: {job: {site: the tasks that start there}}, in the order in which jobs were served
        self._launches: dict[JobId, dict[int, deque[TaskView]]] = {}
        self._due_s: float | None = None  #: when the next instance is
        self._recent_s: deque[float] = deque(maxlen=_RECENT)  #: durations of tasks

    # The scheduling instance (4.1) ---------------------------------------------------------------
    def reconsider(self) -> Iterable[JobView]:
        if self._due_s is None or self.cluster.now_s < self._due_s or not self._wanting:
            return ()
        self._due_s = None
        self._schedule()
        return [self._wanting[job] for job in self._launches if job in self._wanting]

    def _schedule(self) -> None:
        """Give slots to the job with the least remaining time, then the next, as there are any."""
        self._launches = {}
        free = self._sites.free()
        if not free.any():
            return
        tasks = {job.id: _pending(job) for job in self._wanting.values()}
        parts = FairParts(self._config.epsilon, int(free.sum()), tasks)
        for job in self._by_remaining_time(free):
            if not free.any():
                break
            cap = parts.cap(job.id)
            found: dict[int, deque[TaskView]] = {}
            for stage in job.stages.values():
                if stage.pending.count and stage.open and cap > 0:
                    usable = np.minimum(free, self._sites.free(job.avoid)) if job.avoid else free
                    for site, chosen in self._plans.launches(stage, usable, cap).items():
                        found.setdefault(site, deque()).extend(chosen)
                        free[site] -= len(chosen)
                        cap -= len(chosen)
                        parts.given(len(chosen))
            if found:
                self._launches[job.id] = found

    def _by_remaining_time(self, free: Numbers) -> Iterator[JobView]:
        """Jobs by G, their remaining stages; of equal ones that with the least T first."""
        by_stages: dict[int, list[JobView]] = {}
        for job in self._wanting.values():
            left = sum(not stage.complete for stage in job.stages.values())
            by_stages.setdefault(left, []).append(job)
        for _, jobs in sorted(by_stages.items()):
            if len(jobs) == 1:
                yield jobs[0]
                continue
            times_s = {job.id: self._plans.time_s(job, free) for job in jobs}
            yield from sorted(jobs, key=lambda job: (times_s[job.id], job.submitted_s))

    # Answers -------------------------------------------------------------------------------------
    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        site = self._sites.number[slot.rack]
        asked = self._wanting if among is None else {job.id: job for job in among}
        return [asked[job] for job, at in self._launches.items() if at.get(site) and job in asked]

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        waiting = self._launches[job.id][self._sites.number[slot.rack]]
        while waiting:
            task = waiting.popleft()
            if task.state == "pending" and task.stage.open:
                return Place(task)
        return Pass("its tasks have slots at other sites, or are planned anew")

    def why(self, job: JobView) -> str:
        if job.id not in self._wanting:
            return "no task is ready for a slot"
        ahead = list(self._launches).index(job.id) if job.id in self._launches else None
        return "no slot for it at the last instance" if ahead is None else f"{ahead} jobs ahead"

    def figures(self) -> Mapping[str, float]:
        return {"stages_beyond_wan_budget": self._plans.beyond_budget}

    # Instances (5: batching of slots) ------------------------------------------------------------
    def wake_s(self) -> float | None:
        due_s = self._due_s if self._wanting else None
        return due_s if due_s is not None and due_s > self.cluster.now_s else None

    def _wait_at_most(self, seconds: float) -> None:
        due_s = self.cluster.now_s + seconds
        self._due_s = due_s if self._due_s is None else min(self._due_s, due_s)

    def job_wants(self, job: JobView) -> None:
        self._wanting[job.id] = job
        self._wait_at_most(0.0)

    def job_rests(self, job: JobView) -> None:
        self._wanting.pop(job.id, None)
        self._launches.pop(job.id, None)

    def attempt_ended(self, attempt: AttemptView) -> None:
        if attempt.ended_s is not None:
            self._recent_s.append(attempt.ended_s - attempt.launched_s)
        recent_s = fmean(self._recent_s) if self._recent_s else 0.0
        self._wait_at_most(self._config.batch * recent_s)

    # Capacity (4.2) ------------------------------------------------------------------------------
    def node_joined(self, node: SlotView) -> None:
        self._wait_at_most(0.0)

    def node_lost(self, node: SlotView) -> None:
        self._capacity_lost()

    def slots_changed(self, node: SlotView, before: int) -> None:
        if node.slots < before:
            self._capacity_lost()
        self._wait_at_most(0.0)

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        if self._sites.look_at_links():
            self._capacity_lost()

    def _capacity_lost(self) -> None:
        """Stages that were assigned to sites are assigned anew, at ``k_sites`` of them."""
        self._plans.reassign()
        self._wait_at_most(0.0)


def _pending(job: JobView) -> int:
    return sum([stage.pending.count for stage in job.stages.values() if stage.open])


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
    RECIPE.variant("local-first", "its Fig. 9", {"tetrium.map_order": "local-first"}),
    RECIPE.variant("random-reduces", "its Fig. 9", {"tetrium.reduce_order": "random"}),
    RECIPE.variant(
        "local-first-random-reduces",
        "its Fig. 9",
        {"tetrium.map_order": "local-first", "tetrium.reduce_order": "random"},
    ),
)
