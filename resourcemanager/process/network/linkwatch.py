"""Has the network emulator report the links between racks, for a scheduler that uses them.

Never here: what counts as a change (``netemu/model/observed.py``), and what follows from one.
"""

from __future__ import annotations

import logging

from railyard.cluster.errors import PeerLost
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Refusal
from railyard.netemu.messages import LinksObserved, WatchLinks
from railyard.resourcemanager.interface.links import LinksConfig
from railyard.resourcemanager.process.driver import Driver

log = logging.getLogger(__name__)


class LinkWatch:
    """A connection of its own to the network, over which links are reported."""

    def __init__(self, driver: Driver, transport: Transport, config: LinksConfig) -> None:
        self._driver = driver
        self._watch = WatchLinks(period_s=config.period_s, change=config.change)
        self._network = LastingLink(transport, "network", on_renewed=self.begin)
        self._network.on(LinksObserved, lambda observed, _: self._observed(observed))

    def begin(self) -> None:
        """Ask for reports; what has changed since the last ones comes first."""
        self._network.request(self._watch, LinksObserved, lambda answer, _: self._answered(answer))

    def _answered(self, answer: LinksObserved | Refusal | PeerLost) -> None:
        if isinstance(answer, LinksObserved):
            self._observed(answer)
        elif isinstance(answer, Refusal):
            log.error("the network does not report its links: %s", answer.reason)

    def _observed(self, observed: LinksObserved) -> None:
        known = self._driver.core.state.links
        changed = {name: link for name, link in observed.links.items() if known.get(name) != link}
        if changed:
            self._driver.feed(LinksObserved(links=changed))
