"""Keys of a topology: each that is used changes a run, or what daemons are configured with."""

import ast
import random
import tempfile
import tomllib
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from docs.reference_pages import TABLES, accepted_keys
from railyard.cluster.acceptance import Effect
from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.dfs.datanode.scanner import Scanner
from railyard.dfs.namenode.restart import SafeMode
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.schedulers import flow_scheduler
from tests.accepted.smallrun import small_run

ROOT = Path(__file__).parents[2]
_PLAIN = """
name = "t"
racks = {count = 3, nodes = 4, slots = 2}
links = {nic = "1Gbps", uplink = "2Gbps"}
storage = {block = "100MB"}
"""
_CIRCUITS = f'{_PLAIN}\nocs = {{port_bytes_per_s = "4Gbps", elephant_bytes = "50MB"}}\n'
_TREE = """
name = "t"
racks = {count = 4, nodes = 4, slots = 2}
links = {nic = "1Gbps"}
tree = {tor = "2Gbps", aggregation = "1Gbps", root = "1Gbps", racks_per_aggregation = 2}
storage = {block = "100MB"}
"""


# What a part of a daemon does, without one ------------------------------------------------------
def _places(topology):
    """The names by which racks are called, in --faults and network set, say."""
    return dict(topology.places())


def _capacities(topology):
    """Of the emulated links."""
    return Fabric(topology, flow_scheduler("maxmin")).capacities_bytes_per_s()


def _needed_blocks(topology):
    """How many of ten blocks have to be there before a NameNode leaves safe mode."""
    block = SimpleNamespace(complete=True, sound=(), others=())
    blocks = SimpleNamespace(blocks=dict.fromkeys(range(10), block), load={})
    return SafeMode(blocks, topology, 0.0, on=True).status().needed


def _scan_pauses_s(topology):
    """The first pauses of a DataNode that verifies a block of 1 MB."""
    pauses_s, waiting = [], []

    def call_later(pause_s, action):
        pauses_s.append(round(pause_s, 3))
        waiting.append(action)

    store = SimpleNamespace(
        blocks=lambda: [0], has=lambda _: True, length=lambda _: 10**6, read=lambda *_: b""
    )
    reactor = SimpleNamespace(call_later=call_later)
    Scanner(reactor, {"r0n0": store}, topology.storage, pauses_s.append)
    waiting.pop()()
    return pauses_s


#: Nothing is done with it here: that it is read somewhere has to do.
_READ = object()
_RACK = "rack:r0@1s+30s"
_ALL = "rack:r0@1s,rack:r1@1s,rack:r2@1s"
#: {table: {key: (the topology, its table's text with the key, how it is looked at: the faults of
#: a run, what a part of a daemon does, or no more than that daemons read it)}}
PROBES = {
    "before all tables": {
        "name": (_PLAIN, 'name = "u"', ""),
        "scale": (_PLAIN, "scale = 1000", ""),
        "settings": (_PLAIN, 'settings = {"shuffle.slowstart" = 1.0}', ""),
    },
    "[racks]": {
        "count": (_PLAIN, "racks.count = 4", ""),
        "nodes": (_PLAIN, "racks.nodes = 2", ""),
        "slots": (_PLAIN, "racks.slots = 1", ""),
        "reduce_slots": (_PLAIN, "racks.reduce_slots = 1", ""),
    },
    "[links]": {
        "nic": (_PLAIN, 'links.nic = "300Mbps"', ""),
        "uplink": (_PLAIN, 'links.uplink = "100Mbps"', ""),
        "downlink": (_PLAIN, 'links.downlink = "100Mbps"', ""),
        "oversubscription": (
            _PLAIN.replace('uplink = "2Gbps"', "oversubscription = 2"),
            "links.oversubscription = 50",
            "",
        ),
        "background": (_PLAIN, "links.background = 0.9", ""),
        "way": (_PLAIN, 'links.way = "wan"', ""),
    },
    "[rack.r3]": {
        "name": (_PLAIN, 'rack.r1.name = "Oslo"', _places),
        "nodes": (_PLAIN, "rack.r1.nodes = 1", ""),
        "slots": (_PLAIN, "rack.r1.slots = 1", ""),
        "nic": (_PLAIN, 'rack.r1.nic = "100Mbps"', ""),
        "uplink": (_PLAIN, 'rack.r1.uplink = "100Mbps"', ""),
        "downlink": (_PLAIN, 'rack.r1.downlink = "100Mbps"', ""),
    },
    "[client]": {
        "uplink": (_PLAIN, 'client.uplink = "1Gbps"', _capacities),
        "downlink": (
            _PLAIN + 'client = {uplink = "1Gbps"}\n',
            'client.downlink = "2Gbps"',
            _capacities,
        ),
    },
    "[ocs]": {
        "port_bytes_per_s": (_CIRCUITS, 'ocs.port_bytes_per_s = "1Gbps"', ""),
        "delta_s": (_CIRCUITS, 'ocs.delta_s = "500ms"', ""),
        "elephant_bytes": (_CIRCUITS, 'ocs.elephant_bytes = "20GB"', ""),
        "wavelengths": (_CIRCUITS, "ocs.wavelengths = 2", ""),
    },
    "[tree]": {
        "tor": (_TREE, 'tree.tor = "100Mbps"', ""),
        "aggregation": (_TREE, 'tree.aggregation = "100Mbps"', ""),
        "root": (_TREE, 'tree.root = "100Mbps"', ""),
        "racks_per_aggregation": (_TREE, "tree.racks_per_aggregation = 4", ""),
    },
    "[storage]": {
        "block": (_PLAIN, 'storage.block = "50MB"', ""),
        "replication": (_PLAIN, "storage.replication = 1", ""),
        "scan_period": (_PLAIN, 'storage.scan_period = "1min"', _scan_pauses_s),
        "scan_rate": (_PLAIN, 'storage.scan_rate = "1MB/s"', _scan_pauses_s),
        "safe_mode_threshold": (_PLAIN, "storage.safe_mode_threshold = 0.5", _needed_blocks),
    },
    "[compute]": {
        "mode": (_PLAIN, 'compute.mode = "real"', ""),
        "map_rate": (_PLAIN, 'compute.map_rate = "10MB/s"', ""),
        "reduce_rate": (_PLAIN, 'compute.reduce_rate = "10MB/s"', ""),
        "skew": (_PLAIN, "compute.skew = 0.5", ""),
        "stragglers": (_PLAIN, "compute.stragglers = 0.5", ""),
        "straggler_factor": (
            _PLAIN + "compute = {stragglers = 0.5}\n",
            "compute.straggler_factor = 9",
            "",
        ),
        "memory": (_PLAIN, 'compute.memory = "1GB"', _READ),
    },
    "[liveness]": {
        "heartbeat": (_PLAIN, 'liveness.heartbeat = "1900ms"', "node:r0n0@3s,node:r1n1@3s"),
        "assign_multiple": (_PLAIN, "liveness.assign_multiple = true", ""),
        "expiry_s": (_PLAIN, 'liveness.expiry_s = "9s"', _RACK),
        "block_report": (_PLAIN, 'liveness.block_report = "9s"', _READ),
        "task_timeout": (_PLAIN, 'liveness.task_timeout = "9s"', _READ),
        "without_nodes": (_PLAIN, 'liveness.without_nodes = "9s"', _ALL),
    },
}


def _with(text, change):
    """The text of a topology, in lines of TOML, with "table.key = value" changed."""
    data = tomllib.loads(text)
    place, _, value = change.partition(" = ")
    *tables, key = place.split(".")
    inside = data
    for table in tables:
        inside = inside.setdefault(table, {})
    inside[key] = tomllib.loads(f"value = {value}")["value"]
    return data


def _loaded(data):
    """The topology of a file with this content."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "t.toml"
        file.write_text("\n".join(f"{key} = {_toml(value)}" for key, value in data.items()))
        return load_topology(str(file))


def _toml(value):
    if isinstance(value, dict):
        inside = ", ".join(f'"{key}" = {_toml(each)}' for key, each in value.items())
        return f"{{{inside}}}"
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def _is_read_by_daemons(key):
    """Whether the code of daemons, or of what they drive, reads an attribute of this name."""
    folders = ("cluster", "dfs", "gateway", "netemu", "nodemanager", "resourcemanager")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    texts = [file.read_text(encoding="utf-8") for file in files if file.stem != "tables"]
    return any(
        isinstance(node, ast.Attribute) and node.attr == key
        for text in texts
        if f".{key}" in text
        for node in ast.walk(ast.parse(text))
    )


def _tables():
    return {table.interface.removeprefix("topologies: "): table for table in accepted_keys()}


def test_each_used_key_has_a_probe():
    used = {name: set(table.named(Effect.USED)) for name, table in _tables().items()}
    assert used == {name: set(keys) for name, keys in PROBES.items()}


@pytest.mark.parametrize(
    ("table", "key"), [(table, key) for table, keys in PROBES.items() for key in keys]
)
def test_each_used_key_changes_a_run_or_what_daemons_have(table, key):
    text, change, how = PROBES[table][key]
    before, after = _loaded(tomllib.loads(text)), _loaded(_with(text, change))
    assert msgspec.to_builtins(before) != msgspec.to_builtins(after)
    if key == "name" and table == "before all tables":
        assert (before.name, after.name) == ("t", "u")
    elif how is _READ:
        assert _is_read_by_daemons(key)
    elif callable(how):
        assert how(before) != how(after)
    else:
        assert small_run(before, how) != small_run(after, how)


def test_an_idle_key_changes_no_run():
    idle = {key: table for table in accepted_keys() for key in table.named(Effect.IDLE)}
    assert set(idle) == {"description", "source"}
    plain = small_run(_loaded(tomllib.loads(_PLAIN)), "")
    for key in idle:
        assert small_run(_loaded(_with(_PLAIN, f'{key} = "x"')), "") == plain


@pytest.mark.parametrize(
    ("changes", "right"),
    [
        (["compute.straggler_factor=3"], "compute.straggler_factor: changes nothing here: need"),
        (["compute.mode=real", "compute.map_rate=1MB/s"], "compute.map_rate: changes nothing here"),
        (["compute.stragglers=0.1", "compute.straggler_factor=1"], "compute.stragglers: changes"),
    ],
)
def test_a_change_that_another_key_switches_off_is_refused(changes, right):
    with pytest.raises(UsageError, match=right.replace(".", r"\.")):
        load_topology(",".join(["hybrid-8x4", *changes]))


_VALUES = {
    "racks.count": "5",
    "racks.nodes": "3",
    "racks.slots": "7",
    "nic": "3Gbps",
    "uplink": "123Mbps",
    "downlink": "77Mbps",
    "oversubscription": "7",
    "background": "0.3",
    "delta": "7ms",
    "elephant": "7GB",
    "wavelengths": "3",
    "storage.block": "70MB",
    "storage.replication": "2",
    "storage.scan_period": "70s",
    "compute.mode": "real",
    "compute.skew": "0.4",
    "compute.stragglers": "0.2",
    "compute.straggler_factor": "7",
    "compute.map_rate": "7MB/s",
    "rack.r1.uplink": "7Mbps",
    "rack.r1.slots": "9",
    "r2.down": "7Mbps",
    "client.uplink": "70Mbps",
    "ocs": "off",
}
_UNKNOWN = ["scale", "nics", "racks", "rack.r9.slots", "tree.tor", "links.", "\u202e", "x.y.z"]
_SILLY = ["-1", "0x7", "nan", "1e99", "12gb", "12.5MB/S", "9" * 40, "x", "true", "inf"]


def check_random(dice: random.Random) -> None:
    """One combination of overrides: refused by a name in it, or each of them changes something."""
    base = dice.choice(["hybrid-8x4", "flat-4x4", "joint-16x6"])
    drawn = {key: _VALUES[key] for key in dice.sample(sorted(_VALUES), dice.randint(1, 4))}
    if dice.random() < 0.2:
        drawn[dice.choice(_UNKNOWN)] = "7"
    if dice.random() < 0.2:
        drawn[dice.choice(sorted(drawn))] = dice.choice(_SILLY)
    changes = list(drawn.items())
    made = _built(base, changes)
    if isinstance(made, str):
        assert len(made.splitlines()) == 1
        assert any(key.rpartition(".")[2] in made or not key.isprintable() for key in drawn), made
        return
    for change in changes:
        if change == ("ocs", "off"):
            continue  # is true of what has none, and stays so
        rest = _built(base, [each for each in changes if each != change])
        assert rest != made, f"{change} changes nothing among {changes}"


def _built(base, changes):
    """What is built with these changes, but for its name; or why it is refused."""
    try:
        return msgspec.structs.replace(load_topology(base, changes), name="")
    except UsageError as error:
        return str(error)


def test_any_combination_of_overrides_has_an_effect_or_is_refused(seed):
    check_random(random.Random(seed))


def test_the_page_has_these_tables():
    there = {table.interface for table in TABLES}
    assert {table.interface for table in accepted_keys()} <= there
