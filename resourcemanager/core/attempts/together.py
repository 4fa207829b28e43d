"""What the virtual clock tells a core of many attempts at once; it never leaves the process."""

from __future__ import annotations

from collections.abc import Sequence

from railyard.cluster.messages.execution import AttemptProgressed
from railyard.cluster.messaging.wire import Event


class AttemptsProgressed(Event, frozen=True, kw_only=True):
    """Attempts report their progress, in this order; logs have each of these reports."""

    reports: Sequence[AttemptProgressed]

    def __str__(self) -> str:
        return f"AttemptsProgressed: {len(self.reports)} attempts"
