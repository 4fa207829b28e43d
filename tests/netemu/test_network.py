"""Which links a flow takes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.cluster.inputfile import build
from railyard.cluster.topology import Topology, load_topology, topology_names
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import CloseFlow
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.network import LinkState, Network, ObservedLinks, links_as_stated
from railyard.netemu.schedulers.maxmin import MaxMin
from railyard.oracles.orders import carry_out, open_flows
from railyard.simulator.faults import parse_faults

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


# A link has one name; sites' names lead to it.


SMALL = [name for name in topology_names() if load_topology(name).racks.count <= 60]


@pytest.mark.parametrize("topology", SMALL)
def test_each_link_is_called_by_its_name_and_by_its_site_s(topology, caplog):
    place = load_topology(topology)
    network = Network(place)
    for name in (*network.cross_rack, *network.ports):
        assert network.link_named(name) == name
    for rack in place.rack_list():
        way = "tor" if place.tree else "down"
        assert network.link_named(f"{rack.name}.{way}") == f"{rack.id}.{way}"
    assert not caplog.messages


@pytest.mark.parametrize(
    "text", ["Sao Paulo.up", "sao-paulo.up", "SaoPaulo.up", " r2.up ", "SAO PAULO.Up", "r2.UP"]
)
def test_letters_case_and_spaces_of_a_site_do_not_count(text, caplog):
    assert Network(load_topology("tetrium-8")).link_named(text) == "r2.up"
    assert not caplog.messages


def test_faults_take_links_and_racks_by_their_sites():
    place = load_topology("tetrium-8")
    text = "link:Tokyo.up*0.2@1s,rack:sao paulo@2s+1s,link:TOKYO.up*0.2@1s"
    tokyo, sao_paulo, again = parse_faults(text, place, 60.0)
    assert (tokyo.target, sao_paulo.target, again.target) == ("r5.up", "r2", "r5.up")


def test_a_link_of_the_topology_is_changed_by_the_same_name():
    usual = load_topology("corral-7x30")
    place = load_topology("corral-7x30", [("r3.up", "1Gbps")])
    assert place.name == "corral-7x30,r3.up=1Gbps"
    assert load_topology(place.name) == place
    rates = {rack.id: (rack.uplink_bytes_per_s, rack.downlink_bytes_per_s) for rack in
             place.rack_list()}  # fmt: skip
    down = usual.rack_list()[3].downlink_bytes_per_s
    assert rates["r3"] == (1.25e8 * usual.usable, pytest.approx(down))
    assert {rates[rack] for rack in rates if rack != "r3"} == {(down, down)}
    tokyo = load_topology("tetrium-8", [("Tokyo.down", "50Mbps")]).rack_list()[5]
    assert (tokyo.uplink_bytes_per_s, tokyo.downlink_bytes_per_s) == (12.5e6, 6.25e6)


@pytest.mark.parametrize(
    ("topology", "key", "words"),
    [
        (
            "tetrium-8",
            "Tokio.up",
            'unknown link of the network "Tokio.up": did you mean "Tokyo.up"',
        ),
        ("hybrid-8x4", "r8.down", 'unknown link of the network "r8.down": did you mean "r'),
        ("joint-16x6", "r3.up", "rack.r3.uplink: need none where there is a [tree]"),
        ("hybrid-8x4", "r3.up", "need a rate such as 10Gbps"),
    ],
)
def test_links_that_cannot_be_changed(topology, key, words):
    with pytest.raises(UsageError) as error:
        load_topology(topology, [(key, "fast" if words.startswith("need") else "1Gbps")])
    assert words in str(error.value)


# Which changes of links are reported to an observer.


BASE = {"name": "test", "racks": {"count": 2, "nodes": 2}, "links": {"nic": "8Gbps"}}
RACKS = BASE | {"links": {"nic": "8Gbps", "uplink": "8Gbps", "background": 0.5}}
TREE = BASE | {
    "tree": {"tor": "8Gbps", "aggregation": "8Gbps", "root": "8Gbps", "racks_per_aggregation": 1}
}
OCS = RACKS | {"ocs": {"port_bytes_per_s": "80Gbps"}}
GB = 1e9


class Links:
    """A network of which one link is as a test says."""

    def __init__(self) -> None:
        self.topology = build(RACKS, Topology, "test")
        stated = links_as_stated(Network(self.topology))
        self.capacity = {name: link.capacity_bytes_per_s for name, link in stated.items()}
        self.free = dict(self.capacity)

    def capacities_bytes_per_s(self) -> dict[str, float]:
        return self.capacity

    def free_bytes_per_s(self) -> dict[str, float]:
        return self.free

    def observed(self, change: float = 0.05) -> ObservedLinks:
        return ObservedLinks(Network(self.topology), change)


def link(capacity: float, free: float) -> LinkState:
    return LinkState(capacity_bytes_per_s=capacity, free_bytes_per_s=free)


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (RACKS, "r0.up r0.down r1.up r1.down"),
        (TREE, "r0.tor r1.tor agg0 agg1 root"),
        (OCS, "r0.up r0.down r1.up r1.down r0.ocs.up r0.ocs.down r1.ocs.up r1.ocs.down"),
    ],
)
def test_what_is_observed_is_what_joins_racks(data: dict, names: str):
    assert list(links_as_stated(Network(build(data, Topology, "test")))) == names.split()


def test_at_first_links_are_as_the_topology_states_them():
    stated = links_as_stated(Network(build(RACKS, Topology, "test")))
    assert stated["r0.up"] == link(GB / 2, GB / 2)  # background traffic has the other half
    links = Links()
    assert links.observed().look(links) == {}


def test_a_change_is_told_once():
    links = Links()
    observed = links.observed()
    links.free["r0.up"] = 0.1 * GB
    assert observed.look(links) == {"r0.up": link(GB / 2, 0.1 * GB)}
    assert observed.look(links) == {}
    assert observed.all()["r0.up"] == link(GB / 2, 0.1 * GB)


@pytest.mark.parametrize(
    ("before", "free", "reported"),
    [
        pytest.param(0.24, 0.30, True, id="12 % more"),
        pytest.param(0.24, 0.28, False, id="8 % more"),
        pytest.param(0.24, 0.20, False, id="8 % less"),
        pytest.param(0.24, 0.18, True, id="12 % less"),
        pytest.param(0.02, 0.0, True, id="full"),
        pytest.param(0.02, 1e-10, True, id="full, but for rounding"),
        pytest.param(0.48, 0.5, True, id="idle"),
        pytest.param(0.48, 0.5 - 1e-10, True, id="idle, but for rounding"),
        pytest.param(0.0, 1e-10, False, id="full as before"),
    ],
)
def test_what_is_free_changes_by_a_tenth_of_the_capacity(
    before: float, free: float, reported: bool
):
    links = Links()
    observed = links.observed(change=0.1)
    for share in (0.0 if before > 0.25 else 0.5, before):  # so that ``before`` is reported
        links.free["r0.up"] = share * GB
        observed.look(links)
    links.free["r0.up"] = free * GB
    assert bool(observed.look(links)) == reported


def test_a_change_of_capacity_is_told_however_small():
    links = Links()
    observed = links.observed()
    links.capacity["r1.down"], links.free["r1.down"] = 0.499 * GB, 0.499 * GB
    assert observed.look(links) == {"r1.down": link(0.499 * GB, 0.499 * GB)}
    links.capacity["r1.down"] = links.free["r1.down"] = math.inf
    assert observed.look(links) == {"r1.down": link(math.inf, math.inf)}
    assert observed.look(links) == {}
    links.capacity["r1.down"] = links.free["r1.down"] = 0.0
    assert observed.look(links) == {"r1.down": link(0.0, 0.0)}


_SHARES = st.sampled_from([0.0, 1e-12, 0.01, 0.03, 0.5, 0.52, 0.99, 1.0])
_STEPS = st.tuples(
    st.sampled_from(["r0.up", "r0.down", "r1.up"]), st.sampled_from([0.0, GB, 2 * GB]), _SHARES
)


@given(st.lists(st.lists(_STEPS, max_size=4), max_size=20), st.sampled_from([0.0, 0.05, 1.0]))
def test_the_observer_is_never_further_off_than_a_change(looks, change: float):
    links, known = Links(), links_as_stated(Network(Links().topology))
    observed = links.observed(change)
    for steps in looks:
        for name, capacity, share in steps:
            links.capacity[name], links.free[name] = capacity, capacity * share
        known |= observed.look(links)
        assert observed.all() == known
        for name, capacity in links.capacity.items():
            now, free = known[name], links.free[name]
            assert now.capacity_bytes_per_s == capacity
            assert abs(now.free_bytes_per_s - free) <= change * capacity + 1e-9 * capacity
            if free in (0.0, capacity):
                assert now.free_bytes_per_s == free
        assert observed.look(links) == {}
