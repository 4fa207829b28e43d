"""Orders about fetches that only one of two has heard: the network, or the reader's NodeManager.

They go to both over connections of their own.  So when the ResourceManager dies, one of them may
have heard more of its last orders; one that is stopped or has yet to register hears them later.

    network alone       the flow is granted bytes, and nobody sends: it ends once the NodeManager
                        has heard of it, too
    NodeManager alone   the fetch waits until the network hears of the flow

Not here: who hears what (``simulator.restarts.driver``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from railyard.cluster.ids import FlowId, NodeId, RackId, rack_of
from railyard.cluster.messages.execution import CancelFlow, StartFlow
from railyard.simulator.nodes.outages import Outages
from railyard.simulator.silence.network import FaultyNetwork


class Fetching(Protocol):
    """Who carries out what both have heard; see ``Workers``."""

    down: Outages

    def start_flow(self, command: StartFlow) -> None:
        """Start a fetch."""

    def carry(self, commands: Sequence[StartFlow]) -> None:
        """Start the flows of fetches between nodes that are up."""

    def cancel_flow(self, command: CancelFlow) -> None:
        """Cancel a fetch."""

    def fetch_order(self, flow: FlowId) -> StartFlow | None:
        """The order for a fetch that has a flow; None if there is none."""


class HalfHeard:
    """The fetches that are known to one of the two."""

    def __init__(self, workers: Fetching, network: FaultyNetwork) -> None:
        self._workers = workers
        self.network = network
        self._unopened: dict[FlowId, StartFlow] = {}  #: known to the NodeManager alone

    def __bool__(self) -> bool:
        return bool(self._unopened or self.network.has_held)

    # What the network alone hears ----------------------------------------------------------------
    def open(self, order: StartFlow) -> None:
        """The network hears of a fetch; one that is down hears of it when the NodeManager does."""
        if self._unopened.pop(order.flow, None) is not None:
            self._workers.start_flow(order)
            return
        if _crosses(order) and self._has_ends(order) and not self.network.is_down:
            self._workers.carry((order,))
            self.network.hold(order.flow)

    def close(self, order: CancelFlow) -> None:
        """The network hears that a fetch is cancelled: nothing more comes."""
        fetch = self._workers.fetch_order(order.flow)
        if fetch is None or not _crosses(fetch) or self.network.is_down:
            return
        if not self.network.is_held(order.flow):
            self._unopened[order.flow] = fetch
        self.network.cancel(order.flow)

    # What the NodeManager alone hears ------------------------------------------------------------
    def fetch(self, order: StartFlow) -> None:
        """The NodeManager hears of a fetch; it finds out by itself that the source is gone."""
        if _crosses(order) and self._has_ends(order) and not self.network.is_held(order.flow):
            self._unopened[order.flow] = order
        else:
            self._workers.start_flow(order)

    def forget(self, order: CancelFlow) -> None:
        """The NodeManager hears that a fetch is cancelled."""
        fetch = self._workers.fetch_order(order.flow)
        if fetch is not None and _crosses(fetch):
            self.network.hold(order.flow)
        else:
            self._workers.cancel_flow(order)

    # What both have heard, in the end ------------------------------------------------------------
    def completes(self, order: StartFlow) -> bool:
        """Whether an order for both is the NodeManager's to a fetch that the network knows."""
        self._unopened.pop(order.flow, None)
        if not self.network.is_held(order.flow):
            return False
        if self._has_ends(order):
            self.network.release(order.flow)
            return True
        self.network.cancel(order.flow)  # nobody will send
        return False

    def cancel(self, flow: FlowId) -> None:
        """Both hear that a fetch is cancelled."""
        self._unopened.pop(flow, None)

    # What happens meanwhile ----------------------------------------------------------------------
    def open_all(self, orders: Iterable[StartFlow]) -> None:
        """The network is told which fetches there are."""
        for order in [order for order in orders if order.flow in self._unopened]:
            self.open(order)

    def is_unheard(self, flow: FlowId) -> bool:
        """Whether the network alone knows a fetch."""
        return self.network.is_held(flow)

    def unopened_in(self, rack: RackId) -> list[FlowId]:
        """Those that a rack's NodeManager alone knows."""
        return [flow for flow, order in self._unopened.items() if rack_of(order.dst) == rack]

    def reader_is_gone(self, node: NodeId) -> None:
        """The NodeManager of a node is gone, with what it knows."""
        for flow in [flow for flow, order in self._unopened.items() if order.dst == node]:
            del self._unopened[flow]

    def source_is_gone(self, node: NodeId) -> list[StartFlow]:
        """Nobody serves the output on a node; returns the fetches of which the readers notice."""
        lost = [order for order in self._unopened.values() if order.src == node]
        for order in lost:
            del self._unopened[order.flow]
        return lost

    def _has_ends(self, order: StartFlow) -> bool:
        return {order.src, order.dst}.isdisjoint(self._workers.down)


def _crosses(order: StartFlow) -> bool:
    """Whether the network has any part in a fetch."""
    return order.src != order.dst and order.size_bytes > 0
