"""Offering free slots to jobs, and checking what the policies answer.

After each event: a freed slot is offered to all jobs in order; then jobs that have more to run than
before are offered all free slots, one of each node in turn, or all of a node's if nodes are
assigned several (``Liveness.assign_multiple``); then the other free slots of that node are offered
to all jobs again.  Nothing else is asked again (see ``policies.py`` for when an answer
stands), so that an event costs a few offers and not jobs x slots.

Never here: what a launch entails; see ``attempts.py``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from railyard.cluster.ids import JobId
from railyard.cluster.messaging.wire import SECONDS_MAX
from railyard.resourcemanager.core.attempts import Attempts
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.jobs import Attempt, Job, Node, Stage, Task, stuck
from railyard.resourcemanager.core.launches import Launches
from railyard.resourcemanager.core.proposals import Proposals
from railyard.resourcemanager.core.shuffling.shuffle import Shuffle
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.decisions import (
    Decision,
    InvalidDecision,
    Pass,
    Place,
    Wait,
)
from railyard.resourcemanager.interface.events import TimerFired
from railyard.resourcemanager.interface.policies import Policy
from railyard.resourcemanager.interface.views import Level

_RELIEF = ".relief"  #: ends the names of timers after which ``_relieve`` looks at a job
_WAKE = "policies"  #: the timer of ``_set_wake``; no job is called so
_LEFT_FREE = (Wait, Pass)


@dataclass(eq=False)
class Offers:
    """Offers free slots to jobs, and has placed tasks launched."""

    _state: ClusterState
    _shuffle: Shuffle
    _launches: Launches
    _attempts: Attempts
    _proposals: Proposals

    def __post_init__(self) -> None:
        state = self._state
        self._passed: dict[JobId, Pass] = {}  #: answers to every slot, until a task is placed
        #: jobs that are ``starved``, and since when
        self._at_risk: dict[JobId, tuple[Job, float]] = {}
        self._wake_s: float | None = None  #: when a policy wants to be asked again, at the earliest
        self._reconsider = state.policies.hooks["reconsider"]
        self._wakes = state.policies.hooks["wake_s"]
        asked: list[Any] = [*self._reconsider, *self._wakes]
        self._asked: list[Policy] = [each.__self__ for each in asked] + self._proposals.policies
        self._steady_until_s: float | None = None  #: None: not known
        multiple = state.topology.liveness.assign_multiple
        self._offer_turn = self._fill if multiple else self._offer
        self._has_kinds = state.topology.racks.reduce_slots > 0  #: of slots: for maps, for reduces

    def timer_fired(self, event: TimerFired) -> None:
        """A job's wait is over; a timer of a job that has ended does not matter."""
        name = event.timer.removesuffix(_RELIEF)
        if name == _WAKE:
            self._wake_s = None  # what it wants is asked after every event
            return
        job = self._state.jobs.get(JobId(name))
        if job is None or event.timer != name:
            return
        job.wake_s = None
        self._state.make_due(job)

    def make(self) -> None:
        """Offer until nobody takes anything, and nobody proposes anything."""
        state = self._state
        self._steady_until_s = None
        for reconsider in self._reconsider:
            for view in list(state.policies.each(reconsider)):
                job = state.jobs.get(view.id)
                if job is not None and job.state == "running":
                    self._attempts.reconsider(job)
        if state.freed or state.due_jobs:
            self._steady_until_s = -math.inf  # policies may have another answer by now
            self._offer_all()
        if state.keeping or not all(policy.quiet for policy in self._proposals.policies):
            self._proposals.make(self._offer_all)
        if state.touched or self._at_risk:
            self._review_risks()
        if self._wakes:
            self._set_wake()

    def steady_until_s(self) -> float:
        """Until when ``make`` does nothing if all that comes are reports of progress."""
        if self._steady_until_s is None:
            until_s = [policy.steady_until_s for policy in self._asked]
            until_s += [-math.inf] if self._at_risk else [self._wake_s or math.inf]
            self._steady_until_s = min(until_s)
        return self._steady_until_s

    # Offers --------------------------------------------------------------------------------------
    def _offer_all(self) -> None:
        """Offer what was freed, and all to the jobs that are due, until no job takes anything."""
        state = self._state
        while state.freed or state.due_jobs:
            if state.freed:
                node = state.freed.pop(next(iter(state.freed)))
                if state.wanting or node.kept_for:
                    self._offer_node(node)
            else:
                self._offer_to_due()

    def _offer_node(self, node: Node) -> None:
        while node.kept_for and node.free:
            job = node.kept_for.pop(0)
            if job.wanting:
                self._offer(node, [job])
        while self._state.wanting and node.free and isinstance(self._offer(node, None), Place):
            if self._state.due_jobs:  # its other slots were free already, as those elsewhere were
                self._offer_to_due()

    def _offer_to_due(self) -> None:
        """Offer all free slots to the jobs that are due, in rounds of one slot per node."""
        jobs, self._state.due_jobs = list(self._state.due_jobs.values()), {}
        placed = True
        while placed:
            jobs = [job for job in jobs if job.wanting]
            placed = bool(jobs) and self._offer_round(jobs)

    def _offer_round(self, jobs: list[Job]) -> bool:
        """Offer a slot of each node with free ones to these jobs; whether any was taken."""
        placed = False
        self._passed.clear()
        refused: dict[Level, Wait] = {}  #: {distance: a single job's answer}
        first, nearness = jobs[0], jobs[0].nearness  #: that job's
        among = jobs  #: without those whose answer to every slot is known
        for node in self._state.free_nodes():
            if not node.free:
                continue
            if refused and (known := refused.get(nearness(node))):
                first.answer = known
                continue
            wanting = self._state.wanting
            answer = self._offer_turn(node, among)
            if isinstance(answer, Place):
                placed = True
                refused.clear()
                self._passed.clear()
                if self._state.wanting != wanting:  # this was the last task of one of them
                    jobs = [job for job in jobs if job.wanting]
                among = jobs
            elif self._passed:
                among = [job for job in jobs if job.id not in self._passed]
            elif self._has_kinds:
                continue  # slots of the other kind may suit it
            elif isinstance(answer, Wait) and answer.level is not None and len(among) == 1:
                refused[answer.level] = answer
                first, nearness = among[0], among[0].nearness
            if not among:
                break
        return placed

    def _fill(self, node: Node, among: list[Job]) -> Decision | None:
        """Offer a node's slots until nobody takes one; the first answer.

        Where any slot takes either, a reduce is the last, so that these spread over the nodes.
        """
        answer = first = self._offer(node, among)
        while node.free and isinstance(answer, Place):
            if answer.task.stage.reads and not self._has_kinds:
                break
            answer = self._offer(node, [job for job in among if job.wanting])
        return first

    def _offer(self, node: Node, among: list[Job] | None) -> Decision | None:
        """Offer a slot to jobs in their order until one takes it; returns the last answer."""
        state, asked = self._state, None
        decision: Decision | None = None
        try:
            for view in state.policies.order.candidates(node, among):
                job = state.jobs[view.id]
                if not job.wanting or node.id in job.avoid:
                    continue
                asked = job
                decision = self._answer(job, node)
                asked = None
                for observer in state.observers:
                    observer.answered(job, node, decision)
                if isinstance(decision, Place):
                    break
                self._keep_waiting(job, decision)
            else:
                return decision
        except InvalidDecision:
            raise
        except Exception as error:  # third parties' code
            failed = state.policies.failed
            if asked is None:
                raise failed("order", f"ordering the jobs for {node.id}", error, node) from error
            offering = f"offering {node.id} to {asked.id}"
            raise failed("tasks", offering, error, asked, node) from error
        self._place(job, node, decision)
        return decision

    def _answer(self, job: Job, offered: Node) -> Decision:
        """What the tasks policy answers; ``Pass`` if no slot is free of the kind that it wants."""
        state = self._state
        if job.reduces:
            state.review_limits(job)
            if offered.is_full(reduces=True):
                for stage in job.reduces:
                    stage.limit = 0  # until it is reviewed again: this slot is for maps
        decision = state.policies.tasks.offer(job, offered, state.now_s)
        if self._has_kinds and isinstance(decision, Place):
            node = state.nodes.get(decision.node) if decision.node else offered
            if node and node.is_full(reduces=bool(decision.task.stage.reads)):
                return Pass(f"{node.id} has no free slot of its kind")
        return decision

    def _keep_waiting(self, job: Job, decision: Decision) -> None:
        """Keep a job's answer, and set a timer for when to ask again."""
        state = self._state
        if not isinstance(decision, _LEFT_FREE):
            answered = f"answered {decision!r}"
            raise state.policies.invalid("tasks", answered, "need Place, Wait or Pass", job)
        job.answer = decision
        if isinstance(decision, Pass):
            if decision.everywhere and not self._has_kinds:  # likewise
                self._passed[job.id] = decision
            return
        until_s = decision.until_s
        if until_s is None or (job.wake_s is not None and job.wake_s <= until_s):
            return  # the timer that is set asks again, about this slot too
        if not until_s > state.now_s:  # nor is NaN
            what = f"let {job.id} wait until {until_s:.3f} s"
            raise state.policies.invalid("tasks", what, "that is not in the future", job)
        job.wake_s = until_s
        self._set_timer(job.id, until_s)

    def _place(self, job: Job, offered: Node, decision: Place) -> None:
        proposed: object = decision.task
        node = self._state.nodes.get(decision.node) if decision.node else offered
        task: Task | None
        if isinstance(proposed, Task) and proposed.stage.job is job:
            task = proposed  # nearly always it is the very object that the policy was shown
        else:
            task = job.task(decision.task.id)
        wrong = _what_is_wrong(task, node)
        if wrong or task is None or node is None:
            where = decision.node or offered.id
            about = decision.task.id if task is None or (node and node.free) else where
            placed = f"placed {decision.task.id} on {where}"
            raise self._state.policies.invalid("tasks", placed, wrong, about)
        self._launches.launch(task, node)

    # Timers --------------------------------------------------------------------------------------
    def _set_wake(self) -> None:
        """Set the timer for the first time at which a policy wants to be asked again."""
        state = self._state
        at_s: float | None = None
        for wake_s in self._wakes:
            wanted_s = state.policies.ask(wake_s)
            if wanted_s is not None and (at_s is None or wanted_s < at_s):
                at_s = wanted_s
        if at_s is not None and at_s != self._wake_s:
            if not at_s > state.now_s:
                what = f"wanted to be woken at {at_s:.3f} s"
                raise state.policies.invalid("wake_s", what, "that is not in the future", _WAKE)
            self._set_timer(_WAKE, at_s)
        self._wake_s = at_s

    def _set_timer(self, timer: str, at_s: float) -> None:
        """Set a timer, unless that time is beyond what clocks reach."""
        if at_s <= SECONDS_MAX:
            self._state.emit(SetTimer(timer=timer, at_s=at_s))

    # Slots that reduces hold while what they wait for has none -----------------------------------
    def _review_risks(self) -> None:
        """Find jobs that can't go on by themselves, and help those that have waited long enough."""
        state = self._state
        for job in state.touched.values():
            if job.state != "running" or not job.starved():
                self._at_risk.pop(job.id, None)
            elif job.id not in self._at_risk:
                self._at_risk[job.id] = job, state.now_s
                self._set_timer(job.id + _RELIEF, state.now_s + self._patience_s(job))
        state.touched.clear()
        for job, since_s in self._at_risk.values():
            self._relieve(job, since_s)

    def _patience_s(self, job: Job) -> float:
        policies = self._state.policies
        return policies.ask_number(policies.shuffle.patience_s, job)

    def _relieve(self, job: Job, since_s: float) -> None:
        """Let the youngest reduce that waits give its slot to what it waits for.

        Hadoop does the same (RMContainerAllocator.preemptReducesIfNeeded).  The slot is kept for
        the job, so that no other job's share changes.
        """
        state = self._state
        if state.now_s < since_s + self._patience_s(job):
            return
        if job.wake_s is not None and job.wake_s > state.now_s:
            return  # it waits for a better slot, not for any
        waiting = [reader for stage in job.reduces for reader in stage.live.values()]
        if any(reader.killing for reader in waiting):
            return  # one is on its way out
        waiting = [
            reader
            for reader in waiting
            if self._shuffle.is_missing_any(reader)
            and any(map(self._gains, reader.task.stage.reads))
        ]
        if waiting:
            youngest = max(waiting, key=_gives_up_first)
            youngest.node.kept_for.append(job)
            self._attempts.give_up(youngest, "gives its slot to a task that it waits for")

    def _gains(self, stage: Stage) -> bool:
        """Whether a stage that has no slot could have a reduce's."""
        return stuck(stage) and bool(stage.reads or not self._has_kinds)


def _gives_up_first(reader: Attempt) -> tuple[bool, float, int]:
    """Sorts reduces that wait: one with a slot that others can have, then the youngest, is last."""
    frees = reader.node.held <= reader.node.slots
    return frees, reader.launched_s, reader.task.index


def _what_is_wrong(task: Task | None, node: Node | None) -> str:
    if task is None:
        return "the job that was offered the slot has no such task"
    if node is None:
        return "there is no such node"
    if not node.free:  # as if it is not alive
        return node.why_not_free
    if task.state != "pending":
        return f"{task.id} is {task.state}, not pending"
    if not task.stage.open:
        return f"its stage {task.stage.name} may not have slots yet"
    return ""


# Why tasks wait ----------------------------------------------------------------------------------
class Cause(NamedTuple):
    """What a pending task waits for."""

    #: "order", "tasks" or "shuffle": that policy's answer; "nodes": one that is alive; "sources": a
    #: task of a stage that it reads; "slots": one that is free
    what: Literal["order", "tasks", "shuffle", "nodes", "sources", "slots"]
    why: str  #: in a few words


def cause_of(state: ClusterState, task: Task) -> Cause:
    """What a pending task waits for."""
    stage, job, policies = task.stage, task.stage.job, state.policies
    if state.empty_since_s is not None:
        return Cause("nodes", "no node is alive")
    if stage.reads and stage.held >= policies.ask_number(policies.shuffle.limit, stage):
        return Cause("shuffle", policies.ask(policies.shuffle.why, stage))
    for source in filter(stuck, stage.reads):
        return Cause("sources", f"no task of {source.name}, which it reads, has a slot")
    if not state.free:
        return Cause("slots", "no slot is free" if state.slots else "no node has a slot")
    if job.answer is not None:
        return Cause("tasks", job.answer.reason)
    return Cause("order", policies.ask(policies.order.why, job))


def why_waiting(state: ClusterState, task: Task) -> str:
    """Why a pending task has no slot, in a few words."""
    if task.state != "pending":
        return f"it does not wait: it is {task.state}"
    return cause_of(state, task).why


def explain(state: ClusterState, task: Task, now_s: float) -> str:
    """Say "j3.m7 pending 12.4 s: order: 2 jobs ahead; tasks: only a rack-local slot is free"."""
    job = task.stage.job
    if task.state != "pending":
        return f"{task.id} is {task.state}"
    since_s = now_s - task.pending_since_s
    order, tasks = state.policies.ask(state.policies.order.why, job), why_waiting(state, task)
    until = ""
    if isinstance(job.answer, Wait) and job.wake_s is not None and tasks == job.answer.reason:
        until = f", until {job.wake_s:.1f} s"
    reserved = ""
    if task.reserved is not None:
        has = "with all" if task.reserved.ready else "without all"
        reserved = f"; reserved on {task.reserved.node.id}, {has} that it reads"
    return f"{task.id} pending {since_s:.1f} s: order: {order}; tasks: {tasks}{until}{reserved}"


def why_job_waits(state: ClusterState, job: Job) -> str:
    """Why nothing of a job is being started; "" if there is nothing to start."""
    first = job.first_pending()
    return "" if first is None else why_waiting(state, first)
