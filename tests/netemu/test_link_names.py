"""A link has one name; sites' names and spellings of an earlier release lead to it."""

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology, topology_names
from railyard.netemu.model.network import Network
from railyard.simulator.faults.faultspec import parse_faults

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


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("rack3.uplink", "r3.up"),
        ("site3.downlink", "r3.down"),
        ("r3.uplink", "r3.up"),
        ("rack3.ocs.uplink", "r3.ocs.up"),
    ],
)
def test_spellings_of_an_earlier_release_work_with_a_warning(text, name, caplog):
    assert Network(load_topology("hybrid-8x4")).link_named(text) == name
    [warning] = caplog.messages
    assert warning.startswith(f"{text} is now called {name}")


def test_faults_take_links_and_racks_by_their_sites():
    place = load_topology("tetrium-8")
    text = "link:Tokyo.up*0.2@1s,rack:sao paulo@2s+1s,link:site5.uplink*0.2@1s"
    tokyo, sao_paulo, again = parse_faults(text, place, 60.0)
    assert (tokyo.link, sao_paulo.rack, again.link) == ("r5.up", "r2", "r5.up")


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
