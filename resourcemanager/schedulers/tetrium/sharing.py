"""Fairness against response time: how many of the free slots each job may have (4.4).

Every job keeps (1 - epsilon) of its fair part p of the S* slots that are free, in proportion to
tasks that are left; a job that is served may take all but what the jobs not served yet keep.
[As printed, the cap is the sum of the others' parts, and (1 - epsilon) is missing where they are
defined: with epsilon = 1 nobody would get a slot.]
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil

from railyard.cluster.ids import JobId

#: Parts of slots are sums of fractions.
_ROUNDING = 1e-9


class FairParts:
    """The caps of one scheduling instance."""

    def __init__(self, epsilon: float, free: int, tasks: Mapping[JobId, int]) -> None:
        total = max(1, sum(tasks.values()))
        #: p of the jobs that are yet to be served
        self._parts = {job: (1 - epsilon) * free * left / total for job, left in tasks.items()}
        self._kept = sum(self._parts.values())
        self._free = free

    def cap(self, job: JobId) -> int:
        """q: how many slots this job, which is served now, may have; rounded up."""
        self._kept -= self._parts.pop(job, 0.0)
        return max(0, ceil(self._free - self._kept - _ROUNDING))

    def given(self, slots: int) -> None:
        """The job just served got so many."""
        self._free -= slots
