"""The simulated nodes where daemons may die: orders that only the network or a reader has heard.

An order about a fetch goes to the network and to the reader's NodeManager, over connections of
their own.  So when the ResourceManager dies, one of them may have heard more of its last orders;
one that is stopped or has yet to register hears them later.

    network alone       the flow is granted bytes, and nobody sends: it ends once the NodeManager
                        has heard of it, too
    NodeManager alone   the fetch waits until the network hears of the flow

Not here: who hears what (``simulator.restarts.driver``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from railyard.cluster.ids import FlowId, NodeId, RackId, rack_of
from railyard.cluster.messages.execution import (
    CancelFlow,
    HeldAttempt,
    NodeManagerHolds,
    StartFlow,
)
from railyard.simulator.network.network import OnEnd
from railyard.simulator.nodes.nodemanagers import Fetch, NodeManagers
from railyard.simulator.silence.network import FaultyNetwork


class FaultyWorkers(NodeManagers):
    """The attempts of all nodes, and their fetches, some of which are known to one of the two."""

    network: FaultyNetwork

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._unopened: dict[FlowId, StartFlow] = {}  #: known to the NodeManager alone

    @property
    def has_half_heard(self) -> bool:
        """Whether one of the two alone knows of any fetch."""
        return bool(self._unopened or self.network.has_held)

    # What the network alone hears ----------------------------------------------------------------
    def network_opens(self, order: StartFlow) -> None:
        """The network hears of a fetch; one that is down hears of it when the NodeManager does."""
        if self._unopened.pop(order.flow, None) is not None:
            self.start_flow(order)
            return
        if _crosses(order) and self._has_ends(order) and not self.network.is_down:
            self.carry((order,))
            self.network.hold(order.flow)

    def network_closes(self, order: CancelFlow) -> None:
        """The network hears that a fetch is cancelled: nothing more comes."""
        fetch = self._fetch_order(order.flow)
        if fetch is None or not _crosses(fetch) or self.network.is_down:
            return
        if not self.network.is_held(order.flow):
            self._unopened[order.flow] = fetch
        self.network.cancel(order.flow)

    # What the NodeManager alone hears ------------------------------------------------------------
    def reader_fetches(self, order: StartFlow) -> None:
        """The NodeManager hears of a fetch; it finds out by itself that the source is gone."""
        if _crosses(order) and self._has_ends(order) and not self.network.is_held(order.flow):
            self._unopened[order.flow] = order
        else:
            self.start_flow(order)

    def reader_forgets(self, order: CancelFlow) -> None:
        """The NodeManager hears that a fetch is cancelled."""
        fetch = self._fetch_order(order.flow)
        if fetch is not None and _crosses(fetch):
            self.network.hold(order.flow)
        else:
            self.cancel_flow(order)

    # What both have heard, in the end ------------------------------------------------------------
    def start_flows(self, commands: Sequence[StartFlow]) -> None:
        """Start the flows of fetches, of which the network may know some."""
        commands = self.accepted(commands)
        if self.has_half_heard:
            commands = [each for each in commands if not self._completes(each)]
        super().start_flows(commands)

    def _completes(self, order: StartFlow) -> bool:
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
        super().cancel(flow)

    # What happens meanwhile ----------------------------------------------------------------------
    def open_all(self, orders: Iterable[StartFlow]) -> None:
        """Register the open fetches with the network again."""
        for order in [order for order in orders if order.flow in self._unopened]:
            self.network_opens(order)

    def end_flows(
        self, node: NodeId, reason: str, which: Callable[[OnEnd], bool] = lambda _: True
    ) -> None:
        """A node's NodeManager is gone, with what it knows; readers elsewhere notice."""
        for flow in [flow for flow, order in self._unopened.items() if order.dst == node]:
            del self._unopened[flow]
        super().end_flows(node, reason, which)
        for order in [order for order in self._unopened.values() if order.src == node]:
            del self._unopened[order.flow]
            Fetch(self, order, self.heap.now_s)(order.size_bytes, reason)

    def holds(self, rack: RackId) -> NodeManagerHolds:
        """What a rack's NodeManager has, as it would say after a restart of the ResourceManager."""
        attempts = [
            HeldAttempt(attempt=one.id, node=one.node, has_slot=one.has_slot, killed=False)
            for one in self.running.values()
            if rack_of(one.node) == rack
        ]
        attempts += [
            HeldAttempt(attempt=name, node=node, has_slot=True, killed=True)
            for name, node in self.dying.items()
            if rack_of(node) == rack
        ]
        flows = [
            flow
            for flow, (spec, on_end) in self.network.flows().items()
            if isinstance(on_end, Fetch)
            and rack_of(spec.dst) == rack
            and not self.network.is_held(flow)
        ]
        flows += [flow for flow, each in self._unopened.items() if rack_of(each.dst) == rack]
        flows += [flow for flow, each in self._waiting.items() if rack_of(each.dst) == rack]
        flows += [
            flow for one in self.running.values() if rack_of(one.node) == rack for flow in one.early
        ]
        return NodeManagerHolds(rack=rack, attempts=tuple(attempts), flows=tuple(flows), jobs=())

    def fetches(self) -> list[FlowId]:
        """The flows between two nodes that jobs have in the network."""
        return [
            flow
            for flow, (spec, on_end) in self.network.flows().items()
            if isinstance(on_end, Fetch) and spec.src != spec.dst
        ]

    def _fetch_order(self, flow: FlowId) -> StartFlow | None:
        """The order for a fetch that has a flow; None if there is none."""
        _, on_end = self.network.flows().get(flow, (None, None))
        return on_end.command if isinstance(on_end, Fetch) else None

    def _has_ends(self, order: StartFlow) -> bool:
        return {order.src, order.dst}.isdisjoint(self.down)


def _crosses(order: StartFlow) -> bool:
    """Whether the network has any part in a fetch."""
    return order.src != order.dst and order.size_bytes > 0
