"""A simulation whose daemons die at a chosen message and are restarted, or are stopped for a while.

    resourcemanager   its successor replays its journal, and settles the rest with all others
    namenode          its successor has its journal's files; DataNodes register with their blocks
    network           flows stop where they are, and go on once their senders have registered them
    nodemanager-r0    its attempts are lost, its successor finds its map output, or most of it;
                      blocks on its disks stay readable
    datanode-r0       its blocks can't be read; attempts go on

One that is stopped (SIGSTOP) receives what was sent meanwhile when it goes on.  Attempts of a
NodeManager that is stopped go on; what they report is sent later, and fetches from it end then.  A
network that is stopped grants nothing, and then all at once that it would have granted.  Blocks
stand still that a DataNode sends or receives which is stopped.

As ``resourcemanager.process`` does, a restarted ResourceManager settles the difference between what
its core knows and what the others register.

Not here: faults of nodes, disks and links (``railyard.simulator.faults``).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from railyard.cluster.errors import require, unknown_name
from railyard.cluster.faults import Fault
from railyard.cluster.ids import JobId, NodeId, RackId, job_of, rack_of
from railyard.cluster.messages import (
    BeginAttempt,
    CancelFlow,
    DiscardJob,
    FetchOutput,
    KillAttempt,
    LaunchAttempt,
    NodeJoined,
    NodeLost,
    NodeRestarted,
    SlotsChanged,
    StartFlow,
)
from railyard.cluster.messaging.wire import Command, Message, Refusal
from railyard.cluster.topology import Topology
from railyard.dfs.messages import MoveReplica
from railyard.jobs.workloads.model import WorkloadJob
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.model.flows import FlowSpec
from railyard.oracles.faults.blockstore import FaultyBlockStore
from railyard.oracles.faults.daemons import (
    DATA_NODE,
    NODE_MANAGER,
    DaemonDown,
    DaemonFault,
    DaemonStopped,
    daemons_of,
)
from railyard.oracles.faults.driver import RestartableDriver
from railyard.oracles.faults.network import FaultyLinkWatch, FaultyNetwork
from railyard.oracles.faults.workers import FaultyWorkers, is_fetch
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.joblife import commit_order
from railyard.resourcemanager.driving.coredriver import Log
from railyard.resourcemanager.driving.orders import settle_with
from railyard.resourcemanager.interface.commands import CloseCoflow, EndJob, OpenCoflow
from railyard.simulator.blockstore import OnMoved
from railyard.simulator.clock import EventHeap, EventPriority
from railyard.simulator.faults import Faults
from railyard.simulator.simulation import Simulation
from railyard.simulator.submissions import Submissions
from railyard.simulator.workers import NodeManagers, flow_of

#: How long a NodeManager waits before it registers again with one that does not answer.
_AGAIN_S = 0.1


def resume_network(core: Core, workers: FaultyWorkers) -> None:
    """Send a successor what is open, as ``resourcemanager.process.network`` does."""
    orders = [fetch.start_order for fetch in core.shuffle.fetches.values()]
    flows = [flow_of(order) for order in orders if order.src != order.dst]
    workers.network.resume(core.shuffle.open_coflows, flows)
    workers.open_all(orders)


class ForResourceManager:
    """The block store as a ResourceManager asks it: what is answered to a dead one is lost."""

    def __init__(self, store: FaultyBlockStore, driver: RestartableDriver) -> None:
        self._store, self._driver = store, driver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def ask(self, message: Message, then: Callable[[Message | Refusal | None], None]) -> None:
        """As of the block store."""
        self._store.ask(message, self._if_alive(then))

    def move(self, wanted: MoveReplica, on_end: OnMoved) -> None:
        """As of the block store."""
        self._store.move(wanted, self._if_alive(on_end))

    def _if_alive(self, then: Callable[[Any], None]) -> Callable[[Any], None]:
        epoch = self._driver.epoch

        def answered(answer: object) -> None:
            if self._driver.epoch == epoch:
                then(answer)

        return answered


class FaultySubmissions(Submissions):
    """Submits, commits and ends jobs, for a ResourceManager that may die."""

    def __init__(
        self,
        topology: Topology,
        driver: RestartableDriver,
        store: FaultyBlockStore,
        workers: FaultyWorkers,
    ) -> None:
        super().__init__(topology, driver, cast("Any", ForResourceManager(store, driver)), workers)
        self._over: dict[JobId, None] = {}  #: jobs that have ended

    def submit(self, job: JobId, wanted: WorkloadJob) -> None:
        """Submit a job, once the NameNode knows where the input is."""
        store = cast("FaultyBlockStore", self._store)
        if store.is_down:
            store.when_back(partial(self.submit, job, wanted))
        else:
            super().submit(job, wanted)

    def resume(self) -> None:
        """Have done what a ResourceManager that died may not have done any more.

        As ``resourcemanager.process.main`` has: jobs are committed and discarded again, blocks
        moved again, and clients notified of the ends of jobs.
        """
        core = self._driver.core
        state = core.state
        for job in list(self._workers.jobs):
            record = state.records.get(job)
            if record is None or job in state.jobs:
                continue
            if job not in self._over:
                ok, path = bool(record.ok), self._outputs.get(job, "")
                self._end(EndJob(job=job, ok=ok, reason=record.reason, output_path=path))
            if job not in state.draining:
                self._discard(DiscardJob(job=job))
        for known in list(state.jobs.values()):
            if known.state == "committing":
                self._commit(commit_order(known))
        for order in core.moves:
            self._move(order)

    def _end(self, command: EndJob) -> None:
        self._over[command.job] = None
        super()._end(command)


class Settling:
    """Settles what was on its way when a ResourceManager died."""

    def __init__(
        self,
        topology: Topology,
        heap: EventHeap,
        driver: RestartableDriver,
        workers: FaultyWorkers,
        jobs: FaultySubmissions,
        links: FaultyLinkWatch | None,
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
        driver.missing.update(dict.fromkeys(self._racks))
        self._settle_network(driver.core)
        self._jobs.resume()
        if self._links is not None:
            self._links.begin_again(driver.core.state.links)
        driver.feed_all(driver.take_retained(None))
        for number, rack in enumerate(self._racks):
            self._heap.after(number * crash.rejoin_s, self._rejoin, rack, driver.epoch)

    def _settle_network(self, core: Core) -> None:
        """Close what jobs have in the network that should not be there, and open coflows."""
        network, wanted = self._workers.network, core.shuffle.open_coflows
        fetches, there = core.shuffle.fetches, network.coflows()
        for coflow in there:
            if coflow not in wanted:
                network.close_coflow(coflow)
        for flow in self._workers.fetches():
            if flow not in fetches:
                network.cancel(flow)
        for coflow in wanted:
            if coflow not in there:
                network.open_coflow(coflow)
        resume_network(core, self._workers)

    def _rejoin(self, rack: RackId, epoch: int) -> None:
        """The NodeManager of a rack reports what has happened, and registers."""
        driver, down = self._driver, self._workers.down
        if driver.epoch != epoch or rack not in driver.missing:
            return  # that ResourceManager is dead, or another NodeManager has registered
        if driver.is_down or rack in driver.stopped:  # one receives, the other sends nothing
            self._heap.after(_AGAIN_S, self._rejoin, rack, epoch)
            return
        retained = driver.take_retained(rack)
        if rack in self._workers.unregistered:
            return  # another NodeManager will register, which has none of this
        if all(node in down for node in self._racks[rack]):
            del driver.missing[rack]  # so is the NodeManager, with what it has retained
            return
        lost = [node for node in self._racks[rack] if node in down]
        retained += [NodeLost(node=n, reason="its NodeManager can't use it any more") for n in lost]
        driver.feed_of_rejoining(retained)
        if driver.epoch != epoch:
            return
        del driver.missing[rack]
        differences = settle_with(driver.core, self._workers.holds(rack))
        for order in differences.orders:
            if isinstance(order, FetchOutput):
                driver.carry_out(driver.core.shuffle.fetches[order.flow].start_order)
            elif isinstance(order, LaunchAttempt | BeginAttempt | KillAttempt | CancelFlow):
                driver.carry_out(order)
        driver.feed_all(differences.events)


_CENTRAL = ("resourcemanager", "namenode", "network")
#: How long a NodeManager waits before it registers again with a ResourceManager that is dead.

#: Within this time all who are not stopped register with a network's successor.
_REREGISTER_S = 0.1
#: A fault that waits for flows to start begins after this time without them.
_ARMED_S = 1.0


def check_daemon_faults(faults: Sequence[DaemonFault], topology: Topology) -> None:
    """Raise ``UsageError`` for a value out of range, or a daemon that there is not."""
    racks = [rack.id for rack in topology.rack_list()]
    of_racks = [kind + rack for kind in (NODE_MANAGER, DATA_NODE) for rack in racks]
    known = [*_CENTRAL, *of_racks]
    for fault in faults:
        if fault.target not in known:
            raise unknown_name("daemon", fault.target, known)
        if isinstance(fault, DaemonStopped) and fault.target in of_racks:
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
    flows_pending: int


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
            armed.flows_pending -= sum(
                fault.target == "network" or fault.target in daemons_of(spec) for spec in flows
            )
            if armed.flows_pending <= 0:
                self._fire(armed, fault.lag_s)

    def _begin(self, fault: DaemonFault) -> None:
        dies, stops = self._kinds[fault.target.split("-")[0]]
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
        """Senders register their flows, and the ResourceManager what is open."""
        workers, network = self._workers, self._network
        dice = random.Random(f"{workers.seed} {workers.chance} network {network.deaths}")
        self._heap.after(dice.uniform(0.0, _REREGISTER_S), self._resume_network, network.deaths)
        for sender in network.come_back():
            at_s = self._heap.now_s + dice.uniform(0.0, _REREGISTER_S)
            self._heap.at(at_s, self._reregister, sender, network.deaths)

    def _reregister(self, sender: str, deaths: int) -> None:
        """One that is stopped does so when it goes on."""
        if self._network.deaths == deaths:
            self._network.reregister(sender)

    def _resume_network(self, deaths: int) -> None:
        """A ResourceManager that is restarted meanwhile does so by itself."""
        network, driver = self._network, self._driver
        if network.deaths != deaths or not network.awaits_coflows:
            return
        if driver.is_down:
            self._heap.after(_AGAIN_S, self._resume_network, deaths)
        else:
            resume_network(driver.core, self._workers)

    def _node_manager_down(self, fault: DaemonDown) -> None:
        """Its attempts, and what it had to report, die with it; see ``nodemanager.process``."""
        workers, nodes = self._workers, self._nodes_of(fault.target)
        rack = rack_of(nodes[0])
        if not workers.unserved.isdisjoint(nodes):
            return  # it is dead already
        workers.unregistered.add(rack)
        workers.unserved.update(nodes)
        self._driver.stopped.pop(rack, None)
        self._driver.take_retained(rack)
        for node in nodes:
            workers.down.begin(node)
        for node in nodes:
            workers.end_work(node)
            workers.outputs.damage(node, fault.lost)
        self._network.daemon_lost(fault.target)
        self._heap.after(self._expiry_s, self._notice, nodes)
        self._heap.after(fault.lasts_s, self._node_manager_back, nodes)

    def _node_manager_stopped(self, fault: DaemonStopped) -> None:
        driver, rack = self._driver, rack_of(self._nodes_of(fault.target)[0])
        if rack not in driver.stopped and rack not in self._workers.unregistered:
            driver.stop_manager(rack)
            goes_on = partial(driver.manager_goes_on, rack, self._is_wanted)
            self._network.daemon_stops(fault, goes_on)

    def _is_wanted(self, order: Command) -> bool:
        """Whether an order that a NodeManager receives late is to be carried out.

        Not a fetch of a coflow that was closed.  Nor a launch of a job that was discarded: the next
        things that it receives are to kill the attempt, and to discard the job.
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
        driver.take_retained(rack)
        driver.missing.pop(rack, None)
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
        store, nodes = self._workers.store, self._nodes_of(fault.target)
        rack = rack_of(nodes[0])
        if rack not in store.stopped and not all(n in store.down for n in nodes):
            store.stop_datanode(rack)
            self._network.daemon_stops(fault, partial(store.datanode_goes_on, rack))

    def _data_node_down(self, fault: DaemonDown) -> None:
        store, nodes = self._workers.store, self._nodes_of(fault.target)
        for node in nodes:
            store.down.begin(node)
        for node in nodes:
            reason = f"the DataNode of {node} is gone"
            self._network.end_flows_of(node, reason, lambda end: not is_fetch(end))
        self._network.daemon_lost(fault.target)
        store.datanode_lost(rack_of(nodes[0]))
        self._heap.after(fault.lasts_s, self._data_node_back, nodes)

    def _data_node_back(self, nodes: Sequence[NodeId]) -> None:
        store = self._workers.store
        up = [node for node in nodes if store.down.end(node)]
        if up:
            store.register(rack_of(nodes[0]))

    def _nodes_of(self, daemon: str) -> list[NodeId]:
        rack = daemon.split("-", 1)[1]
        return [node for node in self._nodes if rack_of(node) == rack]


class FaultySimulation(Simulation):
    """A simulation with faults of daemons, among others."""

    store_class = FaultyBlockStore
    jobs_class: type[Any] = FaultySubmissions
    links_class = FaultyLinkWatch

    driver: RestartableDriver
    network: FaultyNetwork
    store: FaultyBlockStore
    workers: FaultyWorkers
    jobs: FaultySubmissions
    _links: FaultyLinkWatch | None

    def __init__(self, *args: Any, **settings: Any) -> None:
        """Raises ``UsageError`` as ``check_daemon_faults`` does."""
        super().__init__(*args, **settings)
        driver, workers, topology = self.driver, self.workers, self.config.topology
        driver.halves = {
            StartFlow: (workers.network_opens, workers.reader_fetches),
            CancelFlow: (workers.network_closes, workers.reader_forgets),
            OpenCoflow: (lambda order: self.network.open_coflow(order.coflow), None),
            CloseCoflow: (lambda order: self.network.close_coflow(order.coflow), None),
        }
        Settling(topology, self.heap, driver, workers, self.jobs, self._links)
        slots_of = self.faults.slots_of
        DaemonFaults(self._daemon_faults, topology, self.heap, driver, workers, slots_of)

    @property
    def is_whole(self) -> bool:
        """Whether all daemons and nodes are up, and have registered."""
        driver, store = self.driver, self.store
        return not (
            driver.is_down
            or driver.missing
            or driver.stopped
            or self.network.is_down
            or store.is_down
            or store.stopped
        )

    def _make_driver(
        self, make_core: Callable[[], Core], log: Log | None, in_batches: bool
    ) -> RestartableDriver:
        return RestartableDriver(make_core, self.heap, log)

    def _make_network(self, make_fabric: Callable[[], Fabric]) -> FaultyNetwork:
        return FaultyNetwork(make_fabric, self.heap, self.behaviour.fetch_s)

    def _make_workers(self) -> FaultyWorkers:
        return FaultyWorkers(*self._for_workers())

    def _plan_faults(self, workers: NodeManagers, faults: Sequence[Fault]) -> Faults:
        self._daemon_faults = [fault for fault in faults if isinstance(fault, DaemonFault)]
        others = [fault for fault in faults if not isinstance(fault, DaemonFault)]
        return Faults(others, self.config.topology, self.heap, workers, self._daemon_faults)
