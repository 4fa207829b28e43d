"""The simulated nodes where daemons may die: orders that only the network or a reader has received.

An order about a fetch goes to the network and to the reader's NodeManager, over connections of
their own.  So when the ResourceManager dies, one of them may have received more of its last
orders; one that is stopped or has yet to register receives them later.

    network alone       the flow is granted bytes, and nobody sends: it ends once the NodeManager
                        has received the order, too
    NodeManager alone   the fetch waits until the network opens the flow

Not here: who receives what (``driver``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, cast

from railyard.cluster.ids import AttemptId, FlowId, NodeId, RackId, job_of, rack_of
from railyard.cluster.messages import (
    CancelFlow,
    FlowFailed,
    HeldAttempt,
    NodeManagerHolds,
    StartFlow,
)
from railyard.oracles.faults.blockstore import FaultyBlockStore, FaultyWrite
from railyard.oracles.faults.network import FaultyNetwork
from railyard.simulator.network import OnEnd
from railyard.simulator.workers import Fetch, NodeManagers, SimulatedAttempt


class MapOutputs:
    """Which attempts' output for readers is on which node's disk; some may be damaged."""

    def __init__(self) -> None:
        self._nodes: dict[AttemptId, NodeId] = {}  #: {attempt: where its output is}
        self._damaged: set[AttemptId] = set()

    def add(self, attempt: AttemptId, node: NodeId) -> None:
        """What an attempt has made is on its node's disk."""
        self._nodes[attempt] = node

    def lose(self, node: NodeId) -> None:
        """All on a node is lost."""
        self._nodes = {name: at for name, at in self._nodes.items() if at != node}

    def damage(self, node: NodeId, many: int) -> None:
        """The last outputs on a node are damaged, so ``many`` at most."""
        here = self.on(node)
        for name in here[max(0, len(here) - many) :]:
            del self._nodes[name]
            self._damaged.add(name)

    def on(self, node: NodeId) -> list[AttemptId]:
        """The attempts whose output is whole on a node."""
        return [name for name, at in self._nodes.items() if at == node]

    def damaged_among(self, attempts: Sequence[AttemptId]) -> tuple[AttemptId, ...]:
        """Those of these attempts whose output is damaged."""
        if not self._damaged:
            return ()
        return tuple([name for name in attempts if name in self._damaged])


class FaultyAttempt(SimulatedAttempt, eq=False):
    """An attempt that waits for a NameNode that is down, and for DataNodes that are stopped."""

    write_class = FaultyWrite

    @property
    def held(self) -> HeldAttempt:
        """What its NodeManager registers of it."""
        return HeldAttempt(attempt=self.id, node=self.node, has_slot=self._begins, killed=False)

    @property
    def unreported(self) -> list[FlowId]:
        """Fetches that ended before it started, and are not reported yet."""
        return [flow for flow, *_ in self._early]

    def _read_rest(self, rest_bytes: int) -> None:
        store = cast("FaultyBlockStore", self._workers.store)
        if store.is_down and not self.over:
            store.when_back(partial(self._read_rest, rest_bytes))
        else:
            super()._read_rest(rest_bytes)

    def _read_from(self, source: NodeId, size_bytes: int) -> None:
        stopped = cast("FaultyBlockStore", self._workers.store).stopped_at(source)
        if stopped is None:
            super()._read_from(source, size_bytes)
        else:
            stopped.when_over(partial(self._read_rest, size_bytes))

    def _succeed(self) -> None:
        if not self.over:
            cast("FaultyWorkers", self._workers).outputs.add(self.id, self.node)
        super()._succeed()


class FaultyWorkers(NodeManagers):
    """Nodes whose daemons may be down: some fetches are known to one of the two alone."""

    attempt_class = FaultyAttempt
    network: FaultyNetwork
    store: FaultyBlockStore

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.outputs = MapOutputs()
        #: nodes of which only the NodeManager is down: the next one finds their map output
        self.unserved: set[NodeId] = set()
        #: racks whose NodeManager has died, until the next one has registered
        self.unregistered: set[RackId] = set()
        self._unopened: dict[FlowId, StartFlow] = {}  #: known to the NodeManager alone
        self._waiting: dict[FlowId, StartFlow] = {}  #: fetches that wait for a NodeManager

    @property
    def has_half_delivered(self) -> bool:
        """Whether one of the two alone knows of any fetch."""
        return bool(self._unopened or self.network.has_held)

    # What the network alone receives -------------------------------------------------------------
    def network_opens(self, order: StartFlow) -> None:
        """The network opens a fetch; one that is down does so once the NodeManager has it."""
        if self._unopened.pop(order.flow, None) is not None:
            self.start_flow(order)
            return
        if _crosses(order) and self._has_ends(order) and not self.network.is_down:
            self.carry((order,))
            self.network.hold(order.flow)

    def network_closes(self, order: CancelFlow) -> None:
        """The network cancels a fetch: nothing more comes."""
        fetch = self._fetch_order(order.flow)
        if fetch is None or not _crosses(fetch) or self.network.is_down:
            return
        if not self.network.is_held(order.flow):
            self._unopened[order.flow] = fetch
        self.network.cancel(order.flow)

    # What the NodeManager alone receives ---------------------------------------------------------
    def reader_fetches(self, order: StartFlow) -> None:
        """The NodeManager receives a fetch; it finds out by itself that the source is lost."""
        if _crosses(order) and self._has_ends(order) and not self.network.is_held(order.flow):
            self._unopened[order.flow] = order
        else:
            self.start_flow(order)

    def reader_forgets(self, order: CancelFlow) -> None:
        """The NodeManager cancels a fetch."""
        fetch = self._fetch_order(order.flow)
        if fetch is not None and _crosses(fetch):
            self.network.hold(order.flow)
        else:
            self.cancel_flow(order)

    # What both have received, in the end ---------------------------------------------------------
    def start_flows(self, commands: Sequence[StartFlow]) -> None:
        """Start the flows of fetches, of which the network may know some."""
        commands = [each for each in commands if not self._is_refused(each)]
        if self.has_half_delivered:
            commands = [each for each in commands if not self._completes(each)]
        if self.unserved:
            commands = [each for each in commands if not self._waits(each)]
        super().start_flows(commands)

    def _is_refused(self, order: StartFlow) -> bool:
        """Whether the NodeManager of a fetch's source reports that output is damaged."""
        damaged = self.outputs.damaged_among(order.outputs)
        if not damaged or order.src in self.down or order.dst in self.down:
            return False
        self._forget(order.flow)
        self.heap.after(0.0, self._refused, order, damaged)
        return True

    def _refused(self, order: StartFlow, damaged: tuple[AttemptId, ...]) -> None:
        if order.reader in self.running:
            reason = f"damaged on {order.src}"
            self.report(FlowFailed(flow=order.flow, reason=reason, lost=damaged))

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

    def _waits(self, order: StartFlow) -> bool:
        """Whether a fetch waits for the next NodeManager of its source."""
        if order.dst in self.down or order.src not in self.unserved:
            return False
        self._waiting[order.flow] = order
        return True

    def cancel_flow(self, command: CancelFlow) -> None:
        """Both cancel a fetch."""
        self._waiting.pop(command.flow, None)
        self._forget(command.flow)

    def _forget(self, flow: FlowId) -> None:
        self._unopened.pop(flow, None)
        self.network.cancel(flow)

    def report_failure(self, command: StartFlow, reason: str) -> None:
        """Report that a fetch has failed: that its source is down, or its output is lost."""
        if command.src in self.unserved:
            self.report(FlowFailed(flow=command.flow, reason=reason, gone=True))
        else:
            super().report_failure(command, reason)

    # What happens meanwhile ----------------------------------------------------------------------
    def open_all(self, orders: Iterable[StartFlow]) -> None:
        """Register the open fetches with the network again."""
        for order in [order for order in orders if order.flow in self._unopened]:
            self.network_opens(order)

    def go_down(self, node: NodeId) -> None:
        """Drop a node's attempts, output and flows, without a report."""
        self.end_attempts(node)
        self.outputs.lose(node)
        self.end_flows(node, f"{node} is down")

    def end_work(self, node: NodeId) -> None:
        """Drop a node's attempts and fetches, as its NodeManager has died.

        Flows of its blocks go on.  Readers elsewhere report that the source of a fetch is lost.
        """
        self.end_attempts(node)
        self.end_flows(node, f"the NodeManager of {node} is gone", is_fetch)

    def end_flows(
        self, node: NodeId, reason: str, which: Callable[[OnEnd], bool] = lambda _: True
    ) -> None:
        """A node's NodeManager has died, with what it knows; readers elsewhere notice."""
        for flow in [flow for flow, order in self._unopened.items() if order.dst == node]:
            del self._unopened[flow]
        self.network.end_flows_of(node, reason, which)
        for order in [order for order in self._unopened.values() if order.src == node]:
            del self._unopened[order.flow]
            Fetch(self, order, self.heap.now_s)(order.size_bytes, reason)

    def end_attempts(self, node: NodeId) -> None:
        """Drop a node's attempts, without a report."""
        super().end_attempts(node)
        for flow in [flow for flow, each in self._waiting.items() if each.dst == node]:
            del self._waiting[flow]

    def serve_again(self, nodes: Sequence[NodeId]) -> None:
        """There is a NodeManager again: fetches that have waited for it start."""
        self.unserved.difference_update(nodes)
        ready = [each for each in self._waiting.values() if each.src in nodes]
        coflows = self.network.coflows()
        for each in ready:
            del self._waiting[each.flow]
        self.start_flows([each for each in ready if each.coflow in coflows or each.src == each.dst])

    def outputs_on(self, node: NodeId) -> tuple[AttemptId, ...]:
        """The attempts whose output is on a node, of jobs that are not discarded."""
        return tuple([name for name in self.outputs.on(node) if job_of(name) in self.jobs])

    # What there is -------------------------------------------------------------------------------
    def holds(self, rack: RackId) -> NodeManagerHolds:
        """What a rack's NodeManager has, as it registers after a restart of the ResourceManager."""
        running = cast("dict[AttemptId, FaultyAttempt]", self.running)
        here = [one for one in running.values() if rack_of(one.node) == rack]
        attempts = [one.held for one in here]
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
        flows += [flow for one in here for flow in one.unreported]
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


def is_fetch(on_end: OnEnd) -> bool:
    """Whether that is called at the end of a fetch, and not of a flow of the block store."""
    return isinstance(on_end, Fetch)
