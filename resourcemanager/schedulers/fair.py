"""Fair sharing: pools, users in a pool and jobs of a user get equal slots, by weight.

Source: YARN's Fair Scheduler (FairSharePolicy.FairShareComparator), the hierarchy root -> pool ->
user -> job, each level by the same rule: whoever is below its minimum share (or below its demand,
if that is less) goes first, the one furthest below before the others; then whoever holds the
fewest slots for its weight; then whoever came first.
Left out: preemption (off by default there).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import ClassVar

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import JobId
from railyard.cluster.units import format_count
from railyard.resourcemanager.interface.policies import OrderPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import AttemptView, ClusterView, JobView, SlotView

#: (is not below its minimum share, held / minimum share, held / weight)
_Need = tuple[bool, float, float]
#: (tier, held / weight, submitted, length of the id, id): no two are equal
_JobKey = tuple[int, float, float, int, str]


class FairConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "fair.*"; those of a pool as in "fair.weights.research"."""

    weights: dict[str, float] = {}  #: of pools; 1 if not given
    min_slots: dict[str, int] = {}  #: of pools; 0 if not given
    user_weights: dict[str, float] = {}  #: of users within their pool; 1 if not given

    section: ClassVar[str] = "fair"  #: prefix of these settings

    def __post_init__(self) -> None:
        for field in ("weights", "user_weights"):
            for name, weight in getattr(self, field).items():
                require(weight > 0, f"{self.section}.{field}.{name}", weight, "a number above 0")
        for pool, slots in self.min_slots.items():
            require(slots >= 0, f"{self.section}.min_slots.{pool}", slots, "a whole number >= 0")


class User:
    """A user within a pool: the slots that it holds, and its jobs that want more."""

    def __init__(self, weight: float, came: int) -> None:
        self.weight = weight
        self.came = came
        self.held = 0
        self.wanting: list[tuple[_JobKey, JobView]] = []  #: the most deserving job first

    def key(self) -> tuple[_Need, int]:
        """Sorts users: the one that deserves a slot most first."""
        return _need(self.held, self.weight, 0), self.came


class _Pool:
    """A pool: the slots that it holds, and its users."""

    def __init__(self, weight: float, min_slots: int, came: int) -> None:
        self.weight = weight
        self.min_slots = min_slots
        self.came = came
        self.held = 0
        self.users: dict[str, User] = {}

    def key(self) -> tuple[_Need, int]:
        least = self.min_slots
        if self.held < least:
            least = min(least, self.held + self._pending())
        return _need(self.held, self.weight, least), self.came

    def _pending(self) -> int:
        jobs = (job for user in self.users.values() for _, job in user.wanting)
        stages = (stage for job in jobs for stage in job.stages.values() if stage.open)
        return sum(stage.pending.count for stage in stages)


class FairOrder(OrderPolicy):
    """Answers "order": the pool, the user, then the job with the smallest share.

    ``tier``: a user's jobs of lower ones go first; may change while a job rests, or by ``refile``.
    """

    Config = FairConfig
    section = "fair"

    def __init__(
        self, config: FairConfig, cluster: ClusterView, tier: Callable[[JobView], int] | None = None
    ) -> None:
        super().__init__(config, cluster)
        self._config = config
        self._tier = tier
        self._pools: dict[str, _Pool] = {}
        self._keys: dict[JobId, _JobKey] = {}  #: under which jobs that want slots are listed

    def job_submitted(self, job: JobView) -> None:
        if job.queue not in self._pools:
            weight = self._config.weights.get(job.queue, 1.0)
            min_slots = self._config.min_slots.get(job.queue, 0)
            self._pools[job.queue] = _Pool(weight, min_slots, len(self._pools))
        users = self._pools[job.queue].users
        if job.user not in users:
            users[job.user] = User(self._config.user_weights.get(job.user, 1.0), len(users))

    def job_wants(self, job: JobView) -> None:
        key = self._keys[job.id] = self._key(job)
        insort(self._user(job).wanting, (key, job))

    def job_rests(self, job: JobView) -> None:
        wanting, key = self._user(job).wanting, self._keys.pop(job.id)
        del wanting[bisect_left(wanting, key, key=itemgetter(0))]

    def attempt_launched(self, attempt: AttemptView) -> None:
        self._add(attempt.task.stage.job, 1)

    def attempt_ended(self, attempt: AttemptView) -> None:
        self._add(attempt.task.stage.job, -1)

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        if among is None:
            return self.waiting_jobs()
        return among if len(among) == 1 else sorted(among, key=self._path)

    def why(self, job: JobView) -> str:
        jobs = [other.id for other in self.waiting_jobs()]
        ahead = format_count(jobs.index(job.id) if job.id in self._keys else 0, "job")
        return f"{ahead} ahead (holds {job.held} of {self.cluster.slots} slots)"

    def refile(self, job: JobView) -> None:
        """Sort a job that wants slots in again, since its share or tier has changed."""
        if job.id in self._keys:
            self.job_rests(job)
            self.job_wants(job)

    def waiting_jobs(self) -> Iterator[JobView]:
        """All jobs that want slots, the most deserving user's first; sorted lazily."""
        return (job for user in self.users() for _, job in user.wanting)

    def users(self) -> Iterator[User]:
        """Users with jobs that want slots, the most deserving first; sorted lazily."""
        pools = (p for p in self._pools.values() if any(u.wanting for u in p.users.values()))
        for pool in sorted(pools, key=_Pool.key):
            users = (user for user in pool.users.values() if user.wanting)
            yield from sorted(users, key=User.key)

    def _path(self, job: JobView) -> tuple[tuple[_Need, int], tuple[_Need, int], object]:
        return self._pools[job.queue].key(), self._user(job).key(), self._key(job)

    def _key(self, job: JobView) -> _JobKey:
        # By length, then text: j9 came before j10.
        share = job.held / job.weight
        return self._tier(job) if self._tier else 0, share, job.submitted_s, len(job.id), job.id

    def _user(self, job: JobView) -> User:
        return self._pools[job.queue].users[job.user]

    def _add(self, job: JobView, slots: int) -> None:
        self._pools[job.queue].held += slots
        self._user(job).held += slots
        self.refile(job)


def _need(held: int, weight: float, min_slots: int) -> _Need:
    needy = held < min_slots
    return not needy, held / min_slots if needy else 0.0, held / weight


RECIPE = Recipe(name="fair", source="YARN's Fair Scheduler", order=FairOrder)
