"""What a policy may answer when a free slot is offered to a job.

A policy proposes; the core checks and carries out (see ``offers.py``).  Every answer that leaves
the slot free says why: that is what ``why_waiting`` tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from railyard.cluster.errors import InvariantError

if TYPE_CHECKING:
    from railyard.cluster.ids import NodeId
    from railyard.resourcemanager.interface.locality import Level
    from railyard.resourcemanager.interface.views import TaskView


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
