"""docs/tutorials/write-a-topology.md as a reader follows it: its file is a topology."""

import re

from railyard.cluster.topology import load_topology
from tests.command_line import ROOT


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
