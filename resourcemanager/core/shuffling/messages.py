"""What a core and whoever drives it tell each other of many fetches at once.

Fetches have numbers here, and names in the messages of a cluster: ``Core.handle`` gives and takes
those, ``Core.handle_together`` these.  They never leave the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from railyard.cluster.messages.execution import StartFlow
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.core.shuffling.fetches import StageShuffle
from railyard.resourcemanager.core.shuffling.loops import Numbers


class FetchesEnded(Event, frozen=True, kw_only=True):
    """Fetches have brought all that they were to bring, in this order."""

    fetches: Numbers


class StartFetches(Command, frozen=True, kw_only=True):
    """Start the flows of fetches, in this order; [fetch] each."""

    fetches: Numbers
    src: Numbers  #: numbers of nodes: their places in the topology
    dst: Numbers
    size_bytes: Numbers
    stages: Mapping[int, StageShuffle]  #: by their numbers, ``loops.STAGE_SHIFT``
    #: weight and priority of each, as the flow policy says; empty if it says nothing
    asks: Sequence[tuple[float, tuple[float, ...]]] = ()


class CancelFetch(Command, frozen=True, kw_only=True):
    """A fetch is not wanted any more."""

    fetch: int
    started: StartFlow  #: what would have started it by itself
