"""Filling only the groups that a change reaches gives the rates that filling all of them would."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers.fast.sunflow import CompiledSunflow
from railyard.netemu.schedulers.reference import sunflow as reference
from railyard.netemu.schedulers.reference.maxmin import MaxMin
from tests.netemu.circuit_events import GB, Run, a_moment, fabric


class Sunflow(CompiledSunflow):
    """Without compiled loops, which are not what is tested here."""

    packets = MaxMin


class FillsAll(Sunflow):
    """As if every change reached everybody."""

    def _reached(self, traffic):
        super()._reached(traffic)
        return list(traffic.groups)


class FillsTogether(reference.Sunflow):
    """As if no circuit were alone on its links."""

    def decide(self, traffic):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(reference, "_serve_alone", lambda groups, _: list(groups))
            return super().decide(traffic)


class Noting(Sunflow):
    """Notes how many groups were there, and how many of them each change reached."""

    def __init__(self):
        super().__init__()
        self.reached = []

    def _reached(self, traffic):
        groups = super()._reached(traffic)
        self.reached.append((len(groups), len(traffic.groups)))
        return groups


@given(moments=st.lists(a_moment, min_size=3, max_size=20))
@settings(max_examples=60)
def test_whom_a_change_does_not_reach_keeps_the_rates_that_it_would_get(moments):
    are_alike(Run(Sunflow()), Run(FillsAll()), moments)


@given(moments=st.lists(a_moment, min_size=3, max_size=20))
@settings(max_examples=60)
def test_a_circuit_alone_on_its_links_gets_the_rate_that_filling_gives(moments):
    are_alike(Run(reference.Sunflow()), Run(FillsTogether()), moments)


def are_alike(some, everybody, moments):
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
