"""The plan that a running cluster goes by: read from a file, or made from forecasts and remade.

Source: Corral, section 3.1: the planner gets new estimates from time to time, plans again, and
hands new guidelines to the scheduler.
Left open there, chosen here: a job that has come, or has had its data placed, keeps its racks;
in a new plan these are busy until it was planned to be done.  A job without a forecast in the plan,
but with one when it or its data comes, is planned then, behind the others.  When slots change,
what has not come is planned again, with the mean of the machines' slots: racks count as alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import msgspec

from railyard.cluster.ids import RackId, rack_id
from railyard.cluster.topology import Topology
from railyard.resourcemanager.interface.forecast import Forecast, PredictedJob
from railyard.resourcemanager.schedulers.corral.latency import PlanOptions, RackCluster
from railyard.resourcemanager.schedulers.corral.planfile import Plan, PlannedJob
from railyard.resourcemanager.schedulers.corral.planner import plan
from railyard.resourcemanager.schedulers.corral.profiles import JobProfile, predicted_profile

#: As ``planner.Scenario``; "auto" = a batch if all jobs with forecasts come at once.
Aim = Literal["auto", "batch", "online"]

_USUAL = PlanOptions()


@dataclass(frozen=True, kw_only=True)
class RackAssignment:
    """Where a job should run, and before whom."""

    racks: tuple[RackId, ...]  #: R_j
    priority: tuple[float, int]  #: the least goes first: (T_j, p_j); of a plan's file (p_j, 0)
    end_s: float  #: when it is planned to be done


class CurrentPlan:
    """The assignments of all jobs that are planned.

    ``written``: a plan from a file; then no other job is planned.
    """

    def __init__(
        self,
        topology: Topology,
        aim: Aim = "auto",
        options: PlanOptions = _USUAL,
        written: Plan | None = None,
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
        self._written = {job.name: _as_written(job) for job in written.jobs} if written else {}

    def replan(self, jobs: Sequence[PredictedJob], now_s: float) -> None:
        """Plan these jobs, and drop what was planned for others that have not come."""
        if self._cluster is None:
            return
        self._stale = False
        self._open.clear()
        self._predicted = coming = [job for job in jobs if job.job not in self._settled]
        self._plan([predicted_profile(job, self._compute, now_s) for job in coming], now_s)

    def slots_changed(self, slots: float) -> None:
        """Machines have so many slots each, in the mean: for all that is planned from now on.

        The jobs that have not come are planned again when the next one does.
        """
        if self._cluster is not None and not self._options.slots:
            self._cluster = replace(self._cluster, slots=slots)
            self._stale = True

    def settle(self, job: str, forecast: Forecast | None, now_s: float) -> RackAssignment | None:
        """A job comes, or its data does: its assignment from now on; None = it is ad hoc.

        It is looked up by its own name, then by that of the recurring job.
        """
        names = [name for name in (job, forecast.name if forecast else "") if name]
        known = [name for name in names if name in self._written or name in self._settled]
        for name in known:
            return self._written.get(name) or self._settled[name]
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

    def over(self, job: str, forecast: Forecast | None) -> None:
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
        busy_s = list(self._busy_until_s(self._cluster, now_s))
        made = plan(profiles, self._cluster, aim, self._options, busy_until_s=busy_s)
        for job in sorted(made.jobs, key=lambda job: job.priority):
            self._planned += 1
            priority = (job.start_s, self._planned)
            self._open[job.name] = RackAssignment(
                racks=job.racks, priority=priority, end_s=job.end_s
            )

    def _busy_until_s(self, cluster: RackCluster, now_s: float) -> Iterator[float]:
        for number in range(cluster.racks):
            here = (job.end_s for job in self._settled.values() if rack_id(number) in job.racks)
            yield max(now_s, max(here, default=now_s))


def _as_written(job: PlannedJob) -> RackAssignment:
    return RackAssignment(racks=job.racks, priority=(job.priority, 0), end_s=job.end_s)
