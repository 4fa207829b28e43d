"""A workload's "grain" merges tasks, and slots and machines of the topology with them."""

from __future__ import annotations

import pytest

from railyard.cluster.topology import load_topology
from railyard.scripts.simulating.grain import grain_of, topology_for
from railyard.scripts.simulating.request import SimulateRequest

JOBS = "corral-w1,jobs=2,grain=12"


def test_a_rack_does_as_much_in_a_second(capsys):
    fine = load_topology("corral-7x30")
    made = topology_for(JOBS, "corral-7x30", (("background", "0.667"),))
    for topology in (fine, made):
        racks = topology.racks
        assert racks.nodes * racks.slots * topology.compute.map_rate == 240 * 20e6
        assert racks.nodes * topology.links.nic == 30 * fine.links.nic
    assert (made.racks.nodes, made.racks.slots) == (10, 2)
    assert made.storage.block == 12 * fine.storage.block
    assert made.links.background == 0.667
    assert "12 tasks are one; 10 machines a rack with 2 slots each" in capsys.readouterr().err


@pytest.mark.parametrize(
    "network",
    [
        pytest.param((("racks.slots", "4"),), id="slots"),
        pytest.param((("nic", "40Gbps"),), id="NICs, by their short name"),
        pytest.param((("compute.map_rate", "240MB/s"),), id="rate"),
    ],
)
def test_whoever_says_how_coarse_it_is_gets_that(network, capsys):
    assert topology_for(JOBS, "corral-7x30", network) == load_topology("corral-7x30", network)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", ["corral-50x40", "tetrium-50"])
def test_what_cannot_be_merged_is_kept_and_said(name, capsys):
    assert topology_for(JOBS, name, ()) == load_topology(name)
    assert "kept as is" in capsys.readouterr().err


def test_without_grain_nothing_changes(capsys):
    assert topology_for("corral-w1", "corral-7x30", ()) == load_topology("corral-7x30")
    assert capsys.readouterr().err == ""
    assert [grain_of(text) for text in ("mix,jobs=2", "swim:a.tsv,grain=3")] == [1, 3]


def test_a_request_to_simulate_has_the_coarse_topology():
    request = SimulateRequest(words=(JOBS,), topology="corral-7x30")
    assert request.place == topology_for(JOBS, "corral-7x30", ())
