"""What a scheduler is made of: six policies, each answering one question.

    data     on which nodes do a file's replicas go?
    order    whose turn is it?
    tasks    which of the job's tasks runs in this slot, if any?
    shuffle  when may reduces take slots, and when may they fetch?
    copies   which running task gets a second attempt?
    flows    what weight and priority does a fetch ask of the network?

A policy sees read-only views and answers; the core checks the answer and changes the state.  An
answer of ``Wait`` or ``Pass`` to the offer of a slot stands until a slot of that node is freed
again, until more tasks of the job are ready for slots, until ``Wait.until_s``, or until a policy
names the job in ``reconsider``; only then is the slot offered to that job again.  A ``Wait`` with
a ``level`` stands for all slots that are as near to the job's input, until the job is given one.

A class that answers several questions is listed under each; the core makes one object of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import NodeId, RackId
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.forecast import PredictedJob
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    JobView,
    Level,
    SlotView,
    StageView,
    TaskView,
)


class Place(msgspec.Struct, frozen=True):
    """Run an attempt of ``task`` in this slot, or in a free slot of ``node``."""

    task: TaskView
    why: str = ""
    node: NodeId | None = None


class Wait(msgspec.Struct, frozen=True):
    """The job could use this slot and hopes for a better one."""

    reason: str
    until_s: float | None = None  #: when to ask again
    #: how near the slot is to the job's input, if the answer to all slots as near is the same now
    level: Level | None = None


class Pass(msgspec.Struct, frozen=True):
    """The job has no use for this slot."""

    reason: str


Decision = Place | Wait | Pass


class InvalidDecision(InvariantError):
    """A policy proposed what cannot be: tells its name, what, where, and what led there."""


class NoConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy without settings."""


class Policy:
    """Base of all policies: what they are made with, and what they get told.

    The core calls only those of these methods that a class overrides.
    """

    #: its settings: a frozen ``msgspec.Struct`` whose fields have defaults and are validated
    Config: ClassVar[type[msgspec.Struct]] = NoConfig
    #: the prefix of its settings in ``scheduler_options``, such as "delay" of "delay.node_wait_s"
    section: ClassVar[str] = ""
    #: whether it looks at jobs' forecasts; for those who do not, nobody takes the trouble to make
    #: any.  A policy that overrides ``jobs_predicted`` need not say so
    uses_forecasts: ClassVar[bool] = False
    #: policies that this one is made of; each is told what happens before this one is
    parts: tuple[Policy, ...] = ()

    def __init__(self, config: msgspec.Struct, cluster: ClusterView) -> None:
        self.cluster = cluster

    def with_parts(self) -> Iterator[Policy]:
        """Its parts, with theirs, then itself."""
        for part in self.parts:
            yield from part.with_parts()
        yield self

    def jobs_predicted(self, jobs: Sequence[PredictedJob]) -> None:
        """These jobs are expected; they replace those predicted before that have not come."""

    def job_submitted(self, job: JobView) -> None:
        """A job is there."""

    def job_ended(self, job: JobView) -> None:
        """A job has succeeded or failed; some of its attempts may still hold slots."""

    def job_wants(self, job: JobView) -> None:
        """The job has tasks that are ready for slots, and had none before."""

    def job_rests(self, job: JobView) -> None:
        """The job has no tasks that are ready for slots any more."""

    def attempt_launched(self, attempt: AttemptView) -> None:
        """An attempt took a slot."""

    def attempt_progressed(self, attempt: AttemptView) -> None:
        """An attempt told how far it is."""

    def attempt_ended(self, attempt: AttemptView) -> None:
        """An attempt gave up its slot, whatever its outcome."""

    def task_done(self, task: TaskView) -> None:
        """A task has a winner."""

    def node_joined(self, node: SlotView) -> None:
        """A node is there."""

    def node_lost(self, node: SlotView) -> None:
        """A node is gone; its attempts and its output have been written off."""

    def reconsider(self) -> Iterable[JobView]:
        """Jobs whose earlier answers may no longer hold; asked after every event.

        The answers are those to offers, and the shuffle policy's: its ``limit`` and ``may_fetch``
        are asked again for these jobs.
        """
        return ()

    def wake_s(self) -> float | None:
        """When ``reconsider`` should be asked even if nothing happens; None = never.

        Asked after every event; the answer before does not count any more.
        """
        return None


class DataPolicy(Policy):
    """Answers "data"."""

    def replica_racks(self, data: DataAnnounced) -> Sequence[Sequence[RackId]]:
        """For each replica of data that is about to be written, the racks for its blocks.

        Empty or missing for a replica = the store's own rule.
        """
        raise NotImplementedError


class OrderPolicy(Policy):
    """Answers "order"."""

    def admit(self, job: JobView) -> None:
        """Raise ``UsageError`` if a job cannot be taken, say because there is no such queue."""

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        """The jobs that may have the slot, first things first.

        ``among`` are the only ones to choose from; None = all jobs that want slots (of which the
        policy is told by ``job_wants`` and ``job_rests``).  Taken from lazily: work done for jobs
        behind the first is often wasted.
        """
        raise NotImplementedError

    def why(self, job: JobView) -> str:
        """How the job stands in the order, such as "2 jobs ahead (share 3/4)"."""
        raise NotImplementedError


class TaskPolicy(Policy):
    """Answers "tasks"."""

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        """A slot is free and it is the job's turn."""
        raise NotImplementedError


class ShufflePolicy(Policy):
    """Answers "shuffle"."""

    def limit(self, stage: StageView) -> int:
        """How many slots the attempts of a reading stage may hold now; 0 = not yet."""
        raise NotImplementedError

    def why(self, stage: StageView) -> str:
        """Why ``limit`` is no higher."""
        raise NotImplementedError

    def may_fetch(self, stage: StageView) -> bool:
        """Whether the running attempts of the stage may start to fetch; never taken back."""
        raise NotImplementedError

    def patience_s(self, job: JobView) -> float:
        """How long reduces keep their slots while tasks that they wait for can't get any.

        After it the youngest of them gives its slot up to such a task of the same job.
        """
        raise NotImplementedError


class CopyPolicy(Policy):
    """Answers "copies".  Of two attempts of a task, the first that succeeds counts."""

    def offer(self, slot: SlotView, now_s: float) -> Decision:
        """A slot is free that no job wants; ``Place`` names a task that is running."""
        return Pass("no copies are made")


class FlowPolicy(Policy):
    """Answers "flows"."""

    def weight(self, reader: AttemptView) -> float:
        """The share that the reader's fetches get where they meet others; above 0."""
        raise NotImplementedError

    def priority(self, reader: AttemptView, size_bytes: int) -> tuple[float, ...]:
        """The place of a fetch of so many bytes, if the flow scheduler goes by priority.

        The smaller is served first, compared item by item, at most 8 of them; () is before all.
        """
        return ()
