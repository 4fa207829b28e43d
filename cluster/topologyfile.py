"""A topology's TOML file: its tables and bounds, changes of its keys for a run, names of links.

A change names a key in full or by a short name.  Changes are applied in the given order, so "all
racks except this one" is possible; a change for all racks replaces what the file has for single
racks.  Not here: what a topology is once it is read (``cluster.topology``).
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Literal

import msgspec

from railyard.cluster.errors import UsageError, require, require_count, require_once, unknown_name
from railyard.cluster.ids import AttemptId
from railyard.cluster.inputfile import Duration, Rate, Size
from railyard.cluster.units import number_or_text

_GOLDEN = (math.sqrt(5) - 1) / 2
MOST = 1_000_000  #: nodes of a cluster, and slots of a node
_RATIO_MAX = 10**6  #: of ``links.oversubscription``

ComputeMode = Literal["real", "paced"]
#: How results count bytes between racks: as those of the packet switch, or of the WAN.
CoreWay = Literal["eps", "wan"]
#: (key, new value), both as text.
Change = tuple[str, str]
#: short name -> key
SHORT = {
    "nic": "links.nic",
    "uplink": "links.uplink",
    "downlink": "links.downlink",
    "oversubscription": "links.oversubscription",
    "background": "links.background",
    "delta": "ocs.delta_s",
    "elephant": "ocs.elephant_bytes",
    "wavelengths": "ocs.wavelengths",
}
#: {key: keys for the same quantity that it replaces}; the last one given counts.
_INSTEAD = {"links.uplink": ("oversubscription",), "links.oversubscription": ("uplink", "downlink")}
#: {key for all racks: keys of [rack.rN] that it replaces}
_OF_ALL = {
    "links.nic": ("nic",),
    "links.uplink": ("uplink", "downlink"),
    "links.downlink": ("downlink",),
    "links.oversubscription": ("uplink", "downlink"),
    "racks.nodes": ("nodes",),
    "racks.slots": ("slots",),
}
#: {table that a change can add: the key that adds it}; "ocs=off" removes the table.
_BEGINS = {"ocs": "ocs.port_bytes_per_s", "client": "client.uplink"}
_WAYS = frozenset({"up", "down"})


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the TOML file; unknown keys are refused."""


def require_rates(table: str, given: Table, *keys: str) -> None:
    """Raise ``UsageError`` unless each of these rates that is given is above 0."""
    for key in keys:
        rate = getattr(given, key)
        require(rate is None or rate > 0, f"{table}.{key}", rate, "a rate above 0")


class RackShape(Table, frozen=True, kw_only=True):
    """[racks]: numbers of racks, of nodes per rack, and of slots per node."""

    count: int  #: racks
    nodes: int  #: of each rack
    slots: int = 1  #: of each node: attempts at once
    #: of each node: slots for reduces, the others for maps, as in Hadoop 1; 0: any slot takes
    #: either, as do those of a node that has no more than that
    reduce_slots: int = 0

    def __post_init__(self) -> None:
        for key in ("count", "nodes", "slots"):
            require_count(f"racks.{key}", getattr(self, key), most=MOST)
        right = f"0 or more, and fewer than racks.slots = {self.slots}"
        require(0 <= self.reduce_slots < self.slots, "racks.reduce_slots", self.reduce_slots, right)
        nodes, right = self.count * self.nodes, f"at most {MOST} of them, count x nodes"
        require(nodes <= MOST, "nodes of all racks", nodes, right)


class RackFigures(Table, frozen=True, kw_only=True):
    """[rack.r3]: values of one rack that override [racks] and [links]."""

    name: str = ""  #: shown to users, such as "Oregon"
    nodes: int | None = None  #: of this rack
    slots: int | None = None  #: of each of its nodes
    nic: Rate | None = None  #: of each of its nodes
    uplink: Rate | None = None  #: from this rack to the core
    downlink: Rate | None = None  #: default: this table's uplink, if given


class Links(Table, frozen=True, kw_only=True):
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
        require_rates("links", self, "nic", "uplink", "downlink")
        ratio, right = self.oversubscription, "a number above 0, such as 5 for 5:1, at most 10**6"
        require(ratio is None or 0 < ratio <= _RATIO_MAX, "links.oversubscription", ratio, right)
        require(0 <= self.background < 1, "links.background", self.background, "a share in [0, 1)")


class Client(Table, frozen=True, kw_only=True):
    """[client]: the link to the core that clients outside the racks share, in bytes/s.

    They are `railyard fs put` and `get`, `railyard run` for its input, and the gateway. What they
    write and read takes this link, and the links on its way in the racks. Without this table they
    are not limited, and take nothing from the racks' links.  A simulation has no such clients.
    """

    uplink: Rate  #: from the clients to the core: what they write
    downlink: Rate | None = None  #: from the core to the clients; default: its uplink

    def __post_init__(self) -> None:
        require_rates("client", self, "uplink", "downlink")


class SwitchTree(Table, frozen=True, kw_only=True):
    """[tree]: switches with a limit on their total throughput in bytes/s, over all their links.

    A flow goes up only as far as needed, and counts once at each switch on its path.
    """

    tor: Rate  #: each rack's own switch
    aggregation: Rate  #: each switch that connects racks
    root: Rate  #: the switch that connects the aggregation switches
    racks_per_aggregation: int

    def __post_init__(self) -> None:
        require_rates("tree", self, "tor", "aggregation", "root")
        racks = self.racks_per_aggregation
        require(racks >= 1, "tree.racks_per_aggregation", racks, "a whole number >= 1")


class Ocs(Table, frozen=True, kw_only=True):
    """[ocs]: the optical circuit switch."""

    #: capacity of a circuit, bytes/s: of a rack's optical port, per direction and wavelength
    port_bytes_per_s: Rate
    delta_s: Duration = 0.010  #: δ: seconds that a port is dark while its circuit is set up
    elephant_bytes: Size = 1_125_000_000  #: T_e: bytes of a rack pair from which it gets a circuit
    wavelengths: int = 1  #: W: circuits that a port can have at once, per direction

    def __post_init__(self) -> None:
        require_rates("ocs", self, "port_bytes_per_s")
        require(self.delta_s >= 0, "ocs.delta_s", self.delta_s, "seconds >= 0 (0 switches at once)")
        right = "a whole number >= 1 (1: one circuit per port)"
        require(self.wavelengths >= 1, "ocs.wavelengths", self.wavelengths, right)
        require_count("ocs.wavelengths", self.wavelengths, most=MOST)


class Storage(Table, frozen=True, kw_only=True):
    """[storage]: the block store's defaults."""

    block: Size = 256_000_000  #: most bytes of a block, and so of what a map reads
    replication: int = 3  #: replicas of a block
    #: time in which a DataNode verifies each of its replicas once, if ``scan_rate`` allows it;
    #: nothing in a simulation, whose disks keep what they have
    scan_period: Duration = 600.0
    #: limit of the background scan, real bytes/s per DataNode; nothing in a simulation
    scan_rate: Rate = 4e6
    #: share of the blocks that need a reported replica before a NameNode that was restarted leaves
    #: safe mode
    safe_mode_threshold: float = 0.999

    def __post_init__(self) -> None:
        share = self.safe_mode_threshold
        require(0 <= share <= 1, "storage.safe_mode_threshold", share, "a share in [0, 1]")
        finite = 0 < self.scan_period < math.inf
        require(finite, "storage.scan_period", self.scan_period, "a time above 0")
        require_rates("storage", self, "scan_rate")
        require(self.block > 0, "storage.block", self.block, "a size above 0")
        require(self.replication >= 1, "storage.replication", self.replication, "at least 1")


class Compute(Table, frozen=True, kw_only=True):
    """[compute]: the computing speed and memory of attempts.

    ``real`` attempts run as fast as their code; ``paced`` ones are slowed down to a rate.
    """

    mode: ComputeMode = "paced"  #: whether computing is slowed down to the rates below
    map_rate: Rate = 200e6  #: input bytes/s of a map in one slot, when paced
    reduce_rate: Rate = 200e6  #: input bytes/s of a reduce in one slot, when paced
    #: when paced, computing times of a stage's tasks are spread evenly over 1 - skew to 1 + skew
    #: times the rate's; the same tasks are slow in every run and on both clocks
    skew: float = 0.0
    #: when paced, the share of attempts that compute ``straggler_factor`` times as long: which, the
    #: seed and the attempt's name say.  A copy of a straggler is no more likely to be one
    stragglers: float = 0.0
    straggler_factor: float = 5.0  #: by which the computing of stragglers is longer
    #: limit on the memory of one attempt with all processes that it starts, in real bytes; nothing
    #: in a simulation, which runs no code
    memory: Size = 2_000_000_000

    def __post_init__(self) -> None:
        require(0 <= self.skew < 1, "compute.skew", self.skew, "a share in [0, 1) (0: no skew)")
        share, factor = self.stragglers, self.straggler_factor
        require(0 <= share <= 1, "compute.stragglers", share, "a share in [0, 1]")
        right = "a number from 1 to 10**6"
        require(1 <= factor <= 10**6, "compute.straggler_factor", factor, right)
        require_rates("compute", self, "map_rate", "reduce_rate")
        require(self.memory >= 2**26, "compute.memory", self.memory, "at least 64MiB")

    def without_effect(self) -> dict[str, str]:
        """{key that the values of others switch off: what it needs}"""
        if self.mode == "real":
            paced = ("map_rate", "reduce_rate", "skew", "stragglers", "straggler_factor")
            return dict.fromkeys(paced, 'compute.mode = "paced"')
        if not self.stragglers:
            return {"straggler_factor": "compute.stragglers above 0"}
        return {} if self.straggler_factor > 1 else {"stragglers": "a straggler_factor above 1"}

    def stretch(self, task: int) -> float:
        """The factor of a task's computing time, from its index: 1 - skew to 1 + skew."""
        # Multiples of the golden ratio: evenly spread for any number of tasks, without near-equals.
        return 1.0 + self.skew * (2 * ((task + 1) * _GOLDEN % 1) - 1)

    def straggle(self, attempt: AttemptId, seed: int) -> float:
        """The factor of an attempt's computing time: ``straggler_factor`` for a straggler, or 1."""
        if not self.stragglers or Random(f"{seed} {attempt}").random() >= self.stragglers:
            return 1.0
        return self.straggler_factor


class Liveness(Table, frozen=True, kw_only=True):
    """[liveness]: intervals of heartbeats and reports, and time limits, in seconds."""

    #: how often daemons say that they live, after which a simulation knows that a node is lost
    heartbeat: Duration = 0.5
    #: whether a node is given as many maps as it has free slots before the next node is given one,
    #: as many reduces, too, if they have slots of their own, in an order of the nodes that the seed
    #: draws, as by heartbeats of Hadoop 1 with its "assignmultiple"; otherwise one task of each
    #: node in turn, racks alternating
    assign_multiple: bool = False
    expiry_s: Duration = 4.0  #: silence after which a node, in a simulation a rack, is lost
    #: interval of a DataNode's block reports; nothing in a simulation
    block_report: Duration = 30.0
    #: an attempt that reports nothing for this long is killed; nothing in a simulation
    task_timeout: Duration = 60.0
    without_nodes: Duration = 60.0  #: jobs fail after this long without any alive node

    def __post_init__(self) -> None:
        require(self.heartbeat > 0, "liveness.heartbeat", self.heartbeat, "a time above 0")
        right = "more than two heartbeats"
        require(self.expiry_s > 2 * self.heartbeat, "liveness.expiry_s", self.expiry_s, right)
        for name in ("block_report", "task_timeout", "without_nodes"):
            time_s = getattr(self, name)
            require(0 < time_s < math.inf, f"liveness.{name}", time_s, "a time above 0")


#: {table, as it is written in a file: its class}, in the order of the documents
TABLES_OF_FILE: Mapping[str, type[Table]] = {
    "racks": RackShape,
    "links": Links,
    "rack.r3": RackFigures,
    "client": Client,
    "ocs": Ocs,
    "tree": SwitchTree,
    "storage": Storage,
    "compute": Compute,
    "liveness": Liveness,
}
#: {table: its keys that can be overridden}
TABLES: Mapping[str, tuple[str, ...]] = {
    name.partition(".")[0]: tuple(field.encode_name for field in msgspec.structs.fields(table))
    for name, table in TABLES_OF_FILE.items()
    if table is not Liveness
}


# Changes of keys for a run: "oversubscription=10", "rack.r3.uplink=1Gbps" -----------------------
def split_changes(text: str, lists: Sequence[str] = ()) -> tuple[str, list[Change]]:
    """Split "hybrid-8x4,delta=1ms" into name and changes; ``UsageError`` if not KEY=VALUE.

    A key is given once, but for ``lists``, whose values together are one.
    """
    base, *texts = text.split(",")
    changes = []
    for change in texts:
        key, equals, value = change.partition("=")
        if not (key and equals and value):
            raise UsageError(f"{text}: need KEY=VALUE, not {change!r}")
        changes.append((key.strip(), value.strip()))
    require_once((key for key, _ in changes if key.partition(".")[0] not in lists), f"{base}:")
    return base, changes


def require_consistent(changes: Sequence[Change]) -> None:
    """Raise ``UsageError`` for changes of which one would silently undo another."""
    keys = [_full(key) for key, _ in changes]
    require_once(keys, "--network")
    for at, (key, (_, value)) in enumerate(zip(keys, changes, strict=True)):
        table, _, field = key.partition(".")
        for other in _INSTEAD.get(key, ()):
            if f"{table}.{other}" in keys:
                right = "both say what links carry: need one of the two"
                raise UsageError(f"--network {field} and {other}: {right}")
        removed = f"{key}." if key in _BEGINS and value == "off" else key
        replaced = _OF_ALL.get(key, ())
        for before in keys[:at]:
            is_of_one = before.startswith("rack.") and before.rpartition(".")[2] in replaced
            if is_of_one or before.startswith(removed):
                right = "which would undo it: need it after that, or not at all"
                raise UsageError(f"--network {before}: is before {key}={value}, {right}")


def _full(key: str) -> str:
    """The full name of a change's key: "links.nic", "rack.r3.uplink"."""
    place, _, way = key.rpartition(".")
    link = {"up": "uplink", "down": "downlink"}.get(way.casefold(), "")
    if link and place:
        return f"rack.{place.casefold()}.{link}"
    return SHORT.get(key, key)


def apply_changes(
    data: Mapping[str, Any], changes: Sequence[Change], source: str
) -> dict[str, Any]:
    """Return a file's ``data`` with the changes applied; values are checked when it is built.

    Raises ``UsageError``, starting with ``source``, for an unknown key and for a key of a table
    that the topology does not have.
    """
    changed = copy.deepcopy(dict(data))
    for short, value in changes:
        key = SHORT.get(short, short)
        if key in _BEGINS and value == "off":
            changed.pop(key, None)
            continue
        table, _, rest = key.partition(".")
        where = f"{source}: {short}"
        if table == "rack":
            rack, _, field = rest.partition(".")
            _require_key(field in TABLES["rack"] and bool(rack), short)
            changed.setdefault("rack", {}).setdefault(rack, {})[field] = number_or_text(value)
            continue
        _require_key(rest in TABLES.get(table, ()), short)
        if table not in changed and _BEGINS.get(table) != key:
            begin = f"; {_BEGINS[table]}=RATE before it adds one" if table in _BEGINS else ""
            raise UsageError(f"{where}: this topology has no [{table}]{begin}")
        changed.setdefault(table, {})[rest] = number_or_text(value)
        for other in _INSTEAD.get(key, ()):
            changed[table].pop(other, None)
        for of_one in changed.get("rack", {}).values():
            for other in _OF_ALL.get(key, ()):
                of_one.pop(other, None)
    return changed


def _require_key(is_known: bool, key: str) -> None:
    if not is_known:
        full = [
            f"{name}.r0.{key}" if name == "rack" else f"{name}.{key}"
            for name, keys in TABLES.items()
            for key in keys
        ]
        raise unknown_name("key of the network", key, [*SHORT, *full])


# Names of links: "r3.up" everywhere; or "Tokyo.up", of the site of that name ----------------------
def link_name(text: str, places: Mapping[str, str]) -> str:
    """The name of the link that a person means, in a topology with these places: {name: rack id}.

    Whatever no place is known for stays as it is.  Letters' case does not count, nor what is
    between the words of a site's name.
    """
    place, way = _split(text.strip(), places)
    parts = (part.casefold() if part.casefold() in _WAYS else part for part in way)
    return ".".join([place, *parts])


def place_named(text: str, places: Mapping[str, str]) -> str:
    """The rack that a person means by its id, or by its site's name; else the text itself."""
    if text in places.values():
        return text
    known = {_folded(name): rack for name, rack in places.items()}
    return known.get(_folded(text), text)


def names_of_links(names: Iterable[str], places: Mapping[str, str]) -> Iterator[str]:
    """The names of links, those of places' own first: "Tokyo.up" rather than "r5.up"."""
    own = {rack: name for name, rack in places.items()}
    for name in names:
        place, dot, way = name.partition(".")
        yield own.get(place, place).replace(" ", "-") + dot + way


def _split(text: str, places: Mapping[str, str]) -> tuple[str, list[str]]:
    """(rack, or the first part; the other parts).  A site's name may have dots, too."""
    parts = text.split(".")
    for count in range(1, len(parts)):
        first = ".".join(parts[:count])
        place = place_named(first, places)
        if place != first:
            return place, parts[count:]
    return parts[0], parts[1:]


def _folded(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
