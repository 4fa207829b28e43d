"""Reports the links between racks to the core, as the emulator does, if its scheduler asks.

They are looked at every so often, as long as rates change: after all else of that time, so that
the rates are those that hold from then on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from railyard.cluster.messaging.wire import Event
from railyard.netemu.messages import LinksObserved
from railyard.netemu.model.observed import LinkState, ObservedLinks
from railyard.resourcemanager.interface.links import LinksConfig
from railyard.simulator.heap import EventHeap, EventPriority
from railyard.simulator.network.network import SimulatedNetwork


class LinkWatch:
    """Looks at the links each ``period_s`` in which rates were set."""

    def __init__(
        self,
        network: SimulatedNetwork,
        heap: EventHeap,
        config: LinksConfig,
        report: Callable[[Event], None],
    ) -> None:
        self._network = network
        self._heap = heap
        self._period_s = config.period_s
        self._report = report
        self._change = config.change
        self._observed = ObservedLinks(network.fabric.network, config.change)
        self._periods = 0  #: the last look was, or is to be, so many periods from the start
        self._looking = False  #: whether it is to be
        self._decided = self._fabrics  #: as of the last look
        self._not_before_s = 0.0  #: of the next look
        self._asked = 0  #: how often a ResourceManager that was restarted has asked

    def begin_again(self, known: Mapping[str, LinkState]) -> None:
        """Report what differs from what a ResourceManager that was restarted knows."""
        self._asked += 1
        self._answer(known, self._asked)

    def _answer(self, known: Mapping[str, LinkState], asked: int) -> None:
        if self._network.is_stopped:  # it hears later what it was asked
            self._network.hears(partial(self._heap.after, 0.0, self._answer, known, asked))
            return
        if asked != self._asked:
            return  # whoever asked is dead
        self._observed = ObservedLinks(self._network.fabric.network, self._change)
        self._observed.look(self._network.fabric)
        links = self._observed.all()
        changed = {name: link for name, link in links.items() if known.get(name) != link}
        self._not_before_s = self._heap.now_s + self._period_s
        if changed:
            self._report(LinksObserved(links=changed))

    @property
    def _fabrics(self) -> tuple[int, int]:
        """How many networks have died, and how many times this one has set rates."""
        return self._network.deaths, self._network.fabric.decided

    def review(self) -> None:
        """Plan to look, if rates were set since the last time; to be called before time passes."""
        if self._looking or self._fabrics == self._decided or self._network.is_stopped:
            return
        self._looking = True
        self._periods = max(self._periods + 1, math.ceil(self._heap.now_s / self._period_s))
        at_s = self._periods * self._period_s
        self._heap.at(at_s, self._look, priority=EventPriority.OBSERVATION)

    def _look(self) -> None:
        self._looking = False
        if self._network.is_stopped:
            return  # so is who looks: it does so when it goes on
        if self._heap.now_s < self._not_before_s:
            return  # it was asked for in between
        changed = self._observed.look(self._network.fabric)
        self._decided = self._fabrics
        if changed:
            self._report(LinksObserved(links=changed))
