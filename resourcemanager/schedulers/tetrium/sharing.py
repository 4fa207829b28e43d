"""Fairness against response time: how many slots each job may have (4.4).

Every job is to have (1 - epsilon) of its fair part p of the slots, in proportion to its tasks that
are left.  A job that is served may take all but what the jobs not served yet lack.
[As printed, the cap is the sum of the others' parts, and (1 - epsilon) is missing where they are
defined: with epsilon = 1 nobody would get a slot.]
Left open there, chosen here: S* are all slots, and what a job holds counts.  Of the few that one
instance has to give, parts of less than a slot are all that there is: epsilon would change nothing.
Jobs that lack some go first, so that what they leave goes to the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import NamedTuple

from railyard.cluster.ids import JobId

#: Parts of slots are sums of fractions.
_ROUNDING = 1e-9


class Claim(NamedTuple):
    """What a job that wants slots has, and wants."""

    held: int  #: slots
    pending: int  #: tasks that want one


class FairParts:
    """The caps of one scheduling instance."""

    def __init__(
        self, epsilon: float, slots: int, held: int, claims: Mapping[JobId, Claim]
    ) -> None:
        """``slots``, ``held``: of the cluster, also by jobs that want no more."""
        tasks = max(1, held + sum([claim.pending for claim in claims.values()]))
        part = (1 - epsilon) * slots / tasks  # of each task
        lacks = {job: (each.held + each.pending) * part - each.held for job, each in claims.items()}
        #: slots that jobs lack which are yet to be served
        self.lacking = {job: slots for job, slots in lacks.items() if slots > _ROUNDING}
        self._kept = sum(self.lacking.values())

    def cap(self, job: JobId, free: int) -> int:
        """q: how many of the free slots this job, which is served now, may have; rounded up."""
        self._kept -= self.lacking.pop(job, 0.0)
        return max(0, ceil(free - self._kept - _ROUNDING))
