"""The topology of a cluster: racks of nodes, their links, storage, compute and liveness settings.

A topology is written as TOML with the published figures ("10Gbps", "1.125GB"); here it becomes
frozen objects in bytes, bytes per second and seconds.  All sizes and rates are the model's: one
real byte stands for ``scale`` bytes of the model, and only the edges (network client, task
attempts, command line) convert.

The racks (or sites: the same, but bytes between them count as WAN traffic) are connected by one of

* a core with unlimited bandwidth, reached by each rack's uplink and downlink: [links], and
  optionally an optical circuit switch beside it, with a port in each rack: [ocs];
* a tree with limited switches and unlimited links: [tree].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal

import msgspec

from railyard.cluster.errors import UsageError, require, require_count, unknown_name
from railyard.cluster.ids import AttemptId, NodeId, RackId, node_id, rack_id
from railyard.cluster.overrides import Change, apply_changes, split_changes
from railyard.cluster.tomlfile import Duration, Rate, Size, build, read_toml, warn_of_renamed
from railyard.cluster.units import RATE_BYTES_PER_S_MIN

_GOLDEN = (math.sqrt(5) - 1) / 2
#: Maximum number of nodes of a cluster, and of slots of a node.
_MOST = 1_000_000
#: Maximum of ``scale``.
_SCALE_MAX = 10**9
#: Maximum of ``links.oversubscription``.
_RATIO_MAX = 10**6

ComputeMode = Literal["real", "paced"]
#: How results count bytes between racks: as those of the packet switch, or of the WAN.
CoreWay = Literal["eps", "wan"]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the TOML file; unknown keys are refused."""

    #: {key of an earlier release: current key}; accepted for one release, with a warning
    RENAMED: ClassVar[Mapping[str, str]] = {}


def _require_rates(table: str, given: _Table, *keys: str) -> None:
    """Raise ``UsageError`` unless each of these rates that is given is above 0."""
    for key in keys:
        rate = getattr(given, key)
        require(rate is None or rate > 0, f"{table}.{key}", rate, "a rate above 0")


class RackShape(_Table, frozen=True, kw_only=True):
    """[racks]: numbers of racks, of nodes per rack, and of slots per node."""

    count: int
    nodes: int
    slots: int = 1

    def __post_init__(self) -> None:
        for key in ("count", "nodes", "slots"):
            require_count(f"racks.{key}", getattr(self, key), most=_MOST)
        nodes, right = self.count * self.nodes, f"at most {_MOST} of them, count x nodes"
        require(nodes <= _MOST, "nodes of all racks", nodes, right)


class RackFigures(_Table, frozen=True, kw_only=True):
    """[rack.r3]: values of one rack that override [racks] and [links]."""

    name: str = ""  #: shown to users, such as "Oregon"
    nodes: int | None = None
    slots: int | None = None
    nic: Rate | None = None
    uplink: Rate | None = None
    downlink: Rate | None = None  #: default: this table's uplink, if given


class Links(_Table, frozen=True, kw_only=True):
    """[links]: capacities in bytes/s, separate for each direction."""

    nic: Rate  #: a node's link to its rack's switch; unlimited = not modelled
    uplink: Rate | None = None  #: a rack's link to the core
    downlink: Rate | None = None  #: the core's link to a rack; default: its uplink
    oversubscription: float | None = None  #: instead of uplink: a rack's NICs in sum over it
    #: share of capacity taken by background traffic, 0 to 1: on every uplink and downlink, and on a
    #: tree's aggregation and root switches
    background: float = 0.0
    way: CoreWay = "eps"  #: "wan" if racks are sites connected by a wide-area network

    def __post_init__(self) -> None:
        _require_rates("links", self, "nic", "uplink", "downlink")
        ratio, right = self.oversubscription, "a number above 0, such as 5 for 5:1, at most 10**6"
        require(ratio is None or 0 < ratio <= _RATIO_MAX, "links.oversubscription", ratio, right)
        require(0 <= self.background < 1, "links.background", self.background, "a share in [0, 1)")

    def capacity_given(self) -> int:
        """Number of ways in which a rack's uplink is given: 0, 1 or 2."""
        return (self.uplink is not None) + (self.oversubscription is not None)


class SwitchTree(_Table, frozen=True, kw_only=True):
    """[tree]: switches with a limit on their total throughput in bytes/s, over all their links.

    A flow goes up only as far as needed, and counts once at each switch on its path.
    """

    tor: Rate  #: each rack's own switch
    aggregation: Rate  #: each switch that connects racks
    root: Rate  #: the switch that connects the aggregation switches
    racks_per_aggregation: int

    def __post_init__(self) -> None:
        _require_rates("tree", self, "tor", "aggregation", "root")
        racks = self.racks_per_aggregation
        require(racks >= 1, "tree.racks_per_aggregation", racks, "a whole number >= 1")


class Ocs(_Table, frozen=True, kw_only=True):
    """[ocs]: the optical circuit switch."""

    RENAMED: ClassVar[Mapping[str, str]] = {
        "port": "port_bytes_per_s",
        "reconfigure": "delta_s",
        "elephant": "elephant_bytes",
    }

    #: capacity of a circuit, bytes/s: of a rack's optical port, per direction and wavelength
    port_bytes_per_s: Rate
    delta_s: Duration = 0.010  #: δ: seconds that a port is dark while its circuit is set up
    elephant_bytes: Size = 1_125_000_000  #: T_e: bytes of a rack pair from which it gets a circuit
    wavelengths: int = 1  #: W: circuits that a port can have at once, per direction

    def __post_init__(self) -> None:
        _require_rates("ocs", self, "port_bytes_per_s")
        right = "seconds >= 0 (0 switches at once)"
        require(self.delta_s >= 0, "ocs.delta_s", self.delta_s, right)
        right = "a whole number >= 1 (1: one circuit per port)"
        require(self.wavelengths >= 1, "ocs.wavelengths", self.wavelengths, right)
        require(self.wavelengths <= _MOST, "ocs.wavelengths", self.wavelengths, f"at most {_MOST}")


class Storage(_Table, frozen=True, kw_only=True):
    """[storage]: the block store's defaults."""

    block: Size = 256_000_000
    replication: int = 3
    #: time in which a DataNode verifies each of its replicas once, if ``scan_rate`` allows it
    scan_period: Duration = 600.0
    scan_rate: Rate = 4e6  #: limit of the background scan, real bytes/s per DataNode

    def __post_init__(self) -> None:
        finite = 0 < self.scan_period < math.inf
        require(finite, "storage.scan_period", self.scan_period, "a time above 0")
        _require_rates("storage", self, "scan_rate")
        require(self.block > 0, "storage.block", self.block, "a size above 0")
        require(self.replication >= 1, "storage.replication", self.replication, "at least 1")


class Compute(_Table, frozen=True, kw_only=True):
    """[compute]: the computing speed and memory of attempts.

    ``real`` attempts run as fast as their code; ``paced`` ones are slowed down to a rate.
    """

    mode: ComputeMode = "paced"
    map_rate: Rate = 200e6  #: input bytes/s of a map in one slot, when paced
    reduce_rate: Rate = 200e6  #: input bytes/s of a reduce in one slot, when paced
    #: when paced, computing times of a stage's tasks are spread evenly over 1 - skew to 1 + skew
    #: times the rate's; the same tasks are slow in every run and on both clocks
    skew: float = 0.0
    #: when paced, the share of attempts that compute ``straggler_factor`` times as long: which, the
    #: seed and the attempt's name say.  A copy of a straggler is no more likely to be one
    stragglers: float = 0.0
    straggler_factor: float = 5.0
    #: limit on the memory of one attempt with all processes that it starts, in real bytes
    memory: Size = 2_000_000_000

    def __post_init__(self) -> None:
        require(0 <= self.skew < 1, "compute.skew", self.skew, "a share in [0, 1) (0: no skew)")
        share, factor = self.stragglers, self.straggler_factor
        require(0 <= share <= 1, "compute.stragglers", share, "a share in [0, 1]")
        right = "a number from 1 to 10**6"
        require(1 <= factor <= 10**6, "compute.straggler_factor", factor, right)
        _require_rates("compute", self, "map_rate", "reduce_rate")
        require(self.memory >= 2**26, "compute.memory", self.memory, "at least 64MiB")

    def stretch(self, task: int) -> float:
        """The factor of a task's computing time, from its index: 1 - skew to 1 + skew."""
        # Multiples of the golden ratio: evenly spread for any number of tasks, without near-equals.
        return 1.0 + self.skew * (2 * ((task + 1) * _GOLDEN % 1) - 1)

    def straggle(self, attempt: AttemptId, seed: int) -> float:
        """The factor of an attempt's computing time: ``straggler_factor`` for a straggler, or 1."""
        if not self.stragglers or Random(f"{seed} {attempt}").random() >= self.stragglers:
            return 1.0
        return self.straggler_factor


class Liveness(_Table, frozen=True, kw_only=True):
    """[liveness]: intervals of heartbeats and reports, and time limits, in seconds."""

    RENAMED: ClassVar[Mapping[str, str]] = {"expiry": "expiry_s"}

    heartbeat: Duration = 0.5
    #: whether a node is given as many maps as it has free slots before the next node is given one,
    #: in an order of the nodes that the seed draws, as by heartbeats of Hadoop 1 with its
    #: "assignmultiple"; otherwise one task of each node in turn, racks alternating
    assign_multiple: bool = False
    expiry_s: Duration = 4.0  #: silence after which a node is lost
    block_report: Duration = 30.0  #: interval of a DataNode's block reports
    task_timeout: Duration = 60.0  #: an attempt that reports nothing for this long is killed
    without_nodes: Duration = 60.0  #: jobs fail after this long without any alive node

    def __post_init__(self) -> None:
        require(self.heartbeat > 0, "liveness.heartbeat", self.heartbeat, "a time above 0")
        right = "more than two heartbeats"
        require(self.expiry_s > 2 * self.heartbeat, "liveness.expiry_s", self.expiry_s, right)
        for name in ("block_report", "task_timeout", "without_nodes"):
            time_s = getattr(self, name)
            require(0 < time_s < math.inf, f"liveness.{name}", time_s, "a time above 0")


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
        """Total number of slots of its nodes."""
        return sum(node.slots for node in self.nodes)


class Topology(_Table, frozen=True, kw_only=True):
    """A whole cluster, as given by its TOML file.

    Raises ``UsageError`` for values that are impossible.
    """

    name: str  #: with ",KEY=VALUE" appended for each override
    description: str = ""
    source: str = ""  #: paper and section of the values
    scale: int = 1  #: bytes of the model per real byte
    racks: RackShape
    links: Links
    rack: dict[RackId, RackFigures] = {}  #: {rack: its overrides}
    ocs: Ocs | None = None
    tree: SwitchTree | None = None
    storage: Storage = Storage()
    compute: Compute = Compute()
    liveness: Liveness = Liveness()

    def __post_init__(self) -> None:
        require(self.name.isprintable(), "name", self.name, "letters that can be read")
        require_count("scale", self.scale, most=_SCALE_MAX)
        require(
            self.storage.block >= self.scale,
            "storage.block",
            self.storage.block,
            f"at least one real byte: {self.scale} bytes at scale {self.scale}",
        )
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
        """All racks, by number."""
        return tuple(self._rack(rack_id(r)) for r in range(self.racks.count))

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, rack by rack."""
        return tuple(node for rack in self.rack_list() for node in rack.nodes)

    @property
    def slots(self) -> int:
        """Total number of slots of the cluster."""
        return sum(rack.slots for rack in self.rack_list())

    @property
    def usable(self) -> float:
        """Share of inter-rack capacity that background traffic leaves, 0 to 1."""
        return 1.0 - self.links.background

    @property
    def stored_block_bytes(self) -> int:
        """Real bytes of one full block."""
        return self.storage.block // self.scale

    def stored_size(self, size_bytes: int) -> int:
        """Convert bytes of the model to real bytes; ``UsageError`` if less than one."""
        right = f"at least {self.scale} bytes, one real byte at this topology's scale"
        require(size_bytes >= self.scale, "size", size_bytes, right)
        return size_bytes // self.scale

    # Inside --------------------------------------------------------------------------------------
    def _shape(self, figures: RackFigures) -> tuple[int, int]:
        """(nodes of a rack, slots of each)"""
        return figures.nodes or self.racks.nodes, figures.slots or self.racks.slots

    def _rack(self, rack: RackId) -> Rack:
        figures = self.rack.get(rack, RackFigures())
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

    def _capacities(self, figures: RackFigures, nics: float) -> tuple[float, float]:
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
        kinds = [(RackFigures(), alike)] if alike else []
        kinds += [(figures, 1) for figures in self.rack.values()]
        nodes = sum(self._shape(figures)[0] * count for figures, count in kinds)
        slots = sum(math.prod(self._shape(figures)) * count for figures, count in kinds)
        require(nodes <= _MOST, "nodes of all racks", nodes, f"at most {_MOST}")
        require(slots <= _MOST, "slots of all nodes", slots, f"at most {_MOST}")
        copies, usual = self.storage.replication, Storage().replication
        right = f"at most {nodes}, the number of nodes"
        require(copies <= max(nodes, usual), "storage.replication", copies, right)
        for figures, _ in kinds:
            nic = self.links.nic if figures.nic is None else figures.nic
            slowest = min(self._capacities(figures, self._shape(figures)[0] * nic))
            right = "at least 8bps left by oversubscription and background"
            require(slowest >= RATE_BYTES_PER_S_MIN, "a rack's uplink", f"{slowest:g} B/s", right)

    def _check_links(self, links: Links) -> None:
        if links.capacity_given() != 1:
            both = "both" if links.capacity_given() else "neither"
            raise UsageError(f"links: need uplink or oversubscription, not {both}")
        if links.oversubscription is not None and not math.isfinite(links.nic):
            raise UsageError("links.oversubscription: need a limit for links.nic to divide")

    def _check_tree(self, tree: SwitchTree) -> None:
        for key in ("uplink", "downlink", "oversubscription"):
            value = getattr(self.links, key)
            right = "none where there is a [tree]: its switches are the limit"
            require(value is None, f"links.{key}", value, right)
        if self.ocs is not None:
            raise UsageError("ocs: need no [tree]; circuits are beside a core with uplinks")
        racks, count = tree.racks_per_aggregation, self.racks.count
        right = f"at most racks.count = {count}"
        require(racks <= count, "tree.racks_per_aggregation", racks, right)


def _check_figures(rack: RackId, figures: RackFigures, *, is_in_tree: bool) -> None:
    right = "letters that can be read"
    require(figures.name.isprintable(), f"rack.{rack}.name", figures.name, right)
    for key in ("nodes", "slots"):
        count = getattr(figures, key)
        if count is not None:
            require_count(f"rack.{rack}.{key}", count, most=_MOST)
    _require_rates(f"rack.{rack}", figures, "nic", "uplink", "downlink")
    for key in ("uplink", "downlink"):
        if getattr(figures, key) is not None and is_in_tree:
            raise UsageError(f"rack.{rack}.{key}: need none where there is a [tree]")


def topology_names() -> list[str]:
    """The names of the built-in topologies."""
    folder = resources.files("railyard.cluster") / "topologies"
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_topology(name_or_file: str, changes: Sequence[Change] = ()) -> Topology:
    """Load a built-in topology by its name, or one from a ``.toml`` file.

    ``changes`` are overrides such as ("delta", "1ms") or ("links.nic", "1Gbps"); see
    ``cluster.overrides``.  They become part of the topology's name, by which the same topology can
    be loaded again: "hybrid-8x4,delta=1ms".

    Raises ``UsageError`` for an unknown name, a file that cannot be read, an unknown key and an
    impossible value; the message says where, what, and what would be right.
    """
    base, more = split_changes(name_or_file)
    changes = [(_key_now(key), value) for key, value in (*more, *changes)]
    data, source = _read(base)
    if changes:
        suffix = ",".join(f"{key}={value}" for key, value in changes)
        source = f"{base} with {suffix}"
        data = apply_changes(data, changes, TABLES, source)
        data["name"] = f"{data.get('name', base)},{suffix}"
    return build(data, Topology, source)


#: {table: its keys that can be overridden}
TABLES: Mapping[str, tuple[str, ...]] = {
    name: tuple(field.encode_name for field in msgspec.structs.fields(table))
    for name, table in (
        ("racks", RackShape),
        ("links", Links),
        ("ocs", Ocs),
        ("tree", SwitchTree),
        ("storage", Storage),
        ("compute", Compute),
        ("rack", RackFigures),
    )
}


#: {table: {key of an earlier release: current key}}
_RENAMED = {"ocs": Ocs.RENAMED, "liveness": Liveness.RENAMED}


def with_keys_now(data: dict[str, Any]) -> dict[str, Any]:
    """Rename the keys of a topology that an earlier release wrote to a log."""
    tables = {
        table: {renamed.get(key, key): value for key, value in data[table].items()}
        for table, renamed in _RENAMED.items()
        if data.get(table)
    }
    return data | tables


def _key_now(key: str) -> str:
    """The current name of an override's key."""
    table, _, field = key.partition(".")
    renamed = _RENAMED.get(table, {})
    if field not in renamed:
        return key
    warn_of_renamed(key, f"{table}.{renamed[field]}")
    return f"{table}.{renamed[field]}"


def _read(name_or_file: str) -> tuple[dict[str, Any], str]:
    """(content of a topology's file, its name in errors)"""
    if name_or_file.endswith(".toml"):
        return read_toml(Path(name_or_file)), name_or_file
    if name_or_file not in topology_names():
        raise unknown_name("topology", name_or_file, topology_names())
    with resources.as_file(resources.files("railyard.cluster") / "topologies") as folder:
        path = folder / f"{name_or_file}.toml"
        return read_toml(path), str(path)
