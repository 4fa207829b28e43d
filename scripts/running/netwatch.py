"""Keeps a record of a cluster's network while something runs there."""

from __future__ import annotations

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
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from railyard.scripts.clusters.session import Session
from railyard.scripts.results.networkrecord import NetworkRecord


class NetworkWatch:
    """Takes samples of the network from now on, as long as the session is served."""

    def __init__(self, session: Session) -> None:
        self.record = NetworkRecord(session.config)
        self._link = session.link("network")
        asked_s = now_s()
        status = session.link("resourcemanager").ask(GetClusterStatus(), ClusterStatus)
        #: the ResourceManager's clock, which the events' times are of, minus ours
        self._offset_s = status.now_s - (asked_s + now_s()) / 2
        asked_s = now_s()
        before = self._link.ask(GetCircuitChanges(after=NO_CHANGES), CircuitChanges)
        #: the network's clock minus ours
        self._network_offset_s = before.now_s - (asked_s + now_s()) / 2
        self._changes_seen = before.seen
        self._is_asking = False  #: for changes of circuits
        self._look()
        session.reactor.call_every(self.record.log.period_s, self._look)

    def finish(self) -> None:
        """Take a last sample.  Raises ``PeerLost`` if the network does not come back."""
        while self.record.has_circuits:
            new = self._link.ask(GetCircuitChanges(after=self._changes_seen), CircuitChanges)
            self._take_changes(new)
            if not new.more:
                break
        self._take_links(self._link.ask(GetNetworkStats(), NetworkStats))

    def _look(self) -> None:
        self._link.request(GetNetworkStats(), NetworkStats, self._on_links)
        if self.record.has_circuits and not self._is_asking:
            self._ask_for_changes()

    def _on_links(self, answer: NetworkStats | Refusal | PeerLost, _: object) -> None:
        if isinstance(answer, NetworkStats) and self.record.wants(
            self._now_s() + self.record.log.period_s / 2
        ):
            self._take_links(answer)

    def _take_links(self, stats: NetworkStats) -> None:
        carried = stats.cross_rack_links | stats.ports
        self.record.take_links(self._now_s(), carried, stats.capacities)

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
        self.record.take_circuits(new.changes[max(known, 0) :], offset_s)

    def _now_s(self) -> float:
        return now_s() + self._offset_s
