"""The record of a run's network, of either clock: bytes of links, and circuits of coflows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from railyard.cluster.config import ClusterConfig
from railyard.netemu.model.circuits import CircuitChange
from railyard.netemu.model.network import Network
from railyard.netemu.record.circuits import CircuitLog, CircuitUse, circuit_rows
from railyard.netemu.record.links import LinkLog
from railyard.netemu.schedulers import flow_schedulers


class NetworkRecord:
    """Samples taken while a run goes on, written at its end.  Times are those of its events."""

    def __init__(self, config: ClusterConfig) -> None:
        network = Network(config.topology)
        #: whether there are circuits that are used
        self.has_circuits = bool(
            network.ports and flow_schedulers()[config.flow_scheduler].circuit_policy is not None
        )
        #: the links with recorded loads: all but the nodes'
        self.links = (*network.cross_rack, *(network.ports if self.has_circuits else ()))
        self.log = LinkLog()
        self._capacities = {
            name: float(network.capacities[network.number[name]]) for name in self.links
        }
        self._circuits = CircuitLog()
        self._until_s = 0.0

    def wants(self, at_s: float) -> bool:
        """Whether a sample of the links is due at this time."""
        return self.log.wants(at_s)

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
        self.log.take(at_s, {name: link_bytes[name] for name in self.links}, now)
        self._until_s = at_s

    def take_circuits(self, changes: Sequence[CircuitChange], offset_s: float = 0.0) -> None:
        """Changes of circuits; ``offset_s``: the events' clock minus the network's."""
        self._circuits.take(changes, offset_s)

    def circuits(self) -> list[CircuitUse]:
        """The circuits up to the last sample of the links."""
        return self._circuits.uses(self._until_s)

    def write(self, file: Path) -> None:
        """Write it as JSON lines."""
        rows = circuit_rows(self.circuits(), self._circuits.left_out)
        self.log.write(file, self._capacities, rows)
