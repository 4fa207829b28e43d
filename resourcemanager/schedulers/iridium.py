"""Iridium: maps where their input is, reduces so that the shuffle is as short as can be.

Source: Pu et al., "Low Latency Geo-distributed Data Analytics", SIGCOMM 2015.  That paper was not
at hand: followed is what Tetrium's authors say of it, who compare with it (Hung et al., EuroSys
2018, sections 2.2, 3.2, 6.1 and 6.3.1): it "processes all the map tasks locally", jobs in fair
order, both as ``in_place`` does; a stage's reduces are spread over sites by the linear program of
3.2 without its computing time, as if each site had slots for all.  It moves data "in advance" of
queries, by its well-known greedy heuristic: as long as the shuffle becomes faster by it, a part of
the input leaves the site whose uplink the shuffle waits for to where that helps most, in time.

Left open there, chosen here:

* Of several placements of reduces that are as fast, that with the least bytes between sites, which
  is the one of their example.  Reduces are placed when all that they read is done, and anew when a
  site has lost all its slots.
* Data is moved ahead of jobs that are predicted with ``iridium.move_data``; off by default, as
  Tetrium's authors compare with its placement of tasks, and with its placement of data apart
  (Fig. 8a).
* What a shuffle will move is the job's forecast: its first stages' output, in proportion to the
  input at each site.  Its time is the one that the placement of reduces would have.
* A job that nobody predicted gets no moves: between its submission and its first launch there is no
  time.  Once a job is submitted, what has not left yet stays.
* The files of a job are looked at together and once, a second after the last of them was stored, in
  the order in which jobs are expected; what several jobs read counts for the first.  A step moves a
  twentieth of their blocks, or one.
* What leaves and reaches a site in time fits its links, with all that was planned before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil

import msgspec
import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place
from railyard.resourcemanager.interface.defaults import RERUN, StoreDecides
from railyard.resourcemanager.interface.forecast import Forecast, PredictedJob
from railyard.resourcemanager.interface.policies import FOR_GOOD, NoConfig, TaskPolicy
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
from railyard.resourcemanager.schedulers.shared.blockmoves import BlockKey, BlockMoves
from railyard.resourcemanager.schedulers.shared.sites import Plans, Sites, SiteView
from railyard.resourcemanager.schedulers.tetrium.placement import (
    Plan,
    Solver,
    Stage,
    divided,
    whole_tasks,
)

#: After so long without news, all files of a job are taken to be known.
_SETTLED_S = 1.0
#: A step moves this share of a file's blocks.
_STEP = 1 / 20
#: Of so many sites, those that send for the longest time, a step may leave.
_SOURCES = 3
#: A shuffle that is shorter by less than this share is not shorter.
_GAIN = 1e-6


# Data --------------------------------------------------------------------------------------------
class IridiumDataConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "iridium.*"."""

    move_data: bool = False  #: whether input is moved ahead of the jobs that are predicted


class IridiumData(StoreDecides):
    """Answers "data": where the block store has it at first, then moved ahead of jobs."""

    Config = IridiumDataConfig
    section = "iridium"
    steady_until_s = FOR_GOOD
    uses_data = True
    uses_network = True

    def __init__(self, config: IridiumDataConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._on = config.move_data
        self._sites = SiteView(cluster)
        self._moves = BlockMoves(cluster, in_turn=False)
        self.parts = (self._moves,)
        self._predicted: dict[str, Forecast] = {}  #: {name: a job that has not come}
        #: {path: names of the jobs that will read it}, of files that were not planned for yet
        self._readers: dict[str, tuple[str, ...]] = {}
        self._plan_at_s: float | None = None  #: when to look at them
        self._for: dict[str, list[BlockKey]] = {}  #: {name of a job: blocks that move for it}
        #: when the planned moves leave each site's links free [up, down][sites]
        self._busy_until_s = np.zeros((2, len(self._sites)))

    def figures(self) -> Mapping[str, float]:
        return self._moves.totals() if self._on else {}

    # What happens --------------------------------------------------------------------------------
    def jobs_predicted(self, jobs: Sequence[PredictedJob]) -> None:
        self._predicted = {each.job: each.forecast for each in jobs}
        self._plan_at_s = self.cluster.now_s + _SETTLED_S

    def data_stored(self, path: str, jobs: Sequence[str]) -> None:
        if jobs:
            self._readers[path] = tuple(jobs)
            self._plan_at_s = self.cluster.now_s + _SETTLED_S

    def job_submitted(self, job: JobView) -> None:
        self._predicted.pop(job.name, None)
        self._moves.drop(self._for.pop(job.name, ()))

    def wake_s(self) -> float | None:
        return self._plan_at_s if self._on else None

    def reconsider(self) -> Iterable[JobView]:
        if not self._on or self._plan_at_s is None or self._plan_at_s > self.cluster.now_s:
            return ()
        self._plan_at_s = None
        expected = [
            (forecast.submit_s, name)
            for name, forecast in self._predicted.items()
            if forecast.submit_s is not None and shuffles(forecast)
        ]
        for due_s, name in sorted(expected):
            files = [path for path, readers in self._readers.items() if name in readers]
            for path in files:
                del self._readers[path]
            if files and due_s > self.cluster.now_s:
                self._plan(files, name, due_s)
        return ()

    # Plans ---------------------------------------------------------------------------------------
    def _plan(self, files: Sequence[str], job: str, due_s: float) -> None:
        """Move blocks of a job's files between sites by ``due_s``."""
        data = self.cluster.data
        blocks = {(path, at): block for path in files for at, block in enumerate(data[path])}
        at: list[list[BlockKey]] = [[] for _ in range(len(self._sites))]
        held_bytes = np.zeros(len(self._sites))
        for key, block in blocks.items():
            site = self._sites.of(block.nodes)
            if site >= 0:
                at[site].append(key)
                held_bytes[site] += block.size_bytes
        if not held_bytes.any():
            return
        step = ceil(len(blocks) * _STEP)
        step_bytes = step * max(block.size_bytes for block in blocks.values())
        sites = self._sites.with_slots(self._sites.slots())
        capacities = np.stack((sites.up_bytes_per_s, sites.down_bytes_per_s))
        free_s = np.maximum(self._busy_until_s, self.cluster.now_s)
        room_bytes = np.maximum(due_s - free_s, 0.0) * capacities
        moved = self._for[job] = []
        for source, target in better_places(sites, held_bytes, step_bytes, room_bytes):
            leaving, at[source] = at[source][-step:], at[source][:-step]
            for key in leaving:
                self._moves.want(key, self._sites.names[target], job)
            moved += leaving
            size_bytes = sum(blocks[key].size_bytes for key in leaving)
            for way, site in enumerate((source, target)):
                free_s[way, site] += size_bytes / capacities[way, site]
        self._busy_until_s = free_s


def better_places(
    sites: Sites, held_bytes: Floats, step_bytes: float, room_bytes: Floats
) -> Iterator[tuple[int, int]]:
    """Steps (from a site, to a site) of at most ``step_bytes``, each of which shortens the shuffle.

    ``held_bytes`` [sites] is the input, to which the shuffle is in proportion; ``room_bytes``
    [up, down][sites] what may leave and reach each site.
    """
    from railyard.resourcemanager.schedulers.tetrium import exact  # which loads numba

    def shuffle_of(held: Floats) -> Plan | None:
        return exact.place_reduces(sites, Stage(held, work_s=0.0))

    held, room, plan = held_bytes, room_bytes.copy(), shuffle_of(held_bytes)
    while plan is not None and plan.network_s > 0:
        best: tuple[Plan, Floats, int, int, float] | None = None
        # whoever has no uplink sends nothing, but for rounding
        times_s = divided(held * (1.0 - plan.shares), sites.up_bytes_per_s)
        slowest = np.argsort(-times_s, kind="stable")[:_SOURCES].tolist()
        for source in (site for site in slowest if held[site] > 0):
            size = min(step_bytes, float(held[source]))
            for target in range(len(held)):
                fits = room[0, source] >= size and room[1, target] >= size
                if target == source or not fits:
                    continue
                after = held.copy()
                after[source] -= size
                after[target] += size
                found = shuffle_of(after)
                if found is not None and (best is None or found.network_s < best[0].network_s):
                    best = found, after, source, target, size
        if best is None or best[0].network_s >= plan.network_s * (1 - _GAIN):
            return
        plan, held, source, target, size = best
        room[0, source] -= size
        room[1, target] -= size
        yield source, target


def shuffles(forecast: Forecast) -> bool:
    """Whether anything will be fetched from the stages of a job that read files."""
    read = {name for stage in forecast.stages for name in stage.reads}
    first = [stage for stage in forecast.stages if not stage.reads and stage.name in read]
    return any(stage.output_bytes for stage in first)


# Tasks --------------------------------------------------------------------------------------------
class IridiumTasks(TaskPolicy):
    """Answers "tasks"."""

    uses_network = True

    def __init__(self, config: NoConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        from railyard.resourcemanager.schedulers.tetrium import exact  # which loads numba

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
        return self._maps.offer_map(job, task, level, now_s)

    def planned(self, task: TaskView) -> str:
        planned = self._plans.of.get(task.stage.id)
        sites = "" if planned is None else self._sites.counted(planned)
        return f"reduces yet to start at sites: {sites}" if sites else ""

    def _reduce_at(self, job: JobView, site: int) -> TaskView | None:
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
