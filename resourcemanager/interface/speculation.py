"""Speculative execution: a second attempt of tasks that are far behind, for every scheduler.

Source: Zaharia et al., OSDI 2008, "Improving MapReduce Performance in Heterogeneous Environments",
the LATE scheduler: copy the task that will end last, if it is slow, on a node that is not, and few
at a time.

    rate of an attempt   progress / seconds since its launch
    time left            (1 - progress) / rate
    slow task            its rate is below the 25th percentile (SlowTaskThreshold)
    slow node            the mean rate of the attempts there is (SlowNodeThreshold)
    cap                  copies may hold 10 % of the slots (SpeculativeCap)

Left open there, chosen here: rates are compared within a stage, with those of the tasks that are
done; a node without an attempt of the stage is not slow (the paper adds up all progress of a node,
which supposes that all nodes are full all the time); a task that reads others is not slow before
all of these are done, for until then it may just wait; one copy is always allowed; where several
tasks end equally late, the first goes first.

Off by default: set ``speculation.on``.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec

from railyard.cluster.errors import require
from railyard.cluster.ids import AttemptId, NodeId, StageId
from railyard.resourcemanager.interface.decisions import Copy, Proposal
from railyard.resourcemanager.interface.estimates import Estimates
from railyard.resourcemanager.interface.policies import CopyPolicy, Policy
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)

#: Durations are at least this, in seconds; simulated tasks may take no time at all.
_SHORTEST_S = 1e-9
#: Seconds between two looks while nothing happens, if every event is a look (``every_s = 0``).
_QUIET_S = 1.0


class SpeculationConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "speculation.*"; the figures are the paper's, section 4."""

    on: bool = False  #: whether tasks that are far behind the others of their stage get a copy
    after_s: float = 60.0  #: an attempt is not judged before it has run for so long
    #: seconds between two looks at all attempts; 0: after each event, and at least once a second;
    #: mapreduce.job.speculative.retry-after-no-speculate
    every_s: float = 1.0
    cap: float = 0.1  #: SpeculativeCap, share of the cluster's slots; at least one slot
    slow_task: float = 0.25  #: SlowTaskThreshold, as a share of the stage's tasks
    slow_node: float = 0.25  #: SlowNodeThreshold, as a share of the nodes that ran any of them
    #: a slow task's progress also has to be so far below the mean of its stage's tasks; 0: need
    #: not.  0.2 in Hadoop 1 (TaskInProgress.SPECULATIVE_GAP), where that is what makes a task slow
    gap: float = 0.0

    def __post_init__(self) -> None:
        require(self.after_s >= 0, "speculation.after_s", self.after_s, "seconds >= 0")
        require(self.every_s >= 0, "speculation.every_s", self.every_s, "seconds >= 0")
        for name in ("cap", "slow_task", "slow_node", "gap"):
            share = getattr(self, name)
            require(0 <= share <= 1, f"speculation.{name}", share, "a share in [0, 1]")


class Speculation(CopyPolicy):
    """Proposes LATE's copies; does nothing at all unless it is on."""

    Config = SpeculationConfig
    section = "speculation"

    def __init__(self, config: SpeculationConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        if config.on:
            self.parts = (Late(config, cluster),)


class Late(Policy):
    """The part of ``Speculation`` that works.

    ``others``: which tasks have copies of somebody else's, so that they are left alone.
    """

    section = "speculation"

    def __init__(
        self,
        config: SpeculationConfig,
        cluster: ClusterView,
        others: Callable[[TaskView], bool] = lambda _: False,
    ) -> None:
        super().__init__(config, cluster)
        self._config = config
        self._others = others
        self._copies: dict[AttemptId, None] = {}  #: copies that hold a slot
        #: all others that do, the oldest first
        self._originals: dict[AttemptId, AttemptView] = {}
        self._looked_s = -math.inf  #: when it looked last
        self._made: defaultdict[StageId, dict[AttemptId, None]] = defaultdict(dict)  #: all copies
        #: figures: copies, those with the output that counts, seconds for which they held slots
        self._started, self._won, self._held_s = 0, 0, 0.0
        self._estimates = Estimates(cluster)
        self.parts = (self._estimates,)
        #: {stage: {node: rates of the winners there}}
        self._by_node: defaultdict[StageId, dict[NodeId, list[float]]] = defaultdict(dict)

    # What has happened ---------------------------------------------------------------------------
    def attempt_launched(self, attempt: AttemptView) -> None:
        if self._others(attempt.task):
            return
        if len(attempt.task.live) > 1:
            self._copies[attempt.id] = self._made[attempt.task.stage.id][attempt.id] = None
            self._started += 1
        else:
            self._originals[attempt.id] = attempt

    def attempt_ended(self, attempt: AttemptView) -> None:
        self._originals.pop(attempt.id, None)
        if attempt.id in self._copies:
            del self._copies[attempt.id]
            self._held_s += self.cluster.now_s - attempt.launched_s

    def task_done(self, task: TaskView) -> None:
        winner, stage = task.winner, task.stage.id
        if winner is not None and winner.ended_s is not None:
            self._won += winner.id in self._made.get(stage, ())
            rate = _whole(winner.ended_s - winner.launched_s)
            self._by_node[stage].setdefault(winner.node.id, []).append(rate)

    def job_ended(self, job: JobView) -> None:
        for stage in job.stages.values():
            self._by_node.pop(stage.id, None)
            self._made.pop(stage.id, None)

    def figures(self) -> Mapping[str, float]:
        """What it did: copies, how many of them won, and the seconds x slots that they cost."""
        return {"copies": self._started, "copies_won": self._won, "copies_slot_s": self._held_s}

    # Copies --------------------------------------------------------------------------------------
    def propose(self) -> Iterable[Proposal]:
        """Copies of the tasks that end last, as many as may be.

        O(tasks of the stages at work) a look, and one look in ``every_s``.
        """
        return () if self.cluster.now_s < self.steady_until_s else self._look()

    @property
    def steady_until_s(self) -> float:  # type: ignore[override]
        return self._looked_s + self._config.every_s if self._may_copy() else math.inf

    def _look(self) -> Iterator[Proposal]:
        self._looked_s = self.cluster.now_s
        nodes: dict[bool, list[SlotView]] = {}  #: {for a reduce: those with a free slot}
        for left_s, attempt in sorted(self._slow(), key=lambda each: -each[0]):
            if not self._may_copy():
                return
            reads = bool(attempt.task.stage.reads)
            if reads not in nodes:
                free = self.cluster.free_nodes()
                nodes[reads] = [node for node in free if not node.is_full(reduces=reads)]
            if (node := self._node_for(attempt, nodes[reads])) is not None:
                nodes.clear()  # the copy takes one
                why = f"{attempt.id} is slow: {left_s:.1f} s left at its rate"
                yield Copy(attempt.task, node.id, why=why)

    def wake_s(self) -> float | None:
        """When it looks even if nothing happens: an attempt may be the only one, and stuck."""
        if not self._originals or not self._may_copy():
            return None
        oldest = next(iter(self._originals.values()))
        again_s = self._looked_s + (self._config.every_s or _QUIET_S)
        return max(again_s, oldest.launched_s + self._config.after_s)

    def _may_copy(self) -> bool:
        """Whether a slot is free, and one more copy may hold it."""
        most = max(1, math.floor(self._config.cap * self.cluster.slots))
        return self.cluster.free > 0 and len(self._copies) < most

    def _slow(self) -> Iterator[tuple[float, AttemptView]]:
        """(Seconds left, attempt) of the slow tasks that have no copy."""
        for job in self.cluster.jobs.values():
            for stage in job.stages.values():
                if stage.held and stage.may_copy and all(source.complete for source in stage.reads):
                    yield from self._slow_of(stage)

    def _slow_of(self, stage: StageView) -> Iterator[tuple[float, AttemptView]]:
        running = [task.live for task in stage.tasks if task.state == "running"]
        single = [
            live[0]
            for live in running
            if len(live) == 1 and not live[0].killing and not self._others(live[0].task)
        ]
        old = [each for each in single if self._age_s(each) >= self._config.after_s]
        if not old:
            return
        done = map(_whole, self._estimates.durations_s(stage))
        rates = sorted([*done, *(self._rate(live[0]) for live in running)])
        threshold = percentile(rates, self._config.slow_task)
        most = self._progress_max(stage)
        for attempt in old:
            rate = self._rate(attempt)
            if rate < threshold and attempt.progress <= most:
                yield ((1.0 - attempt.progress) / rate if rate else math.inf), attempt

    def _progress_max(self, stage: StageView) -> float:
        """Up to which progress a task may be slow, by ``gap``."""
        if not self._config.gap:
            return 1.0
        ended = stage.size - stage.pending.count - stage.running
        running = (task.live for task in stage.tasks if task.state == "running")
        reported = (max(attempt.progress for attempt in live) for live in running)
        return math.fsum([ended, *reported]) / stage.size - self._config.gap

    def _node_for(self, attempt: AttemptView, nodes: Iterable[SlotView]) -> SlotView | None:
        """The first node that is neither slow nor avoided nor the same."""
        stage, slow = attempt.task.stage, None
        for node in nodes:
            if node.id == attempt.node.id or node.id in stage.job.avoid:
                continue
            if slow is None:
                slow = self._slow_nodes(stage)
            if node.id not in slow:
                return node
        return None

    def _slow_nodes(self, stage: StageView) -> dict[NodeId, None]:
        """The nodes on which the stage's attempts are slow, on average."""
        rates = {node: list(some) for node, some in self._by_node[stage.id].items()}
        for task in stage.tasks:
            for attempt in task.live:
                rates.setdefault(attempt.node.id, []).append(self._rate(attempt))
        mean = {node: sum(some) / len(some) for node, some in rates.items()}
        threshold = percentile(sorted(mean.values()), self._config.slow_node)
        return {node: None for node, rate in mean.items() if rate < threshold}

    def _age_s(self, attempt: AttemptView) -> float:
        return self.cluster.now_s - attempt.launched_s

    def _rate(self, attempt: AttemptView) -> float:
        """Progress per second since its launch."""
        return attempt.progress / max(_SHORTEST_S, self._age_s(attempt))


def _whole(duration_s: float) -> float:
    """Progress per second of a task that is done."""
    return 1.0 / max(_SHORTEST_S, duration_s)


def percentile(ascending: list[float], share: float) -> float:
    """The number below which no more than ``share`` of the numbers are; there is at least one."""
    return ascending[min(len(ascending) - 1, int(share * len(ascending)))]
