"""Who simulated nodes report to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from railyard.cluster.messages.execution import AttemptProgressed, FlowFinished
from railyard.cluster.messaging.wire import Event
from railyard.netemu.model.arrays import Numbers
from railyard.resourcemanager.core.shuffling.rowshuffle import Arriving


class Reports(Protocol):
    """Who reports go to; see ``VirtualDriver``."""

    def feed(self, event: Event) -> None:
        """Report an event."""

    def feed_fetched(self, event: FlowFinished) -> None:
        """Report the end of a fetch; new flows start later."""

    def feed_fetches(self, fetches: Numbers) -> None:
        """Report the ends of fetches that are rows, likewise."""

    def arriving(self, fetches: Numbers) -> Arriving:
        """What these have brought."""

    def start_waiting(self) -> None:
        """Start these flows."""

    def feed_progress(self, report: AttemptProgressed) -> bool:
        """Report progress; whether nothing would follow from other such reports now."""

    def feed_all_progress(self, reports: Sequence[AttemptProgressed]) -> None:
        """Make these reports then."""
