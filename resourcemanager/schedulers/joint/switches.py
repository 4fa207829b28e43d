"""The switches' free bandwidth B_s, and how long data takes over them (III, IV-C.3, equation (8)).

What is free is what the network has published last, less what was promised to flows since then: a
new flow gets all that its path has (AFAP).  In a topology without a tree, racks' links are the
switches; nodes' own links limit flows as they are stated.

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
from railyard.netemu.model.arrays import Floats
from railyard.netemu.model.network import LinkState, Network
from railyard.resourcemanager.interface.views import ClusterView
from railyard.resourcemanager.schedulers.joint.servers import QueuedTask, Servers


class Promise:
    """Bandwidth that a flow was given, at the switches of its path."""

    __slots__ = ("bytes_per_s", "looks", "path")

    def __init__(self, bytes_per_s: float, path: list[int], looks: list[int]) -> None:
        self.bytes_per_s = bytes_per_s
        self.path = path
        self.looks = looks  #: how often each of these had been published


class Switches:
    """All switches between racks; racks have numbers, as in the topology."""

    def __init__(self, cluster: ClusterView) -> None:
        network = cluster.topology.derived(Network)
        racks = cluster.topology.rack_list()
        names = network.cross_rack
        number = {network.number[name]: at for at, name in enumerate(names)}
        self._names = names
        self._at = {name: at for at, name in enumerate(names)}
        #: [rack][rack]: switches on the way
        self._paths = [
            [
                [
                    number[link]
                    for link in network.route(near.nodes[0].id, far.nodes[-1].id).links
                    if link in number
                ]
                for far in racks
            ]
            for near in racks
        ]
        longest = max(1, *(len(path) for row in self._paths for path in row))
        filled = [
            [path + [len(names)] * (longest - len(path)) for path in row] for row in self._paths
        ]
        #: [rack, rack, position], filled up with a switch that is never a limit
        self._way = np.array(filled, dtype=np.int64)
        nics = np.array([min(node.nic_bytes_per_s for node in rack.nodes) for rack in racks])
        self._nics = np.minimum.outer(nics, nics)
        self._looks = [0] * len(names)
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
                self._looks[at] += 1
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

    def free_from(self, rack: int) -> Floats:
        """The same from one rack [racks]."""
        found: Floats = self.free()[rack]
        return found

    def capacity_from(self, rack: int) -> Floats:
        """The same as if no flow used the switches."""
        if self._least_capacity is None:
            self._least_capacity = self._least(self._capacities)
        found: Floats = self._least_capacity[rack]
        return found

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
        return Promise(bytes_per_s, path, [self._looks[at] for at in path])

    def give_back(self, promise: Promise) -> None:
        """A flow has ended, or will not come."""
        if not 0 < promise.bytes_per_s < inf:
            return
        for at, looks in zip(promise.path, promise.looks, strict=True):
            if self._looks[at] == looks:
                self._free[at] = min(self._free[at] + promise.bytes_per_s, self._capacities[at])
                self._least_free = None


def transmission_s(size_bytes: float | Floats, bytes_per_s: Floats) -> Floats:
    """t_TRAN of equation (8): 0 for no bytes, inf without bandwidth."""
    with np.errstate(divide="ignore", invalid="ignore"):
        took_s = size_bytes / bytes_per_s
    return np.where(np.asarray(size_bytes) > 0, took_s, 0.0)


# The flow list (IV-C, Fig. 4b): real flows with what they were promised, and virtual flows.
#
# A virtual flow is the edge of a task that was put beside its only predecessor: it has no
# bandwidth, and the task may be moved until it starts.  Between two servers there is one flow for
# each task, which carries all that the task reads there.


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
        self._real: dict[TaskId, dict[int, Promise]] = {}
        self._virtual: dict[TaskId, VirtualFlow] = {}
        self.virtual_execution_s: Counter[float] = Counter()  #: {C: virtual flows to such tasks}

    @property
    def real(self) -> int:
        """Number of real flows."""
        return sum([len(flows) for flows in self._real.values()])

    @property
    def virtual(self) -> int:
        """Number of virtual flows."""
        return len(self._virtual)

    def insert_real(self, task: TaskId, src: int, dst: int) -> None:
        """A flow to a task; it is promised all that is free on its path, unless it was before."""
        if src != dst and src not in self._real.get(task, {}):
            rack = self._servers.rack
            promise = self._switches.promise(int(rack[src]), int(rack[dst]))
            self._real.setdefault(task, {})[src] = promise

    def insert_virtual(self, flow: VirtualFlow) -> None:
        """A flow without bandwidth."""
        self._virtual[flow.tail.task.id] = flow
        self.virtual_execution_s[flow.tail.execution_s] += 1

    def ended(self, task: TaskId, src: int) -> None:
        """A real flow has ended: what it was promised is free."""
        flows = self._real.get(task, {})
        promise = flows.pop(src, None)
        if promise is not None:
            self._switches.give_back(promise)
            if not flows:
                del self._real[task]

    def forget(self, task: TaskId) -> None:
        """All flows to a task are gone, as it starts or is put elsewhere."""
        flow = self._virtual.pop(task, None)
        if flow is not None:
            execution_s = flow.tail.execution_s
            self.virtual_execution_s[execution_s] -= 1
            if not self.virtual_execution_s[execution_s]:
                del self.virtual_execution_s[execution_s]
        for promise in self._real.pop(task, {}).values():
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
            flow = self._virtual.get(name)
            if flow is not None:
                yield flow, before_s
