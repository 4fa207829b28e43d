"""Whose turn it is: the job with the fewest remaining stages, then with the least time left (4.1).

Left open there, chosen here: T of a job is that of its open stages together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from railyard.cluster.ids import JobId
from railyard.cluster.units import format_count
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.observed import LinkState
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.policies import OrderPolicy
from railyard.resourcemanager.interface.views import ClusterView, JobView, SlotView
from railyard.resourcemanager.schedulers.shared.sites import SiteView
from railyard.resourcemanager.schedulers.tetrium.instances import Instances
from railyard.resourcemanager.schedulers.tetrium.parameters import Remaining, TetriumConfig
from railyard.resourcemanager.schedulers.tetrium.stageplans import StagePlans


def by_remaining_time(
    jobs: Iterable[JobView], plans: StagePlans, free: Numbers, remaining: Remaining = "stages"
) -> Iterator[JobView]:
    """Jobs by G, their remaining stages; of equal ones that with the least T first.

    Read lazily: T is computed of the jobs that are reached only.  With ``remaining`` = "time", by
    the time of all of their stages, which the paper has for ideal and too slow to compute.
    """
    if remaining == "time":
        yield from sorted(jobs, key=lambda job: (plans.whole_time_s(job, free), job.submitted_s))
        return
    by_stages: dict[int, list[JobView]] = {}
    for job in jobs:
        left = sum(not stage.complete for stage in job.stages.values())
        by_stages.setdefault(left, []).append(job)
    for _, equal in sorted(by_stages.items()):
        if len(equal) == 1:
            yield equal[0]
            continue
        times_s = {job.id: plans.time_s(job, free) for job in equal}
        yield from sorted(equal, key=lambda job: (times_s[job.id], job.submitted_s))


class RemainingTimeOrder(OrderPolicy):
    """Answers "order", for tasks that others choose; sorted anew at each scheduling instance."""

    Config = TetriumConfig
    section = TetriumConfig.section
    uses_forecasts = True
    uses_network = True

    def __init__(self, config: TetriumConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._remaining = config.remaining
        self._sites = SiteView(cluster)
        estimates = Estimates(cluster)
        self._plans = StagePlans(config, cluster, self._sites, estimates)
        self._instances = Instances(config, cluster)
        self.parts = (estimates, self._plans, self._instances)
        self._place: dict[JobId, int] = {}  #: of each job in the order

    def reconsider(self) -> Iterable[JobView]:
        if self._instances.begins():
            wanting = self._instances.wanting.values()
            free = self._sites.free()
            ordered = by_remaining_time(wanting, self._plans, free, self._remaining)
            self._place = {job.id: place for place, job in enumerate(ordered)}
        return ()

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        jobs = self._instances.wanting.values() if among is None else among
        return sorted(jobs, key=lambda job: self._place.get(job.id, len(self._place)))

    def why(self, job: JobView) -> str:
        return f"{format_count(self._place.get(job.id, len(self._place)), 'job')} ahead"

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        self._sites.look_at_links()
