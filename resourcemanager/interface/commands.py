"""The orders that the core gives, besides those to the NodeManagers (``messages/execution.py``).

A command is in the imperative.  Whoever drives the core (the ResourceManager process, the
simulator, a test) carries out each one, in the order in which they were returned.
"""

from __future__ import annotations

from railyard.cluster.ids import AttemptId, CoflowId, JobId, RackId
from railyard.cluster.messaging.wire import Command


class SetTimer(Command, frozen=True, kw_only=True):
    """Say ``TimerFired`` at ``at_s``.  A later order for the same timer replaces this one."""

    timer: str
    at_s: float


class PlaceData(Command, frozen=True, kw_only=True):
    """Tell whoever announced data where its replicas should go."""

    path: str
    #: for the first replica, the second, ...: racks for it; empty or missing = the store's own rule
    racks: tuple[tuple[RackId, ...], ...]


class OpenCoflow(Command, frozen=True, kw_only=True):
    """Tell the network that flows of this coflow are about to come: a stage's shuffle."""

    coflow: CoflowId
    job: JobId


class CloseCoflow(Command, frozen=True, kw_only=True):
    """Tell the network that no more flows of this coflow will come."""

    coflow: CoflowId


class CommitJob(Command, frozen=True, kw_only=True):
    """Put the output of the winners in its place, then say ``JobCommitted`` or that it failed."""

    job: JobId
    output_path: str  #: "" = there is none
    winners: tuple[AttemptId, ...]  #: attempts of the last stages, by stage and task


class EndJob(Command, frozen=True, kw_only=True):
    """Tell whoever watches that the job is over; ``reason`` says why it failed, "" if it did not.

    A ``DiscardJob`` follows once its last attempt is gone.
    """

    job: JobId
    ok: bool
    reason: str
    output_path: str
