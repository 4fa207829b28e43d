"""What a cluster is made of: racks of nodes, their links, and the figures that go with them.

A topology is written as TOML with the published figures ("10Gbps", "1.125GB"); here it becomes
frozen objects in bytes, bytes per second and seconds.  All figures are the model's: ``scale``
says how many of the model's bytes one real byte stands for, and only the edges (network client,
task attempts, command line) convert.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Literal

import msgspec

from cluster.errors import require, unknown_name
from cluster.ids import NodeId, RackId, node_id, rack_id
from cluster.tomlfile import Duration, Rate, Size, load_toml

ComputeMode = Literal["real", "paced"]


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the TOML file: unknown keys are refused."""


class RackShape(_Table, frozen=True, kw_only=True):
    """[racks]: how many racks, nodes in each, and slots in each node."""

    count: int
    nodes: int
    slots: int = 1


class Links(_Table, frozen=True, kw_only=True):
    """[links]: capacities in bytes/s, each direction on its own."""

    nic: Rate  #: a node's link to its rack's switch
    uplink: Rate  #: a rack's link to the packet-switched core
    background: float = 0.0  #: share of every uplink and downlink taken by other traffic, 0 to 1

    def __post_init__(self) -> None:
        require(self.nic > 0, "links.nic", self.nic, "a rate above 0")
        require(self.uplink > 0, "links.uplink", self.uplink, "a rate above 0")
        require(0 <= self.background < 1, "links.background", self.background, "a share in [0, 1)")


class Ocs(_Table, frozen=True, kw_only=True):
    """[ocs]: the optical circuit switch."""

    port: Rate  #: capacity of a rack's optical port, each direction
    reconfigure: Duration = 0.010  #: δ: how long a port is dark while its circuit is set up
    elephant: Size = 1_125_000_000  #: T_e: a rack pair's bytes ride a circuit from here on

    def __post_init__(self) -> None:
        require(self.port > 0, "ocs.port", self.port, "a rate above 0")
        right = "seconds >= 0 (0 switches at once)"
        require(self.reconfigure >= 0, "ocs.reconfigure", self.reconfigure, right)


class Storage(_Table, frozen=True, kw_only=True):
    """[storage]: the block store's defaults."""

    block: Size = 256_000_000
    replication: int = 3

    def __post_init__(self) -> None:
        require(self.block > 0, "storage.block", self.block, "a size above 0")
        require(self.replication >= 1, "storage.replication", self.replication, "at least 1")


class Compute(_Table, frozen=True, kw_only=True):
    """[compute]: how fast attempts work.

    ``real`` attempts are as fast as their code; ``paced`` ones wait until their rate is met.
    """

    mode: ComputeMode = "paced"
    map_rate: Rate = 200e6  #: input bytes/s of a map in one slot, when paced
    reduce_rate: Rate = 200e6  #: input bytes/s of a reduce in one slot, when paced
    memory: Size = 2_000_000_000  #: real bytes of private memory that one attempt may use

    def __post_init__(self) -> None:
        require(self.map_rate > 0, "compute.map_rate", self.map_rate, "a rate above 0")
        require(self.reduce_rate > 0, "compute.reduce_rate", self.reduce_rate, "a rate above 0")
        require(self.memory >= 2**26, "compute.memory", self.memory, "at least 64MiB")


class Liveness(_Table, frozen=True, kw_only=True):
    """[liveness]: when a silent process counts as lost."""

    heartbeat: Duration = 0.5
    expiry: Duration = 4.0  #: silence after which a node is lost
    task_timeout: Duration = 60.0  #: an attempt that reports nothing for this long is killed

    def __post_init__(self) -> None:
        require(self.heartbeat > 0, "liveness.heartbeat", self.heartbeat, "a time above 0")
        right = "more than two heartbeats"
        require(self.expiry > 2 * self.heartbeat, "liveness.expiry", self.expiry, right)
        require(self.task_timeout > 0, "liveness.task_timeout", self.task_timeout, "a time above 0")


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A machine: ``slots`` containers and one NIC."""

    id: NodeId
    rack: RackId
    slots: int
    nic_bytes_per_s: float


class Rack(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes under one switch, and that switch's links to the core."""

    id: RackId
    nodes: tuple[Node, ...]
    uplink_bytes_per_s: float
    downlink_bytes_per_s: float


class Topology(_Table, frozen=True, kw_only=True):
    """A whole cluster, as its TOML file states it.

    Raises ``UsageError`` for figures that make no sense.
    """

    name: str
    description: str = ""
    source: str = ""  #: the paper and section that the figures come from
    scale: int = 1  #: bytes of the model for each real byte
    racks: RackShape
    links: Links
    ocs: Ocs | None = None
    storage: Storage = Storage()
    compute: Compute = Compute()
    liveness: Liveness = Liveness()

    def __post_init__(self) -> None:
        require(self.scale >= 1, "scale", self.scale, "a whole number >= 1")
        for key in ("count", "nodes", "slots"):
            value = getattr(self.racks, key)
            require(value >= 1, f"racks.{key}", value, "a whole number >= 1")
        require(
            self.storage.block >= self.scale,
            "storage.block",
            self.storage.block,
            f"at least one real byte: {self.scale} bytes at scale {self.scale}",
        )

    def rack_list(self) -> tuple[Rack, ...]:
        """The racks, in order of their number."""
        usable = 1.0 - self.links.background
        return tuple(
            Rack(
                id=rack_id(r),
                nodes=tuple(
                    Node(
                        id=node_id(rack_id(r), n),
                        rack=rack_id(r),
                        slots=self.racks.slots,
                        nic_bytes_per_s=self.links.nic,
                    )
                    for n in range(self.racks.nodes)
                ),
                uplink_bytes_per_s=self.links.uplink * usable,
                downlink_bytes_per_s=self.links.uplink * usable,
            )
            for r in range(self.racks.count)
        )

    def nodes(self) -> tuple[Node, ...]:
        """All nodes, rack by rack."""
        return tuple(node for rack in self.rack_list() for node in rack.nodes)

    @property
    def slots(self) -> int:
        """Slots of the whole cluster."""
        return self.racks.count * self.racks.nodes * self.racks.slots

    @property
    def stored_block_bytes(self) -> int:
        """Real bytes of one full block."""
        return self.storage.block // self.scale


def topology_names() -> list[str]:
    """The names of the topologies that come with Railyard."""
    folder = resources.files("cluster") / "topologies"
    return sorted(entry.name[:-5] for entry in folder.iterdir() if entry.name.endswith(".toml"))


def load_topology(name_or_file: str) -> Topology:
    """Load a topology by its name, or from a ``.toml`` file of the user.

    Raises ``UsageError`` for an unknown name, a file that cannot be read, an unknown key and an
    impossible value; the message says where, what, and what would be right.
    """
    if name_or_file.endswith(".toml"):
        return load_toml(Path(name_or_file), Topology)
    if name_or_file not in topology_names():
        raise unknown_name("topology", name_or_file, topology_names())
    with resources.as_file(resources.files("cluster") / "topologies") as folder:
        return load_toml(folder / f"{name_or_file}.toml", Topology)
