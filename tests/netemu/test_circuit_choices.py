"""Sunflow's choice of circuits is the simple version's, whatever comes, ends and fails."""

from types import SimpleNamespace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.netemu.circuits import pairs, switch
from railyard.netemu.circuits.arrays import CUT, HOLDS, PACKETS, TAKEN, grown, new_circuits
from railyard.netemu.circuits.policies import sunflow
from railyard.netemu.kernel.state import NONE, views
from tests.netemu.matching_oracle import Ports, match

RACKS = 5
COFLOWS = 30
#: sizes are halved, and must not differ by rounding then
UNIT = 2.0**30


class Both:
    """The loops, and what the simple version says of the same coflows.  Pairs have no flows."""

    def __init__(self, wavelengths, delta_s):
        made = new_circuits(RACKS, wavelengths, delta_s, 0, 0, 1)
        self.c = views(grown(made, pairs=COFLOWS * RACKS * RACKS, coflows=COFLOWS))
        self.s = SimpleNamespace(work=SimpleNamespace(capacity=[0.0] * RACKS * wavelengths))
        self.now_s = 0.0
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
        every = [pair for coflow in self.order for pair in self.pairs_of(coflow)]
        return [pair for pair in every if self.c.pairs.state[pair] == HOLDS]

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

    def choose(self):
        """Both choose; the pairs that hold circuits must be what the other says."""
        c, of, wavelengths = self.c, self.c.pairs, self.c.wavelengths
        demands, held = [], []
        for coflow in self.order:
            demand, those = np.zeros((RACKS, RACKS)), self.pairs_of(coflow)
            for pair in those:
                demand[self.ends_of(pair)] = of.counted[pair]
            demands.append(demand)
            holding = sorted((pair for pair in those if of.state[pair] == HOLDS), key=self._since)
            held.append({self.ends_of(pair): None for pair in holding})
        up = {
            (slot // wavelengths, c.of.peer[slot]): None
            for slot in range(c.slots)
            if c.of.peer[slot] != NONE and c.of.ready_s[slot] <= self.now_s
        }
        room = [wavelengths * (rate > 0) for rate in c.ports.bytes_per_s.tolist()]
        expected = match(demands, held, up, Ports(room[:RACKS], room[RACKS:]))
        self._choose()
        for coflow, those in zip(self.order, expected, strict=True):
            found = [pair for pair in self.pairs_of(coflow) if of.state[pair] == HOLDS]
            assert {self.ends_of(pair) for pair in found} == set(those)

    # Inside --------------------------------------------------------------------------------------
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

    def _wait_again(self, pair):
        switch.let_go(pair, self.now_s, self.c)
        pairs.wait(pair, self.c)

    def _since(self, pair):
        return self.c.pairs.since[pair]


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


@settings(max_examples=200)
@given(SCHEDULES)
def test_the_same_choices_as_the_simple_version(steps):
    follow(steps, Both(wavelengths=1, delta_s=0.5))


@settings(max_examples=200)
@given(SCHEDULES)
def test_the_same_choices_with_wavelengths(steps):
    # None is ever ready: the simple version can't tell whose of several circuits of a pair is.
    follow(steps, Both(wavelengths=2, delta_s=1000))
