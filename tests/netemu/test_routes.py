"""Which links a flow takes."""

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import CloseFlow
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.network import Network
from railyard.netemu.schedulers.maxmin import MaxMin
from railyard.oracles.orders import carry_out, open_flows

GBPS = 1e9 / 8


def names_of(network, route):
    names = {number: name for name, number in network.number.items()}
    return [names[link] for link in route.links]


def ways(topology, *pairs):
    """{pair: names of the links on its way, how its bytes count}."""
    network = Network(load_topology(topology))
    routes = {pair: network.route(*pair) for pair in pairs}
    return [(names_of(network, route), *route.counted_as) for route in routes.values()]


def test_racks_behind_a_core():
    assert ways("hybrid-8x4", ("r0n1", "r0n1"), ("r0n1", "r0n2"), ("r0n1", "r3n2")) == [
        ([], "local"),
        (["r0n1.up", "r0n2.down"], "rack"),
        (["r0n1.up", "r0.up", "r3.down", "r3n2.down"], "cross_rack", "eps"),
    ]


def test_sites_have_no_limits_within_and_their_bytes_are_the_wide_area_s():
    links = ["r0n0.up", "r0.up", "r7.down", "r7n0.down"]
    assert ways("tetrium-8", ("r0n0", "r7n0")) == [(links, "cross_rack", "wan")]
    network = Network(load_topology("tetrium-8"))
    assert network.capacities[network.number["r0n0.up"]] == float("inf")


def test_each_switch_of_a_tree_is_used_once():
    assert ways("joint-16x6", ("r0n0", "r0n5"), ("r0n0", "r3n0"), ("r3n0", "r4n1")) == [
        (["r0n0.up", "r0.tor", "r0n5.down"], "rack"),
        (["r0n0.up", "r0.tor", "agg0", "r3.tor", "r3n0.down"], "cross_rack", "eps"),
        (
            ["r3n0.up", "r3.tor", "agg0", "root", "agg1", "r4.tor", "r4n1.down"],
            "cross_rack",
            "eps",
        ),
    ]
    network = Network(load_topology("joint-16x6,background=0.5"))
    limits = {name: network.capacities[number] / GBPS for name, number in network.number.items()}
    assert (limits["r15.tor"], limits["agg3"], limits["root"]) == (3, 1, 1)
    assert len(network.cross_rack) == 21


def test_circuits_go_by_optical_ports():
    network = Network(load_topology("hybrid-8x4,wavelengths=2"))
    route = network.circuit("r0n1", "r3n2")
    assert names_of(network, route) == ["r0n1.up", "r0.ocs.up", "r3.ocs.down", "r3n2.down"]
    assert route.counted_as == ("cross_rack", "ocs")
    assert network.capacities[network.number["r7.ocs.down"]] == 200 * GBPS
    with pytest.raises(ValueError, match="need two racks with optical ports"):
        network.circuit("r0n1", "r0n2")
    with pytest.raises(ValueError, match="need two racks with optical ports"):
        Network(load_topology("flat-4x4")).circuit("r0n1", "r1n2")


def test_flows_through_a_tree_share_its_switches():
    fabric = Fabric(load_topology("joint-16x6"), MaxMin())
    for number, (src, dst) in enumerate([("r0n0", "r4n0"), ("r1n0", "r8n0"), ("r2n0", "r2n1")]):
        open_flows(fabric, FlowSpec(flow=f"f{number}", src=src, dst=dst, size_bytes=10**9))
    rates = [fabric.rate_bytes_per_s(f"f{number}") for number in range(3)]
    assert rates == pytest.approx([GBPS, GBPS, 3 * GBPS])


def test_clients_outside_the_racks_come_in_by_their_own_link():
    there_and_back = ("outside", "r1n2"), ("r1n2", "outside")
    assert ways("hybrid-8x4,client.uplink=1Gbps", *there_and_back) == [
        (["client.up", "r1.down", "r1n2.down"], "client"),
        (["r1n2.up", "r1.up", "client.down"], "client"),
    ]
    (links, counted_as), _ = ways("joint-16x6,client.uplink=1Gbps", *there_and_back)
    assert sorted(links) == ["agg0", "client.up", "r1.tor", "r1n2.down", "root"]
    assert counted_as == "client"


def test_who_is_outside_shares_the_link_and_takes_no_circuit():
    fabric = Fabric(load_topology("hybrid-8x4,client.uplink=1Gbps,client.downlink=2Gbps"), MaxMin())
    for number, (src, dst) in enumerate((("outside", "r0n0"), ("outside", "r1n0"))):
        open_flows(fabric, FlowSpec(flow=f"up{number}", src=src, dst=dst, size_bytes=10**9))
    open_flows(fabric, FlowSpec(flow="down", src="r0n0", dst="outside", size_bytes=10**9))
    assert fabric.rate_bytes_per_s("up0") == fabric.rate_bytes_per_s("up1") == GBPS / 2
    assert fabric.rate_bytes_per_s("down") == 2 * GBPS
    fabric.handle(None, 20.0)
    carried = fabric.bytes_by_category()
    assert (carried["client"], carried["cross_rack"], carried["ocs"]) == (3 * 10**9, 0, 0)


@pytest.mark.parametrize(
    ("topology", "src", "dst"),
    [
        ("hybrid-8x4", "outside", "r0n0"),
        ("hybrid-8x4,client.uplink=1Gbps", "outside", "outside"),
        ("hybrid-8x4,client.uplink=1Gbps", "r9n0", "outside"),
    ],
)
def test_nobody_is_outside_without_a_link(topology, src, dst):
    with pytest.raises(ValueError, match="is no node of this topology"):
        Network(load_topology(topology)).route(src, dst)


def test_unequal_sites_are_limited_by_their_own_links():
    topology = load_topology("tetrium-8,rack.r0.uplink=300Mbps,rack.r7.downlink=200Mbps")
    fabric = Fabric(topology, MaxMin())
    open_flows(fabric, FlowSpec(flow="a", src="r0n0", dst="r7n0", size_bytes=10**9))
    open_flows(fabric, FlowSpec(flow="b", src="r0n0", dst="r1n0", size_bytes=10**9))
    assert fabric.rate_bytes_per_s("a") == pytest.approx(0.15 * GBPS)
    carry_out(fabric, CloseFlow(flow="b"))
    assert fabric.rate_bytes_per_s("a") == pytest.approx(0.2 * GBPS)


@pytest.mark.parametrize(
    ("topology", "text", "expected"),
    [
        ("hybrid-8x4", "r9.up", 'unknown link "r9.up": did you mean "'),
        ("hybrid-8x4", "r3", 'unknown link "r3"'),
        ("joint-16x6", "agg9", 'unknown link "agg9": did you mean "agg'),
    ],
)
def test_links_that_are_not_there(topology, text, expected):
    with pytest.raises(UsageError) as error:
        Network(load_topology(topology)).link_named(text)
    assert expected in str(error.value)


def test_nodes_that_are_not_there():
    network = Network(load_topology("hybrid-8x4"))
    for src, dst in (("r0n0", "r9n0"), ("r0", "r1n0"), ("r9n9", "r9n9")):
        with pytest.raises(ValueError, match="is no node of this topology"):
            network.route(src, dst)
