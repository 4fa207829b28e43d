"""Jobs that keep to some racks: what Corral and the schedulers that it is compared with share.

Source: Corral (Jalaparti et al., SIGCOMM 2015), sections 3.1 and 5.  A job's tasks, maps and
reduces, take slots in its racks only.  A slot goes to the job with that rack that has the highest
priority; within its racks a job holds out for its data as in delay scheduling.  When most machines
of its racks can't be had, the job runs anywhere.  All other jobs are as under ``capacity``.
Left open there, chosen here: jobs with a priority and those without stand in one line, the queue's,
as they came; of those with one, who goes first is first in priority, and so on.  So planned jobs
take nothing from ad hoc ones, which are served as Yarn does (6.4).  Once enough machines are back,
a job keeps to its racks again; machines that the job avoids, since its attempts fail there, can't
be had either.  A map whose input is in none of the racks does not wait, as no slot
would be nearer.  While tasks that they read are pending, reduces take at most ``reduce_share`` of
the slots that the job could have in its racks; as published systems leave that open, none: in a
rack or two a job's maps come in many waves, and a reduce that waits for them keeps others' maps
from running.  (With Hadoop's ramp-up to a half, 200 jobs of Corral's W3 took 40 % longer, and lost
to ``capacity``.)
With ``work_conserving`` a slot that no job of its rack and no ad hoc job takes goes to the first
job in line whose own racks are full.  Corral's paper can be read both ways: tasks are constrained
to R_j (3.1), which is a preference that the RM makes every effort to respect (5); "to ensure work
conservation during job execution", a job's allocation may change (4.1).
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from railyard.cluster.errors import require
from railyard.cluster.ids import JobId, NodeId, RackId
from railyard.resourcemanager.interface.policies import Decision, Pass, Place, TaskPolicy
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
    Turn,
    turn_by_age,
)
from railyard.resourcemanager.schedulers.delay import DelayConfig, DelayTasks

Rank = tuple[float, int]
_Key = tuple[Rank, Turn]


@dataclass(frozen=True)
class Bounds:
    """The racks that a job keeps to, and its place among jobs with a priority."""

    racks: dict[RackId, None]
    rank: Rank | None = None  #: the least goes first; None = in the order of ``capacity``


class _Planned(NamedTuple):
    """The jobs of a queue with a rank, until they end: the n-th of them has the n-th turn."""

    keys: list[_Key]
    turns: list[Turn]


class RackBoundConfig(CapacityConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of queues as in "capacity.*", of waits as in "delay.*", and of racks."""

    section: ClassVar[str] = "rack-bound"

    node_wait_s: float = 5.0  #: how long a job holds out for a node-local slot; 0 = never
    rack_wait_s: float = 5.0  #: how much longer for a rack-local one, if it has several racks
    #: a job runs anywhere once more than this share of its racks' machines is lost: "a majority"
    lost_share: float = 0.5
    reduce_share: float = 0.0  #: of the slots in its racks, for reduces while maps are pending
    work_conserving: bool = False  #: a job may have slots elsewhere that nobody else takes

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("node_wait_s", "rack_wait_s"):
            value = getattr(self, name)
            require(value >= 0, f"{self.section}.{name}", value, "seconds >= 0 (0 never waits)")
        share = self.lost_share
        require(0 <= share < 1, f"{self.section}.lost_share", share, "a share in [0, 1)")
        share = self.reduce_share
        require(0 <= share <= 1, f"{self.section}.reduce_share", share, "a share in [0, 1]")


class RackBound(CapacityOrder, TaskPolicy):
    """Answers "order" and "tasks".  A subclass says who keeps to which racks."""

    def __init__(self, config: RackBoundConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._lost_share = config.lost_share
        self._reduce_share = config.reduce_share
        self._work_conserving = config.work_conserving
        waits = DelayConfig(node_wait_s=config.node_wait_s, rack_wait_s=config.rack_wait_s)
        self._delay = DelayTasks(waits, cluster)
        racks = cluster.topology.rack_list()
        self._nodes = {rack.id: tuple(node.id for node in rack.nodes) for rack in racks}
        self._lost: dict[RackId, dict[NodeId, None]] = {rack: {} for rack in self._nodes}
        self._bounds: dict[JobId, Bounds] = {}
        self._planned: dict[str, _Planned] = {}  #: by queue
        self._freed: dict[JobId, JobView] = {}  #: jobs that may run anywhere, as of now

    @abstractmethod
    def bind(self, job: JobView) -> Bounds | None:
        """The racks for a job that has just been submitted; None = it may run anywhere."""

    def racks_of(self, job: JobView) -> dict[RackId, None] | None:
        """The racks that a job keeps to now; None = it may run anywhere."""
        bounds = self._bounds.get(job.id)
        return bounds.racks if bounds and not self._is_lost(bounds, job) else None

    # Order ---------------------------------------------------------------------------------------
    def turns(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        elsewhere = []
        for job in super().turns(slot, among):
            racks = self.racks_of(job)
            if racks is None or slot.rack in racks:
                yield job
            elif self._work_conserving:
                elsewhere.append(job)
        yield from [job for job in elsewhere if self._may_leave(job)]

    def _may_leave(self, job: JobView) -> bool:
        """Whether all slots of the racks that a job keeps to are taken."""
        nodes, racks = self.cluster.nodes, self.racks_of(job)
        return racks is not None and not any(
            nodes[node].free for rack in racks for node in self._nodes[rack] if node in nodes
        )

    def turn_of(self, job: JobView) -> Turn:
        planned, key = self._planned.get(job.queue), self._key(job)
        if planned is None or key is None:
            return super().turn_of(job)
        return planned.turns[bisect_left(planned.keys, key)]

    def why(self, job: JobView) -> str:
        racks, key = self.racks_of(job), self._key(job)
        where = f" on {' '.join(racks)}" if racks is not None else ""
        if key is None:
            return super().why(job) + where
        ahead = bisect_left(self._planned[job.queue].keys, key)
        return f"{ahead} planned jobs before it, {super().why(job)}{where}"

    def _key(self, job: JobView) -> _Key | None:
        bounds = self._bounds.get(job.id)
        return (bounds.rank, turn_by_age(job)) if bounds and bounds.rank is not None else None

    # Tasks ---------------------------------------------------------------------------------------
    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        racks = self.racks_of(job)
        if racks is None:
            return self._delay.offer(job, slot, now_s)
        rerun = job.next_rerun()
        if rerun is not None:
            return Place(rerun)
        reduce = job.next_pending_reduce()
        if reduce is not None and self._may_reduce(reduce, job, racks):
            return Place(reduce)
        task, level = job.closest_pending_map(slot)
        if task is None:
            return Pass("reduces have their share of its racks' slots")
        if slot.rack not in racks:
            return Place(task, "its racks have no free slot")
        if level == "remote" and not _has_input_in(job, racks):
            return Place(task, "its input is in none of its racks")
        return self._delay.offer_map(job, task, level, now_s)

    def _may_reduce(self, reduce: TaskView, job: JobView, racks: Iterable[RackId]) -> bool:
        """Whether a job may have one more slot for a reduce, as far as its maps are concerned."""
        if not any(source.pending.count for source in reduce.stage.reads):
            return True
        held = sum(stage.held for stage in job.stages.values() if stage.reads)
        nodes = self.cluster.nodes
        free = sum(
            nodes[node].free for rack in racks for node in self._nodes[rack] if node in nodes
        )
        return held < int(self._reduce_share * (job.held + free))

    # What happens --------------------------------------------------------------------------------
    def job_submitted(self, job: JobView) -> None:
        bounds = self.bind(job)
        if bounds is None:
            return
        self._bounds[job.id] = bounds
        key = self._key(job)
        if key is not None:
            planned = self._planned.setdefault(job.queue, _Planned([], []))
            insort(planned.keys, key)
            insort(planned.turns, turn_by_age(job))
            self.turns_changed(job.queue)

    def job_ended(self, job: JobView) -> None:
        key = self._key(job)
        if key is not None:
            planned = self._planned[job.queue]
            at = bisect_left(planned.keys, key)
            del planned.keys[at], planned.turns[at]
            self.turns_changed(job.queue)
        self._bounds.pop(job.id, None)
        self._freed.pop(job.id, None)
        self._delay.job_ended(job)

    def attempt_ended(self, attempt: AttemptView) -> None:
        super().attempt_ended(attempt)
        job = attempt.task.stage.job
        bounds = self._bounds.get(job.id)
        if bounds and job.avoid and self._is_lost(bounds, job):
            self._freed[job.id] = job

    def node_joined(self, node: SlotView) -> None:
        if node.slots:
            self._lost[node.rack].pop(node.id, None)
        else:
            self.node_lost(node)

    def node_lost(self, node: SlotView) -> None:
        self._lost[node.rack][node.id] = None
        for job, bounds in self._bounds.items():
            if node.rack in bounds.racks and job in self.cluster.jobs:
                self._freed[job] = self.cluster.jobs[job]

    def reconsider(self) -> Iterable[JobView]:
        freed, self._freed = self._freed, {}
        yield from super().reconsider()
        yield from [job for job in freed.values() if self.racks_of(job) is None]
        if self._work_conserving and self.cluster.free:
            wanting = [job for queue in self._queues.values() for _, job in queue.wanting]
            yield from [job for job in wanting if self._may_leave(job)]

    def _is_lost(self, bounds: Bounds, job: JobView) -> bool:
        """Whether too many machines of a job's racks can't be had."""
        if not job.avoid and not any(map(self._lost.__getitem__, bounds.racks)):
            return False
        nodes = [node for rack in bounds.racks for node in self._nodes[rack]]
        lost = sum(
            node in job.avoid or node in self._lost[rack]
            for rack in bounds.racks
            for node in self._nodes[rack]
        )
        return lost > self._lost_share * len(nodes)


def _has_input_in(job: JobView, racks: Iterable[RackId]) -> bool:
    """Whether the input of any pending map of a job is in these racks."""
    maps = [stage for stage in job.stages.values() if not stage.reads and stage.pending.count]
    return any(stage.pending.in_rack(rack) is not None for stage in maps for rack in racks)
