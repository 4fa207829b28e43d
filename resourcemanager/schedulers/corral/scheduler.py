"""Corral: racks for a job's data and tasks, and its priority, are planned before the job comes.

Source: Jalaparti et al., Network-Aware Scheduling for Data-Parallel Jobs: Plan When You Can,
SIGCOMM 2015.  Here is what section 5 changes in Yarn and HDFS.  The offline planner (section 4) is
``planner``, its response functions (4.3) are ``latency``; where tasks of planned jobs may run (3.1,
5) is ``shared.rackbound``.  The plan is read from the file ``corral.plan`` (see ``railyard plan``),
or made from forecasts: of all jobs at once, or of each as it comes.
``corral-fair`` is Corral as Co-scheduler's paper has it: "equivalent to Fair when there are not any
recurring jobs", and with Sunflow; without queues, so that "corral.guaranteed" says nothing.
``local-shuffle`` (section 6.1 c) is Corral's plan and tasks with HDFS's data.
Left open there, chosen here: one replica goes to R_j, spread evenly over its racks; where the
others go, together in another rack, is the block store's rule: to its emptiest nodes (section 4.5
has the least loaded rack).  A job's output goes where HDFS puts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import RackId
from railyard.resourcemanager.interface.decisions import Decision
from railyard.resourcemanager.interface.defaults import StoreDecides
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.forecast import PredictedJob
from railyard.resourcemanager.interface.policies import DataPolicy, OrderPolicy, TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView, JobView, SlotView, TaskView
from railyard.resourcemanager.schedulers.corral.currentplan import Aim, CurrentPlan
from railyard.resourcemanager.schedulers.corral.latency import PlanOptions
from railyard.resourcemanager.schedulers.corral.planfile import Plan, load_plan
from railyard.resourcemanager.schedulers.fair import FairConfig, FairOrder
from railyard.resourcemanager.schedulers.shared.rackbound import RackBound, RackBoundConfig
from railyard.resourcemanager.schedulers.shared.slotcount import SlotCount


class CorralConfig(RackBoundConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "corral.*"."""

    section: ClassVar[str] = "corral"

    plan: str = ""  #: a plan's file; jobs that are not in it are ad hoc.  "" = from forecasts
    scenario: Aim = "auto"  #: of plans made from forecasts; "auto": batch if all come at once
    #: penalty for data out of balance, in units of 1 / (a rack's bandwidth to the core); 4.5 has 1
    imbalance: float = 1.0
    #: count all of a shuffle once for each wave of reduces.  4.3 prints it so, but W2's large jobs
    #: get 3 racks each in 6.2.1, and 7 by that; with this default they get 3 and 4
    shuffle_in_waves: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.options()

    def options(self) -> PlanOptions:
        """The planner's options."""
        return PlanOptions(imbalance=self.imbalance, shuffle_in_waves=self.shuffle_in_waves)


class Corral(DataPolicy, OrderPolicy, TaskPolicy):
    """Answers "data", "order" and "tasks"."""

    Config = CorralConfig
    section = "corral"

    def __init__(
        self, config: CorralConfig, cluster: ClusterView, fair: FairConfig | None = None
    ) -> None:
        super().__init__(config, cluster)
        self.bound = RackBound(config, cluster, fair)
        self.parts = (self.bound,)
        racks = len(cluster.topology.rack_list())
        written = _read(config.plan, racks) if config.plan else None
        self._slots = SlotCount(cluster.topology)
        self._plan = CurrentPlan(cluster.topology, config.scenario, config.options(), written)

    # Data placement policy (section 5): one replica in R_j ---------------------------------------
    def replica_racks(self, data: DataAnnounced) -> Sequence[Sequence[RackId]]:
        planned = self._plan.settle(data.job, data.forecast, self.cluster.now_s)
        return () if planned is None or self.bound.are_lost(planned.racks, {}) else (planned.racks,)

    # Task placement policy (section 5): in R_j, the job with the highest priority first ----------
    def admit(self, job: JobView) -> None:
        self.bound.admit(job)

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        return self.bound.candidates(slot, among)

    def why(self, job: JobView) -> str:
        return self.bound.why(job)

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        return self.bound.offer(job, slot, now_s)

    def planned(self, task: TaskView) -> str:
        return self.bound.planned(task)

    # The plan (section 3.1): made from forecasts, followed by jobs that come ---------------------
    def jobs_predicted(self, jobs: Sequence[PredictedJob]) -> None:
        self._plan.replan(jobs, self.cluster.now_s)

    def node_joined(self, node: SlotView) -> None:
        if self._slots.take(node):
            self._plan.slots_changed(max(1, self._slots.total) / self._slots.nodes)

    def slots_changed(self, node: SlotView, before: int) -> None:
        self.node_joined(node)

    def job_submitted(self, job: JobView) -> None:
        planned = self._plan.settle(job.name, job.forecast, self.cluster.now_s)
        if planned is not None:
            self.bound.bind(job, planned.racks, planned.priority)

    def job_ended(self, job: JobView) -> None:
        self._plan.over(job.name, job.forecast)


class CorralFair(Corral):
    """Corral whose jobs without forecasts are as under ``fair``; settings "fair.*", too."""

    part_settings = (FairOrder,)


def _read(path: str, racks: int) -> Plan:
    """The plan in a file; ``UsageError`` unless it is for this number of racks."""
    plan = load_plan(Path(path))
    if plan.racks != racks:
        raise UsageError(f"{path}: racks = {plan.racks}: need a plan for the {racks} there are")
    return plan


RECIPE = Recipe(
    name="corral",
    source="Jalaparti et al., SIGCOMM 2015",
    data=Corral,
    order=Corral,
    tasks=Corral,
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
    ),
)
