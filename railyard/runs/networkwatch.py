"""The record of a run's network, and who takes its samples while the run goes on, on either clock.

Times are those of the run's events.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerLost
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.wire import Refusal
from railyard.netemu.messages import (
    NO_CHANGES,
    CircuitChanges,
    GetCircuitChanges,
    GetNetworkStats,
    NetworkStats,
)
from railyard.netemu.model.network import Network
from railyard.netemu.record import CircuitLog, CircuitUse, LinkLog, circuit_rows
from railyard.netemu.schedulers import flow_schedulers

if TYPE_CHECKING:
    from railyard.runs.clusters import Session
    from railyard.simulator.simulation import Simulation


class NetworkRecord:
    """Samples taken while a run goes on, written at its end."""

    def __init__(self, config: ClusterConfig) -> None:
        network = Network(config.topology)
        policy = flow_schedulers()[config.flow_scheduler].circuit_policy
        #: whether there are circuits that are used
        self.has_circuits = bool(network.ports and policy is not None)
        #: the links with recorded loads: all but the nodes'
        self.links = (*network.cross_rack, *(network.ports if self.has_circuits else ()))
        self.link_log, self.circuit_log = LinkLog(), CircuitLog()
        self._capacities = {
            name: float(network.capacities[network.number[name]]) for name in self.links
        }
        self._until_s = 0.0

    def take_links(
        self,
        at_s: float,
        link_bytes: Mapping[str, int],
        capacities_bytes_per_s: Mapping[str, float],
    ) -> None:
        """Bytes that each link has carried since the start, and what links can carry now.

        Of the latter those that carry more or less than the topology says.  Links that are not
        recorded may be among both.
        """
        now = {name: rate for name, rate in capacities_bytes_per_s.items() if name in self.links}
        self.link_log.take(at_s, {name: link_bytes[name] for name in self.links}, now)
        self._until_s = at_s

    def circuits(self) -> list[CircuitUse]:
        """The circuits up to the last sample of the links."""
        return self.circuit_log.uses(self._until_s)

    def write(self, file: Path) -> None:
        rows = circuit_rows(self.circuits(), self.circuit_log.left_out)
        self.link_log.write(file, self._capacities, rows)


class VirtualWatch(NetworkRecord):
    """The record of a simulation."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__(simulation.config)
        self._simulation = simulation
        self._changes_seen = 0

    def sample(self) -> None:
        """To be called after every event."""
        if self.has_circuits:
            fabric = self._simulation.network.fabric
            self._changes_seen, changes = fabric.circuit_changes(self._changes_seen)
            self.circuit_log.take(changes)
        if self.link_log.wants(self._simulation.heap.now_s):
            self.sample_links()

    def sample_links(self) -> None:
        """To be called once all is over."""
        fabric = self._simulation.network.fabric
        carried, now = fabric.bytes_by_link(), fabric.changed_capacities()
        self.take_links(self._simulation.heap.now_s, carried, now)


class NetworkWatch(NetworkRecord):
    """The record of a cluster's network from now on, as long as the session is served."""

    def __init__(self, session: Session) -> None:
        super().__init__(session.config)
        self._link = session.link("network")
        asked_s = now_s()
        status = session.status()
        #: the ResourceManager's clock, which the events' times are of, minus ours
        self._offset_s = status.now_s - (asked_s + now_s()) / 2
        asked_s = now_s()
        before = self._link.ask(GetCircuitChanges(after=NO_CHANGES), CircuitChanges)
        #: the network's clock minus ours
        self._network_offset_s = before.now_s - (asked_s + now_s()) / 2
        self._changes_seen = before.seen
        self._is_asking = False  #: for changes of circuits
        self._sample()
        session.reactor.call_every(self.link_log.period_s, self._sample)

    def finish(self) -> None:
        """Take a last sample.  Raises ``PeerLost`` if the network does not come back."""
        while self.has_circuits:
            new = self._link.ask(GetCircuitChanges(after=self._changes_seen), CircuitChanges)
            self._take_changes(new)
            if not new.more:
                break
        self._take_stats(self._link.ask(GetNetworkStats(), NetworkStats))

    def _sample(self) -> None:
        self._link.request(GetNetworkStats(), NetworkStats, self._on_links)
        if self.has_circuits and not self._is_asking:
            self._ask_for_changes()

    def _on_links(self, answer: NetworkStats | Refusal | PeerLost, _: object) -> None:
        soon_s = self._now_s() + self.link_log.period_s / 2
        if isinstance(answer, NetworkStats) and self.link_log.wants(soon_s):
            self._take_stats(answer)

    def _take_stats(self, stats: NetworkStats) -> None:
        self.take_links(self._now_s(), stats.cross_rack_links | stats.ports, stats.capacities)

    def _ask_for_changes(self) -> None:
        self._is_asking = True
        wanted = GetCircuitChanges(after=self._changes_seen)
        self._link.request(wanted, CircuitChanges, self._on_changes)

    def _on_changes(self, answer: CircuitChanges | Refusal | PeerLost, _: object) -> None:
        self._is_asking = False
        if isinstance(answer, CircuitChanges):
            self._take_changes(answer)
            if answer.more:
                self._ask_for_changes()

    def _take_changes(self, new: CircuitChanges) -> None:
        known = self._changes_seen - (new.seen - len(new.changes))  # from another answer
        self._changes_seen = new.seen
        offset_s = self._offset_s - self._network_offset_s
        self.circuit_log.take(new.changes[max(known, 0) :], offset_s)

    def _now_s(self) -> float:
        return now_s() + self._offset_s
