"""The switches' free bandwidth, and the flows that were promised some of it (III, IV-C).

``Switches`` has B_s and t_TRAN (IV-C.3, equation (8)).  What is free is what the network has
published last, less what was promised to flows since then: a new flow gets all that its path has
(AFAP).  In a topology without a tree, racks' links are the switches; nodes' own links limit flows
as they are stated.  ``FlowList`` (Fig. 4b) has real flows with what they were promised, and virtual
flows: the edge of a task that was put beside its only predecessor has no bandwidth, and the task
may be moved until it starts.  Between two servers there is one flow for each task, which carries
all that the task reads there.

Left open there, chosen here: a promise ends with its flow, or when the switch is published again,
as that counts the flow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from railyard.cluster.ids import TaskId
from railyard.cluster.topology import Rack
from railyard.netemu.model.arrays import Floats
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
        """These switches were published."""
        for name, link in changed.items():
            at = self._at.get(name)
            if at is not None:  # none of an optical port
                self._free[at] = link.free_bytes_per_s
                self._capacities[at] = link.capacity_bytes_per_s
                self._published[at] += 1
        self._least_free = self._least_capacity = None

    def any_is_free(self) -> bool:
        """Whether one of the switches has available bandwidth."""
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
        """A flow has ended, or will not come."""
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
        """A flow without bandwidth."""
        self.virtual[flow.tail.task.id] = flow
        self.virtual_execution_s[flow.tail.execution_s] += 1

    def ended(self, task: TaskId, src: int) -> None:
        """A real flow has ended: what it was promised is free."""
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
        """Virtual flows to tasks of a server's queue, with the ready work before each.

        The last of the queue comes first.
        """
        before_s = self._servers.ready_s(server)
        for name, entry in reversed(self._servers.queues[server].items()):
            if not entry.ready:
                continue
            before_s -= entry.execution_s
            flow = self.virtual.get(name)
            if flow is not None:
                yield flow, before_s
