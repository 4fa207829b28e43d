"""What is told of policies' answers as they are given, such as the writer of explanations.

Never here: anything that changes a decision.
"""

from __future__ import annotations

from typing import Protocol

from railyard.resourcemanager.core.state.jobs import Job, Node
from railyard.resourcemanager.interface.decisions import Decision, Proposal


class Observer(Protocol):
    """Whoever observes a core.  It reads, and changes nothing."""

    def answered(self, job: Job, slot: Node, answer: Decision) -> None:
        """A slot was offered to a job, and this is the answer; it was not carried out yet."""
        ...

    def proposed(self, proposal: Proposal) -> None:
        """A policy has proposed this; it was not carried out yet."""
        ...
