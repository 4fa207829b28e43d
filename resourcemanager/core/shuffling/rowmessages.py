"""What a core and the virtual clock tell each other of fetches that are rows; see ``rows.py``.

They never leave the process.  Logs have the ``FlowFinished`` and ``StartFlow`` that they stand for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from railyard.cluster.ids import FlowId
from railyard.cluster.messages.execution import StartFlow
from railyard.cluster.messaging.wire import Command, Event

Numbers = NDArray[np.int64]


class FetchesEnded(Event, frozen=True, kw_only=True):
    """Fetches have brought all that they were to bring, in this order."""

    fetches: Numbers
    names: Sequence[FlowId] = ()  #: of their flows, if there is a log

    def __str__(self) -> str:
        return f"FetchesEnded: {len(self.fetches)} fetches"


class StartFetches(Command, frozen=True, kw_only=True):
    """Start the flows of fetches, in this order; [fetch] each."""

    fetches: Numbers
    src: Numbers  #: numbers of nodes: their places in the topology
    dst: Numbers
    size_bytes: Numbers
    after: Numbers  #: which of the ``FetchesEnded`` each follows from; empty if none ended

    def __str__(self) -> str:
        return f"StartFetches: {len(self.fetches)} fetches"

    def part(self, some: slice | NDArray[np.bool_] | Numbers) -> StartFetches:
        """Some of them."""
        return StartFetches(
            fetches=self.fetches[some],
            src=self.src[some],
            dst=self.dst[some],
            size_bytes=self.size_bytes[some],
            after=self.after[some] if len(self.after) else self.after,
        )


class NamedFetch(NamedTuple):
    """A fetch under way that is a row no more."""

    fetch: int
    started_s: float
    command: StartFlow  #: that would have started it


class NameFetches(Command, frozen=True, kw_only=True):
    """Give names to the flows of fetches: from now on, each is dealt with by itself."""

    named: Sequence[NamedFetch]

    def __str__(self) -> str:
        return f"NameFetches: {len(self.named)} fetches"
