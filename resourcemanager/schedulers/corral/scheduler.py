"""Corral: racks for a job's data and tasks, and its priority, are planned before the job comes.

Source: Jalaparti et al., Network-Aware Scheduling for Data-Parallel Jobs: Plan When You Can,
SIGCOMM 2015.  Here is what section 5 changes in Yarn and HDFS, and the plan that a running cluster
goes by (3.1): read from the file ``corral.plan`` (see ``railyard plan``), or made from forecasts,
of all jobs at once or of each as it comes, and made anew as estimates change.  The offline planner
(section 4) is ``planner``, its response functions (4.3) are ``latency``; where tasks of planned
jobs may run (3.1, 5) is ``shared.rackbound``.
``corral-fair`` is Corral as Co-scheduler's paper has it: "equivalent to Fair when there are not any
recurring jobs", and with Sunflow; without queues, so that "corral.guaranteed" says nothing.  Its
reduces overlap with maps as Yarn's do, and it plans for the mean, as jobs come online there.
``local-shuffle`` (section 6.1 c) is Corral's plan and tasks with HDFS's data.

Left open there, chosen here:

* One replica goes to R_j, spread evenly over its racks.  ``replica_racks`` says nothing of the
  others: together in another rack, by the block store's rule (4.5: on the least loaded rack), so
  that racks are filled less evenly than in 6.2.1.  A job's output goes where HDFS puts it.
* The planner counts a shuffle once, ``shuffle_in_waves`` once a wave of reduces, as 4.3 prints it:
  then W2's large jobs get 7 racks each, and not the 3 of 6.2.1.
* A job that has come, or has had its data placed, keeps its racks; in a new plan these are busy
  until it was planned to be done.  A job without a forecast in the plan, but with one when it or
  its data comes, is planned then, behind the others.
* When slots change, what has not come is planned again, with the mean of the machines' slots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Literal, NamedTuple

import msgspec

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import RackId, rack_id
from railyard.cluster.topology import Topology
from railyard.resourcemanager.interface.defaults import StoreDecides
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.forecast import Forecast, PredictedJob
from railyard.resourcemanager.interface.policies import DataPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView, JobView, SlotView
from railyard.resourcemanager.schedulers.corral.latency import (
    JobProfile,
    PlanOptions,
    RackCluster,
    predicted_profile,
)
from railyard.resourcemanager.schedulers.corral.planner import Plan, load_plan, plan
from railyard.resourcemanager.schedulers.fair import FairConfig, FairOrder
from railyard.resourcemanager.schedulers.shared.rackbound import RackBound, RackBoundConfig
from railyard.resourcemanager.schedulers.shared.sites import SlotCount

#: As ``planner.Scenario``; "auto" = a batch if all jobs with forecasts come at once.
Aim = Literal["auto", "batch", "online"]


class RackAssignment(NamedTuple):
    """Where a job should run, and before whom."""

    racks: tuple[RackId, ...]  #: R_j
    priority: tuple[float, int]  #: the least goes first: (T_j, p_j); of a plan's file (p_j, 0)
    end_s: float  #: when it is planned to be done


class CurrentPlan:
    """The assignments of planned jobs; with ``written``, a plan from a file, of no others."""

    def __init__(
        self, topology: Topology, aim: Aim, options: PlanOptions, written: Plan | None
    ) -> None:
        self._cluster = RackCluster.of(topology, options.slots) if written is None else None
        self._compute = topology.compute
        self._aim = aim
        self._options = options
        self._planned = 0  #: jobs so far: of equal starts the one that was planned first goes first
        self._predicted: list[PredictedJob] = []  #: those that were planned last
        self._stale = False  #: whether the slots have changed since
        self._open: dict[str, RackAssignment] = {}  #: of jobs that a new plan may move
        self._settled: dict[str, RackAssignment] = {}  #: of jobs that have come, or their data
        jobs = written.jobs if written else ()
        self._written = {
            job.name: RackAssignment(job.racks, (job.priority, 0), job.end_s) for job in jobs
        }

    def replan(self, jobs: Sequence[PredictedJob], now_s: float) -> None:
        """Plan these jobs, and drop what was planned for others that have not come."""
        if self._cluster is None:
            return
        self._stale = False
        self._open.clear()
        self._predicted = coming = [job for job in jobs if job.job not in self._settled]
        self._plan([predicted_profile(job, self._compute, now_s) for job in coming], now_s)

    def slots_changed(self, slots: float) -> None:
        """Machines have so many slots in the mean; the next job to come has others planned anew."""
        if self._cluster is not None and not self._options.slots:
            self._cluster = replace(self._cluster, slots=slots)
            self._stale = True

    def settle(self, job: str, forecast: Forecast | None, now_s: float) -> RackAssignment | None:
        """A job comes, or its data does: its assignment from now on; None = it is ad hoc.

        It is looked up by its own name, then by that of the recurring job.
        """
        names = [name for name in (job, forecast.name if forecast else "") if name]
        for name in names:
            known = self._written.get(name) or self._settled.get(name)
            if known is not None:
                return known
        if self._cluster is None or not names:
            return None
        if self._stale:
            self.replan([each for each in self._predicted if each.job in self._open], now_s)
        name = next((name for name in names if name in self._open), names[0])
        if name not in self._open and forecast is not None:
            unforeseen = PredictedJob(job=name, forecast=forecast)
            profile = predicted_profile(unforeseen, self._compute, now_s)
            self._plan([msgspec.structs.replace(profile, arrive_s=now_s)], now_s)
        if name not in self._open:
            return None
        self._settled[name] = self._open.pop(name)
        return self._settled[name]

    def ended(self, job: str, forecast: Forecast | None) -> None:
        """A job has ended; the next one of its name is planned again."""
        for name in (job, forecast.name if forecast else ""):
            self._settled.pop(name, None)

    def _plan(self, profiles: Sequence[JobProfile], now_s: float) -> None:
        if not profiles or self._cluster is None:
            return
        aim = self._aim
        if aim == "auto":
            at_once = len({profile.arrive_s for profile in profiles}) == 1 < len(profiles)
            aim = "batch" if at_once else "online"
        busy_s = [
            max([now_s, *(job.end_s for job in self._settled.values() if rack in job.racks)])
            for rack in map(rack_id, range(self._cluster.racks))
        ]
        made = plan(profiles, self._cluster, aim, self._options, busy_until_s=busy_s)
        for job in sorted(made.jobs, key=lambda job: job.priority):
            self._planned += 1
            priority = (job.start_s, self._planned)
            self._open[job.name] = RackAssignment(job.racks, priority, job.end_s)


# Section 5 ----------------------------------------------------------------------------------------
class CorralConfig(RackBoundConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "corral.*"."""

    section: ClassVar[str] = "corral"

    plan: str = ""  #: a plan's file; jobs that are not in it are ad hoc.  "" = from forecasts
    scenario: Aim = "auto"  #: of plans made from forecasts; "auto": batch if all come at once
    #: penalty for data out of balance, in units of 1 / (a rack's bandwidth to the core); 4.5 has 1
    imbalance: float = 1.0
    shuffle_in_waves: bool = False  #: count all of a shuffle once for each wave of reduces

    def __post_init__(self) -> None:
        super().__post_init__()
        self.options()

    def options(self) -> PlanOptions:
        return PlanOptions(imbalance=self.imbalance, shuffle_in_waves=self.shuffle_in_waves)


class Corral(RackBound, DataPolicy):
    """Answers "data", "order" and "tasks": in R_j, the job with the highest priority first."""

    Config = CorralConfig
    section = "corral"

    def __init__(
        self, config: CorralConfig, cluster: ClusterView, fair: FairConfig | None = None
    ) -> None:
        super().__init__(config, cluster, fair)
        racks = len(cluster.topology.rack_list())
        written = load_plan(Path(config.plan)) if config.plan else None
        if written is not None and written.racks != racks:
            right = f"need a plan for the {racks} there are"
            raise UsageError(f"{config.plan}: racks = {written.racks}: {right}")
        self._slots = SlotCount(cluster.topology)
        self._plan = CurrentPlan(cluster.topology, config.scenario, config.options(), written)

    # Data placement policy (section 5): one replica in R_j ---------------------------------------
    def replica_racks(self, data: DataAnnounced) -> Sequence[Sequence[RackId]]:
        planned = self._plan.settle(data.job, data.forecast, self.cluster.now_s)
        return () if planned is None or self.are_lost(planned.racks, {}) else (planned.racks,)

    # The plan (section 3.1): made from forecasts, followed by jobs that come ---------------------
    def jobs_predicted(self, jobs: Sequence[PredictedJob]) -> None:
        self._plan.replan(jobs, self.cluster.now_s)

    def node_joined(self, node: SlotView) -> None:
        super().node_joined(node)
        if self._slots.take(node):
            self._plan.slots_changed(max(1, self._slots.total) / self._slots.nodes)

    def job_submitted(self, job: JobView) -> None:
        planned = self._plan.settle(job.name, job.forecast, self.cluster.now_s)
        if planned is not None:
            self.bind(job, planned.racks, planned.priority)

    def job_ended(self, job: JobView) -> None:
        super().job_ended(job)
        self._plan.ended(job.name, job.forecast)


class CorralFair(Corral):
    """Corral whose jobs without forecasts are as under ``fair``; settings "fair.*", too."""

    part_settings = (FairOrder,)


RECIPE = Recipe(
    name="corral", source="Jalaparti et al., SIGCOMM 2015", data=Corral, order=Corral, tasks=Corral
)
RECIPES = (
    RECIPE,
    replace(
        RECIPE,
        name="local-shuffle",
        source="Jalaparti et al., SIGCOMM 2015, section 6.1 (c)",
        data=StoreDecides,
    ),
    replace(
        RECIPE,
        name="corral-fair",
        source="Li and Shen, IEEE/ACM Transactions on Networking, 2022, section V",
        data=CorralFair,
        order=CorralFair,
        tasks=CorralFair,
        flow_scheduler="sunflow",
        settings={"corral.reduce_share": 0.5, "corral.scenario": "online"},
    ),
)
