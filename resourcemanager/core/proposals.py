"""Proposals: what policies want that no slot was offered for is asked, checked and carried out.

After each event, once no job takes a slot, the policies that override ``propose`` and are not quiet
are asked in rounds, until nobody proposes anything; between two rounds slots are offered again.

Never here: what a launch or an end entails; see ``launches.py`` and ``attempts.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from railyard.resourcemanager.core.attempts import Attempts
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.files import Moves
from railyard.resourcemanager.core.jobs import Attempt, Node, Task
from railyard.resourcemanager.core.launches import Launches
from railyard.resourcemanager.interface.decisions import Copy, MoveInput, Reserve, Take, Withdraw
from railyard.resourcemanager.interface.policies import Policy

#: Rounds after one event; a policy that proposes something in all of them would never cease to.
ROUNDS_MAX = 100


class Proposals:
    """Asks policies for proposals, and carries them out."""

    def __init__(
        self, state: ClusterState, launches: Launches, attempts: Attempts, moves: Moves
    ) -> None:
        self._state = state
        self._launches = launches
        self._attempts, self._keeping = attempts, state.keeping
        #: {kind of proposal: whose policies may make it, and what carries it out}
        self._kinds: dict[type, tuple[str, Callable[[Any], None]]] = {
            Copy: ("copies", self._copy),
            Take: ("copies", self._take),
            Reserve: ("tasks", self._reserve),
            Withdraw: ("tasks", self._withdraw),
            MoveInput: ("data", moves.move),
        }
        #: those that may propose something
        self.policies: list[Policy] = [
            cast("Any", each).__self__ for each in state.policies.hooks["propose"]
        ]
        self._with_roles = [(each, state.policies.roles_of(each)) for each in self.policies]
        #: whether any policy makes proposals, or may leave outputs to be taken
        self.are_made = bool(self.policies) or attempts.keep

    def make(self, offer: Callable[[], None]) -> None:
        """Ask until nothing is proposed; ``offer`` offers slots until no job takes one."""
        proposing, rounds = self._ask(), 1
        while proposing is not None:
            if rounds == ROUNDS_MAX:
                who, policies = " and ".join(proposing), self._state.policies
                what = f"proposed something in each of {ROUNDS_MAX} rounds"
                raise policies.invalid(who, what, "that has to end")
            offer()
            proposing, rounds = self._ask(), rounds + 1

    def keep_promises(self) -> None:
        """Launch the copies for which slots were given up, in those that are free now."""
        for node in self._state.freed.values():
            while node.promised and node.free:
                task = node.promised.pop(0)
                if not _why_not_copied(task, node):  # else it needs no copy any more
                    self._launches.launch(task, node)

    # ---------------------------------------------------------------------------------------------
    def _ask(self) -> list[str] | None:
        """A round: who proposed anything; None if nobody did, and no output was left to take."""
        proposing = [
            "/".join(roles)
            for policy, roles in self._with_roles
            if not policy.quiet and self._carry_out(policy, roles)
        ]
        if proposing or (self._keeping and self._attempts.take_what_is_left()):
            return proposing
        return None

    def _carry_out(self, policy: Policy, roles: tuple[str, ...]) -> bool:
        """Carry out what a policy proposes; returns whether that is anything."""
        policies, proposed = self._state.policies, False
        for proposal in policies.each(policy.propose):
            kind = type(proposal)
            if kind not in self._kinds:
                kinds = ", ".join(each.__name__ for each in self._kinds)
                raise policies.invalid("/".join(roles), f"proposed {proposal!r}", f"need a {kinds}")
            role, carry_out = self._kinds[kind]
            if role not in roles:
                what, why = f"proposed a {kind.__name__}", f"that is the {role} policy's"
                raise policies.invalid("/".join(roles), what, why)
            for observer in self._state.observers:
                observer.proposed(proposal)
            carry_out(proposal)
            proposed = True
        return proposed

    # Copies and reservations ---------------------------------------------------------------------
    def _copy(self, proposal: Copy) -> None:
        """Launch a copy, or have the slot given up in which it is to start."""
        state = self._state
        task, node = state.running_task(proposal.task.id), state.nodes.get(proposal.node)
        ending = None
        wrong = _why_not_copied(task, node)
        if isinstance(proposal.task, Attempt):
            wrong = f"that is an attempt: a copy is of a task, here {proposal.task.task.id}"
        if not wrong and proposal.instead_of is not None:
            ending = state.attempts.get(proposal.instead_of.id)
            wrong = _why_not_ended(ending, task, node) if ending else "it has ended"
            wrong = wrong and f"not instead of {proposal.instead_of.id}: {wrong}"
        if not wrong and task and node and not (ending and ending.node is node):
            is_full = node.is_full(reduces=bool(task.stage.reads))
            wrong = node.why_not_free or (f"{node.id} has none of its kind" if is_full else "")
        if wrong or task is None or node is None:
            what = f"proposed a copy of {proposal.task.id} on {proposal.node}"
            raise state.policies.invalid("copies", what, wrong, proposal.task.id, proposal.node)
        if node.free:
            self._launches.launch(task, node)
        else:
            node.promised.append(task)
        if ending is not None:
            self._attempts.give_up(ending, f"gives its slot up for a copy of {task.id}")

    def _take(self, proposal: Take) -> None:
        attempt = proposal.attempt
        task = self._state.running_task(attempt.task.id)
        kept = next((each for each in task.kept if each.id == attempt.id), None) if task else None
        if kept is None:
            known = attempt.state if isinstance(attempt, Attempt) else "unknown"
            why = f"nothing of {attempt.id} is kept: it is {known}"
            what = f"took the output of {attempt.id}"
            raise self._state.policies.invalid("copies", what, why, attempt.task.id)
        self._attempts.take(kept)

    def _reserve(self, proposal: Reserve) -> None:
        state = self._state
        task, node = state.running_task(proposal.task.id), state.nodes.get(proposal.node)
        wrong = _why_not_reserved(task, node)
        if wrong or task is None or node is None:
            what = f"proposed to reserve {proposal.node} for {proposal.task.id}"
            raise state.policies.invalid("tasks", what, wrong, proposal.task.id, proposal.node)
        self._launches.reserve(task, node)

    def _withdraw(self, proposal: Withdraw) -> None:
        name = proposal.attempt.id
        attempt = self._state.reserved.get(name)
        if attempt is None:
            what, why = f"proposed to withdraw {name}", "that is no reservation"
            raise self._state.policies.invalid("tasks", what, why, proposal.attempt.task.id)
        self._launches.withdraw(attempt, proposal.why or "its reservation was withdrawn")


def _why_not_copied(task: Task | None, node: Node | None) -> str:
    """Why the task can't have one more attempt on the node; "" if it can, given a slot."""
    if task is None:
        return "no job that runs has such a task"
    if node is None:
        return "there is no such node"
    if not node.alive:
        return node.why_not_free
    if task.state not in ("running", "kept") or task.stage.job.state != "running":
        return f"{task.id} is {task.state}, not running"
    if not task.stage.may_copy:
        return f"{task.stage.id} was submitted without copies: StageView.may_copy is false"
    if task in node.promised:
        return "it gets a copy there already"
    # Nor does Hadoop since MAPREDUCE-7169: what is wrong with one attempt may be the node.
    beside = [attempt.id for attempt in task.live if attempt.node is node]
    return f"{beside[0]} runs there" if beside else ""


def _why_not_ended(ending: Attempt, task: Task | None, node: Node | None) -> str:
    if ending.killing:
        return "it was asked to end already"
    if ending.task is not task and ending.node is not node:
        return "it is on another node, and of another task"
    return ""


def _why_not_reserved(task: Task | None, node: Node | None) -> str:
    if task is None:
        return "no job that runs has such a task"
    if node is None:
        return "there is no such node"
    if not node.alive or node.draining:
        return node.why_not_free
    if task.state != "pending":
        return f"{task.id} is {task.state}, not pending"
    if task.reserved is not None:
        return f"it has a reservation on {task.reserved.node.id}: withdraw that first"
    job = task.stage.job
    if node.id in job.avoid:
        return f"{job.id} avoids it, and is not offered its slots"
    return ""
