"""What policies decide: answers to offers of slots, and proposals.

A slot is offered, and the answer is ``Place``, ``Wait`` or ``Pass``.  What a policy wants that no
slot was offered for, it proposes, each kind in its role:

    copies   Copy, Take
    tasks    Reserve, Withdraw
    data     MoveInput

Answers and proposals are checked before anything changes; one that can't be is an
``InvalidDecision``, which stops the core.
"""

from __future__ import annotations

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import NodeId
from railyard.resourcemanager.interface.views import AttemptView, Level, TaskView


# Answers -----------------------------------------------------------------------------------------
class Place(msgspec.Struct, frozen=True):
    """Run an attempt of ``task`` in this slot, or in a free slot of ``node``."""

    task: TaskView
    why: str = ""
    node: NodeId | None = None


class Wait(msgspec.Struct, frozen=True):
    """The job could use this slot and hopes for a better one."""

    reason: str
    until_s: float | None = None  #: when to offer it again, by the core's clock
    #: how near the slot is to the job's input, if the answer to all slots as near is the same now
    level: Level | None = None


class Pass(msgspec.Struct, frozen=True):
    """The job has no use for this slot."""

    reason: str
    everywhere: bool = False  #: whether the answer to every other slot is the same now


Decision = Place | Wait | Pass


# Proposals ---------------------------------------------------------------------------------------
class Copy(msgspec.Struct, frozen=True):
    """Run one more attempt of a task that runs or is kept, in a free slot of ``node``.

    ``instead_of`` is asked to end at once.  It may be of the same task, which so moves to ``node``;
    or of any other on ``node``, and then the slot need not be free: it is kept for the copy, which
    starts as soon as the attempt's end is known, if the task still runs.
    """

    task: TaskView
    node: NodeId
    instead_of: AttemptView | None = None
    why: str = ""


class Take(msgspec.Struct, frozen=True):
    """Let the output of an attempt that was kept be its task's; its other attempts are ended."""

    attempt: AttemptView
    why: str = ""


class Reserve(msgspec.Struct, frozen=True):
    """Send what a pending task reads to ``node`` as it becomes ready; it gets a slot there later.

    The attempt that reads it holds no slot, and the task is pending as before: when a slot of
    ``node`` is offered, ``Place`` gives it to that attempt, which goes on with what it has.  If the
    task is placed on another node, the reservation is withdrawn.  A task has at most one.
    """

    task: TaskView
    node: NodeId
    why: str = ""


class Withdraw(msgspec.Struct, frozen=True):
    """Forget a reservation: its attempt ends, and what it has read is lost."""

    attempt: AttemptView
    why: str = ""


class MoveInput(msgspec.Struct, frozen=True):
    """Have a block of an input at ``node``, and no more where it was.

    It is copied, and only then dropped from ``source``, or from wherever it has too many replicas.
    The move ends in ``Policy.input_moved`` or ``Policy.input_not_moved``.
    """

    path: str
    block: int  #: its number in the file, from 0
    node: NodeId
    source: NodeId | None = None
    why: str = ""


Proposal = Copy | Take | Reserve | Withdraw | MoveInput


class InvalidDecision(InvariantError):
    """An impossible decision of a policy; names the policy, the place and the last events there."""
