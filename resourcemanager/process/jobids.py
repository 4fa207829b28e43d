"""The ids of jobs: one after the other, or reserved first and used later."""

from __future__ import annotations

from itertools import count

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId

#: Ids that were reserved and not used yet; the oldest are forgotten.
RESERVED_MAX = 1000


class JobIds:
    """Gives each job an id of its own."""

    def __init__(self, first: int = 1) -> None:
        self._numbers = count(first)
        self._reserved: dict[JobId, None] = {}

    def reserve(self) -> JobId:
        """An id for a job to come."""
        job = self._next()
        self._reserved[job] = None
        if len(self._reserved) > RESERVED_MAX:
            del self._reserved[next(iter(self._reserved))]
        return job

    def id_for(self, reserved: JobId | None) -> JobId:
        """The id that a job gets: its reserved one, or the next.

        Raises ``PeerError`` if that is not reserved, or not any more.
        """
        if reserved is None:
            return self._next()
        if reserved not in self._reserved:
            raise PeerError(f"job {reserved}: this id is not reserved, or was used already")
        return reserved

    def used(self, job: JobId) -> None:
        """A job was accepted with this id: no other gets it."""
        self._reserved.pop(job, None)

    def _next(self) -> JobId:
        return JobId(f"j{next(self._numbers)}")
