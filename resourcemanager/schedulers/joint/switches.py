"""The switches' free bandwidth, the flows that were promised some of it, and Earliest Start Time.

Source: Joint, III and IV-C.  ``Switches`` has B_s and t_TRAN (IV-C.3, equation (8)).  What is free
is what the network has published last, less what was promised to flows since then: a new flow gets
all that its path has (AFAP).  In a topology without a tree, racks' links are the switches; nodes'
own links limit flows as they are stated.  ``FlowList`` (Fig. 4b) has real flows with what they were
promised, and virtual flows: the edge of a task that was put beside its only predecessor has no
bandwidth, and the task may be moved until it starts.  Between two servers one flow carries all that
a task reads there.  ``EarliestStart`` is IV-C.4, equations (7) to (10).

Left open there, chosen here: a promise ends with its flow, or when the switch is published again,
as that counts the flow.  N in (7) and (10) is taken for M, the number of servers.  Of servers with
equal times, one of a predecessor goes first, then the first in the topology.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from railyard.cluster.ids import TaskId
from railyard.cluster.topology import Rack
from railyard.netemu.model.arrays import Bools, Floats, Numbers
from railyard.netemu.model.network import LinkState, Network
from railyard.resourcemanager.interface.views import ClusterView
from railyard.resourcemanager.schedulers.joint.servers import QueuedTask, Servers


class Promise(NamedTuple):
    """Bandwidth that a flow was given, at the switches of its path."""

    bytes_per_s: float
    path: list[int]
    published: list[int]  #: how often each of these had been published


class Switches:
    """All switches between racks; racks have numbers, as in the topology."""

    def __init__(self, cluster: ClusterView) -> None:
        network = cluster.topology.derived(Network)
        racks = cluster.topology.rack_list()
        names = network.cross_rack
        number = {network.number[name]: at for at, name in enumerate(names)}
        self._at = {name: at for at, name in enumerate(names)}

        def path(near: Rack, far: Rack) -> list[int]:
            links = network.route(near.nodes[0].id, far.nodes[-1].id).links
            return [number[link] for link in links if link in number]

        #: [rack][rack]: switches on the way
        self._paths = [[path(near, far) for far in racks] for near in racks]
        longest = max(1, *(len(path) for row in self._paths for path in row))
        #: [rack, rack, position], filled up with a switch that is never a limit
        self._way = np.full((len(racks), len(racks), longest), len(names))
        for at in np.ndindex(len(racks), len(racks)):
            way = self._paths[at[0]][at[1]]
            self._way[at][: len(way)] = way
        nics = np.array([min(node.nic_bytes_per_s for node in rack.nodes) for rack in racks])
        self._nics = np.minimum.outer(nics, nics)
        self._published = [0] * len(names)
        self._free: list[float] = [*[inf] * len(names), inf]
        self._capacities: list[float] = list(self._free)
        #: [rack, rack]: of what is free, and of what switches can carry; None: to be found
        self._least_free: Floats | None = None
        self._least_capacity: Floats | None = None
        self.observed(cluster.links)

    def observed(self, changed: Mapping[str, LinkState]) -> None:
        for name, link in changed.items():
            at = self._at.get(name)
            if at is not None:  # none of an optical port
                self._free[at] = link.free_bytes_per_s
                self._capacities[at] = link.capacity_bytes_per_s
                self._published[at] += 1
        self._least_free = self._least_capacity = None

    def any_is_free(self) -> bool:
        return max(self._free[:-1], default=inf) > 0

    # What flows get ------------------------------------------------------------------------------
    def free(self) -> Floats:
        """The least free bandwidth between any two racks [racks, racks], in bytes/s."""
        if self._least_free is None:
            self._least_free = self._least(self._free)
        return self._least_free

    def capacities(self) -> Floats:
        """The same as if no flow used the switches."""
        if self._least_capacity is None:
            self._least_capacity = self._least(self._capacities)
        return self._least_capacity

    def _least(self, bytes_per_s: list[float]) -> Floats:
        on_the_way: Floats = np.array(bytes_per_s).take(self._way).min(axis=2)
        limited: Floats = np.minimum(on_the_way, self._nics)
        return limited

    def promise(self, near: int, far: int) -> Promise:
        """Give a flow between two racks all that its path has (AFAP)."""
        path, free = self._paths[near][far], self._free
        bytes_per_s = min([free[at] for at in path], default=inf)
        bytes_per_s = min(bytes_per_s, float(self._nics[near, far]))
        if 0 < bytes_per_s < inf and path:
            for at in path:
                free[at] = max(0.0, free[at] - bytes_per_s)
            self._least_free = None
        return Promise(bytes_per_s, path, [self._published[at] for at in path])

    def give_back(self, promise: Promise) -> None:
        if not 0 < promise.bytes_per_s < inf:
            return
        for at, published in zip(promise.path, promise.published, strict=True):
            if self._published[at] == published:
                self._free[at] = min(self._free[at] + promise.bytes_per_s, self._capacities[at])
                self._least_free = None


def transmission_s(size_bytes: float | Floats, bytes_per_s: Floats) -> Floats:
    """t_TRAN of equation (8): 0 for no bytes, inf without bandwidth."""
    with np.errstate(divide="ignore", invalid="ignore"):
        took_s = size_bytes / bytes_per_s
    return np.where(np.asarray(size_bytes) > 0, took_s, 0.0)


# The flow list ------------------------------------------------------------------------------------
class VirtualFlow(NamedTuple):
    """The edge into a task that is on the server of its head."""

    tail: QueuedTask
    heads: Sequence[int]  #: servers that have what it reads; the tail's is one of them
    size_bytes: float


class FlowList:
    """All flows."""

    def __init__(self, switches: Switches, servers: Servers) -> None:
        self._switches = switches
        self._servers = servers
        #: {task: {server from which it reads: what was promised}}
        self.real: dict[TaskId, dict[int, Promise]] = {}
        self.virtual: dict[TaskId, VirtualFlow] = {}
        self.virtual_execution_s: Counter[float] = Counter()  #: {C: virtual flows to such tasks}

    def insert_real(self, task: TaskId, src: int, dst: int) -> None:
        """A flow to a task; it is promised all that is free on its path, unless it was before."""
        if src != dst and src not in self.real.get(task, {}):
            rack = self._servers.rack
            promise = self._switches.promise(int(rack[src]), int(rack[dst]))
            self.real.setdefault(task, {})[src] = promise

    def insert_virtual(self, flow: VirtualFlow) -> None:
        self.virtual[flow.tail.task.id] = flow
        self.virtual_execution_s[flow.tail.execution_s] += 1

    def ended(self, task: TaskId, src: int) -> None:
        flows = self.real.get(task, {})
        promise = flows.pop(src, None)
        if promise is not None:
            self._switches.give_back(promise)
            if not flows:
                del self.real[task]

    def forget(self, task: TaskId) -> None:
        """Drop all flows to a task, as it starts or is put elsewhere."""
        flow = self.virtual.pop(task, None)
        if flow is not None:
            execution_s = flow.tail.execution_s
            self.virtual_execution_s[execution_s] -= 1
            if not self.virtual_execution_s[execution_s]:
                del self.virtual_execution_s[execution_s]
        for promise in self.real.pop(task, {}).values():
            self._switches.give_back(promise)

    def virtual_to(self, server: int) -> Iterator[tuple[VirtualFlow, float]]:
        """Virtual flows to a server's queue, its last task first; with the ready work before it."""
        before_s = self._servers.ready_s(server)
        for name, entry in reversed(self._servers.queues[server].items()):
            if not entry.ready:
                continue
            before_s -= entry.execution_s
            flow = self.virtual.get(name)
            if flow is not None:
                yield flow, before_s


# Earliest Start Time (IV-C.4) --------------------------------------------------------------------
class Start(NamedTuple):
    """A server, and when a task could start there."""

    server: int
    from_now_s: float


class Predecessors(NamedTuple):
    """The precedent tasks T of a task; all [tasks]."""

    servers: Numbers  #: m_u
    completed_s: Floats  #: c_u, from now


class EarliestStart:
    """Chooses the server that can start a task first; None if none can.  Times count from now."""

    def __init__(self, switches: Switches, servers: Servers) -> None:
        self._switches = switches
        self._servers = servers

    def anywhere(self, usable: Bools, now_s: float, execution_s: float = 0.0) -> Start | None:
        """For a task without predecessors: an idle server, or the one with the least workload."""
        return _first(self._servers.starts_s(0.0, now_s, execution_s), usable, ())

    def of_one(
        self, at: Sequence[int], size_bytes: float, usable: Bools, now_s: float, execution_s: float
    ) -> Start | None:
        """Equation (7): for a task whose only predecessor has ended.

        ``at``: servers, any of which can send that one's data; ``execution_s``: C of the task.
        """
        tran_s = self.transmission_s(at, size_bytes)
        start_s = self._servers.starts_s(tran_s, now_s, execution_s)
        return _first(start_s, usable, at)

    def source(self, at: Sequence[int], to: int) -> int:
        """The server that sends to another: the nearest, as in (7); of equal ones, the first."""
        rack, free = self._servers.rack, self._switches.free()
        return max(at, key=lambda server: float(free[rack[server], rack[to]]))

    def of_several(
        self,
        tasks: Predecessors,
        sizes_bytes: Floats,
        usable: Bools,
        now_s: float,
        bandwidth: Floats,
        execution_s: float = 0.0,
    ) -> Start | None:
        """Equations (9) and (10): for a task whose predecessors' servers are known.

        ``sizes_bytes``: D of the edge from each of them; ``bandwidth`` [racks, racks] in bytes/s.
        """
        # O(tasks x racks + servers), not tasks x servers: a rack's servers are reached alike.
        rack, order = self._servers.rack, np.argsort(tasks.servers, kind="stable")
        servers, begins = np.unique(tasks.servers[order], return_index=True)
        completed_s, sizes = tasks.completed_s[order], sizes_bytes[order]
        ways = bandwidth[rack[servers]]
        of_task = np.repeat(np.arange(len(servers)), np.diff(np.append(begins, len(order))))
        arrive_s = completed_s[:, None] + transmission_s(sizes[:, None], ways[of_task])
        by_server = np.maximum.reduceat(arrive_s, begins, axis=0)  # [server of some, rack]
        there_s = np.maximum.reduceat(completed_s, begins)  # [server of some]: nothing is sent
        latest, second_s = by_server.argmax(axis=0), np.full(by_server.shape[1], -np.inf)
        if len(by_server) > 1:
            second_s = np.partition(by_server, -2, axis=0)[-2]
        latest_s = by_server.max(axis=0)
        start_s = latest_s[rack]
        near, own = rack[servers], np.arange(len(servers))
        others_s = np.where(latest[near] == own, second_s[near], latest_s[near])
        start_s[servers] = np.maximum(others_s, there_s)
        start_s = self._servers.starts_s(start_s, now_s, execution_s)
        return _first(start_s, usable, servers.tolist())

    def transmission_s(self, at: Sequence[int], size_bytes: float) -> Floats:
        """t_TRAN from the nearest of some servers to each one [servers]."""
        rack, free = self._servers.rack, self._switches.free()
        found = np.full(len(rack), np.inf)
        for server in at:
            tran_s = transmission_s(size_bytes, free[rack[server]])
            found = np.minimum(found, tran_s[rack])
        found[list(at)] = 0.0
        return found


def _first(start_s: Floats, usable: Bools, own: Sequence[int]) -> Start | None:
    """The server with the earliest start; of equal ones, one of ``own``, then the first."""
    start_s = np.where(usable, start_s, np.inf)
    server = int(start_s.argmin())
    earliest_s = float(start_s[server])
    if earliest_s == np.inf:
        return None
    return Start(min((s for s in own if start_s[s] == earliest_s), default=server), earliest_s)
