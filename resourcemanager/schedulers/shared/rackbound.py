"""Jobs that keep to some racks, as under Corral and ShuffleWatcher.

Source: Corral (Jalaparti et al., SIGCOMM 2015), sections 3.1 and 5.  A job's tasks, maps and
reduces, take slots in its racks only.  A slot goes to the job with that rack that has the highest
priority; within its racks a job holds out for its data as in delay scheduling.  When most machines
of its racks are lost, the job runs anywhere.  All other jobs are as under ``capacity``.

Left open there, chosen here:

* Jobs with a priority and jobs without share their queue.  Those with one hold the positions that
  their ages give them, but the highest priority is at the first of these, and so on: planned jobs
  take nothing from ad hoc ones, which are served as Yarn does (6.4).
* Once enough machines are back, a job keeps to its racks again; machines that the job avoids, since
  its attempts fail there, count as lost.  A map with its input in none of the racks does not wait,
  as no slot would be nearer.
* While tasks that they read are pending, reduces take at most ``reduce_share`` of the slots that
  the job could have in its racks; as published systems leave that open, none: in a rack or two a
  job's maps come in many waves, and a reduce that waits for them keeps others' maps from running.
* With ``work_conserving`` a slot that no job of its rack and no ad hoc job takes goes to the first
  job without a free slot in its own racks.  The paper can be read both ways (3.1 and 5, 4.1).
* Where no job recurs, Corral is Fair, say Li and Shen (Co-scheduler), section V, and not how jobs
  that do recur share the cluster with the others (``PlannedFair``): users are as under ``fair``; a
  user's planned jobs together have the share that they would have one by one, so that other jobs
  lose nothing to them, and the highest priority among them takes it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, ClassVar, NamedTuple

from railyard.cluster.errors import require
from railyard.cluster.ids import JobId, NodeId, RackId
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place
from railyard.resourcemanager.interface.defaults import REDUCE, RERUN, ClosestTasks
from railyard.resourcemanager.interface.policies import FOR_GOOD, NoConfig, OrderPolicy, TaskPolicy
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    TaskView,
)
from railyard.resourcemanager.schedulers.capacity import (
    CapacityConfig,
    CapacityOrder,
    Position,
    by_age,
)
from railyard.resourcemanager.schedulers.delay import DelayConfig, DelayTasks
from railyard.resourcemanager.schedulers.fair import FairConfig, FairOrder


class PlannedFair(FairOrder):
    """The fair order of jobs of which some have a priority among themselves.

    ``priority_of``: a planned job's place, the least first and no two alike; None = not planned.
    """

    def __init__(
        self, config: FairConfig, cluster: ClusterView, priority_of: Callable[[JobView], Any]
    ) -> None:
        super().__init__(config, cluster)
        self._priority_of = priority_of

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        if among is None:
            for user in self.users():
                yield from self._of_user([job for _, job in user.wanting])
        else:
            jobs = super().candidates(slot, among)  # users come one after the other
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
        others = [job for job in jobs if self._priority_of(job) is None]
        yield from [job for job in others if job.held / job.weight <= share]
        yield from planned
        yield from [job for job in others if job.held / job.weight > share]

    def resort(self, queue: str) -> None:
        """Nothing: priorities are looked up whenever there is a slot."""


Priority = tuple[float, int]  #: the least goes first
_Key = tuple[Priority, Position]


class _Binding(NamedTuple):
    """The racks that a job keeps to, and its place among the jobs that have a priority."""

    racks: dict[RackId, None]
    key: _Key | None  #: None = it is in the order of ``capacity``


class RackBoundConfig(CapacityConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of queues as in "capacity.*", of waits as in "delay.*", and of racks."""

    section: ClassVar[str] = "rack-bound"

    node_wait_s: float = 5.0  #: how long a job holds out for a node-local slot; 0 = never
    rack_wait_s: float = 5.0  #: how much longer for a rack-local one, if it has several racks
    #: a job runs anywhere once more than this share of its racks' machines is lost: "a majority"
    lost_share: float = 0.5
    #: of the slots in its racks, for reduces while maps are pending.  No text fixes it: with more,
    #: early reduces keep a rack's slots from maps, and the published effect is lost
    reduce_share: float = 0.0
    #: a job may have slots elsewhere that nobody else takes (4.1); tasks keep to R_j (3.1) without.
    #: No text fixes it: the published effect holds with tasks that keep to R_j
    work_conserving: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("node_wait_s", "rack_wait_s"):
            value = getattr(self, name)
            require(value >= 0, f"{self.section}.{name}", value, "seconds >= 0 (0 never waits)")
        share = self.lost_share
        require(0 <= share < 1, f"{self.section}.lost_share", share, "a share in [0, 1)")
        share = self.reduce_share
        require(0 <= share <= 1, f"{self.section}.reduce_share", share, "a share in [0, 1]")


class RackBound(OrderPolicy, TaskPolicy):
    """Answers "order" and "tasks"; a scheduler made of it says which jobs keep to which racks.

    ``fair``: all other jobs are as under ``fair``, with these settings, instead of ``capacity``.
    """

    def __init__(
        self, config: RackBoundConfig, cluster: ClusterView, fair: FairConfig | None = None
    ) -> None:
        super().__init__(config, cluster)
        self._config = config
        if not config.work_conserving:  # then jobs are asked again as long as a slot is free
            self.steady_until_s = FOR_GOOD
        self._order: CapacityOrder | PlannedFair
        waits = DelayConfig(node_wait_s=config.node_wait_s, rack_wait_s=config.rack_wait_s)
        self._delay = DelayTasks(waits, cluster)
        #: answers for jobs that may run anywhere
        self._unbound: TaskPolicy
        if fair is None:
            self._order = CapacityOrder(config, cluster, self._position)
            self._unbound = self._delay
        else:
            self._order = PlannedFair(fair, cluster, self._key)
            self._unbound = ClosestTasks(NoConfig(), cluster)
        self.parts = (self._order, self._delay)
        racks = cluster.topology.rack_list()
        self._nodes = {rack.id: tuple(node.id for node in rack.nodes) for rack in racks}
        self._lost: dict[RackId, dict[NodeId, None]] = {rack: {} for rack in self._nodes}
        self._bindings: dict[JobId, _Binding] = {}
        #: {queue: {key: position}}, of its jobs with a priority until they end; both ascend
        self._planned: dict[str, dict[_Key, Position]] = {}
        self._freed: dict[JobId, JobView] = {}  #: jobs that may run anywhere since the last event

    def bind(self, job: JobView, racks: Iterable[RackId], priority: Priority | None = None) -> None:
        """Keep a job that has just been submitted to these racks.

        ``priority``: its place among the jobs that have one; None = it has the place of its age.
        """
        key = None if priority is None else (priority, by_age(job))
        self._bindings[job.id] = _Binding(dict.fromkeys(racks), key)
        if key is not None:
            self._rank(job.queue, [*self._planned.get(job.queue, ()), key])

    def _rank(self, queue: str, keys: Sequence[_Key]) -> None:
        """Give the jobs of a queue with a priority their positions."""
        self._planned[queue] = dict(zip(sorted(keys), sorted(age for _, age in keys), strict=True))
        self._order.resort(queue)

    def racks_of(self, job: JobView) -> dict[RackId, None] | None:
        """The racks that a job keeps to now; None = it may run anywhere."""
        binding = self._bindings.get(job.id)
        return binding.racks if binding and not self.are_lost(binding.racks, job.avoid) else None

    def are_lost(self, racks: Iterable[RackId], avoid: Mapping[NodeId, None]) -> bool:
        """Whether more than ``lost_share`` of the racks' machines is lost, or to be avoided."""
        if not avoid and not any(map(self._lost.__getitem__, racks)):
            return False
        nodes = [(node, rack) for rack in racks for node in self._nodes[rack]]
        lost = sum(node in avoid or node in self._lost[rack] for node, rack in nodes)
        return lost > self._config.lost_share * len(nodes)

    # Order ---------------------------------------------------------------------------------------
    def admit(self, job: JobView) -> None:
        self._order.admit(job)

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        elsewhere = []
        for job in self._order.candidates(slot, among):
            racks = self.racks_of(job)
            if racks is None or slot.rack in racks:
                yield job
            elif self._config.work_conserving:
                elsewhere.append(job)
        yield from [job for job in elsewhere if self._may_leave(job)]

    def _may_leave(self, job: JobView) -> bool:
        racks = self.racks_of(job)
        return racks is not None and not self._free_in(racks)

    def _free_in(self, racks: Iterable[RackId]) -> int:
        nodes = self.cluster.nodes
        return sum(
            nodes[node].free for rack in racks for node in self._nodes[rack] if node in nodes
        )

    def _position(self, job: JobView) -> Position:
        key = self._key(job)
        return by_age(job) if key is None else self._planned[job.queue][key]

    def why(self, job: JobView) -> str:
        racks, key = self.racks_of(job), self._key(job)
        where = f" on {' '.join(racks)}" if racks is not None else ""
        if key is None:
            return self._order.why(job) + where
        ahead = list(self._planned[job.queue]).index(key)
        return f"{ahead} planned jobs before it, {self._order.why(job)}{where}"

    def _key(self, job: JobView) -> _Key | None:
        binding = self._bindings.get(job.id)
        return binding.key if binding else None

    # Tasks ---------------------------------------------------------------------------------------
    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        racks = self.racks_of(job)
        if racks is None:
            return self._unbound.offer(job, slot, now_s)
        rerun = job.next_rerun()
        if rerun is not None:
            return Place(rerun, RERUN)
        reduce = job.next_pending_reduce()
        if reduce is not None and self._may_reduce(reduce, job, racks):
            return Place(reduce, REDUCE)
        task, level = job.closest_pending_map(slot)
        if task is None:
            return Pass("reduces have their share of its racks' slots")
        if slot.rack not in racks:
            return Place(task, "its racks have no free slot")
        if level == "remote" and not _has_input_in(job, racks):
            return Place(task, "its input is in none of its racks")
        return self._delay.offer_map(job, task, level, now_s)

    def planned(self, task: TaskView) -> str:
        racks = self.racks_of(task.stage.job)
        return "its job " + ("may run anywhere" if racks is None else f"keeps to {' '.join(racks)}")

    def _may_reduce(self, reduce: TaskView, job: JobView, racks: Iterable[RackId]) -> bool:
        """Whether a job may have one more slot for a reduce, as far as its maps are concerned."""
        if not any(source.pending.count for source in reduce.stage.reads):
            return True
        held = sum(stage.held for stage in job.stages.values() if stage.reads)
        return held < int(self._config.reduce_share * (job.held + self._free_in(racks)))

    # What happens --------------------------------------------------------------------------------
    def job_ended(self, job: JobView) -> None:
        key = self._key(job)
        if key is not None:
            self._rank(job.queue, [each for each in self._planned[job.queue] if each != key])
        self._bindings.pop(job.id, None)
        self._freed.pop(job.id, None)

    def attempt_ended(self, attempt: AttemptView) -> None:
        job = attempt.task.stage.job
        binding = self._bindings.get(job.id)
        if binding and job.avoid and self.are_lost(binding.racks, job.avoid):
            self._freed[job.id] = job

    def node_joined(self, node: SlotView) -> None:
        if node.slots:
            self._lost[node.rack].pop(node.id, None)
        else:
            self.node_lost(node)

    def slots_changed(self, node: SlotView, before: int) -> None:
        self.node_joined(node)  # without slots, it is as good as lost

    def node_lost(self, node: SlotView) -> None:
        self._lost[node.rack][node.id] = None
        for job, binding in self._bindings.items():
            if node.rack in binding.racks and job in self.cluster.jobs:
                self._freed[job] = self.cluster.jobs[job]

    def reconsider(self) -> Iterable[JobView]:
        freed, self._freed = self._freed, {}
        yield from [job for job in freed.values() if self.racks_of(job) is None]
        if self._config.work_conserving and self.cluster.free:
            yield from [job for job in self._order.waiting_jobs() if self._may_leave(job)]


def _has_input_in(job: JobView, racks: Iterable[RackId]) -> bool:
    """Whether the input of any pending map of a job is in these racks."""
    maps = [stage for stage in job.stages.values() if not stage.reads and stage.pending.count]
    return any(stage.pending.in_rack(rack) is not None for stage in maps for rack in racks)
