"""The papers' set-ups have the papers' figures."""

import math
import random

import pytest

from railyard.cluster.topology import load_topology

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
