"""Sunflow's choice of circuits: examples, and it is the simple version's, whatever happens."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import InvariantError, UsageError
from railyard.cluster.ids import rack_of
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.coflows import CoflowTrace, TraceCoflow
from railyard.netemu.circuits import pairs, sunflow, switch
from railyard.netemu.circuits.arrays import CUT, HOLDS, PACKETS, TAKEN, grown, new_circuits
from railyard.netemu.circuits.policies import CIRCUIT_POLICIES, StatelessPolicy
from railyard.netemu.kernel.rows import instant_s
from railyard.netemu.kernel.state import NONE, views
from railyard.netemu.schedulers.sunflow import Sunflow
from railyard.simulator.coflows import CoflowRun
from tests.netemu.circuit_events import Run, a_moment, fabric
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


# Circuit policies: one of one's own, registered by name, and what is refused.


GB = 10**9
#: 1 GB/s and 10 ms
TOPOLOGY = (
    "co-scheduler-60x10,racks.count=4,racks.nodes=1,links.nic=unlimited,ocs.port_bytes_per_s=8Gbps"
)


class Rotor(StatelessPolicy):
    """Every second, each rack is connected to the next but one more: 1, 2, 3, 1, ..."""

    name = "rotor"
    source = "a test, after RotorNet"

    def wanted(self, now_s, coflows):
        self.look_again_s = now_s // 1 + 1 if coflows else float("inf")
        distance = 1 + int(now_s) % 3
        there = {}
        for pair in (pair for coflow in coflows for pair in coflow.pairs):
            if (pair.dst - pair.src) % 4 == distance:
                there.setdefault((pair.src, pair.dst), pair)
        return there.values()


class OverRotor(Sunflow):
    name = "over-rotor"
    circuit_policy = "rotor"


def ccts_s(*coflows):
    """Completion times of coflows, each a source and GB by destination; all arrive at 0 s."""
    trace = CoflowTrace(
        name="t",
        racks=4,
        coflows=tuple(
            TraceCoflow(
                name=name,
                arrival_s=0.0,
                mappers=(src,),
                reducers=tuple((dst, int(size_gb * GB)) for dst, size_gb in sizes.items()),
            )
            for name, src, sizes in coflows
        ),
    )
    run = CoflowRun(trace, load_topology(TOPOLOGY), OverRotor())
    run.run()
    return {name: pytest.approx(record.cct_s) for name, record in run.records.items()}


def test_a_policy_of_ones_own_runs_in_the_simulator(monkeypatch):
    """0 to 1 is connected from 0 s and from 3 s on, 0 to 2 from 1 s and 4 s, for 0.99 s each."""
    monkeypatch.setitem(CIRCUIT_POLICIES, "rotor", Rotor)
    found = ccts_s(("next", 0, {1: 1.5}), ("second", 0, {2: 1.125}))
    assert found == {"next": 3.01 + 0.51, "second": 4.01 + 0.135}


def test_a_policy_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match=r'unknown circuit policy "rotor".*sunflow'):
        ccts_s(("a", 0, {1: 1.5}))


class Generous(Rotor):
    """Connects all that send with all that receive."""

    def wanted(self, now_s, coflows):
        return [pair for coflow in coflows for pair in coflow.pairs]


class Wrong(Generous):
    """Connects rack 0 with rack 2, whatever is to be sent."""

    def wanted(self, now_s, coflows):
        return [replace(pair, dst=2) for pair in super().wanted(now_s, coflows)]


@pytest.mark.parametrize(
    ("policy", "sizes_gb", "what"),
    [
        pytest.param(
            Generous, {1: 2, 2: 2}, "more circuits than 1 to r0.ocs.up 2", id="a port is full"
        ),
        pytest.param(Wrong, {1: 2, 2: 0.1}, "r0 to r2 a circuit: it wants none", id="by packets"),
    ],
)
def test_what_the_switch_cannot_do_stops_the_run(monkeypatch, policy, sizes_gb, what):
    monkeypatch.setitem(CIRCUIT_POLICIES, "rotor", policy)
    with pytest.raises(InvariantError, match=f"rotor gave {what}"):
        ccts_s(("a", 0, sizes_gb))


# What holds for links, ports and bytes with circuits, whatever happens to flows and capacities.


class Checked(Run):
    """A network that is looked at each time that something happens to it."""

    def __init__(self, nic, wavelengths):
        super().__init__(fabric(Sunflow(), nic, wavelengths=wavelengths))
        self.wavelengths = wavelengths
        self.ends_of = {}  # {flow: (src, dst)}
        self.pair_of = {}  # {flow: (src, dst, coflow)}, racks
        self.sent = {}  # {flow: bytes}, of those that are closed
        self.size = {}

    def start(self, coflow, nodes, size_bytes, weight):
        flow = f"f{self.started}"
        super().start(coflow, nodes, size_bytes, weight)
        self.ends_of[flow], self.size[flow] = nodes, size_bytes
        self.pair_of[flow] = (*map(rack_of, nodes), coflow or f"flow {flow}")

    def cancel(self, number):
        sent = self._sent_by_now()
        super().cancel(number)
        self._close(sent)

    def finish_coflow(self, coflow):
        sent = self._sent_by_now()
        super().finish_coflow(coflow)
        self._close(sent)

    def wait(self, seconds):
        until_s = self.fabric.now_s + seconds
        while (due_s := self.fabric.next_event_s()) < until_s:
            self.step(due_s)
        self.step(until_s)

    def step(self, until_s):
        """Between two events all rates are what they are."""
        f, began_s = self.fabric, self.fabric.now_s
        before, circuits = f.bytes_by_link(), f.circuits()
        capacities = f.capacities_bytes_per_s()
        self.look_at_ports(circuits, capacities)
        self.look_at_circuits(circuits, capacities)
        dark = self.dark_until(until_s, circuits)
        open_before = list(self.open)
        self.take(f.handle(None, until_s))
        self._close(dict.fromkeys(open_before), done=True)
        for link, total in f.bytes_by_link().items():
            if capacities[link] < math.inf:
                most = capacities[link] * (f.now_s - began_s) * (1 + 1e-9)
                assert total - before[link] <= most + 10, link
            assert link not in dark or total == before[link], link

    def look_at_ports(self, circuits, capacities):
        for way, end in (("up", "src"), ("down", "dst")):
            for rack, count in Counter(getattr(one, end) for one in circuits).items():
                assert count <= self.wavelengths
                assert capacities[f"{rack}.ocs.{way}"] > 0, "a port that failed has a circuit"

    def look_at_circuits(self, circuits, capacities):
        """A pair has at most one; it carries no more than a wavelength, and nothing while dark."""
        carried = Counter()
        for flow, bytes_per_s in self.fabric.rates_bytes_per_s().items():
            if bytes_per_s < math.inf:  # else it has sent all, and ends now
                carried[self.pair_of[flow]] += bytes_per_s
        there = [one for one in circuits if one.coflow is not None]
        used = {(one.src, one.dst, one.coflow): one for one in there}
        assert len(used) == len(there), "a pair has two circuits"
        for pair, one in used.items():
            ports = capacities[f"{one.src}.ocs.up"], capacities[f"{one.dst}.ocs.down"]
            is_dark = one.ready_s > self.fabric.now_s
            most = 0 if is_dark else min(ports) / self.wavelengths
            assert carried[pair] <= most * (1 + 1e-9), one

    def dark_until(self, until_s, circuits):
        """The ports of which no circuit carries before then."""
        carrying = {
            port
            for one in circuits
            if one.ready_s < until_s
            for port in (f"{one.src}.ocs.up", f"{one.dst}.ocs.down")
        }
        return set(self.fabric.network.ports) - carrying

    def look_at_bytes(self):
        """Each link has carried what flows over it have sent: no byte is lost or invented."""
        carried = self.fabric.bytes_by_link()
        out, into = Counter(), Counter()
        for flow, (src, dst) in self.ends_of.items():
            if src != dst:
                out[src] += self.sent[flow]
                into[dst] += self.sent[flow]
            if rack_of(src) != rack_of(dst):
                out[rack_of(src)] += self.sent[flow]
                into[rack_of(dst)] += self.sent[flow]
        slack = 1 + self.started
        for way, expected in (("up", out), ("down", into)):
            for place, total in expected.items():
                links = [f"{place}.{way}"] + [f"{place}.ocs.{way}"] * ("n" not in place)
                assert sum(map(carried.get, links)) == pytest.approx(total, abs=slack), place

    def _sent_by_now(self):
        return {flow: self.fabric.sent_bytes(flow) for flow in self.open}

    def _close(self, sent, done=False):
        for flow, sent_bytes in sent.items():
            if flow not in self.open:
                self.sent[flow] = self.size[flow] if done else sent_bytes


@pytest.mark.parametrize("wavelengths", [1, 2])
@pytest.mark.parametrize("nic", ["8Gbps", "unlimited"])
@given(moments=st.lists(a_moment, min_size=3, max_size=15))
@settings(max_examples=50)
def test_links_ports_and_bytes_whatever_happens(nic, wavelengths, moments):
    run = Checked(nic, wavelengths)
    for events, tenths in moments:
        for event in events:
            run.do(event)
        run.wait(tenths / 10)
    run.finish()
    run.look_at_bytes()
