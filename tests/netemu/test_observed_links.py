"""Which changes of links are reported to an observer."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.tomlfile import build
from railyard.cluster.topology import Topology
from railyard.netemu.model.network import Network
from railyard.netemu.model.observed import LinkState, ObservedLinks, links_as_stated

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
