"""Centralized: all input of a job is moved to one powerful site first, then the job runs there.

Source: the baseline of Hung et al., EuroSys 2018, sections 2.2 ("Central") and 6.3, which
"(upfront) aggregates all input data at a powerful datacenter".
Left open there, chosen here:

* The central site is the one that can take in and compute the most bytes/s: its downlink, or its
  slots at the topology's rate of maps, whichever is less; of equal ones that with more slots.
  ``centralized.site`` names another.  It is chosen when a job comes and no other job runs, and once
  it has no slots left.
* A job's blocks are moved from when it is submitted, as the example of 2.2 counts these 30 s; its
  tasks wait for all of them.  Sites send to it in parallel, and jobs take turns at each.
* Jobs are in fair order, stage by stage, as under ``in_place``.
* Replicas beyond the first stay where they are: one at the central site is enough.
* A block that can't be moved (its nodes are lost, or four attempts to move it failed) is not waited
  for: its task reads it from afar.  A job that avoids all nodes of the central site, as its
  attempts fail there, runs anywhere.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

import msgspec
import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.ids import JobId, NodeId, RackId
from railyard.cluster.units import format_count
from railyard.resourcemanager.interface.decisions import Decision, Pass
from railyard.resourcemanager.interface.defaults import ClosestTasks, StoreDecides
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    TaskView,
)
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.resourcemanager.schedulers.shared.blockmoves import BlockKey, BlockMoves, blocks_read
from railyard.resourcemanager.schedulers.shared.sites import RackWatch, SiteView, racks_with_slots


class CentralizedConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "centralized.*"."""

    site: str = ""  #: the central site, such as "r2"; "" = the one that takes in the most bytes/s


class Centralized(ClosestTasks, StoreDecides, RackWatch):
    """Answers "data" and "tasks"."""

    Config = CentralizedConfig
    section = "centralized"
    uses_data = True
    uses_network = True

    def __init__(self, config: CentralizedConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._sites = SiteView(cluster)
        right = f'"" or one of {", ".join(self._sites.names)}'
        named = not config.site or config.site in self._sites.number
        require(named, f"{self.section}.site", config.site, right)
        self._named = RackId(config.site) if config.site else None
        self._moves = BlockMoves(cluster)
        self.parts = (self._moves,)
        self._central: RackId | None = None  #: none before the first job
        #: {job: blocks that it waits for}
        self._waits_for: dict[JobId, dict[BlockKey, None]] = {}
        self._to_reconsider: dict[JobId, JobView] = {}

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        coming = len(self._waits_for[job.id])
        if coming:
            blocks = format_count(coming, "block")
            why = f"{blocks} of its input are yet to come to {self._central}"
            return Pass(why, everywhere=True)
        if slot.rack != self._central and self._has_slots(self._central, job.avoid):
            return Pass(f"it runs in {self._central}")
        return super().offer(job, slot, now_s)

    def planned(self, task: TaskView) -> str:
        return f"the central site is {self._central}"

    def reconsider(self) -> Iterable[JobView]:
        changed, self._to_reconsider = self._to_reconsider, {}
        return list(changed.values())

    def figures(self) -> Mapping[str, float]:
        return self._moves.totals()

    # The central site ----------------------------------------------------------------------------
    def _choose(self) -> RackId | None:
        """The best site with slots; the one named, or the one of before, if none has any."""
        if self._named is not None and self._has_slots(self._named):
            return self._named
        slots, (_, down) = self._sites.slots(), self._sites.links()
        if not slots.any():
            return self._central or self._named
        rates = np.minimum(down, slots * self.cluster.topology.compute.map_rate)
        return self._sites.names[int(np.lexsort((-down, -slots, -rates))[0])]

    def _has_slots(self, site: RackId | None, avoid: Container[NodeId] = ()) -> bool:
        return site in racks_with_slots(self.cluster, avoid)

    def _gather(self, job: JobView) -> None:
        """Have all blocks that a job still reads at the central site."""
        if self._central is None:
            self._waits_for[job.id] = {}
            return
        blocks: dict[BlockKey, None] = {}
        for stage in job.stages.values():
            blocks |= blocks_read(self.cluster, stage)
        for key in blocks:
            self._moves.want(key, self._central, job.id)
        self._waits_for[job.id] = {key: None for key in blocks if self._moves.is_pending(key)}
        self._to_reconsider[job.id] = job

    # What happens --------------------------------------------------------------------------------
    def job_submitted(self, job: JobView) -> None:
        if not self._waits_for:
            self._central = self._choose()
        self._gather(job)

    def job_ended(self, job: JobView) -> None:
        left = self._waits_for.pop(job.id, {})
        self._to_reconsider.pop(job.id, None)
        others = self._waits_for.values()
        self._moves.drop(key for key in left if not any(key in other for other in others))

    def input_moved(self, path: str, block: int) -> None:
        if self._moves.is_pending((path, block)):
            return
        for job, waits_for in self._waits_for.items():
            if waits_for.pop((path, block), self) is None and not waits_for:
                self._to_reconsider[job] = self.cluster.jobs[job]

    def input_not_moved(self, path: str, block: int) -> None:
        self.input_moved(path, block)  # it is not waited for any more, either

    def attempt_ended(self, attempt: AttemptView) -> None:
        job = attempt.task.stage.job
        waits = job.id in self._waits_for
        if job.avoid and waits and not self._has_slots(self._central, job.avoid):
            self._to_reconsider[job.id] = job

    def racks_changed(self) -> None:
        # the central site may be another now, and blocks elsewhere
        if not self._waits_for:
            return
        if not self._has_slots(self._central):
            self._central = self._choose()
        self._moves.forget()
        for job in self.cluster.jobs.values():
            self._gather(job)


RECIPE = Recipe(
    name="centralized",
    source="Hung et al., EuroSys 2018, sections 2.2 and 6.3",
    order=FairOrder,
    data=Centralized,
    tasks=Centralized,
    settings={"shuffle.slowstart": 1.0},
)
