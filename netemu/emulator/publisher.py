"""Sends subscribers the state of the network: free bandwidth of links, circuits, rates of flows.

A subscriber gets it when it has changed, and never more often than it asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import msgspec

from railyard.cluster.messaging.reactor import Reactor, Timer
from railyard.cluster.messaging.transport import Request, Server
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import CircuitView, LinkState, NetworkView, WatchNetwork


@dataclass(slots=True)
class _Subscriber:
    request: WatchNetwork
    sent: NetworkView
    timer: Timer


class Publisher:
    """The subscribers of one server; ``look`` returns the fabric as of now."""

    def __init__(self, server: Server, reactor: Reactor, look: Callable[[], Fabric]) -> None:
        self._server = server
        self._reactor = reactor
        self._look = look
        self._subscribers: dict[bytes, _Subscriber] = {}
        server.on(WatchNetwork, self._subscribe)

    def _subscribe(self, request: Request) -> NetworkView:
        watch, peer = cast("WatchNetwork", request.message), request.peer
        before = self._subscribers.get(peer)
        if before is not None:
            before.timer.cancel()
        view = network_view(self._look(), with_rates=watch.with_rates)
        self._subscribers[peer] = _Subscriber(watch, view, self._later(peer, watch))
        return view

    def _later(self, peer: bytes, watch: WatchNetwork) -> Timer:
        return self._reactor.call_later(watch.period_s, lambda: self._publish(peer))

    def _publish(self, peer: bytes) -> None:
        subscriber = self._subscribers[peer]
        view = network_view(self._look(), with_rates=subscriber.request.with_rates)
        if msgspec.structs.replace(view, now_s=subscriber.sent.now_s) != subscriber.sent:
            if not self._server.push(peer, view):
                del self._subscribers[peer]
                return
            subscriber.sent = view
        subscriber.timer = self._later(peer, subscriber.request)


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
