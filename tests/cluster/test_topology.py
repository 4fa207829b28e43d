"""tests.cluster.test_topology."""

from __future__ import annotations

import math
import random
import re
from itertools import pairwise

import msgspec
import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import TaskId, attempt_id
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import load_topology, topology_names
from railyard.cluster.topologyfile import Client, Compute
from tests.command_line import ROOT

SOUND = """
name = "t"
scale = 10
[racks]
count = 2
nodes = 3
slots = 2
[links]
nic = "1Gbps"
uplink = "2Gbps"
background = 0.5
[storage]
block = "1MB"
"""

TREE = """
[tree]
tor = "3Gbps"
aggregation = "2Gbps"
root = "2Gbps"
racks_per_aggregation = 1
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return str(path)

    return write


def test_figures_become_bytes_and_seconds(write):
    topology = load_topology(write(SOUND))
    rack = topology.rack_list()[1]
    assert [node.id for node in rack.nodes] == ["r1n0", "r1n1", "r1n2"]
    assert rack.nodes[0].nic_bytes_per_s == 125e6
    assert rack.uplink_bytes_per_s == 125e6  # background traffic takes half of 250 MB/s
    assert topology.slots == 12
    assert topology.stored_block_bytes == 100_000
    assert topology.stored_size(2_500_000) == 2_500_000 // topology.scale
    with pytest.raises(UsageError, match="at least"):
        topology.stored_size(topology.scale - 1)


@pytest.mark.parametrize(
    ("was", "now", "expected"),
    [
        (
            'uplink = "2Gbps"',
            'uplnk = "2Gbps"',
            'unknown key "links.uplnk": did you mean "links.up',
        ),
        ("count = 2", "count = 0", "racks.count = 0: need a whole number >= 1"),
        ("count = 2", 'count = "two"', "racks.count: need a whole number, not text"),
        ('nic = "1Gbps"', "nic = 1", "links.nic = 1: need a rate such as 10Gbps"),
        ("background = 0.5", "background = 1.0", "links.background = 1.0: need a share in [0, 1)"),
        ("scale = 10", "scale = 0", "scale = 0: need a whole number >= 1"),
        ('block = "1MB"', "block = 3", "storage.block = 3: need at least one real byte"),
        (
            "[storage]",
            "[ocs]\nport_bytes_per_s = '1Gbps'\ndelta_s = '-1ms'\n[storage]",
            "ocs.delta_s =",
        ),
        (
            "background = 0.5",
            "oversubscription = 5",
            "links: need uplink or oversubscription, not b",
        ),
        ('uplink = "2Gbps"', "", "links: need uplink or oversubscription, not neither"),
        ('uplink = "2Gbps"', "oversubscription = 0", "links.oversubscription = 0.0: need a number"),
        ('uplink = "2Gbps"', 'uplink = "0Gbps"', "links.uplink = 0.0: need a rate above 0"),
        ("background = 0.5", 'way = "van"', 'links.way = \'van\': need "eps" or "wan"'),
        ("[storage]", "[rack.r2]\nslots = 3\n[storage]", 'unknown rack "rack.r2": did you mean'),
        ("[storage]", "[rack.r1]\nslots = 0\n[storage]", "rack.r1.slots = 0: need a whole number"),
        ("[storage]", "[rack]\nr1 = 3\n[storage]", "rack.r1 = 3: need a table [rack.r1]"),
        ("[storage]", "[rack.r1]\nslot = 3\n[storage]", 'unknown key "rack.r1.slot": did you mean'),
        ("[storage]", "[rack.r1]\nuplink = 3\n[storage]", "rack.r1.uplink = 3: need a rate such"),
        ("[storage]", f"{TREE}\n[storage]", "links.uplink = 250000000.0: need none where there is"),
        (
            "[storage]",
            "[ocs]\nport_bytes_per_s = '1Gbps'\nwavelengths = 0\n[storage]",
            "ocs.wavelengths = 0: need a whole number >= 1",
        ),
        ("[links]", "[links", "is not TOML"),
        ('name = "t"', "", 'missing key "name"'),
        ("[storage]", "[ocs]\n[storage]", 'missing key "ocs.port_bytes_per_s"'),
        (
            "[storage]",
            '[compute]\nmode = "fast"\n[storage]',
            'compute.mode = \'fast\': need "paced" or "real"',
        ),
        ("[links]", "[compute]\nskew = 1\n[links]", "compute.skew = 1.0: need a share in [0, 1)"),
        ("[racks]", "[compute]\nskew = -0.1\n[racks]", "compute.skew = -0.1: need a share in"),
        ("[storage]", "[compute]\nskew = nan\n[storage]", "compute.skew = nan: need a share in"),
        ("[links]", "[compute]\nstragglers = 2\n[links]", "compute.stragglers = 2.0: need a share"),
        (
            "[links]",
            "[compute]\nstraggler_factor = 0.5\n[links]",
            "compute.straggler_factor = 0.5: need a number from 1 to 10**6",
        ),
    ],
    ids=lambda text: text[:24],
)
def test_a_mistake_is_told_in_one_line_with_file_place_and_mend(write, was, now, expected):
    assert was in SOUND
    path = write(SOUND.replace(was, now))
    with pytest.raises(UsageError) as error:
        load_topology(path)
    assert str(error.value).startswith(f"{path}: ")
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("tasks", [1, 2, 10, 500])
@pytest.mark.parametrize("skew", [0.0, 0.25, 0.99])
def test_skew_spreads_the_tasks_of_a_stage_evenly_about_what_the_rates_say(skew, tasks):
    compute = Compute(skew=skew)
    times = sorted(compute.stretch(task) for task in range(tasks))
    assert 1 - skew <= times[0] <= times[-1] <= 1 + skew
    assert sum(times) / tasks == pytest.approx(1.0, abs=skew / tasks**0.5)
    assert all(other - one >= 0.5 * skew / tasks for one, other in pairwise(times))
    if skew and tasks > 1:
        assert times[-1] - times[0] >= 2 * skew * (1 - 2 / tasks)


def test_unknown_topology_names_the_nearest():
    with pytest.raises(
        UsageError, match='unknown topology "hybrid-8x5": did you mean "hybrid-8x4"'
    ):
        load_topology("hybrid-8x5")


def test_missing_file_is_told():
    with pytest.raises(UsageError, match=r"nowhere\.toml: cannot be read: No such file"):
        load_topology("nowhere.toml")


@pytest.mark.parametrize("name", topology_names())
def test_every_topology_that_comes_along_loads_under_its_own_name(name):
    topology = load_topology(name)
    assert topology.name == name
    assert topology.description
    assert len(topology.nodes()) == topology.racks.count * topology.racks.nodes
    assert topology.source or name in ("flat-4x4", "unlimited-2x2")


def test_racks_that_differ(write):
    figures = """
[rack.r1]
name = "Tokyo"
nodes = 1
slots = 7
nic = "3Gbps"
uplink = "4Gbps"
downlink = "8Gbps"
[storage]"""
    alike, other = load_topology(write(SOUND.replace("[storage]", figures))).rack_list()
    assert (alike.id, alike.name, len(alike.nodes), alike.slots) == ("r0", "r0", 3, 6)
    assert (other.id, other.name, len(other.nodes), other.slots) == ("r1", "Tokyo", 1, 7)
    assert other.nodes[0].nic_bytes_per_s == 375e6
    assert (other.uplink_bytes_per_s, other.downlink_bytes_per_s) == (250e6, 500e6)


def test_oversubscription_divides_what_a_rack_s_nics_send(write):
    text = SOUND.replace('uplink = "2Gbps"', "oversubscription = 3").replace("background = 0.5", "")
    topology = load_topology(write(text.replace("[storage]", "[rack.r1]\nnodes = 6\n[storage]")))
    assert [rack.uplink_bytes_per_s for rack in topology.rack_list()] == [125e6, 250e6]


# Changed figures ---------------------------------------------------------------------------------
def test_changed_figures_are_part_of_the_name_and_the_name_loads_again():
    topology = load_topology("hybrid-8x4", [("delta", "1ms"), ("wavelengths", "2")])
    assert topology.ocs is not None
    assert (topology.ocs.delta_s, topology.ocs.wavelengths) == (0.001, 2)
    assert topology.name == "hybrid-8x4,delta=1ms,wavelengths=2"
    assert load_topology(topology.name) == topology


def test_the_circuit_switch_can_be_left_out():
    topology = load_topology("hybrid-8x4,ocs=off")
    assert topology.ocs is None
    assert load_topology("flat-4x4,ocs=off").ocs is None
    assert load_topology("hybrid-8x4,ocs=off,ocs.port_bytes_per_s=1Gbps").ocs is not None


def test_clients_outside_the_racks_have_a_link_if_one_is_given(write):
    assert load_topology("flat-4x4").client_link is None
    # logs of what has none stay as they were
    assert "client" not in msgspec.to_builtins(load_topology("flat-4x4"))
    topology = load_topology("flat-4x4,client.uplink=1Gbps,client.downlink=2Gbps")
    assert topology.client_link == Client(uplink=125e6, downlink=250e6)
    again = msgspec.convert(msgspec.to_builtins(topology), type(topology))
    assert again == topology
    own = write(f'{SOUND}\n[client]\nuplink = "1Gbps"\n')
    assert load_topology(own).client_link == Client(uplink=125e6)
    assert load_topology(own, [("client", "off")]).client_link is None
    for wrong in ("client.uplink=0", "client.uplink=1Gbps,client.downlink=0"):
        with pytest.raises(UsageError, match=r"client\..*link = 0.*need a rate"):
            load_topology(f"flat-4x4,{wrong}")
    with pytest.raises(UsageError, match=r"has no \[client\]; client.uplink=RATE before it"):
        load_topology("flat-4x4,client.downlink=1Gbps")


def test_a_file_of_ones_own_can_be_changed_too(write):
    topology = load_topology(write(SOUND), [("background", "0")])
    assert topology.rack_list()[0].uplink_bytes_per_s == 250e6
    assert topology.name == "t,background=0"


def test_what_is_said_of_all_racks_replaces_what_the_file_says_of_one():
    topology = load_topology("tetrium-8", [("uplink", "1Gbps"), ("rack.r3.uplink", "2Gbps")])
    uplinks = [rack.uplink_bytes_per_s for rack in topology.rack_list()]
    assert uplinks == [125e6] * 3 + [250e6] + [125e6] * 4


def test_oversubscription_replaces_the_uplink_and_the_other_way_round():
    ten_to_one = load_topology("corral-7x30,oversubscription=10,background=0")
    assert ten_to_one.rack_list()[0].uplink_bytes_per_s == 30 * 1.25e9 / 10
    assert load_topology("corral-50x40,uplink=1Gbps").rack_list()[0].uplink_bytes_per_s == 125e6


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hybrid-8x4,delt=1ms", 'unknown key of the network "delt": did you mean "delta"?'),
        ("hybrid-8x4,rack.r1.uplnk=1", 'did you mean "rack.r0.uplink"?'),
        (
            "hybrid-8x4,ocs=1",
            'unknown key of the network "ocs"',
        ),
        ("hybrid-8x4,liveness.expiry_s=1s", "unknown key of the network"),
        ("hybrid-8x4,delta", "hybrid-8x4,delta: need KEY=VALUE, not 'delta'"),
        (
            "flat-4x4,delta=1ms",
            "delta: this topology has no [ocs]; ocs.port_bytes_per_s=RATE before it adds one",
        ),
        ("flat-4x4,tree.root=1Gbps", "this topology has no [tree]"),
        ("hybrid-8x4,delta=-1ms", "hybrid-8x4 with delta=-1ms: ocs.delta_s = '-1ms': need a t"),
        ("hybrid-8x4,rack.r9.slots=2", 'unknown rack "rack.r9": did you mean "rack.'),
        (
            "joint-16x6,uplink=1Gbps",
            "links.uplink = 125000000.0: need none where there is a [tree]",
        ),
        ("hybrid-8x4,racks.count=99999999999999999999", "need at most 1000000"),
        ("hybrid-8x4,racks.count=1000,racks.nodes=9999", "nodes of all racks = 9999000: need at"),
        ("hybrid-8x4,rack.r1.slots=2000000", "rack.r1.slots = 2000000: need at most 1000000"),
        ("ports-150x1,oversubscription=2", "links.oversubscription: need a limit for links.nic"),
    ],
)
def test_a_wrong_change_is_told_in_one_line(text, expected):
    with pytest.raises(UsageError) as error:
        load_topology(text)
    assert expected in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [*topology_names(), "hybrid-8x4,delta=1ms"])
def test_a_configuration_is_read_as_it_was_written(name, tmp_path):
    folder = RunFolder(tmp_path)
    config = ClusterConfig(topology=load_topology(name))
    config.save(folder)
    assert ClusterConfig.load(folder) == config


def test_stragglers_are_a_share_of_the_attempts_by_seed():
    compute = Compute(stragglers=0.05, straggler_factor=8.0)
    names = [attempt_id(TaskId(f"j1.m{task}"), number) for task in range(4000) for number in (0, 1)]
    factors = {name: compute.straggle(name, seed=3) for name in names}
    slow = {name for name, factor in factors.items() if factor == 8.0}
    assert set(factors.values()) == {1.0, 8.0}
    assert len(slow) == pytest.approx(0.05 * 8000, rel=0.2)
    both = sum(name[:-1] + "1" in slow for name in slow if name.endswith(".0"))
    assert both < 0.15 * len(slow), "a second attempt is no more likely to be one"
    assert {name for name in names if compute.straggle(name, seed=4) > 1} != slow
    assert Compute().straggle(names[0], seed=3) == 1.0
    assert Compute(stragglers=1.0).straggle(names[0], seed=3) == 5.0


# The papers' set-ups have the papers' figures.


GBPS = 1e9 / 8


@pytest.mark.parametrize(
    ("name", "racks", "nodes", "slots", "nic_gbps", "uplink_gbps"),
    [
        ("co-scheduler-60x10", 60, 600, 12_000, 10, 10),
        ("corral-7x30", 7, 210, 7 * 240, 10, 30),  # 60, of which other traffic takes half
        ("corral-50x40", 50, 2000, 40_000, 1, 8),
        ("shadow-4x13", 4, 52, 780, 1, 2),
        ("joint-16x6", 16, 96, 96, math.inf, 3),
        ("ports-150x1", 150, 150, 150, math.inf, 1),
    ],
)
def test_figures(name, racks, nodes, slots, nic_gbps, uplink_gbps):
    topology = load_topology(name)
    assert (len(topology.rack_list()), len(topology.nodes())) == (racks, nodes)
    assert topology.slots == sum(node.slots for node in topology.nodes()) == slots
    assert {node.nic_bytes_per_s for node in topology.nodes()} == {nic_gbps * GBPS}
    for rack in topology.rack_list():
        assert rack.uplink_bytes_per_s == rack.downlink_bytes_per_s == uplink_gbps * GBPS
    assert topology.source


def test_co_scheduler_s_circuits():
    ocs = load_topology("co-scheduler-60x10").ocs
    assert ocs is not None
    assert (ocs.port_bytes_per_s, ocs.delta_s, ocs.elephant_bytes) == (
        100 * GBPS,
        0.010,
        1_125_000_000,
    )


def test_joint_s_switches():
    tree = load_topology("joint-16x6").tree
    assert tree is not None
    switches = [tree.tor] * 16 + [tree.aggregation] * 4 + [tree.root]
    assert sum(switches) / len(switches) == pytest.approx(2.76 * GBPS, rel=1e-3)


@pytest.mark.parametrize(
    ("sites", "slots", "most_mbps"),
    [(8, (4, 16), 1000), (30, (4, 16), 1000), (50, (25, 5000), 2000)],
)
def test_tetrium_s_sites_are_what_the_files_say_was_drawn(sites, slots, most_mbps):
    topology = load_topology(f"tetrium-{sites}")
    dice = random.Random(sites)
    ranges = (slots, (100, most_mbps), (100, most_mbps))
    rows = [
        [least * (most / least) ** dice.random() for least, most in ranges] for _ in range(sites)
    ]
    columns = []
    for (least, most), column in zip(ranges, zip(*rows, strict=True), strict=True):
        ends = {column.index(min(column)): least, column.index(max(column)): most}
        columns.append([ends.get(site, value) for site, value in enumerate(column)])
    if sites == 50:  # links follow slots
        ranks = sorted(range(sites), key=lambda site: round(columns[0][site]))
        for column in columns[1:]:
            for site, value in zip(ranks, sorted(column), strict=True):
                column[site] = value
    for rack, (drawn, up, down) in zip(
        topology.rack_list(), zip(*columns, strict=True), strict=True
    ):
        has = rack.slots
        if sites < 50:  # the instance types' sizes
            assert has == min((4, 8, 16), key=lambda size: abs(math.log(size / drawn)))
        else:
            assert has == round(drawn)
        assert rack.uplink_bytes_per_s == pytest.approx(round(up, -1) * 1e6 / 8)
        assert rack.downlink_bytes_per_s == pytest.approx(round(down, -1) * 1e6 / 8)
    assert {rack.slots for rack in topology.rack_list()} >= set(slots)
    assert topology.links.way == "wan"


# docs/tutorials/write-a-topology.md as a reader follows it: its file is a topology.


def test_the_topology_is_what_its_page_says(tmp_path):
    page = (ROOT / "docs" / "tutorials" / "write-a-topology.md").read_text(encoding="utf-8")
    [text] = re.findall(r"^`campus.toml`\n\n```toml\n(.*?)^```$", page, re.M | re.S)
    (tmp_path / "campus.toml").write_text(text)
    topology = load_topology(str(tmp_path / "campus.toml"))
    large, small, archive = topology.rack_list()
    assert [len(rack.nodes) for rack in (large, small, archive)] == [4, 2, 1]
    assert (small.uplink_bytes_per_s, small.downlink_bytes_per_s) == (62.5e6, 125e6)
    assert large.uplink_bytes_per_s == large.downlink_bytes_per_s == 250e6
    assert topology.slots == 7
