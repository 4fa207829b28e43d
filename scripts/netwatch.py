"""Keeps a record of a cluster's links while something runs there."""

from __future__ import annotations

from pathlib import Path

from cluster.errors import PeerLost
from cluster.reactor import now_s
from cluster.wire import Refusal
from netemu.linklog import LinkLog
from netemu.messages import GetNetworkStats, NetworkStats
from netemu.routes import Network
from resourcemanager.messages import ClusterStatus, GetClusterStatus
from scripts.session import Session

_Answer = NetworkStats | Refusal | PeerLost


class NetworkWatch:
    """Looks at the network's counters from now on, for as long as the session is served."""

    def __init__(self, session: Session) -> None:
        self._link = session.link("network")
        self._links = Network(session.config.topology)
        self._log = LinkLog()
        asked_s = now_s()
        status = session.link("resourcemanager").call(GetClusterStatus(), ClusterStatus)
        #: the ResourceManager's clock, which the events' times are of, minus ours
        self._offset_s = status.now_s - (asked_s + now_s()) / 2
        self._look()
        session.reactor.call_every(self._log.period_s, self._look)

    def write(self, path: Path) -> None:
        """Write what it has seen."""
        numbers = self._links.number
        self._log.write(
            path,
            {name: float(self._links.capacities[numbers[name]]) for name in self._links.cross_rack},
        )

    def _look(self) -> None:
        self._link.request(GetNetworkStats(), NetworkStats, self._take)

    def _take(self, answer: _Answer, _: object) -> None:
        at_s = now_s() + self._offset_s
        if isinstance(answer, NetworkStats) and self._log.wants(at_s + self._log.period_s / 2):
            self._log.take(at_s, answer.cross_rack_links)
