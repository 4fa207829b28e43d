"""The fair order of jobs of which some have a priority among themselves.

Source: Li and Shen (Co-scheduler), section V, say that Corral is Fair where no job recurs; how jobs
that do recur share the cluster with the others is left open there.  Chosen here: users are as under
``fair``; a user's planned jobs together have the share that they would have one by one, so that
other jobs lose nothing to them, and the highest priority among them takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from railyard.resourcemanager.interface.policies import OrderPolicy
from railyard.resourcemanager.interface.views import ClusterView, JobView, SlotView
from railyard.resourcemanager.schedulers.fair import FairConfig, FairOrder


class PlannedFair(OrderPolicy):
    """Answers "order" as a part of a scheduler that plans jobs.

    ``priority_of``: a job's place among the planned ones, the least first and no two alike; None =
    it is not planned.
    """

    Config = FairConfig
    section = "fair"

    def __init__(
        self, config: FairConfig, cluster: ClusterView, priority_of: Callable[[JobView], Any]
    ) -> None:
        super().__init__(config, cluster)
        self._fair = FairOrder(config, cluster)
        self.parts = (self._fair,)
        self._priority_of = priority_of

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        if among is None:
            for user in self._fair.users():
                yield from self._of_user([job for _, job in user.wanting])
        else:
            jobs = self._fair.candidates(slot, among)  # users come one after the other
            for _, group in groupby(jobs, key=lambda job: (job.queue, job.user)):
                yield from self._of_user(list(group))

    def _of_user(self, jobs: Sequence[JobView]) -> Iterator[JobView]:
        """A user's jobs, which come in the order of their shares."""
        planned = [job for job in jobs if self._priority_of(job) is not None]
        if not planned:
            yield from jobs
            return
        planned.sort(key=self._priority_of)
        share = sum(job.held for job in planned) / sum(job.weight for job in planned)
        richer: list[JobView] = []
        for job in jobs:
            if self._priority_of(job) is not None:
                continue
            if job.held / job.weight <= share:
                yield job
            else:
                richer.append(job)
        yield from planned
        yield from richer

    def why(self, job: JobView) -> str:
        return self._fair.why(job)

    def wanting(self) -> list[JobView]:
        """All jobs that want slots, the most deserving user's first."""
        return [job for user in self._fair.users() for _, job in user.wanting]

    def resort(self, queue: str) -> None:
        """Nothing: priorities are looked up whenever there is a slot."""
