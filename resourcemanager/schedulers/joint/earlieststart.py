"""Earliest Start Time: the server that can start a task first (IV-C.4, equations (7) to (10)).

Times count from now.  Left open there, chosen here (and N in (7) and (10) is taken for M, the
number of servers): of servers with equal times, one of a predecessor goes first, then the first in
the topology.  Where all servers are out of reach of some predecessor, nothing is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.resourcemanager.schedulers.joint.switches import Switches, transmission_s
from railyard.resourcemanager.schedulers.shared.serverqueues.servers import Servers

#: The bandwidth from a rack to each one [racks], in bytes/s.
Bandwidth = Callable[[int], Floats]


class Start(NamedTuple):
    """A server, and when a task could start there."""

    server: int
    from_now_s: float


class Predecessors(NamedTuple):
    """The precedent tasks T of a task; all [tasks]."""

    servers: Numbers  #: m_u
    completed_s: Floats  #: c_u, from now


class EarliestStart:
    """Chooses servers."""

    def __init__(self, switches: Switches, servers: Servers) -> None:
        self._servers = servers
        self.free: Bandwidth = switches.free_from
        self.capacities: Bandwidth = switches.capacity_from

    def anywhere(self, usable: Bools, now_s: float, execution_s: float = 0.0) -> Start | None:
        """For a task without predecessors: an idle server, or the one with the least workload."""
        return _first(self._servers.starts_s(0.0, now_s, execution_s), usable, ())

    def of_one(
        self,
        at: Sequence[int],
        size_bytes: float,
        usable: Bools,
        now_s: float,
        execution_s: float = 0.0,
    ) -> Start | None:
        """Equation (7): for a task whose only predecessor has ended.

        ``at``: the servers where that has left its data, any of which can send it;
        ``execution_s``: C of the task.
        """
        tran_s = self.transmission_s(at, size_bytes)
        start_s = self._servers.starts_s(tran_s, now_s, execution_s)
        return _first(start_s, usable, at)

    def source(self, at: Sequence[int], to: int) -> int:
        """Which of some servers sends data to another: the nearest one, by which (7) counts.

        Of equally near ones, the first.
        """
        rack = self._servers.rack
        return max(at, key=lambda server: float(self.free(int(rack[server]))[rack[to]]))

    def of_several(
        self,
        tasks: Predecessors,
        sizes_bytes: Floats,
        usable: Bools,
        now_s: float,
        bandwidth: Bandwidth,
        execution_s: float = 0.0,
    ) -> Start | None:
        """Equations (9) and (10): for a task whose predecessors' servers are known.

        ``sizes_bytes``: D of the edge from each of them.
        """
        # O(tasks x racks + servers), and not tasks x servers: over the network, all servers of a
        # rack are reached alike.
        rack, order = self._servers.rack, np.argsort(tasks.servers, kind="stable")
        servers, begins = np.unique(tasks.servers[order], return_index=True)
        completed_s, sizes = tasks.completed_s[order], sizes_bytes[order]
        ways = np.array([bandwidth(each) for each in rack[servers].tolist()])
        of_task = np.repeat(np.arange(len(servers)), np.diff(np.append(begins, len(order))))
        arrive_s = completed_s[:, None] + transmission_s(sizes[:, None], ways[of_task])
        by_server = np.maximum.reduceat(arrive_s, begins, axis=0)  # [server of some, rack]
        there_s = np.maximum.reduceat(completed_s, begins)  # [server of some]: nothing is sent
        latest, second_s = by_server.argmax(axis=0), _second(by_server)
        latest_s = by_server.max(axis=0)
        start_s = latest_s[rack]
        near, own = rack[servers], np.arange(len(servers))
        others_s = np.where(latest[near] == own, second_s[near], latest_s[near])
        start_s[servers] = np.maximum(others_s, there_s)
        start_s = self._servers.starts_s(start_s, now_s, execution_s)
        return _first(start_s, usable, servers.tolist())

    def transmission_s(self, at: Sequence[int], size_bytes: float) -> Floats:
        """t_TRAN from the nearest of some servers to each one [servers]."""
        rack = self._servers.rack
        found = np.full(len(rack), np.inf)
        for server in at:
            tran_s = transmission_s(size_bytes, self.free(int(rack[server])))
            found = np.minimum(found, tran_s[rack])
        found[list(at)] = 0.0
        return found


def _second(by_server: Floats) -> Floats:
    """The second largest of each column; -inf where there is only one."""
    if len(by_server) == 1:
        return np.full(by_server.shape[1], -np.inf)
    found: Floats = np.partition(by_server, -2, axis=0)[-2]
    return found


def _first(start_s: Floats, usable: Bools, own: Sequence[int]) -> Start | None:
    """The server with the earliest start; of equal ones, one of ``own``, then the first."""
    start_s = np.where(usable, start_s, np.inf)
    server = int(start_s.argmin())
    earliest_s = float(start_s[server])
    if earliest_s == np.inf:
        return None
    return Start(min((s for s in own if start_s[s] == earliest_s), default=server), earliest_s)
