"""In-Place: maps at the sites that hold their input, fair shares for jobs; Tetrium's baseline.

Source: Hung et al., EuroSys 2018, section 6.1: Spark "that runs tasks locally along with their
input data (site-locality)", stage by stage.  It also names delay scheduling within a job, but maps
never leave the site of their input: "In-Place does save some WAN usage by not transferring any data
in map-stage" (6.3.3, footnote 6).  So a job lets slots elsewhere pass for good here.
Left open there, chosen here: a map whose sites have no slots left, or none that the job may use,
runs at any other one.  ``in-place:delay`` gives up waiting as delay scheduling does, after
``delay.node_wait_s`` and ``delay.rack_wait_s``: the other reading.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace

from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.resourcemanager.interface.decisions import Decision, Place, Wait
from railyard.resourcemanager.interface.defaults import ClosestTasks
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import JobView, Level, TaskView
from railyard.resourcemanager.schedulers.delay import DelayTasks
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.resourcemanager.schedulers.shared.sites import RackWatch, racks_with_slots


class InPlaceTasks(ClosestTasks, RackWatch):
    """Answers "tasks": a map in the rack of its input, or wait for a slot there."""

    #: racks in which no node has slots; None = not known since a node has changed
    _closed: list[RackId] | None = None

    def offer_map(self, job: JobView, task: TaskView, level: Level, now_s: float) -> Decision:
        if level != "remote":
            return Place(task, level)
        stranded = self._stranded(job)
        if stranded is not None:
            return Place(stranded, "no slots where its input is")
        # without a level, as reduces of the same job may have a place at other slots as far away
        return Wait("only slots at other sites are free")

    def _stranded(self, job: JobView) -> TaskView | None:
        """A pending map with all of its input in racks without slots for the job."""
        if self._closed is None:
            self._closed = self._without_slots()
        closed = self._without_slots(job.avoid) if job.avoid else self._closed
        for rack in closed:
            for stage in job.stages.values():
                index = None if stage.reads else stage.pending.in_rack(rack)
                if index is not None:
                    task = stage.tasks[index]
                    if all(rack_of(node) in closed for node in task.input.nodes):
                        return task
        return None

    def _without_slots(self, avoid: Container[NodeId] = ()) -> list[RackId]:
        """The racks in which no node has slots, but for nodes to avoid."""
        open_racks = racks_with_slots(self.cluster, avoid)
        racks = self.cluster.topology.rack_list()
        return [rack.id for rack in racks if rack.id not in open_racks]

    def racks_changed(self) -> None:
        super().racks_changed()
        self._closed = None


RECIPE = Recipe(
    name="in-place",
    source="Hung et al., EuroSys 2018, section 6.1",
    order=FairOrder,
    tasks=InPlaceTasks,
    settings={"shuffle.slowstart": 1.0},
)
RECIPES = (RECIPE, replace(RECIPE, name="in-place:delay", tasks=DelayTasks))
