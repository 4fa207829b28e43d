"""Capacity queues: each has a guaranteed part of the slots, and may use those that others leave.

Source: YARN's Capacity Scheduler (PriorityUtilizationQueueOrderingPolicy): the queue that uses
least of its guarantee goes first, of equal ones that with the larger guarantee; a queue grows
beyond its guarantee while slots are free, up to its maximum; jobs in a queue are served first
come, first served.
A job holds out for slots near its data, as under ``delay``: YARN counts the slots that it lets
pass (node-locality-delay), here it is seconds.
Left out: preemption (off by default there), priorities, and limits of users (user-limit-factor = 1
keeps one at the queue's guarantee there; here a queue is as elastic for one user as for many).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import ClassVar

import msgspec

from railyard.cluster.errors import require, unknown_name
from railyard.cluster.units import format_count
from railyard.resourcemanager.interface.policies import FOR_GOOD, OrderPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import AttemptView, ClusterView, JobView, SlotView
from railyard.resourcemanager.schedulers.delay import DelayTasks

#: sorts the jobs of a queue; no two jobs have the same
Position = tuple[float, int, str]


def by_age(job: JobView) -> Position:
    """First come, first served; jobs that came at the same time by their numbers."""
    # By length, then text: j9 came before j10.
    return job.submitted_s, len(job.id), job.id


class CapacityConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "capacity.*", as in "capacity.guaranteed.research" = 0.3."""

    #: {queue: share of all slots}; they add up to at most 1
    guaranteed: dict[str, float] = msgspec.field(default_factory=lambda: {"default": 1.0})
    maximum: dict[str, float] = {}  #: {queue: most that it may use}; all slots if not given

    section: ClassVar[str] = "capacity"  #: prefix of these settings

    def __post_init__(self) -> None:
        guaranteed, maximum = f"{self.section}.guaranteed", f"{self.section}.maximum"
        for queue, share in self.guaranteed.items():
            require(0 < share <= 1, f"{guaranteed}.{queue}", share, "a share in (0, 1]")
        total = sum(self.guaranteed.values())
        require(total <= 1 + 1e-9, guaranteed, total, "shares that add up to at most 1")
        for queue, share in self.maximum.items():
            if queue not in self.guaranteed:
                raise unknown_name("queue", queue, self.guaranteed)
            least = self.guaranteed[queue]
            right = f"a share in [{least:g}, 1]: it has {least:g} guaranteed"
            require(least <= share <= 1, f"{maximum}.{queue}", share, right)


class _Queue:
    def __init__(self, name: str, guaranteed: float, maximum: float) -> None:
        self.name = name
        self.guaranteed = guaranteed
        self.maximum = maximum
        self.held = 0
        self.wanting: list[tuple[Position, JobView]] = []  #: jobs that want slots, sorted

    def use(self) -> tuple[float, float, str]:
        """Sorts queues: the one that uses least of its guarantee first, then the largest."""
        return self.held / self.guaranteed, -self.guaranteed, self.name


class CapacityOrder(OrderPolicy):
    """Answers "order": the queue furthest below its guarantee, and in it the oldest job.

    ``position`` sorts the jobs of a queue in another way; it may change with ``resort``.
    """

    Config = CapacityConfig
    section = "capacity"
    steady_until_s = FOR_GOOD

    def __init__(
        self,
        config: CapacityConfig,
        cluster: ClusterView,
        position: Callable[[JobView], Position] = by_age,
    ) -> None:
        super().__init__(config, cluster)
        self._position = position
        self._queues = {
            name: _Queue(name, share, config.maximum.get(name, 1.0))
            for name, share in config.guaranteed.items()
        }
        #: queues passed over because of their ``maximum``
        self._passed_over: dict[str, None] = {}

    def admit(self, job: JobView) -> None:
        if job.queue not in self._queues:
            raise unknown_name("queue", job.queue, self._queues)

    def job_wants(self, job: JobView) -> None:
        insort(self._queues[job.queue].wanting, (self._position(job), job))

    def job_rests(self, job: JobView) -> None:
        wanting = self._queues[job.queue].wanting
        del wanting[bisect_left(wanting, self._position(job), key=itemgetter(0))]

    def resort(self, queue: str) -> None:
        """Sort a queue again, since the positions of its jobs have changed."""
        wanting = self._queues[queue].wanting
        wanting[:] = sorted((self._position(job), job) for _, job in wanting)

    def waiting_jobs(self) -> list[JobView]:
        return [job for queue in self._queues.values() for _, job in queue.wanting]

    def attempt_launched(self, attempt: AttemptView) -> None:
        self._queues[attempt.task.stage.job.queue].held += 1

    def attempt_ended(self, attempt: AttemptView) -> None:
        self._queues[attempt.task.stage.job.queue].held -= 1

    def reconsider(self) -> Iterable[JobView]:
        for queue in self._queues.values():
            if queue.name in self._passed_over and self._may_grow(queue):
                del self._passed_over[queue.name]
                yield from [job for _, job in queue.wanting]

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        if among is None:
            return self._all()
        if len(among) == 1:  # as mostly
            return among if self._has_room(self._queues[among[0].queue]) else ()
        may = [job for job in among if self._has_room(self._queues[job.queue])]
        return sorted(may, key=lambda job: (self._queues[job.queue].use(), self._position(job)))

    def why(self, job: JobView) -> str:
        queue = self._queues[job.queue]
        if not self._may_grow(queue):
            return f"queue {queue.name} is at its maximum: {queue.held} slots"
        before = bisect_left(queue.wanting, self._position(job), key=itemgetter(0))
        ahead = f"{format_count(before, 'job')} ahead"
        guarantee = queue.guaranteed * self.cluster.slots
        return f"{ahead} in queue {queue.name} ({queue.held} of {guarantee:g} slots)"

    def _all(self) -> Iterator[JobView]:
        queues = (queue for queue in self._queues.values() if queue.wanting)
        for queue in sorted(queues, key=_Queue.use):
            if self._has_room(queue):
                yield from [job for _, job in queue.wanting]

    def _has_room(self, queue: _Queue) -> bool:
        if not self._may_grow(queue):
            self._passed_over[queue.name] = None
            return False
        if self._passed_over:
            self._passed_over.pop(queue.name, None)
        return True

    def _may_grow(self, queue: _Queue) -> bool:
        # At least one slot, or a small queue on a small cluster would never run anything.
        return queue.held == 0 or queue.held + 1 <= queue.maximum * self.cluster.slots + 1e-9


RECIPE = Recipe(
    name="capacity", source="YARN's Capacity Scheduler", order=CapacityOrder, tasks=DelayTasks
)
