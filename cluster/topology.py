"""The topology of a cluster: racks of nodes, their links, storage, compute and liveness settings.

A topology is written as TOML with the published figures ("10Gbps", "1.125GB"), in the tables of
``topologies.tables``; here it becomes frozen objects in bytes, bytes per second and seconds.  All
sizes and rates are the model's: one real byte stands for ``scale`` bytes of the model, and only the
edges (network client, task attempts, command line) convert.

The racks (or sites: the same, but bytes between them count as WAN traffic) are connected by one of

* a core with unlimited bandwidth, reached by each rack's uplink and downlink: [links], and
  optionally an optical circuit switch beside it, with a port in each rack: [ocs];
* a tree with limited switches and unlimited links: [tree].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

import msgspec

from railyard.cluster import topologyfile
from railyard.cluster.errors import UsageError, require, require_count, unknown_name
from railyard.cluster.ids import NodeId, RackId, node_id, rack_id
from railyard.cluster.inputfile import build, read_toml, require_effect
from railyard.cluster.units import RATE_BYTES_PER_S_MIN

T = TypeVar("T")
_SCALE_MAX = 10**9


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A machine with ``slots`` slots and one NIC."""

    id: NodeId
    rack: RackId
    slots: int
    nic_bytes_per_s: float


class Rack(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes under one switch, or of one site, with their links to the core.

    Capacities are net of background traffic.  In a tree both are those of the rack's switch.
    """

    id: RackId
    name: str  #: shown to users; its id unless the topology names it
    nodes: tuple[Node, ...]
    uplink_bytes_per_s: float
    downlink_bytes_per_s: float

    @property
    def slots(self) -> int:
        return sum(node.slots for node in self.nodes)


class Topology(topologyfile.Table, frozen=True, kw_only=True, dict=True):
    """A whole cluster, as given by its TOML file.

    Raises ``UsageError`` for values that are impossible.
    """

    IDLE: ClassVar[Mapping[str, str]] = {
        "description": "is shown, by railyard topologies and on pages",
        "source": "paper and section of the values: is shown by railyard topologies",
    }

    name: str  #: with ",KEY=VALUE" appended for each override
    description: str = ""
    source: str = ""  #: paper and section of the values
    scale: int = 1  #: bytes of the model per real byte
    racks: topologyfile.RackShape
    links: topologyfile.Links
    rack: dict[RackId, topologyfile.RackFigures] = {}  #: {rack: its overrides}
    ocs: topologyfile.Ocs | None = None
    tree: topologyfile.SwitchTree | None = None
    storage: topologyfile.Storage = topologyfile.Storage()
    compute: topologyfile.Compute = topologyfile.Compute()
    liveness: topologyfile.Liveness = topologyfile.Liveness()
    #: settings of schedulers that this cluster's Hadoop has, such as {"shuffle.slowstart": 0.8};
    #: a scheduler that has a setting and a value of its own for it keeps that
    settings: dict[str, bool | int | float | str] = {}
    #: left out of logs where it is not given, which stay as they were before it could be
    client: topologyfile.Client | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        require(self.name.isprintable(), "name", self.name, "letters that can be read")
        require_count("scale", self.scale, most=_SCALE_MAX)
        block, scale = self.storage.block, self.scale
        right = f"at least one real byte: {scale} bytes at scale {scale}"
        require(block >= scale, "storage.block", block, right)
        if self.tree is None:
            self._check_links(self.links)
        else:
            self._check_tree(self.tree)
        known = {rack_id(r): None for r in range(self.racks.count)}
        for rack, figures in self.rack.items():
            if rack not in known:
                raise unknown_name("rack", f"rack.{rack}", [f"rack.{name}" for name in known])
            _check_figures(rack, figures, is_in_tree=self.tree is not None)
        self._check_sums()

    def rack_list(self) -> tuple[Rack, ...]:
        return self._racks

    def nodes(self) -> tuple[Node, ...]:
        return self._nodes

    def places(self) -> dict[str, str]:
        """{name of each rack or site: its id}"""
        return {rack.name: str(rack.id) for rack in self.rack_list()}

    @cached_property
    def slots(self) -> int:
        return sum(rack.slots for rack in self.rack_list())

    @property
    def client_link(self) -> topologyfile.Client | None:
        """The link that clients outside the racks share; None: they are not limited."""
        return self.client or None

    @property
    def usable(self) -> float:
        """Share of inter-rack capacity that background traffic leaves, 0 to 1."""
        return 1.0 - self.links.background

    @property
    def stored_block_bytes(self) -> int:
        return self.storage.block // self.scale

    def stored_size(self, size_bytes: int) -> int:
        """Convert bytes of the model to real bytes; ``UsageError`` if less than one."""
        right = f"at least {self.scale} bytes, one real byte at this topology's scale"
        require(size_bytes >= self.scale, "size", size_bytes, right)
        return size_bytes // self.scale

    def derived(self, make: Callable[[Topology], T]) -> T:
        """What ``make`` makes of this topology, which is made once.  Nobody may change it."""
        if make not in self._derived:
            self._derived[make] = make(self)
        return cast("T", self._derived[make])

    # Inside --------------------------------------------------------------------------------------
    @cached_property
    def _derived(self) -> dict[Callable[[Topology], object], object]:
        return {}

    @cached_property
    def _racks(self) -> tuple[Rack, ...]:
        return tuple(self._rack(rack_id(r)) for r in range(self.racks.count))

    @cached_property
    def _nodes(self) -> tuple[Node, ...]:
        return tuple(node for rack in self._racks for node in rack.nodes)

    def _shape(self, figures: topologyfile.RackFigures) -> tuple[int, int]:
        """(nodes of a rack, slots of each)"""
        return figures.nodes or self.racks.nodes, figures.slots or self.racks.slots

    def _rack(self, rack: RackId) -> Rack:
        figures = self.rack.get(rack, topologyfile.RackFigures())
        nodes, slots = self._shape(figures)
        nic = self.links.nic if figures.nic is None else figures.nic
        up, down = self._capacities(figures, nodes * nic)
        return Rack(
            id=rack,
            name=figures.name or rack,
            nodes=tuple(
                Node(id=node_id(rack, n), rack=rack, slots=slots, nic_bytes_per_s=nic)
                for n in range(nodes)
            ),
            uplink_bytes_per_s=up,
            downlink_bytes_per_s=down,
        )

    def _capacities(self, figures: topologyfile.RackFigures, nics: float) -> tuple[float, float]:
        """(uplink, downlink) of a rack in bytes/s, net of background traffic."""
        if self.tree is not None:
            return self.tree.tor, self.tree.tor
        links = self.links
        up = nics / links.oversubscription if links.oversubscription else links.uplink
        assert up is not None
        down = links.downlink or up
        if figures.uplink is not None:
            up = down = figures.uplink
        down = down if figures.downlink is None else figures.downlink
        return up * self.usable, down * self.usable

    def _check_sums(self) -> None:
        """Check totals over all racks; equal racks are computed once."""
        alike = self.racks.count - len(self.rack)
        kinds = [(topologyfile.RackFigures(), alike)] if alike else []
        kinds += [(figures, 1) for figures in self.rack.values()]
        nodes = sum(self._shape(figures)[0] * count for figures, count in kinds)
        slots = sum(math.prod(self._shape(figures)) * count for figures, count in kinds)
        require_count("nodes of all racks", nodes, most=topologyfile.MOST)
        require_count("slots of all nodes", slots, most=topologyfile.MOST)
        copies, usual = self.storage.replication, topologyfile.Storage().replication
        right = f"at most {nodes}, the number of nodes"
        require(copies <= max(nodes, usual), "storage.replication", copies, right)
        for figures, _ in kinds:
            nic = self.links.nic if figures.nic is None else figures.nic
            slowest = min(self._capacities(figures, self._shape(figures)[0] * nic))
            right = "at least 8bps left by oversubscription and background"
            require(slowest >= RATE_BYTES_PER_S_MIN, "a rack's uplink", f"{slowest:g} B/s", right)

    def _check_links(self, links: topologyfile.Links) -> None:
        if (links.uplink is None) == (links.oversubscription is None):
            both = "neither" if links.uplink is None else "both"
            raise UsageError(f"links: need uplink or oversubscription, not {both}")
        if links.oversubscription is not None and not math.isfinite(links.nic):
            raise UsageError("links.oversubscription: need a limit for links.nic to divide")

    def _check_tree(self, tree: topologyfile.SwitchTree) -> None:
        for key in ("uplink", "downlink", "oversubscription"):
            value = getattr(self.links, key)
            right = "none where there is a [tree]: its switches are the limit"
            require(value is None, f"links.{key}", value, right)
        if self.ocs is not None:
            raise UsageError("ocs: need no [tree]; circuits are beside a core with uplinks")
        racks, count = tree.racks_per_aggregation, self.racks.count
        right = f"at most racks.count = {count}"
        require(racks <= count, "tree.racks_per_aggregation", racks, right)


def _check_figures(rack: RackId, figures: topologyfile.RackFigures, *, is_in_tree: bool) -> None:
    right = "letters that can be read"
    require(figures.name.isprintable(), f"rack.{rack}.name", figures.name, right)
    for key in ("nodes", "slots"):
        count = getattr(figures, key)
        if count is not None:
            require_count(f"rack.{rack}.{key}", count, most=topologyfile.MOST)
    topologyfile.require_rates(f"rack.{rack}", figures, "nic", "uplink", "downlink")
    for key in ("uplink", "downlink"):
        if getattr(figures, key) is not None and is_in_tree:
            raise UsageError(f"rack.{rack}.{key}: need none where there is a [tree]")


def topology_names() -> list[str]:
    """The names of the built-in topologies."""
    folder = resources.files("railyard.cluster") / "topologies"
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_topology(name_or_file: str, changes: Sequence[topologyfile.Change] = ()) -> Topology:
    """Load a built-in topology by its name, or one from a ``.toml`` file.

    ``changes`` are overrides such as ("delta", "1ms"), ("links.nic", "1Gbps") or a link,
    ("r3.up", "1Gbps"); see ``cluster.topologyfile``.  They become part of the topology's name, by
    which the same topology can be loaded again: "hybrid-8x4,delta=1ms".

    Raises ``UsageError`` for an unknown name, a file that cannot be read, an unknown key and an
    impossible value; the message says where, what, and what would be right.
    """
    base, more = topologyfile.split_changes(name_or_file)
    changes = [*more, *changes]
    topologyfile.require_consistent(changes)
    data, source = _read(base)
    if changes:
        suffix = ",".join(f"{key}={value}" for key, value in changes)
        source = f"{base} with {suffix}"
        for key, value in changes:
            same = _of_link(key, value, data, source)
            data = topologyfile.apply_changes(data, same, source)
        data["name"] = f"{data.get('name', base)},{suffix}"
    made = build(data, Topology, source)
    compute = "compute."
    try:
        require_effect(made.compute, [key.removeprefix(compute) for key, _ in changes])
    except UsageError as error:
        raise UsageError(f"{source}: {compute}{error}") from None
    return made


def _of_link(key: str, value: str, data: dict[str, Any], source: str) -> list[topologyfile.Change]:
    """A change of a rack's link, "r3.up", as changes of its figures; any other change as it is."""
    place, _, end = key.rpartition(".")
    way = end.casefold()
    if way not in ("up", "down") or not place:
        return [(key, value)]
    topology = build(data, Topology, source)
    racks = {str(rack.id): rack for rack in topology.rack_list()}
    name = topologyfile.place_named(place, topology.places())
    if name not in racks:
        known = [f"{rack}.{each}" for rack in racks for each in ("up", "down")]
        links = topologyfile.names_of_links(known, topology.places())
        raise unknown_name("link of the network", key, links)
    if way == "down":
        return [(f"rack.{name}.downlink", value)]
    # [rack.rN] with an uplink alone means both ways
    down = racks[name].downlink_bytes_per_s / topology.usable
    stated = f"{down!r}B/s" if math.isfinite(down) else "unlimited"
    return [(f"rack.{name}.uplink", value), (f"rack.{name}.downlink", stated)]


def _read(name_or_file: str) -> tuple[dict[str, Any], str]:
    """(content of a topology's file, its name in errors)"""
    if name_or_file.endswith(".toml"):
        return read_toml(Path(name_or_file)), name_or_file
    if name_or_file not in topology_names():
        raise unknown_name("topology", name_or_file, topology_names())
    with resources.as_file(resources.files("railyard.cluster") / "topologies") as folder:
        path = folder / f"{name_or_file}.toml"
        return read_toml(path), str(path)
