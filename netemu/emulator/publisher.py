"""Sends subscribers the state of the network: bandwidth of links, circuits, rates of flows.

It is sent when something has changed, and at most once in the period that a subscriber asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import msgspec

from railyard.cluster.messaging.reactor import Reactor, Timer
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import Event, Message
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import (
    CircuitView,
    LinksObserved,
    NetworkView,
    WatchLinks,
    WatchNetwork,
)
from railyard.netemu.model.observed import LinkState, ObservedLinks


@dataclass(slots=True)
class _Subscription:
    """What a peer asked for by a message of one class."""

    period_s: float
    report: Callable[[], Event | None]  #: what to send now; None = nothing has changed
    timer: Timer


class Publisher:
    """The subscribers of one server; ``look`` returns the fabric as of now."""

    def __init__(self, server: Server, reactor: Reactor, look: Callable[[], Fabric]) -> None:
        self._server = server
        self._reactor = reactor
        self._look = look
        self._subscriptions: dict[tuple[bytes, type[Message]], _Subscription] = {}
        server.on(WatchNetwork, self._watch_network)
        server.on(WatchLinks, self._watch_links)

    def _watch_network(self, request: Request) -> NetworkView:
        watch = cast("WatchNetwork", request.message)
        sent = network_view(self._look(), with_rates=watch.with_rates)

        def report() -> NetworkView | None:
            nonlocal sent
            view = network_view(self._look(), with_rates=watch.with_rates)
            if msgspec.structs.replace(view, now_s=sent.now_s) == sent:
                return None
            sent = view
            return view

        self._subscribe(request, watch.period_s, report)
        return sent

    def _watch_links(self, request: Request) -> LinksObserved:
        watch, fabric = cast("WatchLinks", request.message), self._look()
        observed = ObservedLinks(fabric.network, watch.change)
        observed.look(fabric)

        def report() -> LinksObserved | None:
            changed = observed.look(self._look())
            return LinksObserved(links=changed) if changed else None

        self._subscribe(request, watch.period_s, report)
        return LinksObserved(links=observed.all())

    def _subscribe(
        self, request: Request, period_s: float, report: Callable[[], Event | None]
    ) -> None:
        """Report from now on; what the peer asked for by such a message before is void."""
        key = request.peer, type(request.message)
        before = self._subscriptions.get(key)
        if before is not None:
            before.timer.cancel()
        self._subscriptions[key] = _Subscription(period_s, report, self._later(key, period_s))

    def _later(self, key: tuple[bytes, type[Message]], period_s: float) -> Timer:
        return self._reactor.call_later(period_s, lambda: self._publish(key))

    def _publish(self, key: tuple[bytes, type[Message]]) -> None:
        subscription = self._subscriptions[key]
        changed = subscription.report()
        if changed is not None and not self._server.push(key[0], changed):
            del self._subscriptions[key]
            return
        subscription.timer = self._later(key, subscription.period_s)


def network_view(fabric: Fabric, *, with_rates: bool) -> NetworkView:
    """The state of a fabric as subscribers get it."""
    free = fabric.free_bytes_per_s()
    return NetworkView(
        now_s=fabric.now_s,
        links={
            name: LinkState(capacity_bytes_per_s=capacity, free_bytes_per_s=free[name])
            for name, capacity in fabric.capacities_bytes_per_s().items()
        },
        flows_open=fabric.open_flows,
        circuits=tuple(
            CircuitView(src=c.src, dst=c.dst, coflow=c.coflow, ready_s=c.ready_s)
            for c in fabric.circuits()
        ),
        rates_bytes_per_s=fabric.rates_bytes_per_s() if with_rates else None,
    )
