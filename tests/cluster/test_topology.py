import pytest

from cluster.errors import UsageError
from cluster.topology import load_topology, topology_names

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


@pytest.mark.parametrize(
    ("was", "now", "told"),
    [
        (
            'uplink = "2Gbps"',
            'uplnk = "2Gbps"',
            'unknown key "links.uplnk": did you mean "links.up',
        ),
        ("count = 2", "count = 0", "racks.count = 0: need a whole number >= 1"),
        ("count = 2", 'count = "two"', "racks.count: Expected int, got str"),
        ('nic = "1Gbps"', "nic = 1", "links.nic = 1: need a rate such as 10Gbps"),
        ("background = 0.5", "background = 1.0", "links.background = 1.0: need a share in [0, 1)"),
        ("scale = 10", "scale = 0", "scale = 0: need a whole number >= 1"),
        ('block = "1MB"', "block = 3", "storage.block = 3: need at least one real byte"),
        (
            "[storage]",
            "[ocs]\nport = '1Gbps'\nreconfigure = '-1ms'\n[storage]",
            "ocs.reconfigure =",
        ),
        ("[links]", "[links", "is not TOML"),
        ('name = "t"', "", "missing required field name"),
    ],
    ids=lambda text: text[:24],
)
def test_a_mistake_is_told_in_one_line_with_file_place_and_mend(write, was, now, told):
    assert was in SOUND
    path = write(SOUND.replace(was, now))
    with pytest.raises(UsageError) as error:
        load_topology(path)
    assert str(error.value).startswith(f"{path}: ")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


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
