"""The simulated nodes where daemons may die: orders that only the network or a reader has heard.

An order about a fetch goes to the network and to the reader's NodeManager, over connections of
their own.  So when the ResourceManager dies, one of them may have heard more of its last orders;
one that is stopped or has yet to register hears them later.

    network alone       the flow is granted bytes, and nobody sends: it ends once the NodeManager
                        has heard of it, too
    NodeManager alone   the fetch waits until the network hears of the flow

Not here: who hears what (``simulator.restarts``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from railyard.cluster.errors import require, unknown_name
from railyard.cluster.ids import FlowId, NodeId, RackId, job_of, rack_of
from railyard.cluster.messages import (
    BeginAttempt,
    CancelFlow,
    FetchOutput,
    HeldAttempt,
    KillAttempt,
    LaunchAttempt,
    NodeJoined,
    NodeLost,
    NodeManagerHolds,
    NodeRestarted,
    SlotsChanged,
    StartFlow,
)
from railyard.cluster.messaging.wire import Command
from railyard.cluster.topology import Topology
from railyard.netemu.model.flows import FlowSpec
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.orders import settle_with
from railyard.simulator.clock import EventHeap, EventPriority
from railyard.simulator.daemons import (
    DATA_NODE,
    NODE_MANAGER,
    DaemonDown,
    DaemonFault,
    DaemonStopped,
    daemons_of,
)
from railyard.simulator.deadnetwork import FaultyNetwork
from railyard.simulator.network import LinkWatch, OnEnd
from railyard.simulator.nodemanagers import Fetch, NodeManagers, flow_of, is_fetch
from railyard.simulator.restarts import RestartableDriver
from railyard.simulator.submissions import Submissions


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


# What a restarted ResourceManager settles with the network, NodeManagers, NameNode and clients.
#
# As ``resourcemanager.process`` does: all that is ever settled is the difference between what the
# core knows and what the others say that they have.
#
# Never here: how it dies, and what others keep for it meanwhile; see ``driver.py``.


#: How long a NodeManager waits before it registers again with one that does not answer.
_AGAIN_S = 0.1


def tell_network(core: Core, workers: FaultyWorkers) -> None:
    """Tell a successor what there is, as ``resourcemanager.process.network`` does."""
    orders = [fetch.start_order for fetch in core.fetches.values()]
    flows = [flow_of(order) for order in orders if order.src != order.dst]
    workers.network.resume(core.open_coflows, flows)
    workers.open_all(orders)


class Settling:
    """Settles what was on its way when a ResourceManager died."""

    def __init__(
        self,
        topology: Topology,
        heap: EventHeap,
        driver: RestartableDriver,
        workers: FaultyWorkers,
        jobs: Submissions,
        links: LinkWatch | None,
    ) -> None:
        self._racks = {rack.id: tuple(n.id for n in rack.nodes) for rack in topology.rack_list()}
        self._heap = heap
        self._driver = driver
        self._workers = workers
        self._jobs = jobs
        self._links = links
        driver.on_restarted = self._begin

    def _begin(self, crash: DaemonDown) -> None:
        driver = self._driver
        driver.away.update(dict.fromkeys(self._racks))
        self._settle_network(driver.core)
        self._jobs.resume()
        if self._links is not None:
            self._links.begin_again(driver.core.state.links)
        driver.tell(driver.take_kept(None))
        for number, rack in enumerate(self._racks):
            self._heap.after(number * crash.rejoin_s, self._rejoin, rack, driver.epoch)

    def _settle_network(self, core: Core) -> None:
        """Close what jobs have in the network that should not be there, and open coflows."""
        network, wanted = self._workers.network, core.open_coflows
        fetches, there = core.fetches, network.coflows()
        for coflow in there:
            if coflow not in wanted:
                network.close_coflow(coflow)
        for flow in self._workers.fetches():
            if flow not in fetches:
                network.cancel(flow)
        for coflow in wanted:
            if coflow not in there:
                network.open_coflow(coflow)
        tell_network(core, self._workers)

    def _rejoin(self, rack: RackId, epoch: int) -> None:
        """The NodeManager of a rack tells what has happened, and what it has."""
        driver, down = self._driver, self._workers.down
        if driver.epoch != epoch or rack not in driver.away:
            return  # that ResourceManager is dead, or another NodeManager has registered
        if driver.is_down or rack in driver.stopped:  # one hears nobody, the other says nothing
            self._heap.after(_AGAIN_S, self._rejoin, rack, epoch)
            return
        told = driver.take_kept(rack)
        if rack in self._workers.unregistered:
            return  # another NodeManager will register, which has none of this
        if all(node in down for node in self._racks[rack]):
            del driver.away[rack]  # so is the NodeManager, with what it has kept
            return
        gone = [node for node in self._racks[rack] if node in down]
        told += [NodeLost(node=n, reason="its NodeManager can't use it any more") for n in gone]
        driver.hear(told)
        if driver.epoch != epoch:
            return
        del driver.away[rack]
        differences = settle_with(driver.core, self._workers.holds(rack))
        for order in differences.orders:
            if isinstance(order, FetchOutput):
                driver.carry_out(driver.core.fetches[order.flow].start_order)
            elif isinstance(order, LaunchAttempt | BeginAttempt | KillAttempt | CancelFlow):
                driver.carry_out(order)
        driver.tell(differences.events)


# Faults of daemons: they die at a chosen message and are restarted, or are stopped for a while.
#
#     resourcemanager   its successor replays its journal, and settles the rest with all others
#     namenode          its successor has its journal's files; DataNodes register with their blocks
#     network           flows stop where they are, and go on once those who send have told them
#     nodemanager-r0    its attempts are gone, its successor finds its map output, or most of it;
#                       blocks on its disks stay readable
#     datanode-r0       its blocks can't be read; attempts go on
#
# One that is stopped (SIGSTOP) hears what was said meanwhile when it goes on.  Attempts of a
# NodeManager that is stopped go on; what they tell is told later, and fetches from it end then.  A
# network that is stopped grants nothing, and then all at once that it would have granted.  Blocks
# stand still that a DataNode sends or receives which is stopped.
#
# Not here: faults of nodes, disks and links; see ``faults.py``.


_CENTRAL = ("resourcemanager", "namenode", "network")
#: How long a NodeManager waits before it registers again with a ResourceManager that is dead.

#: Within this time a network's successor is told all by those who are not stopped.
_TOLD_S = 0.1
#: A fault that waits for flows to start begins after this time without them.
_ARMED_S = 1.0


def check_daemon_faults(faults: Sequence[DaemonFault], topology: Topology) -> None:
    """Raise ``UsageError`` for a value out of range, or a daemon that there is not."""
    racks = [rack.id for rack in topology.rack_list()]
    of_racks = [kind + rack for kind in (NODE_MANAGER, DATA_NODE) for rack in racks]
    known = [*_CENTRAL, *of_racks]
    for fault in faults:
        if fault.daemon not in known:
            raise unknown_name("daemon", fault.daemon, known)
        if isinstance(fault, DaemonStopped) and fault.daemon in of_racks:
            expiry_s = topology.liveness.expiry_s
            right = f"less than {expiry_s} s, after which it counts as lost"
            require(fault.lasts_s < expiry_s, "DaemonStopped: lasts_s", fault.lasts_s, right)
        require(fault.at_s > 0, "DaemonFault: at_s", fault.at_s, "seconds > 0")
        require(fault.flows >= 0, "DaemonFault: flows", fault.flows, "0 or more")
        require(0 <= fault.lag_s < 1e9, "DaemonFault: lag_s", fault.lag_s, "finite seconds")
        require(0 <= fault.lasts_s < 1e9, "DaemonFault: lasts_s", fault.lasts_s, "finite seconds")


class _Armed(msgspec.Struct, eq=False):
    """A fault that begins once so many more flows have started."""

    fault: DaemonFault
    flows_left: int


class DaemonFaults:
    """Begins each fault at its time."""

    def __init__(
        self,
        faults: Sequence[DaemonFault],
        topology: Topology,
        heap: EventHeap,
        driver: RestartableDriver,
        workers: FaultyWorkers,
        slots_of: Callable[[NodeId], int],
    ) -> None:
        """Raises ``UsageError`` as ``check_daemon_faults`` does."""
        check_daemon_faults(faults, topology)
        self._heap = heap
        self._driver = driver
        self._workers = workers
        self._network = workers.network
        self._expiry_s = topology.liveness.expiry_s
        self._nodes = [node.id for node in topology.nodes()]
        self._slots_of = slots_of
        self._armed: list[_Armed] = []
        store = workers.store
        #: {kind of daemon: how it dies, how it is stopped}
        self._kinds: dict[
            str, tuple[Callable[[DaemonDown], None], Callable[[DaemonStopped], None]]
        ] = {
            "resourcemanager": (driver.die, driver.stop),
            "namenode": (store.die, store.stop),
            "network": (self._network_down, workers.network.stop),
            "nodemanager": (self._node_manager_down, self._node_manager_stopped),
            "datanode": (self._data_node_down, self._data_node_stopped),
        }
        for fault in faults:
            call = self._arm if fault.flows else self._begin
            heap.at(fault.at_s, call, fault, priority=EventPriority.FAULT)

    def _arm(self, fault: DaemonFault) -> None:
        armed = _Armed(fault, fault.flows)
        self._armed.append(armed)
        self._network.on_start = self._flows_start
        self._heap.after(_ARMED_S, self._fire, armed)

    def _fire(self, armed: _Armed, lag_s: float = 0.0) -> None:
        if armed in self._armed:
            self._armed.remove(armed)
            self._heap.after(lag_s, self._begin, armed.fault)
        if not self._armed:
            self._network.on_start = None

    def _flows_start(self, flows: Sequence[FlowSpec]) -> None:
        for armed in list(self._armed):
            fault = armed.fault
            armed.flows_left -= sum(
                fault.daemon == "network" or fault.daemon in daemons_of(spec) for spec in flows
            )
            if armed.flows_left <= 0:
                self._fire(armed, fault.lag_s)

    def _begin(self, fault: DaemonFault) -> None:
        dies, stops = self._kinds[fault.daemon.split("-")[0]]
        if isinstance(fault, DaemonStopped):
            stops(fault)
        else:
            assert isinstance(fault, DaemonDown)
            dies(fault)

    def _network_down(self, fault: DaemonDown) -> None:
        network = self._network
        if not network.is_dead:
            network.go_down()
            self._heap.after(fault.lasts_s, self._network_back)

    def _network_back(self) -> None:
        """Those who send tell it their flows, and the ResourceManager what there is."""
        workers, network = self._workers, self._network
        dice = random.Random(f"{workers.seed} {workers.chance} network {network.deaths}")
        self._heap.after(dice.uniform(0.0, _TOLD_S), self._tell_network, network.deaths)
        for sender in network.come_back():
            at_s = self._heap.now_s + dice.uniform(0.0, _TOLD_S)
            self._heap.at(at_s, self._tells, sender, network.deaths)

    def _tells(self, sender: str, deaths: int) -> None:
        """One that is stopped does so when it goes on."""
        if self._network.deaths == deaths:
            self._network.tells(sender)

    def _tell_network(self, deaths: int) -> None:
        """A ResourceManager that is restarted meanwhile does so by itself."""
        network, driver = self._network, self._driver
        if network.deaths != deaths or not network.awaits_coflows:
            return
        if driver.is_down:
            self._heap.after(_AGAIN_S, self._tell_network, deaths)
        else:
            tell_network(driver.core, self._workers)

    def _node_manager_down(self, fault: DaemonDown) -> None:
        """Its attempts, and what it had to tell, die with it; see ``nodemanager.process``."""
        workers, nodes = self._workers, self._nodes_of(fault.daemon)
        rack = rack_of(nodes[0])
        if not workers.unserved.isdisjoint(nodes):
            return  # it is dead already
        workers.unregistered.add(rack)
        workers.unserved.update(nodes)
        self._driver.stopped.pop(rack, None)
        self._driver.take_kept(rack)
        for node in nodes:
            workers.down.begin(node)
        for node in nodes:
            workers.end_work(node)
            workers.outputs.damage(node, fault.lost)
        self._network.daemon_is_gone(fault.daemon)
        self._heap.after(self._expiry_s, self._notice, nodes)
        self._heap.after(fault.lasts_s, self._node_manager_back, nodes)

    def _node_manager_stopped(self, fault: DaemonStopped) -> None:
        driver, rack = self._driver, rack_of(self._nodes_of(fault.daemon)[0])
        if rack not in driver.stopped and rack not in self._workers.unregistered:
            driver.stop_manager(rack)
            goes_on = partial(driver.manager_goes_on, rack, self._is_wanted)
            self._network.daemon_stops(fault, goes_on)

    def _is_wanted(self, order: Command) -> bool:
        """Whether an order that a NodeManager hears late is to be carried out.

        Not a fetch of a coflow that was closed.  Nor a launch of a job that was discarded: the next
        things that it hears are to kill the attempt, and to discard the job.
        """
        workers = self._workers
        if isinstance(order, StartFlow):
            return order.src == order.dst or order.coflow in workers.network.coflows()
        if isinstance(order, LaunchAttempt) and job_of(order.attempt) not in workers.jobs:
            if order.node not in workers.down:
                workers.end(order.attempt, order.node)
            return False
        return True

    def _notice(self, nodes: Sequence[NodeId]) -> None:
        for node in nodes:
            if node in self._workers.unserved:
                reason = "its NodeManager was silent for too long"
                self._workers.report(NodeLost(node=node, reason=reason))

    def _node_manager_back(self, nodes: Sequence[NodeId]) -> None:
        for node in nodes:
            self._workers.down.end(node)
        self._workers.serve_again(nodes)
        self._register(nodes)

    def _register(self, nodes: Sequence[NodeId]) -> None:
        """As ``resourcemanager.process.nodemanagers`` does, once there is a ResourceManager."""
        driver, workers, rack = self._driver, self._workers, rack_of(nodes[0])
        if not workers.unserved.isdisjoint(nodes):
            return  # it has died again
        if driver.is_down:
            self._heap.after(_AGAIN_S, self._register, nodes)
            return
        workers.unregistered.discard(rack)
        driver.take_kept(rack)
        driver.away.pop(rack, None)
        alive = {node for node, known in driver.core.state.nodes.items() if known.alive}
        for node in nodes:
            slots = self._slots_of(node)
            if node in workers.down:
                reason = "its NodeManager started anew, without it"
                workers.report(NodeLost(node=node, reason=reason))
            elif node in alive:
                workers.report(NodeRestarted(node=node, outputs=workers.outputs_on(node)))
                workers.report(SlotsChanged(node=node, slots=slots))
            else:
                workers.report(NodeJoined(node=node, rack=rack, slots=slots))

    def _data_node_stopped(self, fault: DaemonStopped) -> None:
        store, nodes = self._workers.store, self._nodes_of(fault.daemon)
        rack = rack_of(nodes[0])
        if rack not in store.stopped and not all(n in store.down for n in nodes):
            store.stop_datanode(rack)
            self._network.daemon_stops(fault, partial(store.datanode_goes_on, rack))

    def _data_node_down(self, fault: DaemonDown) -> None:
        store, nodes = self._workers.store, self._nodes_of(fault.daemon)
        for node in nodes:
            store.down.begin(node)
        for node in nodes:
            reason = f"the DataNode of {node} is gone"
            self._network.end_flows_of(node, reason, lambda end: not is_fetch(end))
        self._network.daemon_is_gone(fault.daemon)
        store.datanode_is_gone(rack_of(nodes[0]))
        self._heap.after(fault.lasts_s, self._data_node_back, nodes)

    def _data_node_back(self, nodes: Sequence[NodeId]) -> None:
        store = self._workers.store
        up = [node for node in nodes if store.down.end(node)]
        if up:
            store.register(rack_of(nodes[0]))

    def _nodes_of(self, daemon: str) -> list[NodeId]:
        rack = daemon.split("-", 1)[1]
        return [node for node in self._nodes if rack_of(node) == rack]
