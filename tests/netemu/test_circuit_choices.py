"""Sunflow's choice of circuits: examples, and it is the simple version's, whatever happens."""

import math
from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.netemu.circuits import pairs, switch
from railyard.netemu.circuits.arrays import CUT, HOLDS, PACKETS, TAKEN, grown, new_circuits
from railyard.netemu.circuits.policies import sunflow
from railyard.netemu.kernel.rows import instant_s
from railyard.netemu.kernel.state import NONE, views
from tests.netemu.matching_oracle import Circuits, Ports, match

RACKS = 5
COFLOWS = 30
#: sizes are halved, and must not differ by rounding then
UNIT = 2.0**30


class Both:
    """The loops, and what the simple version says of the same coflows.  Pairs have no flows.

    A circuit is expected to carry a unit of bytes in ``unit_s``; pairs end by ``end`` only.
    """

    def __init__(self, wavelengths, delta_s, unit_s=math.inf):
        made = new_circuits(RACKS, wavelengths, delta_s, 0, 0, 1, 1)
        self.c = views(grown(made, pairs=COFLOWS * RACKS * RACKS, coflows=COFLOWS))
        self.s = SimpleNamespace(work=SimpleNamespace(capacity=[0.0] * RACKS * wavelengths))
        self.now_s, self.delta_s, self.unit_s = 0.0, delta_s, unit_s
        self.order = []  #: the coflows that have something to send
        self.reorder = False
        self.names = 0
        for port in range(2 * RACKS):
            switch.set_port(port, 1e9, 0.0, self.s, self.c)

    def pairs_of(self, coflow):
        of = self.c.pairs
        return [
            pair
            for pair in range(len(of.state))
            if of.state[pair] != PACKETS and of.coflow[pair] == coflow
        ]

    def ends_of(self, pair):
        return self.c.pairs.port[2 * pair], self.c.pairs.port[2 * pair + 1]

    def serving(self):
        """The pairs that hold circuits, by coflow; of each, as they got these."""
        return [pair for coflow in self.order for pair in self.held_by(coflow)]

    def held_by(self, coflow):
        of = self.c.pairs
        holding = [pair for pair in self.pairs_of(coflow) if of.state[pair] == HOLDS]
        return sorted(holding, key=lambda pair: of.since[pair])

    def choices(self):
        """The ends of pairs that hold circuits, by coflow."""
        return [sorted(map(self.ends_of, self.held_by(coflow))) for coflow in self.order]

    def come(self, sizes, place):
        coflow = self.names
        self.names += 1
        for (src, dst), size in sizes.items():
            pair = pairs.new_pair(coflow, src, dst, self.now_s, self.c)
            self.c.coflows.by_circuit[coflow] += 1
            pairs.count(pair, size * UNIT, self.c)
            pairs.wait(pair, self.c)
        self.c.coflows.is_fresh[coflow] = True
        self.order.insert(place % (len(self.order) + 1), coflow)
        self.reorder = True

    def end(self, number, share):
        """One that is served sends that share of what it has."""
        serving = self.serving()
        if not serving:
            return
        pair = serving[number % len(serving)]
        if share < 1:
            pairs.count(pair, self.c.pairs.counted[pair] * (1 - share), self.c)
            return
        coflow = self.c.pairs.coflow[pair]
        pairs.drop(pair, self.now_s, self.c)
        if not self.c.coflows.by_circuit[coflow]:
            self.order.remove(coflow)
            self.reorder = True

    def turn(self, number, places):
        """A coflow gets another place in line."""
        if self.order:
            coflow = self.order.pop(number % len(self.order))
            self.order.insert(places % (len(self.order) + 1), coflow)
            self.reorder = True

    def fail(self, rack, is_out):
        """A port stops working, or works again."""
        port = rack if is_out else RACKS + rack
        works = not self.c.ports.bytes_per_s[port]
        for pair in self.serving():
            if not works and self.ends_of(pair)[not is_out] == rack:
                sunflow.release(pair, self.c)
                self._wait_again(pair)
        switch.set_port(port, 1e9 * works, self.now_s, self.s, self.c)

    def expect(self, number, after_s):
        """One that is served is to end so long after its circuit carries, or from now on."""
        if serving := self.serving():
            self._expect_end(serving[number % len(serving)], after_s)

    def come_at_once(self, *coflows):
        """Several come before the next choice: (sizes, place) of each."""
        for sizes, place in coflows:
            self.come(sizes, place)

    def choose(self):
        """Both choose; the pairs that hold circuits must be what the other says.

        With gaps, only where all is looked at: a port stays booked for a while if no order is new.
        """
        expected = self._expected()
        is_all = self.reorder or self.unit_s == math.inf
        self._choose()
        assert not is_all or self.choices() == [sorted(those) for those in expected]

    # Inside --------------------------------------------------------------------------------------
    def _expected(self):
        c, of, wavelengths = self.c, self.c.pairs, self.c.wavelengths
        demands, held, ending, soon_s = [], [], [], self.now_s + instant_s(self.now_s)
        for place, coflow in enumerate(self.order):
            demand = np.zeros((RACKS, RACKS))
            for pair in self.pairs_of(coflow):
                demand[self.ends_of(pair)] = of.counted[pair]
            demands.append(demand)
            held.append({self.ends_of(pair): None for pair in self.held_by(coflow)})
            ending += [
                (of.ends_s[pair], place, self.ends_of(pair))
                for pair in self.held_by(coflow)
                if soon_s < of.ends_s[pair] <= soon_s + self.delta_s
            ]
        ready_s = {
            (slot // wavelengths, c.of.peer[slot]): c.of.ready_s[slot]
            for slot in range(c.slots)
            if c.of.peer[slot] != NONE
        }
        room = [wavelengths * (rate > 0) for rate in c.ports.bytes_per_s.tolist()]
        ending.sort(key=lambda one: (one[0], one[2]))
        circuits = Circuits(self.now_s, ready_s, ending)
        return match(demands, held, Ports(room[:RACKS], room[RACKS:]), circuits)

    def _choose(self):
        c = self.c
        for rank, coflow in enumerate(self.order):
            c.coflows.rank[coflow] = rank
        sunflow.choose(self.now_s, self.order, self.reorder, c)
        self.reorder = False
        for pair in c.lists.cut[: c.lists.counts[CUT]].tolist():
            self._wait_again(pair)
        for pair in c.lists.taken[: c.lists.counts[TAKEN]].tolist():
            switch.connect(pair, self.now_s, self.s, c)
            self._expect_end(pair, self.unit_s * c.pairs.counted[pair] / UNIT)

    def _wait_again(self, pair):
        switch.let_go(pair, self.now_s, self.c)
        pairs.wait(pair, self.c)

    def _expect_end(self, pair, after_s):
        ready_s = self.c.of.ready_s[self.c.pairs.slot[pair]]
        self.c.pairs.ends_s[pair] = max(self.now_s, ready_s) + after_s


# Whatever happens --------------------------------------------------------------------------------
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
COMING = st.tuples(st.dictionaries(PAIRS, st.integers(1, 4), min_size=1, max_size=8), PLACES)
STEPS_AND_ENDS = st.one_of(
    STEPS,
    st.tuples(st.just("come_at_once"), COMING, COMING),
    st.tuples(st.just("expect"), PLACES, st.sampled_from([0.1, 0.2, 0.3, 0.4, math.inf])),
)


def schedules(steps, *passed_s, at_most):
    return st.lists(st.tuples(steps, st.sampled_from(passed_s)), max_size=at_most)


SCHEDULES = schedules(STEPS, 0.0, 0.0, 0.3, 1.0, at_most=25)


def follow(steps, both):
    for (what, *args), passed_s in steps:
        getattr(both, what)(*args)
        both.choose()
        both.now_s += passed_s


@settings(max_examples=200)
@given(SCHEDULES)
def test_the_same_choices_as_the_simple_version(steps):
    follow(steps, Both(wavelengths=1, delta_s=0.5))


@settings(max_examples=200)
@given(SCHEDULES)
def test_the_same_choices_with_wavelengths(steps):
    # None is ever ready: the simple version can't tell whose of several circuits of a pair is.
    follow(steps, Both(wavelengths=2, delta_s=1000))


@settings(max_examples=200)
@given(schedules(STEPS_AND_ENDS, 0.0, 0.0, 0.1, 0.3, at_most=40))
def test_the_same_gaps_as_the_simple_version(steps):
    follow(steps, Both(wavelengths=1, delta_s=0.5, unit_s=0.2))


# Examples ----------------------------------------------------------------------------------------
def test_each_port_has_as_many_circuits_as_it_has_wavelengths():
    for wavelengths, expected in ((1, [(0, 1)]), (2, [(0, 1), (0, 2), (3, 1)])):
        both = Both(wavelengths, delta_s=0.5)
        both.come({(0, 1): 3, (0, 2): 2, (3, 1): 1}, 0)
        both.choose()
        assert both.choices() == [expected]


def test_a_port_that_failed_has_none():
    both = Both(wavelengths=1, delta_s=0.5)
    both.come({(0, 1): 3, (0, 2): 2}, 0)
    both.choose()
    both.fail(1, is_out=False)
    both.choose()
    assert both.choices() == [[(0, 2)]]


def test_the_first_coflow_takes_a_port_from_the_second():
    both = Both(wavelengths=1, delta_s=0.5)
    both.come({(0, 2): 9, (2, 1): 4, (2, 0): 1}, 0)
    both.choose()
    assert both.choices() == [[(0, 2), (2, 1)]]
    both.come({(0, 1): 1}, 0)
    both.choose()
    assert both.choices() == [[(0, 1)], [(2, 0)]]


def test_a_port_whose_pair_was_cut_is_not_booked_when_that_would_have_ended():
    """The first to come loses its pair 0 > 1, which was to end soon, and takes 0 > 2 at once.

    So it does not take 0 > 3 when 0 > 1 would have ended.
    """
    both = Both(wavelengths=1, delta_s=0.5, unit_s=0.2)
    before = ({(4, 1): 2}, 0)
    after = ({(2, 3): 1}, 2)
    steps = [
        (("come", {(0, 1): 4, (0, 2): 3, (0, 3): 1}, 0), 1.0),
        (("expect", 0, 0.4), 0.0),
        (("come_at_once", before, after), 0.0),
    ]
    follow(steps, both)
    assert both.choices() == [[(4, 1)], [(0, 2)], [(2, 3)]]


def test_a_booked_port_that_a_later_coflow_holds_is_looked_at_again_too():
    """The coflow at place 5 waits for 0 > 4, which the one at place 7 has, and gets it then."""
    both = Both(wavelengths=1, delta_s=0.5, unit_s=0.2)
    steps = [
        (("come", {(1, 3): 3}, 0), 0.0),
        (("come", {(0, 4): 1}, 7), 0.3),
        (("come", {(0, 2): 1, (4, 2): 3}, 1), 0.0),
        (("turn", 0, 1), 0.1),
        (("turn", 5, 8), 0.3),
        (("come_at_once", ({(1, 3): 1, (2, 1): 4, (3, 4): 2}, 9), ({(0, 2): 4}, 1)), 0.1),
        (("end", 3, 1), 0.3),
        (("come_at_once", ({(0, 4): 3}, 5), ({(0, 4): 1}, 8)), 0.0),
        (("expect", 5, 0.1), 0.3),
        (("expect", 1, 0.1), 0.0),
    ]
    follow(steps, both)
    assert both.choices()[1] == [(0, 4)]
