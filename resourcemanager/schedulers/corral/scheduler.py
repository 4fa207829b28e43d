"""Corral: racks for a job's data and tasks, and its priority, are planned before the job comes.

Source: Jalaparti et al., Network-Aware Scheduling for Data-Parallel Jobs: Plan When You Can,
SIGCOMM 2015, sections 3.1 and 5; the planner is ``resourcemanager.planning``, and where tasks of
planned jobs may run is ``rackbound``.  The plan is read from the file ``corral.plan`` (see
``railyard plan``), or made of what is predicted: of all jobs at once, or of each as it comes.
``local-shuffle`` (section 6.1 c) is Corral's plan and tasks with HDFS's data.
Left open there, chosen here: one replica goes to R_j, spread evenly over its racks; where the
others go, together in another rack, is the block store's rule: to its emptiest nodes (section 4.5
has the least loaded rack).  A job's output goes where HDFS puts it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import RackId
from railyard.resourcemanager.interface.defaults import StoreDecides
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.forecast import PredictedJob
from railyard.resourcemanager.interface.policies import DataPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView, JobView
from railyard.resourcemanager.schedulers.corral.latency import PlanOptions
from railyard.resourcemanager.schedulers.corral.planbook import Aim, PlanBook
from railyard.resourcemanager.schedulers.corral.planfile import Plan, load_plan
from railyard.resourcemanager.schedulers.shared.rackbound import Bounds, RackBound, RackBoundConfig


class CorralConfig(RackBoundConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "corral.*"."""

    section: ClassVar[str] = "corral"

    plan: str = ""  #: a plan's file; jobs that are not in it are ad hoc.  "" = from forecasts
    scenario: Aim = "auto"  #: of plans made of forecasts; "auto": batch if all come at once
    imbalance: float = 1.0  #: these two as in ``planning.latency.PlanOptions``
    shuffle_in_waves: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self.options()

    def options(self) -> PlanOptions:
        """Those of the planner."""
        return PlanOptions(imbalance=self.imbalance, shuffle_in_waves=self.shuffle_in_waves)


class Corral(RackBound, DataPolicy):
    """Answers "data", "order" and "tasks"."""

    Config = CorralConfig
    section = "corral"

    def __init__(self, config: CorralConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        racks = len(self._nodes)
        written = _read(config.plan, racks) if config.plan else None
        self._book = PlanBook(cluster.topology, config.scenario, config.options(), written)

    def jobs_predicted(self, jobs: Sequence[PredictedJob]) -> None:
        self._book.predicted(jobs, self.cluster.now_s)

    def replica_racks(self, data: DataAnnounced) -> Sequence[Sequence[RackId]]:
        guideline = self._book.settle(data.job, data.forecast, self.cluster.now_s)
        if guideline is None:
            return ()
        lost = sum(len(self._lost[rack]) for rack in guideline.racks)
        nodes = sum(len(self._nodes[rack]) for rack in guideline.racks)
        return () if lost > self._lost_share * nodes else (guideline.racks,)

    def bind(self, job: JobView) -> Bounds | None:
        guideline = self._book.settle(job.name, job.forecast, self.cluster.now_s)
        return Bounds(dict.fromkeys(guideline.racks), guideline.rank) if guideline else None

    def job_ended(self, job: JobView) -> None:
        super().job_ended(job)
        self._book.over(job.name, job.forecast)


def _read(path: str, racks: int) -> Plan:
    """A plan for a cluster of so many racks; ``UsageError`` if it is one for another."""
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
)
