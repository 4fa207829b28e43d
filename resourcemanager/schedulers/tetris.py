"""Tetris: tasks are packed by fixed demands, where they fit and align best with what is available.

Source: Grandl et al., "Multi-Resource Packing for Cluster Schedulers", SIGCOMM 2014.  That paper
was not at hand: followed is what Tetrium's authors say of it, who compare with it (Hung et al.,
EuroSys 2018, section 6.3.1: it relies "on pre-determined resource requirement of jobs"), and what
is commonly known: of the tasks that fit on a machine the one goes first whose demands have the
largest dot product with what the machine has available; 10 % less counts what is read from other
machines; jobs with little work left are preferred; a share of the jobs that have most waits.
Left open there, chosen here:

* The resources of a site are slots, uplink and downlink, these as observed (``ClusterView.links``).
  All are shares of what the site has; of links what running tasks don't demand is available.
* A task demands one slot, and of links what it would use on average if it ran alone [summaries of
  that paper have its peak, by which reduces would run one by one]: its bytes from other sites,
  through the narrowest link on their way, over the time of that and of computing, as that was
  estimated when its stage began.  This is held from its launch to its end, used or not.  So each
  task fits somewhere.
* What a task reads at its own site counts as if from a device that is never busy; a task's penalty
  is in proportion to what it reads from others.
* Work left is slots x seconds of the tasks that are not done; it weighs as much as the alignment,
  by the means of both.  A job with more than others' shares comes last, but is not kept waiting
  for a slot that no other takes.  The preference for the last tasks before a barrier is left out.
* Tasks that run again, as others wait for them, need not fit.  Stage by stage, as ``in_place``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import NamedTuple

import msgspec
import numpy as np

from railyard.cluster.errors import require
from railyard.cluster.ids import AttemptId, JobId, StageId
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.network import LinkState
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.policies import FOR_GOOD, OrderPolicy, TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)
from railyard.resourcemanager.schedulers.fair import FairConfig, FairOrder
from railyard.resourcemanager.schedulers.shared.sites import SiteView

#: Demands are sums of fractions.
_ROUNDING = 1e-9


class TetrisConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "tetris.*"."""

    remote_penalty: float = 0.1  #: by how much less a task counts that reads all from other sites
    work_weight: float = 1.0  #: of the work that a job has left, against the alignment; 0 = none
    fairness: float = 0.25  #: share of the jobs, those with the most slots, that come last

    def __post_init__(self) -> None:
        for name in ("remote_penalty", "fairness"):
            value = getattr(self, name)
            require(0 <= value < 1, f"tetris.{name}", value, "a share in [0, 1)")
        weight = self.work_weight
        require(0 <= weight <= 1000, "tetris.work_weight", weight, "a number in [0, 1000]")


@dataclass(frozen=True)
class Demand:
    """What a task asks of links, if it runs at a site; bytes/s."""

    up: Floats  #: of each site's uplink [sites]
    down: float  #: of its own site's downlink
    reads: float  #: all that it reads, from its own site too
    remote: float  #: share of its bytes that come from other sites


class _Choice(NamedTuple):
    """The best task of a job for a slot."""

    task: TaskView
    alignment: float


def demand_at(site: int, held: Floats, up: Floats, down: Floats, computed_s: float) -> Demand:
    """What a task with its input ``held`` at sites, in bytes, demands at ``site``; all [sites]."""
    away = held.copy()
    away[site] = 0.0
    total, remote = float(held.sum()), float(away.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        read_s = max(np.where(away > 0, away / up, 0.0).max(), remote / down[site] if remote else 0)
    if remote:
        alone_s = read_s + computed_s
    else:  # as if it came through the downlink
        alone_s = total / down[site] + computed_s if down[site] else 0.0
    rate = 1.0 / alone_s if alone_s > 0 else 0.0
    return Demand(away * rate, remote * rate, total * rate, remote / total if total else 0.0)


def alignment(demand: Demand, free: float, down: float, down_free: float, penalty: float) -> float:
    """The dot product of a task's demands with what its site has available, less the penalty.

    ``free``: share of the site's slots; ``down``, ``down_free``: the downlink, and what is free.
    """
    reads = min(1.0, demand.reads / down) if down else 0.0
    near = 1.0 - demand.remote
    local_and_remote = near + demand.remote * (max(0.0, down_free) / down if down else 0.0)
    return (free + reads * local_and_remote) * (1.0 - penalty * demand.remote)


class Tetris(OrderPolicy, TaskPolicy):
    """Answers "order" and "tasks"."""

    Config = TetrisConfig
    section = "tetris"
    steady_until_s = FOR_GOOD
    uses_forecasts = True

    def __init__(self, config: TetrisConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._config = config
        self._sites = SiteView(cluster)
        self._estimates = Estimates(cluster)
        self._fair = FairOrder(FairConfig(), cluster)
        self.parts = (self._estimates, self._fair)
        self._wanting: dict[JobId, JobView] = {}
        self._room_grew = False  #: whether links have more room than at the last offers
        #: {attempt: its site, and what it demands}, while it has a slot
        self._running: dict[AttemptId, tuple[int, Demand]] = {}
        self._taken_up = np.zeros(len(self._sites))  #: bytes/s that they demand of uplinks
        self._taken_down = np.zeros(len(self._sites))
        self._free: Numbers = np.zeros(len(self._sites), np.int64)  #: slots, at the last offer
        self._slots: Numbers = self._sites.slots()  #: of nodes that are alive
        self._found: dict[JobId, _Choice | None] = {}  #: the best tasks for the slot at hand
        self._computed_s: dict[StageId, float] = {}  #: seconds of a task, as estimated at first
        #: {stage: {(site, site of the input, its bytes): demand of a task}}
        self._demands: dict[StageId, dict[tuple[int, int, int], Demand]] = {}

    # Order ---------------------------------------------------------------------------------------
    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        jobs = list(self._fair.candidates(slot, None))
        only = None if among is None else {job.id for job in among}
        first = ceil((1 - self._config.fairness) * len(jobs))
        self._free = self._sites.free()
        for group in (jobs[:first], jobs[first:]):
            found = {job.id: self._best(job, slot) for job in group if not only or job.id in only}
            self._found, scores = found, self._scores(group, found)
            fitting = [job for job in group if found.get(job.id) is not None]
            yield from sorted(fitting, key=lambda job: -scores[job.id])
            yield from [job for job in group if job.id in found and found[job.id] is None]

    def _scores(
        self, jobs: Iterable[JobView], found: Mapping[JobId, _Choice | None]
    ) -> dict[JobId, float]:
        """{job: alignment of its best task, less its weighted work}."""
        aligned = {job: choice.alignment for job, choice in found.items() if choice is not None}
        if len(aligned) < 2 or not self._config.work_weight:
            return aligned
        work_s = {job.id: self._work_s(job) for job in jobs if job.id in aligned}
        mean_s = fmean(work_s.values())
        weight = self._config.work_weight * fmean(aligned.values()) / mean_s if mean_s else 0.0
        return {job: value - weight * work_s[job] for job, value in aligned.items()}

    def _work_s(self, job: JobView) -> float:
        """Seconds that one slot would compute for what is left of a job."""
        return sum(
            (stage.size - stage.done) * self._task_s(stage)
            for stage in job.stages.values()
            if not stage.complete
        )

    def why(self, job: JobView) -> str:
        return self._fair.why(job)

    # Tasks ---------------------------------------------------------------------------------------
    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        found = self._found[job.id]
        if found is None:
            return Pass("no task fits: links have too little left")
        return Place(found.task, f"alignment {found.alignment:.3g}")

    def _best(self, job: JobView, slot: SlotView) -> _Choice | None:
        """The task of a job that fits and aligns best; None if none fits."""
        rerun = job.next_rerun()
        if rerun is not None:
            return _Choice(rerun, np.inf)
        site, (_, down) = self._sites.number[slot.rack], self._sites.links()
        free_share = float(self._free[site]) / max(1.0, float(self._slots[site]))
        down_free, penalty = float(down[site] - self._taken_down[site]), self._config.remote_penalty
        found: _Choice | None = None
        for stage in job.stages.values():
            if stage.pending.count and stage.open:
                for task in self._tasks_for(stage, slot):
                    demand = self._demand(task, site)
                    if self._fits(site, demand):
                        value = alignment(demand, free_share, float(down[site]), down_free, penalty)
                        if found is None or value > found.alignment:
                            found = _Choice(task, value)
        return found

    def _tasks_for(self, stage: StageView, slot: SlotView) -> list[TaskView]:
        """A stage's tasks among which to choose: the nearest, else one with input at each site."""
        if stage.reads:
            reduce = stage.next_reduce()
            return [] if reduce is None else [reduce]
        index, level = stage.pending.closest(slot.id, slot.rack)
        if index is None or level != "remote":
            return [] if index is None else [stage.tasks[index]]
        racks = sorted(stage.pending.racks(), key=self._sites.number.__getitem__)
        others = (stage.pending.in_rack(rack) for rack in racks)
        tasks = [stage.tasks[other] for other in others if other is not None]
        room = self._sites.links()[0] - self._taken_up
        return sorted(tasks, key=lambda task: -room[self._sites.of(task.input.nodes)])

    def _demand(self, task: TaskView, site: int) -> Demand:
        stage, source = task.stage, -1
        if not stage.reads:
            nodes = task.input.nodes
            near = any(self._sites.of((node,)) == site for node in nodes)
            source = site if near else self._sites.of(nodes)
        of_stage = self._demands.setdefault(stage.id, {})
        key = (site, source, task.input.input_bytes)
        known = of_stage.get(key)
        if known is None:
            up, down = self._sites.links()
            if stage.reads:
                held = self._sites.shuffle_at(stage) / stage.size
            else:
                held = np.zeros(len(self._sites))
                if source >= 0:
                    held[source] = task.input.input_bytes
            known = of_stage[key] = demand_at(site, held, up, down, self._task_s(stage))
        return known

    def _task_s(self, stage: StageView) -> float:
        """Seconds for which a task of a stage computes, as estimated at first."""
        if stage.id not in self._computed_s:
            self._computed_s[stage.id] = self._estimates.computed_s(stage).value
        return self._computed_s[stage.id]

    def _fits(self, site: int, demand: Demand) -> bool:
        up, down = self._sites.links()
        if demand.remote and not demand.down:
            return False  # some of it can't come
        enough = self._taken_up + demand.up <= up * (1 + _ROUNDING)
        taken_down = self._taken_down[site] + demand.down
        fits_down = not demand.down or taken_down <= down[site] * (1 + _ROUNDING)
        return bool(fits_down and enough[demand.up > 0].all())

    # What happens --------------------------------------------------------------------------------
    def job_wants(self, job: JobView) -> None:
        self._wanting[job.id] = job

    def job_rests(self, job: JobView) -> None:
        self._wanting.pop(job.id, None)

    def attempt_launched(self, attempt: AttemptView) -> None:
        site = self._sites.number[attempt.node.rack]
        demand = self._demand(attempt.task, site)
        self._running[attempt.id] = site, demand
        self._taken_up += demand.up
        self._taken_down[site] += demand.down

    def attempt_ended(self, attempt: AttemptView) -> None:
        site, demand = self._running.pop(attempt.id)
        self._taken_up -= demand.up
        self._taken_down[site] -= demand.down
        self._room_grew |= demand.down > 0
        if not self._running:  # but for rounding
            self._taken_up[:] = 0.0
            self._taken_down[:] = 0.0

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        if any(self._sites.refresh_links()):
            self._estimate_anew()

    def node_joined(self, node: SlotView) -> None:
        self._estimate_anew()

    def node_lost(self, node: SlotView) -> None:
        self._estimate_anew()

    def slots_changed(self, node: SlotView, before: int) -> None:
        self._slots = self._sites.slots()

    def task_done(self, task: TaskView) -> None:
        for reader in task.stage.readers:  # in parts, if one of its sources runs again
            self._demands.pop(reader.id, None)

    def job_ended(self, job: JobView) -> None:
        for stage in job.stages.values():
            self._demands.pop(stage.id, None)
            self._computed_s.pop(stage.id, None)

    def _estimate_anew(self) -> None:
        self._slots = self._sites.slots()
        self._demands.clear()
        self._room_grew = True

    def reconsider(self) -> Iterable[JobView]:
        again, self._room_grew = self._room_grew, False
        return list(self._wanting.values()) if again else ()


RECIPE = Recipe(
    name="tetris",
    source="Grandl et al., SIGCOMM 2014, as in Hung et al., EuroSys 2018",
    order=Tetris,
    tasks=Tetris,
    settings={"shuffle.slowstart": 1.0},
)
