"""What the ResourceManager tells the network emulator, also one in place of another that died.

Each order goes over the connection that there is.  Over each new connection comes first which
coflows and flows there are (``ResumeCoflows``), so no order that was lost has to be repeated: a
coflow or flow that the network does not know is opened, one that is over is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from railyard.cluster.errors import PeerLost
from railyard.cluster.ids import NodeId
from railyard.cluster.messages import CancelFlow, FlowFailed, StartFlow
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Command, Done, Message, Refusal
from railyard.cluster.runfolder import append_row, rows_of
from railyard.netemu.messages import (
    CloseFlow,
    FinishCoflow,
    LinksObserved,
    RegisterCoflow,
    ResumeCoflows,
    WatchLinks,
)
from railyard.resourcemanager.driving.orders import fetch_order, open_flow
from railyard.resourcemanager.interface.commands import CloseCoflow, OpenCoflow
from railyard.resourcemanager.interface.recipe import LinksConfig
from railyard.resourcemanager.process.driver import Driver

log = logging.getLogger(__name__)

_Answer = Done | Refusal | PeerLost


@dataclass(eq=False)
class NetworkOrders:
    """Carries out the core's commands about flows."""

    _driver: Driver
    _transport: Transport
    _send: Callable[[NodeId, Message], None]  #: sends a node's NodeManager a message
    outages: Outages

    def __post_init__(self) -> None:
        driver = self._driver
        self.link = LastingLink(self._transport, "network", self._lost)
        self._lost_s: float | None = None  #: since when it is lost
        self._sends = True  #: False: what there is will be sent as a whole
        driver.on(OpenCoflow, lambda order: self._order(RegisterCoflow(coflow=order.coflow)))
        driver.on(CloseCoflow, lambda order: self._order(FinishCoflow(coflow=order.coflow)))
        driver.on(StartFlow, self._start)
        driver.on(CancelFlow, self._cancel)

    def resume(self) -> None:
        """Send the network all coflows and flows that there are."""
        core = self._driver.core
        flows = [open_flow(each.start_order, now_s()) for each in core.shuffle.fetches.values()]
        between = tuple([flow for flow in flows if flow.src != flow.dst])
        order = ResumeCoflows(coflows=tuple(core.shuffle.open_coflows), flows=between)
        self.link.request(order, Done, lambda answer, _: self._resumed(answer))

    def _lost(self) -> None:
        if self._lost_s is None:
            self._lost_s = self._driver.now_s
        self._sends = False
        self._driver.settle()  # what has happened so far is in what follows
        self._sends = True
        self.resume()

    def _resumed(self, answer: _Answer) -> None:
        if isinstance(answer, Refusal):
            log.error("the network refused the coflows that there are: %s", answer.reason)
        if isinstance(answer, PeerLost) or self._lost_s is None:
            return
        back_s = self._driver.now_s
        self.outages.add(self._lost_s, back_s)
        log.info("the network was away for %.3f s", back_s - self._lost_s)
        self._lost_s = None

    def _start(self, order: StartFlow) -> None:
        if order.src != order.dst and self._sends:
            opening = open_flow(order, self._driver.started_s + self._driver.event_s)
            self.link.request(opening, Done, lambda answer, _: self._opened(order, answer))
        self._send(order.dst, fetch_order(order))

    def _opened(self, order: StartFlow, answer: _Answer) -> None:
        if isinstance(answer, Refusal):
            reason = f"the network refused it: {answer.reason}"
            log.error("flow %s: %s", order.flow, reason)
            self._send(order.dst, CancelFlow(flow=order.flow, dst=order.dst))
            self._driver.feed(FlowFailed(flow=order.flow, reason=reason))

    def _cancel(self, order: CancelFlow) -> None:
        self._order(CloseFlow(flow=order.flow))
        self._send(order.dst, order)

    def _order(self, order: Command) -> None:
        def answered(answer: _Answer, _: object) -> None:
            if isinstance(answer, Refusal):
                log.error("the network refused %s: %s", order, answer.reason)

        if self._sends:
            self.link.request(order, Done, answered)


class Outages:
    """When the network was lost, and when it was back, on the core's clock."""

    def __init__(self, path: Path) -> None:
        """``path``: the file with a line for each time, by the ResourceManagers before this one."""
        self._path = path
        self._spans: list[tuple[float, float]] = [tuple(row) for row in rows_of(path)]

    def add(self, lost_s: float, back_s: float) -> None:
        self._spans.append((lost_s, back_s))
        append_row(self._path, (lost_s, back_s))

    def between_s(self, begin_s: float, end_s: float) -> float:
        """Seconds between these two times for which it was lost."""
        each = (min(back_s, end_s) - max(lost_s, begin_s) for lost_s, back_s in self._spans)
        return sum(max(seconds, 0.0) for seconds in each)


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
