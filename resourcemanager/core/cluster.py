"""The cluster as the core knows it: who holds which slot, which offers are due, where data is.

Each change here keeps the counts in step with one another (``tests/oracles/invariants.py``).

Never here: decisions.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping
from operator import attrgetter
from random import Random

import msgspec

from railyard.cluster.ids import AttemptId, JobId, NodeId, RackId, StageId, TaskId, job_of
from railyard.cluster.messages import DiscardJob, KillAttempt
from railyard.cluster.messaging.wire import Command
from railyard.cluster.topology import Topology
from railyard.netemu.model.network import LinkState, Network, links_as_stated
from railyard.resourcemanager.core.jobs import Attempt, Job, Node, Position, Stage, Task
from railyard.resourcemanager.core.policies import Observer, Policies
from railyard.resourcemanager.core.records import JobRecord
from railyard.resourcemanager.interface.recipe import Option, Recipe


class InputBlock(msgspec.Struct, eq=False):
    """A block of a file."""

    stored_offset: int  #: of its first byte in the file
    size_bytes: int
    nodes: tuple[NodeId, ...]  #: nodes with a replica, sorted
    moving_to: NodeId | None = None  #: where a ``MoveBlock`` that has not ended takes it
    moving_from: NodeId | None = None  #: and from where; None = the block store decides


class SlotHistory:
    """The slots of all nodes over time, those of lost ones included."""

    def __init__(self, slots: int) -> None:
        self._at_first = slots
        self._changes: list[tuple[float, int]] = []  #: (when, by how many), by time

    def change(self, at_s: float, by: int) -> None:
        """There are so many slots more from now on, or less."""
        self._changes.append((at_s, by))

    def slot_s(self, begin_s: float, end_s: float) -> float:
        """Seconds x slots from one time to another."""
        return self._at_first * (end_s - begin_s) + sum(
            by * (end_s - max(at_s, begin_s)) for at_s, by in self._changes if at_s < end_s
        )


_position_of = attrgetter("position")


def _stated_links(topology: Topology) -> dict[str, LinkState]:
    return links_as_stated(topology.derived(Network))


class ClusterState:
    """All that the core knows."""

    def __init__(
        self, topology: Topology, recipe: Recipe, options: Mapping[str, Option], seed: int
    ) -> None:
        self.topology = topology
        self._order_seed = seed  #: draws the order of nodes that are assigned several tasks
        self.random = Random(seed)
        self.now_s = 0.0
        self.nodes: dict[NodeId, Node] = {}  #: every node that ever joined
        self.slots = 0  #: slots of the nodes that are alive
        self.free = 0  #: those that nobody holds
        self.slot_history = SlotHistory(topology.slots)
        self.empty_since_s: float | None = 0.0  #: since when no node is alive; None while one is
        self.lost_last: Node | None = None  #: the node that was lost last
        self.jobs: dict[JobId, Job] = {}  #: running or committing, as they were submitted
        self.draining: dict[JobId, Job] = {}  #: ended, but with attempts that still hold slots
        self.wanting = 0  #: how many of ``jobs`` have tasks that are ready for slots
        self.records: dict[JobId, JobRecord] = {}  #: of running jobs and of the last that ended
        self.attempts: dict[AttemptId, Attempt] = {}  #: every attempt that holds a slot
        self.reserved: dict[AttemptId, Attempt] = {}  #: every reservation
        self.keeping: dict[StageId, Stage] = {}  #: stages with tasks whose outputs are kept
        self.uses_data = recipe.uses_data  #: whether a policy looks at ``data``
        #: {path: blocks} of files that jobs read, as the block store reported last, if any policy
        #: uses them; a block's node may be lost since
        self.data: dict[str, list[InputBlock]] = {}
        self.uses_forecasts = recipe.uses_forecasts  #: else policies get none, whoever sends them
        self.commands: list[Command] = []  #: those that the event at hand has led to so far
        self.emit = self.commands.append  #: add a command
        self.freed: dict[NodeId, Node] = {}  #: nodes with slots that must be offered to all jobs
        self.due_jobs: dict[JobId, Job] = {}  #: to which all free slots must be offered
        self.touched: dict[JobId, Job] = {}  #: jobs with other slots or pending tasks than before
        self.with_free: list[Node] = []  #: nodes with free slots, by position; to be read only
        self._last_position: Position = (-1, 0, "")  #: of the node that was given a task last
        self._joined: Counter[RackId] = Counter()  #: how many nodes of each rack ever joined
        #: the links between racks, as they were observed last; none if no policy uses the network
        self.links: dict[str, LinkState] = (
            topology.derived(_stated_links).copy() if recipe.uses_network else {}
        )
        self.policies = Policies(recipe, options, self)
        self.observers: list[Observer] = []  #: of policies' answers

    @property
    def held(self) -> int:
        return len(self.attempts)

    # Nodes and slots -----------------------------------------------------------------------------
    def add_node(self, node: NodeId, rack: RackId, slots: int) -> Node:
        """Count a node in, for the first time or again."""
        known = self.nodes.get(node)
        draining = known is not None and known.draining
        slots = 0 if draining else slots
        position = self._position(node, rack) if known is None else known.position
        self._joined[rack] += known is None
        if known is not None and slots != known.slots:
            self.slot_history.change(self.now_s, slots - known.slots)
        fresh = self.nodes[node] = Node(node, rack, slots, position, draining=draining)
        fresh.reduce_slots = self.topology.racks.reduce_slots
        self.slots += slots
        self.free += slots
        self.empty_since_s = None
        self._update_free(fresh)
        self.freed[node] = fresh
        return fresh

    def _position(self, node: NodeId, rack: RackId) -> Position:
        """Where a node that joins for the first time is in the order in which slots are offered."""
        if self.topology.liveness.assign_multiple:
            return Random(f"heartbeats {self._order_seed} {node}").getrandbits(64), len(rack), rack
        # Among racks it goes by name, not by who joined first: on a real cluster that is chance.
        return self._joined[rack], len(rack), rack

    def drop_node(self, node: Node, reason: str) -> None:
        """Count a node out; its attempts still have to be released."""
        self.slots -= node.slots
        self.free -= node.free
        node.alive, node.free = False, 0
        node.lost_because = reason
        self.lost_last = node
        if not self.slots and not any(other.alive for other in self.nodes.values()):
            self.empty_since_s = self.now_s
        node.kept_for.clear()
        node.promised.clear()
        self.freed.pop(node.id, None)
        self._update_free(node)

    def resize_node(self, node: Node, slots: int) -> None:
        """Give a living node another number of slots; its attempts keep theirs."""
        before, free = node.free, max(0, slots - len(node.attempts))
        self.slot_history.change(self.now_s, slots - node.slots)
        self.slots += slots - node.slots
        self.free += free - before
        node.slots, node.free = slots, free
        self._update_free(node)
        if free > before:
            self.freed[node.id] = node

    def hold(self, attempt: Attempt) -> None:
        """Give the attempt a slot of its node, which has one."""
        task, node, name = attempt.task, attempt.node, attempt.id
        stage = task.stage
        job = stage.job
        self.attempts[name] = node.attempts[name] = stage.live[name] = attempt
        task.live += (attempt,)
        job.held += 1
        node.free -= 1
        self.free -= 1
        if not node.free:
            self._update_free(node)
        self._last_position = node.position
        self.touched[job.id] = job

    def release(self, attempt: Attempt) -> None:
        task, node, name = attempt.task, attempt.node, attempt.id
        stage = task.stage
        job = stage.job
        attempt.ended_s = self.now_s
        others = len(task.live) > 1
        task.live = tuple([a for a in task.live if a is not attempt]) if others else ()
        del self.attempts[name], node.attempts[name], stage.live[name]
        job.held -= 1
        stage.progress_sum -= attempt.progress
        job.record.slot_s += self.now_s - attempt.launched_s
        if node.alive and len(node.attempts) < node.slots:
            node.free += 1
            self.free += 1
            if node.free == 1:
                self._update_free(node)
            self.freed[node.id] = node
        self.touched[job.id] = job
        self.policies.notify("attempt_ended", attempt)
        if not job.held and job.id in self.draining:
            del self.draining[job.id]
            self.discard(job)

    # Reservations --------------------------------------------------------------------------------
    def reserve(self, attempt: Attempt) -> None:
        """Let an attempt read on its node without a slot."""
        task, node, name = attempt.task, attempt.node, attempt.id
        self.reserved[name] = node.reserved[name] = task.stage.reserved[name] = attempt
        task.reserved = attempt
        self.offer_again(node)

    def begin(self, attempt: Attempt) -> None:
        """A reservation is none any more: it is about to be given a slot."""
        attempt.move("given a slot")
        attempt.launched_s = self.now_s
        attempt.task.stage.progress_sum += attempt.progress
        self._forget_reservation(attempt)

    def end_reservation(self, attempt: Attempt, event: str) -> None:
        """A reservation has ended without a slot, since it is ``event``; its fetches have, too."""
        attempt.move(event)
        attempt.ended_s = self.now_s
        self._forget_reservation(attempt)
        job = attempt.task.stage.job
        if job.state == "running":
            self.make_due(job)  # the task is as well off elsewhere now
        self.policies.notify("reservation_ended", attempt)

    def withdraw(self, attempt: Attempt, reason: str) -> None:
        """End a reservation; as it holds nothing, nobody waits for the end of its process."""
        attempt.killing = reason
        self.end_reservation(attempt, "withdrawn")
        self.emit(KillAttempt(attempt=attempt.id, node=attempt.node.id, reason=reason))

    def offer_again(self, node: Node) -> None:
        """Offer a node's free slots to all jobs once more, as if one had just been freed."""
        if node.free:
            self.freed[node.id] = node

    def attempt(self, name: AttemptId) -> Attempt | None:
        """The attempt of that name, with or without a slot; None if there is none or it ended."""
        return self.attempts.get(name) or self.reserved.get(name)

    def _forget_reservation(self, attempt: Attempt) -> None:
        task, node, name = attempt.task, attempt.node, attempt.id
        del self.reserved[name], node.reserved[name], task.stage.reserved[name]
        task.reserved = None

    # ---------------------------------------------------------------------------------------------
    def avoidable(self) -> int:
        """How many nodes a job may avoid: a third, or bad luck could leave it none.  O(nodes)."""
        return sum(node.alive and not node.draining for node in self.nodes.values()) // 3

    def start_offers_after(self, node: NodeId) -> None:
        """Go on as if this node had been given a task last."""
        self._last_position = self.nodes[node].position

    def free_nodes(self) -> list[Node]:
        """Nodes with free slots, from the one after the last that was given a task.

        Each rack's first nodes come before any rack's second ones: so tasks spread over the racks,
        and a job's do not gather in one by accident; but see ``Liveness.assign_multiple``.
        """
        nodes = self.with_free
        if len(nodes) < 2:
            return nodes.copy()
        start = bisect_right(nodes, self._last_position, key=_position_of)
        return nodes[start:] + nodes[:start]

    # Attempts and jobs ---------------------------------------------------------------------------
    def running_task(self, name: TaskId) -> Task | None:
        """A task of a job that runs; None if there is none."""
        job = self.jobs.get(job_of(name))
        return None if job is None or job.state != "running" else job.task(name)

    def make_due(self, job: Job) -> None:
        """Offer all free slots to the job, since it has more tasks than before."""
        self.due_jobs[job.id] = job
        self.touched[job.id] = job
        self.review_wants(job)

    def discard(self, job: Job) -> None:
        """A job is over and holds no slot."""
        self.emit(DiscardJob(job=job.id))
        job.dissolve()

    def review_wants(self, job: Job) -> None:
        """Notify the policies if the job has begun or ceased to have tasks that are ready."""
        wants = job.has_ready_tasks()
        if wants != job.wanting:
            job.wanting = wants
            self.wanting += 1 if wants else -1
            self.policies.notify("job_wants" if wants else "job_rests", job)

    def kill(self, attempt: Attempt, reason: str) -> None:
        """Ask for an attempt's end; it keeps its slot until that has come."""
        if not attempt.killing:
            attempt.move("asked to end")
            attempt.killing = reason
            self.emit(KillAttempt(attempt=attempt.id, node=attempt.node.id, reason=reason))

    # How many slots reduces may hold -------------------------------------------------------------
    # ``Stage.limit`` is asked anew when a task that the stage reads is done or pending again, when
    # the last pending task of such a stage is launched, and right before its job is offered a slot.
    def review_limit(self, stage: Stage) -> None:
        """Ask the shuffle policy about one stage."""
        stage.limit = self.policies.ask_number(self.policies.shuffle.limit, stage)

    def review_limits(self, job: Job) -> None:
        """Ask about the stages of a job with tasks that could take a slot offered to it."""
        for stage in job.reduces:
            if stage.open and stage.pending.count:
                self.review_limit(stage)

    def review_readers(self, stage: Stage) -> None:
        """Ask about those who read a stage; let their tasks ask for slots that they may have."""
        for reader in stage.readers:
            if reader.pending.count:
                self.review_limit(reader)
                if reader.held < reader.limit:
                    reader.open = True
                    self.make_due(stage.job)

    # ---------------------------------------------------------------------------------------------
    def _update_free(self, node: Node) -> None:
        at = bisect_left(self.with_free, node.position, key=_position_of)
        listed = at < len(self.with_free) and self.with_free[at].position == node.position
        if node.free and not listed:
            self.with_free.insert(at, node)
        elif listed and not node.free:
            del self.with_free[at]
