"""Filling only the groups that a change reaches gives the rates that filling all of them would."""

import contextlib
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.tomlfile import build
from cluster.topology import Topology
from netemu.fabric import Fabric
from netemu.schedulers.base import FlowSpec
from netemu.schedulers.sunflow import Sunflow

GB = 10**9
RACKS = 3
NODES = [f"r{rack}n{node}" for rack in range(RACKS) for node in (0, 1)]


class FillsAll(Sunflow):
    """As if every change reached everybody."""

    def _reached(self, traffic):
        super()._reached(traffic)
        return list(traffic.groups)


class Noting(Sunflow):
    """Notes how many groups were there, and how many of them each change reached."""

    def __init__(self):
        super().__init__()
        self.reached = []

    def _reached(self, traffic):
        groups = super()._reached(traffic)
        self.reached.append((len(groups), len(traffic.groups)))
        return groups


def fabric(scheduler):
    """Two wavelengths of 2 GB/s a rack; NICs of 1 GB/s, which packets share with circuits."""
    data = {
        "name": "test",
        "racks": {"count": RACKS, "nodes": 2},
        "links": {"nic": "8Gbps", "uplink": "12Gbps"},
        "ocs": {"port": "16Gbps", "reconfigure": "100ms", "elephant": "1GB", "wavelengths": 2},
    }
    return Fabric(build(data, Topology, "test"), scheduler)


COFLOWS = ["a", "b", "c"]
LINKS = ["r0n0.up", "r1n1.down", "r2n0.down", "r0.up", "r1.down", "r0.ocs.up", "r2.ocs.down"]

a_node = st.sampled_from(NODES)
a_size = st.integers(1, 40).map(lambda tenths: tenths * GB // 10)
a_number = st.integers(0, 9)
a_start = st.tuples(
    st.just("start"),
    st.sampled_from([None, *COFLOWS]),
    st.tuples(a_node, a_node),
    a_size,
    st.sampled_from([1.0, 1.0, 2.5]),
    st.booleans(),
)
an_event = st.one_of(
    a_start,
    a_start,
    a_start,
    st.tuples(st.just("cancel"), a_number),
    st.tuples(st.just("grow"), a_number, a_size, st.booleans()),
    st.tuples(st.just("finish_coflow"), st.sampled_from(COFLOWS)),
    st.tuples(
        st.just("set_capacity"),
        st.sampled_from(LINKS),
        st.sampled_from([0.0, 0.3 * GB, 0.7 * GB, 1.0 * GB, 2.0 * GB, math.inf]),
    ),
)
#: what happens at one time, and for how many tenths of a second nothing does after it
a_moment = st.tuples(st.lists(an_event, min_size=1, max_size=3), st.integers(0, 9))


class Run:
    """A network under one scheduler, with what happens to it."""

    def __init__(self, scheduler):
        self.fabric = fabric(scheduler)
        self.usual = self.fabric.capacities_bytes_per_s()
        self.started = 0
        self.open = {}  # {flow: whether it has more to come}
        self.ends = {}
        for coflow in COFLOWS:
            self.fabric.register_coflow(coflow)

    def do(self, event):
        what, *how = event
        getattr(self, what)(*how)

    def start(self, coflow, nodes, size_bytes, weight, more):
        flow = f"f{self.started}"
        src, dst = nodes
        spec = FlowSpec(
            flow=flow,
            src=src,
            dst=dst,
            size_bytes=size_bytes,
            coflow=coflow,
            weight=weight,
            more=more,
        )
        self.fabric.start(spec)
        self.started += 1
        self.open[flow] = more

    def cancel(self, number):
        flows = list(self.open)
        if flows:
            flow = flows[number % len(flows)]
            self.fabric.cancel(flow)
            del self.open[flow]

    def grow(self, number, by_bytes, more):
        growing = [flow for flow, more in self.open.items() if more]
        if growing:
            flow = growing[number % len(growing)]
            self.fabric.grow(flow, by_bytes, more)
            self.open[flow] = more

    def finish_coflow(self, coflow):
        for flow in self.fabric.finish_coflow(coflow):
            del self.open[flow]
        self.fabric.register_coflow(coflow)

    def set_capacity(self, link, bytes_per_s):
        if ".ocs." not in link or bytes_per_s < math.inf:
            self.fabric.set_capacity(link, bytes_per_s)

    def wait(self, seconds):
        for ended in self.fabric.advance(self.fabric.now_s + seconds):
            self.ends[ended.flow] = ended.finished_s
            del self.open[ended.flow]

    def finish(self):
        """Mend all links, let no flow wait for more, and let all of them end."""
        for link, bytes_per_s in self.usual.items():
            self.fabric.set_capacity(link, bytes_per_s)
        for flow, more in self.open.items():
            if more:
                self.fabric.grow(flow, 1, more=False)
        for _ in range(200):
            if not self.open:
                return
            self.wait(1.0)
        raise AssertionError("flows are stuck")


@given(moments=st.lists(a_moment, min_size=3, max_size=20))
@settings(max_examples=60)
def test_whom_a_change_does_not_reach_keeps_the_rates_that_it_would_get(moments):
    some, everybody = Run(Sunflow()), Run(FillsAll())

    def same_rates():
        rates = [run.fabric.rates_bytes_per_s() for run in (some, everybody)]
        assert rates[0] == pytest.approx(rates[1], rel=1e-9, abs=1e-3)

    for events, tenths in moments:
        for event in events:
            some.do(event)
            everybody.do(event)
        same_rates()
        some.wait(tenths / 10)
        everybody.wait(tenths / 10)
        same_rates()
    some.finish()
    everybody.finish()
    assert some.ends == pytest.approx(everybody.ends, rel=1e-9)


class Small:
    """Flows of 4 GB go by circuits, those of .5 GB, whose names are lower case, by packets."""

    def __init__(self):
        self.scheduler = Noting()
        self.fabric = fabric(self.scheduler)

    def start(self, flow, src, dst):
        """A flow that is alone in its coflow, or shares that of another such as "A" of "A2"."""
        coflow = flow[0]
        with contextlib.suppress(ValueError):  # it is there
            self.fabric.register_coflow(coflow)
        size_bytes = GB // 2 if flow.islower() else 4 * GB
        spec = FlowSpec(flow=flow, src=src, dst=dst, size_bytes=size_bytes, coflow=coflow)
        self.fabric.start(spec)

    def light(self):
        """Have all circuits carry that can."""
        self.fabric.advance(self.fabric.now_s + 0.1)

    def reached(self):
        """How many groups the last change reached, and how many there are."""
        self.fabric.next_event_s()
        return self.scheduler.reached[-1]

    def rates(self):
        """In GB/s."""
        return {
            flow: round(bytes_per_s / GB, 9)
            for flow, bytes_per_s in self.fabric.rates_bytes_per_s().items()
        }


@pytest.fixture
def network():
    """A and B go out of one node, B and C into one; D shares nothing with them."""
    n = Small()
    n.start("A", "r0n0", "r1n0")
    n.start("B", "r0n0", "r2n0")
    n.start("C", "r1n1", "r2n0")
    n.start("D", "r2n1", "r0n1")
    n.light()
    assert n.reached() == (4, 4)
    assert n.rates() == {"A": 0.5, "B": 0.5, "C": 0.5, "D": 1.0}
    return n


def test_a_change_reaches_those_who_share_a_link_and_whom_these_share_links_with(network):
    network.fabric.cancel("A")
    assert network.reached() == (2, 3)
    network.fabric.cancel("D")
    assert network.reached() == (0, 2)
    network.fabric.cancel("B")
    assert network.reached() == (1, 1)
    assert network.rates() == {"C": 1.0}


def test_who_comes_reaches_those_who_are_there(network):
    network.start("E", "r2n1", "r1n1")
    network.light()
    assert network.reached() == (2, 5)
    assert network.rates() == {"A": 0.5, "B": 0.5, "C": 0.5, "D": 0.5, "E": 0.5}


def test_a_change_reaches_far(network):
    """Two more flows out of A's node leave more of C's for C, two links on."""
    network.start("e", "r0n0", "r1n1")
    network.start("f", "r0n0", "r1n1")
    assert network.reached() == (4, 5)
    assert network.rates() == {"A": 0.25, "B": 0.25, "C": 0.75, "D": 1.0, "e": 0.25, "f": 0.25}


def test_links_that_a_circuit_s_flows_have_left_are_reached():
    """Two nodes use one circuit; when one of them ends, another circuit has all of its NIC."""
    network = Small()
    network.start("A", "r0n0", "r1n0")
    network.start("A2", "r0n1", "r1n1")
    network.start("B", "r0n0", "r2n0")
    network.light()
    assert network.rates() == {"A": 0.5, "A2": 1.0, "B": 0.5}
    network.fabric.cancel("A")
    assert network.rates() == {"A2": 1.0, "B": 1.0}


def test_a_capacity_that_changes_reaches_all(network):
    """Also packets that share no link with the circuits."""
    network.start("e", "r1n0", "r0n0")
    assert network.rates()["e"] == 1.0
    network.fabric.set_capacity("r1.up", GB / 4)  # no circuit goes there
    assert network.reached() == (5, 5)
    assert network.rates() == {"A": 0.5, "B": 0.5, "C": 0.5, "D": 1.0, "e": 0.25}


@pytest.mark.parametrize(
    "circuits", [pytest.param(True, id="others"), pytest.param(False, id="no others")]
)
def test_a_circuit_reaches_packets_that_came_since(circuits):
    """Also those that came while nothing but packets was sent."""
    network = Small()
    network.start("a", "r1n0", "r1n1")
    network.start("B", "r2n1", "r0n1")
    network.light()
    if not circuits:
        network.fabric.cancel("B")
    network.start("c", "r0n0", "r0n1" if not circuits else "r1n0")
    network.fabric.advance(network.fabric.now_s + 0.01)
    assert network.rates()["c"] == 1.0
    network.start("D", "r0n0", "r2n0")
    network.light()
    assert network.rates()["c"] == network.rates()["D"] == 0.5
