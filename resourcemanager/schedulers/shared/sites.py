"""Racks as schedulers that plan see them: their slots and links, and plans by rack.

A site, as of schedulers of wide-area jobs, is a rack.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from railyard.cluster.ids import NodeId, RackId, StageId
from railyard.cluster.topology import Topology
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.resourcemanager.interface.policies import FOR_GOOD, NoConfig, Policy
from railyard.resourcemanager.interface.views import (
    ClusterView,
    JobView,
    SlotView,
    StageView,
    TaskView,
)


def racks_with_slots(cluster: ClusterView, avoid: Container[NodeId] = ()) -> dict[RackId, None]:
    """Racks with slots on living nodes, but for nodes to avoid, in the topology's order."""
    nodes = cluster.nodes.values()
    found = {node.rack for node in nodes if node.alive and node.slots and node.id not in avoid}
    return {rack.id: None for rack in cluster.topology.rack_list() if rack.id in found}


def nodes_alive(cluster: ClusterView, nodes: Iterable[NodeId]) -> list[SlotView]:
    """Those of some nodes that are alive."""
    known = cluster.nodes
    return [known[node] for node in nodes if node in known and known[node].alive]


class RackWatch(Policy):
    """Base of policies that act when a rack may have no slots left, or some again."""

    steady_until_s = FOR_GOOD
    _changed = False  #: since jobs were last reconsidered

    def racks_changed(self) -> None:
        self._changed = True

    def reconsider(self) -> Iterable[JobView]:
        changed, self._changed = self._changed, False
        return list(self.cluster.jobs.values()) if changed else ()

    def node_joined(self, node: SlotView) -> None:
        self.racks_changed()

    def node_lost(self, node: SlotView) -> None:
        self.racks_changed()

    def slots_changed(self, node: SlotView, before: int) -> None:
        if not (before and node.slots):
            self.racks_changed()


class SlotCount:
    """The slots of all nodes, lost ones too: as the topology states them, then as they change."""

    def __init__(self, topology: Topology) -> None:
        self._of = {node.id: node.slots for node in topology.nodes()}
        self.total = topology.slots
        self.nodes = len(self._of)

    def take(self, node: SlotView) -> bool:
        """A node has joined, or its slots have changed; returns whether the total is another."""
        more = node.slots - self._of[node.id]
        self._of[node.id] = node.slots
        self.total += more
        return more != 0


P = TypeVar("P")


class Plans(RackWatch, Generic[P]):
    """Each stage's plan, a part of a policy; forgotten when racks change, or when its job ends."""

    def __init__(self, cluster: ClusterView) -> None:
        super().__init__(NoConfig(), cluster)
        self.of: dict[StageId, P] = {}

    def job_ended(self, job: JobView) -> None:
        for stage in job.stages.values():
            self.of.pop(stage.id, None)

    def racks_changed(self) -> None:
        super().racks_changed()
        self.of.clear()


#: What an unlimited link is taken for: so fast that it is never the one to wait for.
_UNLIMITED_BYTES_PER_S = 1e15


@dataclass(frozen=True)
class Sites:
    """What each site has; three arrays [sites]."""

    slots: Floats  #: S_x; 0 = no task can run there
    up_bytes_per_s: Floats  #: U_x; 0 = nothing leaves
    down_bytes_per_s: Floats  #: V_x; 0 = nothing comes


class SiteView:
    """The cluster's sites; arrays are [sites], in the order of the topology's racks."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        racks = cluster.topology.rack_list()
        #: [sites] whether a site is a single node, with all that it holds
        self._one_node = [len(rack.nodes) == 1 for rack in racks]
        self.names: list[RackId] = [rack.id for rack in racks]
        self.number = {name: number for number, name in enumerate(self.names)}
        self._links: tuple[Floats, Floats] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def free(self, avoid: Container[NodeId] = ()) -> Numbers:
        found = np.zeros(len(self), np.int64)
        for node in self._cluster.free_nodes():
            if node.id not in avoid:
                found[self.number[node.rack]] += node.free
        return found

    def free_nodes(self, avoid: Container[NodeId] = ()) -> dict[int, dict[NodeId, int]]:
        """{site: {node: its free slots}}, of sites with several nodes, but for nodes to avoid."""
        found: dict[int, dict[NodeId, int]] = {}
        for node in self._cluster.free_nodes():
            site = self.number[node.rack]
            if not self._one_node[site] and node.id not in avoid:
                found.setdefault(site, {})[node.id] = node.free
        return found

    def slots(self, avoid: Container[NodeId] = ()) -> Numbers:
        found = np.zeros(len(self), np.int64)
        for node in self._cluster.nodes.values():
            if node.alive and node.id not in avoid:
                found[self.number[node.rack]] += node.slots
        return found

    def links(self) -> tuple[Floats, Floats]:
        """Bytes/s of the uplinks and of the downlinks, as observed last."""
        if self._links is None:
            self._links = self._capacities("up"), self._capacities("down")
        return self._links

    def refresh_links(self) -> tuple[bool, bool]:
        """Links were observed to have changed; whether any site lost bandwidth, any gained some."""
        before, self._links = np.array(self.links()), None
        now = np.array(self.links())
        return bool((now < before).any()), bool((now > before).any())

    def with_slots(self, slots: Numbers) -> Sites:
        up, down = self.links()
        return Sites(slots.astype(float), up, down)

    def of(self, nodes: tuple[NodeId, ...]) -> int:
        """The site of the first of these nodes: where the primary replica is; -1 if none is."""
        return next(iter(self.all_of(nodes)), -1)

    def all_of(self, nodes: tuple[NodeId, ...]) -> tuple[int, ...]:
        """The sites of these nodes that are alive, each once."""
        alive = nodes_alive(self._cluster, nodes)
        return tuple(dict.fromkeys(self.number[node.rack] for node in alive))

    def nearest_to(self, slot: SlotView, tasks: Sequence[TaskView]) -> TaskView:
        """The first of these tasks with its input at the slot's node; the first of all if none."""
        if self._one_node[self.number[slot.rack]]:
            return tasks[0]
        return next((task for task in tasks if slot.id in task.input.nodes), tasks[0])

    def counted(self, tasks: Numbers) -> str:
        """Say "r0 3, r2 1" of tasks [sites]; "none" if there are none."""
        some = zip(self.names, tasks.tolist(), strict=True)
        return ", ".join(f"{site} {count}" for site, count in some if count) or "none"

    def shuffle_at(self, stage: StageView) -> Floats:
        """Bytes that the stages which ``stage`` reads have left at each site [sites]: Q."""
        found = np.zeros(len(self))
        for source in stage.reads:
            for node, outputs in source.outputs.items():
                site = self.of((node,))
                if site >= 0:
                    found[site] += sum([output.shuffle_bytes for output in outputs])
        return found

    def _capacities(self, way: str) -> Floats:
        """Of each site's link of that way, or of its switch in a tree of switches."""
        links = self._cluster.links
        found = (links.get(f"{rack}.{way}") or links[f"{rack}.tor"] for rack in self.names)
        capacities = np.array([link.capacity_bytes_per_s for link in found])
        bounded: Floats = np.minimum(capacities, _UNLIMITED_BYTES_PER_S)
        return bounded
