"""Which circuits there should be: examples, and the same choices as the simple version's."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from railyard.netemu.model.openflows import CoflowDemand, RackPairDemand

from railyard.netemu.circuits.policies import compiled
from railyard.netemu.circuits.policies.sunflow import SunflowCircuits
from railyard.netemu.circuits.switch import OpticalSwitch
from tests.netemu.matching_oracle import Ports, match
from tests.netemu.topologies import network_of

RACKS = 5


def matrix(sizes, racks=RACKS):
    demand = np.zeros((racks, racks))
    for pair, size in sizes.items():
        demand[pair] = size
    return demand


class Both:
    """The policy, and what the simple version says of the same coflows."""

    def __init__(self, wavelengths, delta_s):
        self.switch = OpticalSwitch(
            network_of(
                RACKS,
                1,
                "unlimited",
                "8Gbps",
                ocs={
                    "port_bytes_per_s": "8Gbps",
                    "delta_s": f"{delta_s}s",
                    "wavelengths": wavelengths,
                },
            )
        )
        self.policy = SunflowCircuits(self.switch)
        self.room = [[wavelengths] * RACKS, [wavelengths] * RACKS]
        self.now_s = 0.0
        self.order = []  #: the coflows that have something to send
        self.fresh = {}
        self.reorder = False
        self.names = 0

    def come(self, sizes, place):
        demand = CoflowDemand(f"coflow {self.names}", self.now_s, RACKS)
        self.names += 1
        for (src, dst), size in sizes.items():
            pair = RackPairDemand(demand, src, dst)
            demand.add(pair)
            demand.count(pair, size)
            self.policy.wait(pair, size)
        self.order.insert(place % (len(self.order) + 1), demand)
        self.fresh[demand] = None
        self.reorder = True

    def serving(self):
        return [pair for demand in self.order for pair in demand.serving]

    def end(self, number, share):
        """One that is served sends that share of what it has."""
        serving = self.serving()
        if not serving:
            return
        pair = serving[number % len(serving)]
        demand = pair.demand
        if share < 1:
            demand.count(pair, pair.counted_bytes * (1 - share))
            return
        self.policy.release(pair)
        self.switch.release(pair.circuit, self.now_s)
        pair.circuit = None
        demand.count(pair, 0.0)
        demand.drop(pair)
        if not demand.by_circuit:
            self.order.remove(demand)
            self.fresh.pop(demand, None)
            self.reorder = True

    def turn(self, number, places):
        """A coflow gets another place in line."""
        if self.order:
            demand = self.order.pop(number % len(self.order))
            self.order.insert(places % (len(self.order) + 1), demand)
            self.reorder = True

    def fail(self, rack, is_out):
        """A port stops working, or works again."""
        works = not self.room[not is_out][rack]
        if not works:
            for pair in self.serving():
                if (pair.src if is_out else pair.dst) == rack:
                    self.policy.release(pair)
                    self.switch.release(pair.circuit, self.now_s)
                    pair.circuit = None
                    self.policy.wait(pair, pair.counted_bytes)
        rate = 1e9 * self.switch.wavelengths * works
        self.switch.set_port(rack, rate, self.now_s, is_out=is_out)
        self.policy.set_port(rack, works, is_out=is_out)
        self.room[not is_out][rack] = works * self.switch.wavelengths

    def ask(self):
        """Have the policy choose, and do what it says; returns the pairs that got circuits."""
        order = list(self.order) if self.reorder else None
        cut, taken = self.policy.choose(self.now_s, self.fresh, order)
        self.fresh, self.reorder = {}, False
        for pair in cut:
            self.switch.release(pair.circuit, self.now_s)
            pair.circuit = None
            self.policy.wait(pair, pair.counted_bytes)
        for pair in taken:
            pair.circuit = self.switch.connect(pair, self.now_s)
        return taken

    def choose(self):
        """Both choose; what the policy holds must be what the other says."""
        demands = [matrix({(b.src, b.dst): b.counted_bytes for b in d.pairs()}) for d in self.order]
        held = [{(b.src, b.dst): None for b in demand.serving} for demand in self.order]
        up = {}
        for port in self.switch.out:
            up |= {(c.src, c.dst): None for c in port if c.ready_s <= self.now_s}
        expected = match(demands, held, up, Ports(*self.room))
        self.ask()
        found = [{(b.src, b.dst) for b in demand.serving} for demand in self.order]
        assert found == [set(pairs) for pairs in expected]
        for ports in (self.switch.out, self.switch.into):
            assert all(len(port) <= self.switch.wavelengths for port in ports)


PAIRS = st.tuples(st.integers(0, RACKS - 1), st.integers(0, RACKS - 1)).filter(
    lambda pair: pair[0] != pair[1]
)
PLACES = st.integers(0, 9)
STEPS = st.one_of(
    st.tuples(
        st.just("come"), st.dictionaries(PAIRS, st.integers(1, 4), min_size=1, max_size=8), PLACES
    ),
    st.tuples(st.just("end"), PLACES, st.sampled_from([0.5, 1, 1])),
    st.tuples(st.just("turn"), PLACES, PLACES),
    st.tuples(st.just("fail"), st.integers(0, RACKS - 1), st.booleans()),
)


SCHEDULES = st.lists(st.tuples(STEPS, st.sampled_from([0.0, 0.0, 0.3, 1.0])), max_size=25)


def follow(steps, both):
    for (what, *args), passed_s in steps:
        getattr(both, what)(*args)
        both.choose()
        both.now_s += passed_s


@settings(max_examples=300)
@given(SCHEDULES)
def test_the_same_choices_as_the_simple_version(steps):
    follow(steps, Both(wavelengths=1, delta_s=0.5))


@settings(max_examples=300)
@given(SCHEDULES, SCHEDULES)
def test_the_same_choices_by_compiled_loops(before, after):
    both = Both(wavelengths=1, delta_s=0.5)
    follow(before, both)
    both.policy = compiled(both.policy, both.order)
    assert type(both.policy) is not SunflowCircuits
    follow(after, both)


@settings(max_examples=300)
@given(SCHEDULES)
def test_the_same_choices_with_wavelengths(steps):
    # None is ever lit: the simple version can't tell whose of several circuits of a pair is.
    follow(steps, Both(wavelengths=2, delta_s=1000))


def test_each_port_carries_as_many_circuits_as_it_has_wavelengths():
    demand = matrix({(0, 1): 3, (0, 2): 2, (3, 1): 1}, 4)
    assert list(match([demand], [{}], {}, Ports([1] * 4, [1] * 4))[0]) == [(0, 1)]
    two = match([demand], [{}], {}, Ports([2] * 4, [2] * 4))[0]
    assert list(two) == [(0, 1), (0, 2), (3, 1)]


def test_a_port_that_failed_carries_none():
    demand = matrix({(0, 1): 3, (0, 2): 2}, 3)
    holds = {(0, 1): None}
    assert list(match([demand], [holds], holds, Ports([1, 1, 1], [1, 0, 1]))[0]) == [(0, 2)]


def test_the_first_coflow_takes_a_port_from_the_second():
    first, second = matrix({(0, 1): 1}, 3), matrix({(0, 2): 9, (2, 1): 4, (2, 0): 1}, 3)
    held = [{}, {(0, 2): None, (2, 1): None}]
    chosen = match([first, second], held, held[1], Ports([1] * 3, [1] * 3))
    assert [list(pairs) for pairs in chosen] == [[(0, 1)], [(2, 0)]]
