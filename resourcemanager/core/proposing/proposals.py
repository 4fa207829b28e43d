"""Proposals: what policies want that no slot was offered for is asked, checked and carried out.

After each event, once no job takes a slot, the policies that override ``propose`` and are not quiet
are asked in rounds, until nobody proposes anything; between two rounds slots are offered again.
Each kind of proposal belongs to a role and is carried out by a method of another file of this room.

Never here: what a proposal leads to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, cast

from railyard.resourcemanager.core.attempts.attempts import Attempts
from railyard.resourcemanager.core.proposing.copies import Copies
from railyard.resourcemanager.core.proposing.moves import Moves
from railyard.resourcemanager.core.proposing.reservations import Reservations
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.interface.decisions import (
    Copy,
    MoveInput,
    Proposal,
    Reserve,
    Take,
    Withdraw,
)
from railyard.resourcemanager.interface.policies import Policy

#: Rounds after one event; a policy that proposes something in all of them would never cease to.
ROUNDS_MAX = 100


class _Asked(NamedTuple):
    """A policy that proposes."""

    policy: Policy
    propose: Callable[[], Iterable[Proposal]]
    roles: tuple[str, ...]  #: its own

    def __str__(self) -> str:
        return "/".join(self.roles)


class _Kind(NamedTuple):
    """A kind of proposal."""

    role: str  #: whose policies may propose it
    carry_out: Callable[[Any], None]


class Proposals:
    """Asks policies for proposals, and carries them out."""

    def __init__(
        self,
        state: ClusterState,
        attempts: Attempts,
        copies: Copies,
        reservations: Reservations,
        moves: Moves,
    ) -> None:
        self._state = state
        self._attempts, self._keeping = attempts, state.keeping
        self._kinds: dict[type, _Kind] = {
            Copy: _Kind("copies", copies.copy),
            Take: _Kind("copies", copies.take),
            Reserve: _Kind("tasks", reservations.reserve),
            Withdraw: _Kind("tasks", reservations.withdraw),
            MoveInput: _Kind("data", moves.move),
        }
        #: those that may propose something
        self.policies: list[Policy] = [
            cast("Any", each).__self__ for each in state.policies.overriding("propose")
        ]
        roles_of = state.policies.roles_of
        self._asked = [_Asked(policy, policy.propose, roles_of(policy)) for policy in self.policies]
        #: whether any policy makes proposals, or may leave outputs to be taken
        self.are_made = bool(self._asked) or attempts.keep

    def make(self, offer: Callable[[], None]) -> None:
        """Ask until nothing is proposed; ``offer`` offers slots until no job takes one."""
        proposing, rounds = self._ask(), 1
        while proposing is not None:
            if rounds == ROUNDS_MAX:
                who = " and ".join(map(str, proposing))
                what = f"proposed something in each of {ROUNDS_MAX} rounds"
                raise self._state.policies.invalid(who, what, "that has to end")
            offer()
            proposing, rounds = self._ask(), rounds + 1

    # ---------------------------------------------------------------------------------------------
    def _ask(self) -> tuple[_Asked, ...] | None:
        """A round: who proposed anything; None if nobody did, and no output was left to take."""
        proposing: tuple[_Asked, ...] = ()
        for asked in self._asked:
            policy, propose, _ = asked
            if policy.quiet:
                continue
            try:  # here, not in a call of ``policies``: most often nothing is proposed
                proposals = propose()
            except Exception as error:
                raise self._state.policies.broken(propose, (), error) from error
            if proposals != () and self._carry_out(asked, proposals):
                proposing += (asked,)
        if proposing or (self._keeping and self._attempts.take_what_is_left()):
            return proposing
        return None

    def _carry_out(self, policy: _Asked, proposals: Iterable[Proposal]) -> bool:
        """Carry out what a policy proposes; returns whether that is anything."""
        policies, proposed = self._state.policies, False
        for proposal in policies.each(proposals, policy.propose):
            kind = self._kinds.get(type(proposal))
            if kind is None:
                kinds = ", ".join(each.__name__ for each in self._kinds)
                raise policies.invalid(str(policy), f"proposed {proposal!r}", f"need a {kinds}")
            if kind.role not in policy.roles:
                what = f"proposed a {type(proposal).__name__}"
                raise policies.invalid(str(policy), what, f"that is the {kind.role} policy's")
            if self._state.observer is not None:
                self._state.observer.proposed(proposal)
            kind.carry_out(proposal)
            proposed = True
        return proposed
