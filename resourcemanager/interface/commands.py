"""The core's commands, besides those to the NodeManagers (``cluster/messages.py``).

A command is in the imperative.  Whoever drives the core (the ResourceManager process, the
simulator, a test) carries out each one, in the order in which they were returned.
"""

from __future__ import annotations

from railyard.cluster.ids import AttemptId, CoflowId, JobId, NodeId, RackId
from railyard.cluster.messaging.wire import Command


class SetTimer(Command, frozen=True, kw_only=True):
    """Send ``TimerFired`` at ``at_s``.  A later command for the same timer replaces this one."""

    timer: str
    at_s: float


class PlaceData(Command, frozen=True, kw_only=True):
    """Answer whoever announced data: where its replicas should go."""

    path: str
    #: of each replica, the racks for it; empty or missing = the block store's own rule
    racks: tuple[tuple[RackId, ...], ...]


class MoveBlock(Command, frozen=True, kw_only=True):
    """Copy a block to ``node``, then drop it from ``source``; ends in an event.

    That is ``InputMoved`` or ``InputNotMoved``.
    """

    path: str
    block: int  #: its number in the file, from 0
    node: NodeId
    source: NodeId | None  #: None = the block store decides


class OpenCoflow(Command, frozen=True, kw_only=True):
    """Open a coflow in the network, the shuffle of one stage, before its first flow."""

    coflow: CoflowId
    job: JobId


class CloseCoflow(Command, frozen=True, kw_only=True):
    """Close a coflow in the network: no more flows of it will come."""

    coflow: CoflowId


class CommitJob(Command, frozen=True, kw_only=True):
    """Move the winners' output into its place; answer ``JobCommitted`` or ``JobCommitFailed``."""

    job: JobId
    output_path: str  #: folder for the output; "" = there is none
    winners: tuple[AttemptId, ...]  #: attempts of the last stages, by stage and task


class EndJob(Command, frozen=True, kw_only=True):
    """Report the end of a job to whoever watches it; ``reason`` says why it failed, else "".

    A ``DiscardJob`` follows once its last attempt is gone.
    """

    job: JobId
    ok: bool
    reason: str
    output_path: str
