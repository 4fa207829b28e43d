"""What a scheduler is made of: six policies, each answering one question.

    data     on which racks do a file's replicas go?
    order    which jobs may have this slot, and which of them first?
    tasks    which of the job's tasks runs in this slot, if any?
    shuffle  when may reduces take slots, and when may they fetch?
    copies   which running task gets a second attempt?
    flows    what weight and priority does a fetch ask of the network?

A policy sees read-only views (``views``) and answers offers of slots; what it wants that no slot
was offered for, it proposes (``propose``).  The core checks both and carries them out, see
``decisions``.

An answer of ``Wait`` or ``Pass`` to the offer of a slot stands until a slot of that node is
freed again, until more tasks of the job are ready for slots, until ``Wait.until_s``, or until a
policy names the job in ``reconsider``; only then is the slot offered to that job again.  A ``Wait``
with a ``level`` stands for all slots that are as near to the job's input, until the job is given
one.

A class that answers several questions is listed in the recipe under each; the core makes one object
of it.  A policy may be made of others, as Corral's has the order of ``capacity``: see ``parts``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from typing import ClassVar

import msgspec

from railyard.cluster.ids import RackId
from railyard.netemu.model.network import LinkState
from railyard.resourcemanager.interface.decisions import Decision, Proposal
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.forecast import PredictedJob
from railyard.resourcemanager.interface.views import (
    AttemptView,
    ClusterView,
    FetchView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)

FOR_GOOD = inf  #: see ``Policy.steady_until_s``


# Policies ----------------------------------------------------------------------------------------
class NoConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A policy without settings."""


class Policy:
    """Base of all policies: what they are made with, and what they are notified of.

    The core calls only those of these methods that a class overrides.
    """

    #: the type of its settings: a frozen ``msgspec.Struct``, all fields with validated defaults
    Config: ClassVar[type[msgspec.Struct]] = NoConfig
    #: the prefix of its settings in ``scheduler_options``, such as "delay" of "delay.node_wait_s"
    section: ClassVar[str] = ""
    #: whether it looks at jobs' forecasts; a scheduler without such a policy gets none.  A
    #: policy that overrides ``jobs_predicted`` need not say so
    uses_forecasts: ClassVar[bool] = False
    #: whether it looks at ``ClusterView.data``; without such a policy no data is reported.  A
    #: data policy that overrides ``propose`` need not say so
    uses_data: ClassVar[bool] = False
    #: whether it looks at ``ClusterView.links``; without such a policy nobody observes them.  A
    #: policy that overrides ``links_observed`` need not say so
    uses_network: ClassVar[bool] = False
    #: classes of parts whose settings are the recipe's, too, each under its own section; the
    #: constructor gets these settings after the cluster, in this order
    part_settings: ClassVar[tuple[type[Policy], ...]] = ()
    #: the policies that this one is made of; each is notified of an event before this one is
    parts: tuple[Policy, ...] = ()
    #: whether it has nothing to propose until it is notified of something; ``propose`` is not asked
    #: as long as this is set
    quiet: bool = False
    #: until then the core does not ask it after a report of progress: but for ``wake_s``, neither
    #: time nor progress changes its answers and proposals.  A subclass of which that is not true
    #: must set -inf, as it inherits this
    steady_until_s: float = -inf

    def __init__(self, config: msgspec.Struct, cluster: ClusterView) -> None:
        self.cluster = cluster

    def with_parts(self) -> Iterator[Policy]:
        """Its parts, with theirs, then itself."""
        for part in self.parts:
            yield from part.with_parts()
        yield self

    def jobs_predicted(self, jobs: Sequence[PredictedJob]) -> None:
        """Jobs are expected; they replace all predicted before that have not come."""

    def job_submitted(self, job: JobView) -> None:
        """A job was submitted and admitted."""

    def job_ended(self, job: JobView) -> None:
        """A job has succeeded or failed; some of its attempts may still hold slots."""

    def job_wants(self, job: JobView) -> None:
        """The job has tasks that are ready for slots, and had none before."""

    def job_rests(self, job: JobView) -> None:
        """The job has no tasks that are ready for slots any more."""

    def attempt_launched(self, attempt: AttemptView) -> None:
        """An attempt took a slot; it may have been a reservation before."""

    def attempt_progressed(self, attempt: AttemptView) -> None:
        """An attempt reported its progress."""

    def attempt_ended(self, attempt: AttemptView) -> None:
        """An attempt gave up its slot, whatever its outcome."""

    def attempt_ready(self, attempt: AttemptView) -> None:
        """All that a reservation's attempt reads is at its node; free slots there are offered."""

    def reservation_ended(self, attempt: AttemptView) -> None:
        """A reservation was withdrawn, has failed or is lost with its node; it had no slot."""

    def fetch_started(self, fetch: FetchView) -> None:
        """A fetch was started."""

    def fetch_ended(self, fetch: FetchView) -> None:
        """A fetch has ended: it has brought all, broke off, or was cancelled."""

    def task_done(self, task: TaskView) -> None:
        """A task has a winner."""

    def node_joined(self, node: SlotView) -> None:
        """A node joined, for the first time or again."""

    def node_lost(self, node: SlotView) -> None:
        """A node is lost, and so are its attempts and the map output on it."""

    def slots_changed(self, node: SlotView, before: int) -> None:
        """A node that is alive has other slots than ``before``; its attempts keep theirs."""

    def links_observed(self, changed: Mapping[str, LinkState]) -> None:
        """These links have changed: their capacities, or what is free of them; {link: now}."""

    def data_stored(self, path: str, jobs: Sequence[str]) -> None:
        """``ClusterView.data`` has blocks of a file, or has them elsewhere than before.

        ``jobs``: the names of those to come that will read it, as far as that is known.  Only for
        recipes that use data.
        """

    def input_moved(self, path: str, block: int) -> None:
        """A block of a file was moved, as proposed; ``ClusterView.data`` says where it is."""

    def input_not_moved(self, path: str, block: int) -> None:
        """A block of a file could not be moved: it is where it was."""

    def reconsider(self) -> Iterable[JobView]:
        """Jobs for which earlier answers may no longer hold; asked after every event.

        The answers are those to offers, and the shuffle policy's: its ``limit`` and ``may_fetch``
        are asked again for these jobs.
        """
        return ()

    def propose(self) -> Iterable[Proposal]:
        """What the policy wants that no slot was offered for; see ``decisions``.

        Asked after every event, once no job takes a slot, unless the policy is ``quiet``.  The
        proposals are carried out one by one as they are made, so that a generator sees what its
        last one has changed; slots are offered again; then it is asked again, until it proposes
        nothing.
        """
        return ()

    def wake_s(self) -> float | None:
        """When to ask ``reconsider`` and ``propose`` even if nothing happens; None = never.

        Asked after every event; each answer replaces the one before.
        """
        return None

    def figures(self) -> Mapping[str, float]:
        """Its own figures for the summary of a run, such as {"waits": 12}; {} = none.

        Asked when somebody wants a summary, so it must change nothing.  They count from the
        beginning, when the policy was made.  A name says what is counted or ends in its unit
        ("waited_s"); a number is finite.
        """
        return {}


class DataPolicy(Policy):
    """Answers "data": before a job's input is written."""

    def replica_racks(self, data: DataAnnounced) -> Sequence[Sequence[RackId]]:
        """The racks for the blocks of data that is about to be written: a list for each replica.

        An empty or missing list = the block store's own rule, which is HDFS's.
        """
        raise NotImplementedError


class OrderPolicy(Policy):
    """Answers "order": a slot is free and several jobs want it."""

    def admit(self, job: JobView) -> None:
        """Raise ``UsageError`` if a job cannot be taken, say because there is no such queue."""

    def candidates(self, slot: SlotView, among: Sequence[JobView] | None) -> Iterable[JobView]:
        """The jobs that may have the slot, in the order in which they are asked.

        ``among`` are the only ones to choose from; None = all jobs that want slots, which the
        policy knows by ``job_wants`` and ``job_rests``.  Read lazily: most often the first job
        takes the slot, and work for those behind it is wasted.
        """
        raise NotImplementedError

    def why(self, job: JobView) -> str:
        """What is before the job in the order, such as "2 jobs ahead (share 3/4)"."""
        raise NotImplementedError


class TaskPolicy(Policy):
    """Answers "tasks": a slot is offered to one job; proposes reservations."""

    def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
        """A free slot is offered to this job: place one of its tasks, wait or pass."""
        raise NotImplementedError

    def planned(self, task: TaskView) -> str:
        """What is planned for a task, such as "its job keeps to r0 r3"; "" = nothing.

        Asked for explanations only, right after an answer about the task; it must change nothing.
        """
        return ""


class ShufflePolicy(Policy):
    """Answers "shuffle": when reduces start, and when they fetch."""

    def limit(self, stage: StageView) -> int:
        """How many slots attempts of a stage that reads others may hold now; 0 = none yet."""
        raise NotImplementedError

    def why(self, stage: StageView) -> str:
        """The reason why ``limit`` is no higher."""
        raise NotImplementedError

    def may_fetch(self, stage: StageView) -> bool:
        """Whether the stage's running attempts may start to fetch; once True, it stays so."""
        raise NotImplementedError

    def patience_s(self, job: JobView) -> float:
        """Seconds for which reduces keep their slots while no task that they wait for has one.

        Then the youngest of them gives its slot up to such a task of the same job.
        """
        raise NotImplementedError


class CopyPolicy(Policy):
    """Proposes copies, and says whether the first of a task's attempts to succeed counts."""

    def first_counts(self, task: TaskView) -> bool:
        """An attempt of the task has just succeeded: whether its output is the task's at once.

        Otherwise the output is kept: it holds no slot and is fetched by nobody until the policy
        proposes to ``Take`` it.  What is kept of a task is taken when its last live attempt fails
        or is lost, and what is kept of a stage when nothing of it is pending or running and nothing
        is proposed; of several outputs, the first.
        """
        return True


class FlowPolicy(Policy):
    """Answers "flows": each fetch of a reduce is a flow; all weigh the same by default."""

    def weight(self, reader: AttemptView) -> float:
        """The weight of the reader's fetches where they share a link with others; above 0."""
        return 1.0

    def priority(self, reader: AttemptView, size_bytes: int) -> tuple[float, ...]:
        """The priority of a fetch of ``size_bytes``, for flow schedulers that serve by priority.

        At most 8 numbers, compared one by one, the smallest first.  () is after all that have one,
        as are reads and writes of blocks, which nobody is asked about.
        """
        return ()
