"""Tetrium: at each scheduling instance, which jobs get how many slots at which sites.

Source: Hung et al., "Wide-Area Analytics with Multiple Resources", EuroSys 2018, section 4.1.  Of
the others, 3.1 and 3.2 are in ``placement``, 3.3 and 5's local slots in ``sitetasks``, 4.1's order
of jobs in ``remainingtime``, 4.2 and 4.3 in ``stageplans``, 4.4 in ``sharing``, 5's batches in
``instances``.  A site is a rack.
Left open there, chosen here: a stage is planned with all slots of the sites, and as many of its
tasks start as slots are free: planned with the free ones only (``slots`` = "free", to the letter),
nearly every plan is made for a few sites where a slot happens to be free, and data leaves all
others.  The assignment that a loss of capacity leads to holds for what is left of the stage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np

from railyard.cluster.ids import JobId
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.observed import LinkState
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.policies import OrderPolicy, TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView, JobView, SlotView, TaskView
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.resourcemanager.schedulers.iridium import IridiumTasks
from railyard.resourcemanager.schedulers.iridium_data import IridiumData
from railyard.resourcemanager.schedulers.shared.sites import SiteView
from railyard.resourcemanager.schedulers.tetrium.instances import Instances
from railyard.resourcemanager.schedulers.tetrium.parameters import TetriumConfig
from railyard.resourcemanager.schedulers.tetrium.remainingtime import (
    RemainingTimeOrder,
    by_remaining_time,
)
from railyard.resourcemanager.schedulers.tetrium.sharing import Claim, FairParts
from railyard.resourcemanager.schedulers.tetrium.stageplans import LOSSES_S, StagePlans

#: {site: the tasks that start there}
_Launches = dict[int, deque[TaskView]]


class TetriumTasks(TaskPolicy):
    """Answers "tasks": at each instance, those that a job's plans have for the slots that are free.

    Each job's are planned as if it got all of these slots; who gets them is the order's to say.
    """

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
        self._instances = Instances(config, cluster)
        self.parts = (estimates, self._plans, self._instances)
        #: what may start of each job, until the next event
        self._launches: dict[JobId, _Launches] = {}

    # The scheduling instance (4.1) ---------------------------------------------------------------
    def reconsider(self) -> Iterable[JobView]:
        self._launches = {}
        if not self._instances.begins():
            return ()
        free = self._sites.free()
        if free.any():
            self._schedule(free)
        return [self._instances.wanting[job] for job in self._launches]

    def _schedule(self, free: Numbers) -> None:
        """Choose tasks for the free slots [sites]."""
        for job in self._instances.wanting.values():
            self._choose(job, free.copy(), int(free.sum()))

    def _choose(self, job: JobView, free: Numbers, cap: int) -> None:
        """Choose this job's tasks, ``cap`` at most; their slots are free no more."""
        found: _Launches = {}
        count = 0
        for stage in job.stages.values():
            if stage.pending.count and stage.open and count < cap:
                usable = np.minimum(free, self._sites.free(job.avoid)) if job.avoid else free
                for site, chosen in self._plans.launches(stage, usable, cap - count).items():
                    found.setdefault(site, deque()).extend(chosen)
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
        return {"stages_beyond_wan_budget": self._plans.beyond_budget}

    # Capacity (4.2) ------------------------------------------------------------------------------
    def node_lost(self, node: SlotView) -> None:
        self._capacity_lost()

    def slots_changed(self, node: SlotView, before: int) -> None:
        if node.slots < before:
            self._capacity_lost()

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        lost, gained = self._sites.look_at_links()
        if lost:
            self._capacity_lost()
        elif gained:  # what was cut off may be read again
            self._instances.at_once()

    def _capacity_lost(self) -> None:
        """Stages that were assigned to sites are assigned anew, at ``k_sites`` of them."""
        self._plans.reassign()
        self._instances.at_most_in(LOSSES_S)


class Tetrium(OrderPolicy, TetriumTasks):
    """Answers "order" and "tasks"."""

    def _schedule(self, free: Numbers) -> None:
        """Give slots to the job with the least remaining time, then the next, as there are any."""
        wanting, epsilon = self._instances.wanting, self._config.epsilon
        claims = {job.id: Claim(job.held, _pending(job)) for job in wanting.values()}
        parts = FairParts(epsilon, self.cluster.slots, self.cluster.held, claims)
        lacking = [wanting[job] for job in parts.lacking]
        others = [job for job in wanting.values() if job.id not in parts.lacking]
        for job in chain(self._in_order(lacking, free), self._in_order(others, free)):
            if not free.any():
                break
            self._choose(job, free, parts.cap(job.id, int(free.sum())))

    def _in_order(self, jobs: Iterable[JobView], free: Numbers) -> Iterable[JobView]:
        return by_remaining_time(jobs, self._plans, free, self._config.remaining)

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        site = self._sites.number[slot.rack]
        asked = self._instances.wanting if among is None else {job.id: job for job in among}
        return [asked[job] for job, at in self._launches.items() if at.get(site) and job in asked]

    def why(self, job: JobView) -> str:
        if job.id not in self._instances.wanting:
            return "no task is ready for a slot"
        if job.id in self._launches:
            return "it got slots at this instance"
        return "no slot for it at the last instance"


def _pending(job: JobView) -> int:
    return sum([stage.pending.count for stage in job.stages.values() if stage.open])


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
