"""Iridium: maps where their input is, reduces so that the shuffle is as short as can be.

Source: Pu et al., "Low Latency Geo-distributed Data Analytics", SIGCOMM 2015, as Tetrium's authors
describe and compare with it (Hung et al., EuroSys 2018, sections 2.2, 3.2 and 6.1): it "processes
all the map tasks locally", jobs in fair order, both as ``in_place`` does; a stage's reduces are
spread over sites by the linear program of 3.2 without its computing time, as if each site had slots
for all.
Left open there, chosen here: of several such placements, that with the least bytes between sites,
which is the one of their example.  Reduces are placed when all that they read is done, and anew
when a site has lost all its slots.  Data is moved ahead of jobs that are predicted with
``iridium.move_data`` (``iridium_data``); off by default, as Tetrium's authors compare with its
placement of tasks, and with its placement of data apart (Fig. 8a).
"""

from __future__ import annotations

from railyard.netemu.model.arrays import Numbers
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place
from railyard.resourcemanager.interface.defaults import RERUN
from railyard.resourcemanager.interface.policies import NoConfig, TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.resourcemanager.schedulers.in_place import InPlaceTasks
from railyard.resourcemanager.schedulers.iridium_data import IridiumData
from railyard.resourcemanager.schedulers.placement.model import Solver, Stage
from railyard.resourcemanager.schedulers.placement.rounding import whole_tasks
from railyard.resourcemanager.schedulers.shared.plans import Plans
from railyard.resourcemanager.schedulers.shared.sites import SiteView


class IridiumTasks(TaskPolicy):
    """Answers "tasks"."""

    uses_network = True

    def __init__(self, config: NoConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        from railyard.resourcemanager.schedulers.placement import exact  # which loads numba

        exact.load_loops()
        self._solver: Solver = exact
        self._maps = InPlaceTasks(config, cluster)
        self._sites = SiteView(cluster)
        #: [sites] how many pending reduces of a stage are yet to start at each site
        self._plans: Plans[Numbers] = Plans(cluster)
        self.parts = (self._maps, self._plans)

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        rerun = job.next_rerun()
        if rerun is not None:
            return Place(rerun, RERUN)
        reduce = self._reduce_at(job, self._sites.number[slot.rack])
        if reduce is not None:
            return Place(reduce, "its plan has a reduce for this site")
        task, level = job.closest_pending_map(slot)
        if task is None:
            return Pass("its reduces are for other sites")
        return self._maps.offer_map(job, task, level)

    def planned(self, task: TaskView) -> str:
        planned = self._plans.of.get(task.stage.id)
        if planned is None:
            return ""
        return f"reduces yet to start at sites: {self._sites.counted(planned)}"

    def _reduce_at(self, job: JobView, site: int) -> TaskView | None:
        """A pending reduce that should run at this site."""
        for stage in job.stages.values():
            if stage.reads and stage.pending.count:
                reduce = stage.next_reduce()
                if reduce is not None and self._plan(stage)[site] > 0:
                    return reduce
        return None

    def _plan(self, stage: StageView) -> Numbers:
        """How many pending reduces should start at each site [sites]."""
        planned = self._plans.of.get(stage.id)
        if planned is None or int(planned.sum()) != stage.pending.count:
            planned = self._plans.of[stage.id] = self._placed(stage)
        return planned

    def _placed(self, stage: StageView) -> Numbers:
        slots, held = self._sites.slots(stage.job.avoid), self._sites.shuffle_at(stage)
        if held.any():
            sites = self._sites.with_slots(slots)
            plan = self._solver.place_reduces(sites, Stage(held, work_s=0.0))
            if plan is not None:
                return whole_tasks(plan.shares, stage.pending.count)
        return whole_tasks(slots / max(1, slots.sum()), stage.pending.count)

    # What happens --------------------------------------------------------------------------------
    def attempt_launched(self, attempt: AttemptView) -> None:
        planned = self._plans.of.get(attempt.task.stage.id)
        if planned is not None and len(attempt.task.live) == 1:
            planned[self._sites.number[attempt.node.rack]] -= 1


RECIPE = Recipe(
    name="iridium",
    source="Pu et al., SIGCOMM 2015, as in Hung et al., EuroSys 2018",
    order=FairOrder,
    data=IridiumData,
    tasks=IridiumTasks,
    settings={"shuffle.slowstart": 1.0},
)
