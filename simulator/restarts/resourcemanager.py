"""What a restarted ResourceManager settles with the network, NodeManagers, NameNode and clients.

As ``resourcemanager.process`` does: all that is ever settled is the difference between what the
core knows and what the others say that they have.

Never here: how it dies, and what others keep for it meanwhile; see ``driver.py``.
"""

from __future__ import annotations

from railyard.cluster.ids import RackId
from railyard.cluster.messages.execution import (
    BeginAttempt,
    CancelFlow,
    FetchOutput,
    KillAttempt,
    LaunchAttempt,
    NodeLost,
)
from railyard.cluster.topology import Topology
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.process.restart.settling import settle_with
from railyard.simulator.heap import EventHeap
from railyard.simulator.network.linkwatch import LinkWatch
from railyard.simulator.nodes.nodemanagers import flow_of
from railyard.simulator.restarts.driver import RestartableDriver
from railyard.simulator.restarts.workers import FaultyWorkers
from railyard.simulator.silence.daemons import DaemonDown
from railyard.simulator.submissions import Submissions

#: How long a NodeManager waits before it registers again with one that does not answer.
_AGAIN_S = 0.1


def tell_network(core: Core, workers: FaultyWorkers) -> None:
    """Tell a successor what there is, as ``resourcemanager.process.network.orders`` does."""
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
