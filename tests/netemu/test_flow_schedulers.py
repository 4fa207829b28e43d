"""What each flow scheduler does, by hand-made examples, and what all of them must keep."""

from __future__ import annotations

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import CloseFlow, RegisterCoflow, SetCapacity
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.links import fill
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler, flow_schedulers
from railyard.oracles.orders import carry_out, open_flows
from tests.netemu.topologies import ends_by, ends_of_all, network_of

GB = 10**9
#: those that leave no link idle that an open flow could use
WORK_CONSERVING = sorted(FLOW_SCHEDULERS)


def fabric(scheduler, racks=3, nodes=1, uplink="8Gbps", nic="unlimited", compiled_from=math.inf):
    """8 Gbps is 1 GB a second."""
    place = network_of(racks, nodes, nic, uplink)
    return Fabric(place, flow_scheduler(scheduler), compiled_from=compiled_from)


def run(scheduler, coflows, **shape):
    """``coflows``: {name: (arrival, [(src rack, dst rack, GB), ...])}; returns {name: its end}."""
    f = fabric(scheduler, **shape)
    ends = {}
    coming = sorted(coflows.items(), key=lambda item: item[1][0])
    while coming or f.open_flows:
        due_s = min(f.next_event_s(), coming[0][1][0] if coming else math.inf)
        assert due_s < math.inf, "flows are stuck"
        for ended in f.handle(None, due_s):
            ends[ended.flow.split("/")[0]] = ended.finished_s
        while coming and coming[0][1][0] <= due_s:
            name, (_, flows) = coming.pop(0)
            carry_out(f, RegisterCoflow(coflow=name))
            for number, (src, dst, gigabytes) in enumerate(flows):
                open_flows(
                    f,
                    FlowSpec(
                        flow=f"{name}/{number}",
                        src=f"r{src}n0",
                        dst=f"r{dst}n0",
                        size_bytes=round(gigabytes * GB),
                        coflow=name,
                    ),
                )
    return ends


# A uses 0->1 (3 GB) and 0->2 (1 GB): bottleneck 4 s.  B uses 2->1 (2 GB): bottleneck 2 s.
TWO = {"A": (0, [(0, 1, 3), (0, 2, 1)]), "B": (0, [(2, 1, 2)])}
# the same, but B comes at 1 s
LATER = {"A": (0, [(0, 1, 3), (0, 2, 1)]), "B": (1, [(2, 1, 2)])}


@pytest.mark.parametrize(
    ("scheduler", "coflows", "ends"),
    [
        # downlink 1: 1/2 each; uplink 0: the rest, 1/2, for 0->2, done at 2 s.  0->1 goes on at
        # 1/2 until B is done at 4 s with 1 GB to go
        pytest.param("maxmin", TWO, {"A": 5, "B": 4}, id="maxmin"),
        # 0->2 (1 GB) first, all of uplink 0 until 1 s; meanwhile 2->1 (2 GB) has downlink 1, until
        # 2 s; then 0->1
        pytest.param("sjf", TWO, {"A": 5, "B": 2}, id="sjf"),
        # until 1 s 0->2, done; then 0->1 has 3 to go and 2->1, new, has 2
        pytest.param("sjf", LATER, {"A": 6, "B": 3}, id="sjf: preempts"),
        pytest.param(
            "sjf",
            {"A": (0, [(0, 1, 1)]), "B": (0, [(2, 1, 1)])},
            {"A": 2, "B": 2},
            id="sjf: equals",
        ),
        # A first, in proportion 3:1 on uplink 0: 4 s; B gets the quarter of downlink 1: 1 GB by
        # 4 s, the other by 5 s
        pytest.param("fifo", TWO, {"A": 4, "B": 5}, id="fifo: by name if at once"),
        # B gets the quarter from 1 s on: .75 GB by 4 s
        pytest.param("fifo", LATER, {"A": 4, "B": 5.25}, id="fifo: whoever came first"),
        # B first: downlink 1 is its own until 2 s.  A gets nothing there, but 0->2 is backfilled
        # and done at 1 s; 0->1 from 2 s to 5 s
        pytest.param("varys", TWO, {"A": 5, "B": 2}, id="varys: the smaller bottleneck"),
        # at 1 s, A has 2.25 + .75 left (3 s), B 2: B first until 3 s; then 2.25 s for 0->1
        pytest.param("varys", LATER, {"A": 5.25, "B": 3}, id="varys: preempts"),
        pytest.param(
            "maxmin", {"A": (0, [(0, 1, 1)]), "B": (0, [(0, 1, 1)])}, {"A": 2, "B": 2}, id="fair"
        ),
        pytest.param(
            "fifo", {"A": (0, [(0, 1, 1)]), "B": (0, [(0, 1, 1)])}, {"A": 1, "B": 2}, id="not fair"
        ),
        # Γ of C is 2 s; MADD slows 1->2 to 1/2, which leaves 1/2 of downlink 2 to D until 2 s
        pytest.param(
            "varys",
            {"C": (0, [(0, 1, 2), (1, 2, 1)]), "D": (0, [(3, 2, 2.5)])},
            {"C": 2, "D": 3.5},
            id="varys: what MADD spares is another's",
        ),
    ],
)
def test_worked_examples(scheduler, coflows, ends):
    assert run(scheduler, coflows, racks=4) == pytest.approx(ends)


def test_afap_gives_what_is_free_and_takes_nothing_back():
    """b comes later and has priority, but must wait; what a frees is b's before c's."""
    f = fabric("afap")
    ends = {}

    def begin(flow, src, dst, gigabytes, priority):
        open_flows(
            f,
            FlowSpec(
                flow=flow,
                src=f"r{src}n0",
                dst=f"r{dst}n0",
                size_bytes=gigabytes * GB,
                priority=priority,
            ),
        )

    begin("a", 0, 1, 2, (5.0, 0.0))
    f.handle(None, 1.0)
    begin("c", 2, 1, 1, (1.0, 7.0))
    begin("b", 0, 1, 1, (1.0, 2.0))
    assert [f.rate_bytes_per_s(flow) for flow in "abc"] == [GB, 0, 0]
    ends |= ends_by(f, 2.5)
    assert [f.rate_bytes_per_s(flow) for flow in "bc"] == [GB, 0]
    carry_out(f, SetCapacity(link="r0.up", bytes_per_s=GB / 4))  # what b can no longer use is c's
    assert [f.rate_bytes_per_s(flow) for flow in "bc"] == [GB / 4, GB * 3 / 4]
    carry_out(f, SetCapacity(link="r1.down", bytes_per_s=GB / 2))  # c gives way
    assert [f.rate_bytes_per_s(flow) for flow in "bc"] == [GB / 4, GB / 4]
    carry_out(f, SetCapacity(link="r0.up", bytes_per_s=GB))
    assert [f.rate_bytes_per_s(flow) for flow in "bc"] == [GB / 4, GB / 4]
    ends |= ends_by(f, 10.0)
    assert ends == pytest.approx({"a": 2, "b": 4.5, "c": 5.5})


@pytest.mark.parametrize("compiled_from", [0, math.inf], ids=["compiled", "plain"])
def test_afap_gives_all_that_nothing_limits_their_rates_at_once(compiled_from):
    f = fabric("afap", nodes=2, compiled_from=compiled_from)
    for number in range(5):
        open_flows(f, FlowSpec(flow=f"f{number}", src="r0n0", dst="r0n1", size_bytes=GB))
    assert f.rates_bytes_per_s() == {f"f{number}": math.inf for number in range(5)}


@pytest.mark.parametrize("compiled_from", [0, math.inf], ids=["compiled", "plain"])
def test_varys_serves_the_earlier_of_coflows_with_equal_bottlenecks(compiled_from):
    """When "a" comes, "z" has exactly as much left, but for the rounding of what it has sent."""
    later = []
    for seed in range(200):
        dice = random.Random(seed)
        f = fabric("varys", compiled_from=compiled_from)
        left_mb, sent_ms = dice.randint(1, 500), dice.randint(1, 500)
        for name in ("z", "a"):  # which goes by arrival, not by name
            carry_out(f, RegisterCoflow(coflow=name))
        begin(f, "z", 0, 1, (left_mb + sent_ms) * 10**6)
        for moment in sorted(dice.sample(range(1, sent_ms + 1), min(sent_ms, 3))):
            f.handle(None, moment / 1000)
            carry_out(
                f, SetCapacity(link="r2.up", bytes_per_s=GB / moment)
            )  # which is of no interest to them
            f.next_event_s()
        f.handle(None, sent_ms / 1000)
        begin(f, "a", 0, 1, left_mb * 10**6)
        if f.rate_bytes_per_s("z") == 0:
            later.append(seed)
    assert later == []


def begin(f, coflow, src, dst, size_bytes):
    ends = f"r{src}n0", f"r{dst}n0"
    spec = FlowSpec(flow=coflow, src=ends[0], dst=ends[1], size_bytes=size_bytes, coflow=coflow)
    open_flows(f, spec)


def test_aalo_serves_who_has_sent_least():
    """10 MB at 1 GB/s: A leaves the first queue at 10 ms, B at 20 ms; then A, which came first,
    in the second queue until it has sent 100 MB at 110 ms, and so on.
    """
    f = fabric("aalo")
    for name in "AB":
        carry_out(f, RegisterCoflow(coflow=name))
        open_flows(f, FlowSpec(flow=name, src="r0n0", dst="r1n0", size_bytes=GB, coflow=name))
    changes = []
    while f.open_flows:
        sending = [n for n in "AB" if f.is_open(n) and f.rate_bytes_per_s(n) > 0]
        changes.append((round(f.now_s, 9), *sending))
        f.handle(None, f.next_event_s())
    assert changes == [
        (0, "A"), (0.01, "B"), (0.02, "A"), (0.11, "B"), (0.2, "A"), (1.1, "B")
    ]  # fmt: skip
    assert f.now_s == pytest.approx(2.0)


def test_aalo_prefers_a_small_newcomer_to_a_large_veteran():
    ends = run("aalo", {"old": (0, [(0, 1, 5)]), "new": (2, [(0, 1, 0.005)])})
    assert ends == pytest.approx({"old": 5.005, "new": 2.005})


def test_aalo_with_weights_starves_nobody():
    """Old is in the fourth queue when new comes: 7 and 10 of 17 parts, until new has 10 MB (after
    17 ms), and so on.
    """
    f = fabric("aalo+weighted")
    for name, start_s in (("old", 0), ("new", 2)):
        f.handle(None, start_s)
        carry_out(f, RegisterCoflow(coflow=name))
        open_flows(f, FlowSpec(flow=name, src="r0n0", dst="r1n0", size_bytes=5 * GB, coflow=name))
    parts = []
    for _ in range(3):
        parts.append([round(f.rate_bytes_per_s(name) / GB, 9) for name in ("old", "new")])
        f.handle(None, f.next_event_s())
    assert parts == [
        [round(7 / 17, 9), round(10 / 17, 9)],
        [round(7 / 16, 9), round(9 / 16, 9)],
        [round(7 / 15, 9), round(8 / 15, 9)],
    ]
    assert f.now_s == pytest.approx(2 + 0.01 * 17 / 10 + 0.09 * 16 / 9 + 0.9 * 15 / 8)


def test_aalo_with_weights_leaves_no_link_idle():
    """The first queue's part of downlink 1 is more than A can use, as uplink 0 is slow."""
    f = fabric("aalo+weighted", racks=4)
    carry_out(f, SetCapacity(link="r0.up", bytes_per_s=GB / 10))
    carry_out(f, RegisterCoflow(coflow="B"))
    open_flows(f, FlowSpec(flow="B", src="r2n0", dst="r1n0", size_bytes=5 * GB, coflow="B"))
    f.handle(None, 1.0)
    carry_out(f, RegisterCoflow(coflow="A"))
    open_flows(f, FlowSpec(flow="A", src="r0n0", dst="r1n0", size_bytes=GB, coflow="A"))
    assert f.rate_bytes_per_s("A") == pytest.approx(GB / 10)
    assert f.rate_bytes_per_s("B") == pytest.approx(GB * 9 / 10)


@pytest.mark.parametrize("scheduler", ["fifo", "aalo"])
def test_a_coflow_arrives_with_its_first_flow(scheduler):
    """A and Z want the same link.  A was registered first, but Z came first."""
    f = fabric(scheduler)
    for name in ("empty", "A", "Z"):
        carry_out(f, RegisterCoflow(coflow=name))
    f.handle(None, 1.0)
    open_flows(f, FlowSpec(flow="z", src="r0n0", dst="r1n0", size_bytes=GB, coflow="Z"))
    f.handle(None, 1.001)
    open_flows(f, FlowSpec(flow="a", src="r0n0", dst="r1n0", size_bytes=GB - 10**6, coflow="A"))
    assert [f.rate_bytes_per_s(flow) for flow in "za"] == [GB, 0]
    pasts = f.pasts()
    assert "empty" not in pasts
    assert (pasts["Z"].arrived_s, pasts["A"].arrived_s) == (1.0, 1.001)


# What all must keep ------------------------------------------------------------------------------
RACKS = 3
NODES = [f"r{rack}n{node}" for rack in range(RACKS) for node in range(2)]
a_size = st.one_of(st.just(0), st.integers(1, 100), st.integers(1, 5 * GB))
an_event = st.one_of(
    st.tuples(
        st.just("start"),
        st.sampled_from(NODES),
        st.sampled_from(NODES),
        a_size,
        st.sampled_from([None, "j0", "j1", "j2"]),
    ),
    st.tuples(st.just("cancel"), st.integers(0, 9)),
    st.tuples(
        st.just("set_capacity"),
        st.sampled_from(["r0.up", "r1.down", "r2n0.up"]),
        st.sampled_from([0.0, 1e7, 5e8, 1e9, math.inf]),
    ),
    st.tuples(st.just("wait"), st.floats(0, 2, allow_subnormal=False)),
)


class World:
    """A fabric to which things happen, and what must hold between them."""

    def __init__(self, scheduler):
        self.f = fabric(scheduler, racks=RACKS, nodes=2, nic="8Gbps")
        self.capacity = dict.fromkeys(self.f.network.number, 1e9)
        self.route = {}
        self.size = {}
        self.sent = dict.fromkeys(self.f.network.number, 0.0)
        self.done = {}
        for coflow in ("j0", "j1", "j2"):
            carry_out(self.f, RegisterCoflow(coflow=coflow))

    def do(self, event):
        getattr(self, event[0])(*event[1:])
        self.check()

    def start(self, src, dst, size, coflow):
        flow = f"f{len(self.size)}"
        open_flows(self.f, FlowSpec(flow=flow, src=src, dst=dst, size_bytes=size, coflow=coflow))
        names = {number: name for name, number in self.f.network.number.items()}
        self.route[flow] = [names[link] for link in self.f.network.route(src, dst).links]
        self.size[flow] = size

    def cancel(self, number):
        flow = f"f{number}"
        if self.f.is_open(flow):
            sent = self.f.sent_bytes(flow)
            carry_out(self.f, CloseFlow(flow=flow))
            self.size[flow] = sent

    def set_capacity(self, link, bytes_per_s):
        carry_out(self.f, SetCapacity(link=link, bytes_per_s=bytes_per_s))
        self.capacity[link] = bytes_per_s

    def wait(self, seconds):
        until_s = self.f.now_s + seconds
        while self.f.next_event_s() <= until_s:
            self.step()
        self.f.handle(None, until_s)

    def step(self):
        before, began_s = self.f.bytes_by_link(), self.f.now_s
        for ended in self.f.handle(None, self.f.next_event_s()):
            self.done[ended.flow] = ended.finished_s
        passed_s = self.f.now_s - began_s
        for link, total in self.f.bytes_by_link().items():
            if self.capacity[link] < math.inf:
                most = self.capacity[link] * passed_s * (1 + 1e-9)
                assert total - before[link] <= most + 10, link
        self.check()

    def check(self):
        """No link above its capacity; none idle that an open flow could use."""
        busy = [
            flow
            for flow, size in self.size.items()
            if self.f.is_open(flow) and self.f.sent_bytes(flow) < size and self.route[flow]
        ]
        rates = {flow: self.f.rate_bytes_per_s(flow) for flow in busy}
        if any(all(self.capacity[x] == math.inf for x in self.route[flow]) for flow in busy):
            return  # finishes before time passes
        used = dict.fromkeys(self.capacity, 0.0)
        for flow, rate in rates.items():
            for link in self.route[flow]:
                used[link] += rate
        for link, total in used.items():
            assert total <= self.capacity[link] * (1 + 1e-9) + 1e-3
        for flow in busy:
            full = [used[x] >= self.capacity[x] * (1 - 1e-9) for x in self.route[flow]]
            assert any(full), f"{flow} could send faster"

    def finish(self):
        """Mend all links, and run to the end."""
        for link, capacity in self.capacity.items():
            if capacity != 1e9:
                self.set_capacity(link, 1e9)
        while self.f.open_flows:
            assert self.f.next_event_s() < math.inf, "flows are stuck"
            self.step()


@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
@given(events=st.lists(an_event, min_size=1, max_size=25))
def test_whatever_happens(scheduler, events):
    """Flows come and are cancelled, capacities change; then all ends and adds up."""
    world = World(scheduler)
    for event in events:
        world.do(event)
    world.finish()
    expected = dict.fromkeys(world.capacity, 0)
    for flow, links in world.route.items():
        for link in links:
            expected[link] += world.size[flow]
    for link, total in world.f.bytes_by_link().items():
        assert total == pytest.approx(expected[link], abs=1 + len(world.size))


a_coflow = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from(NODES), st.integers(1, 5 * GB)),
    min_size=1,
    max_size=5,
)


@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
@given(
    coflows=st.lists(st.tuples(st.integers(0, 2), a_coflow), min_size=1, max_size=5),
    order=st.randoms(use_true_random=False),
)
def test_the_order_of_simultaneous_coflows_does_not_matter(scheduler, coflows, order):
    named = [(at_s, f"c{n}", flows) for n, (at_s, flows) in enumerate(coflows)]
    shuffled = list(named)
    order.shuffle(shuffled)

    def ends(coflows):
        f, done = fabric(scheduler, racks=RACKS, nodes=2, nic="8Gbps"), {}
        for at_s, name, flows in sorted(coflows, key=lambda item: item[0]):
            if at_s > f.now_s:  # what comes at one time is decided on once
                done |= ends_by(f, float(at_s))
            carry_out(f, RegisterCoflow(coflow=name))
            for number, (src, dst, size) in enumerate(flows):
                open_flows(
                    f,
                    FlowSpec(
                        flow=f"{name}/{number}", src=src, dst=dst, size_bytes=size, coflow=name
                    ),
                )
        return done | ends_of_all(f)

    assert ends(shuffled) == pytest.approx(ends(named), rel=1e-6, abs=1e-6)


# The numpy max-min against exact progressive filling, and its worked examples.


LINKS = 7
capacity = st.one_of(st.integers(1, 50), st.just(math.inf), st.just(0))
path = st.sets(st.integers(0, LINKS - 1), min_size=1, max_size=4)
weight = st.integers(1, 5)


def max_min(paths, weights, capacities):
    """By the book, in exact fractions: fill all alike, freeze who crosses a full link, repeat.

    ``paths``: for each class, the set of its links; ``capacities``: {link: Fraction or inf}.
    A rate is inf where no link limits it.
    """
    rates = [None] * len(paths)
    left = {link: c if c == float("inf") else Fraction(c) for link, c in capacities.items()}
    level = Fraction(0)
    while None in rates:
        rising = [n for n, rate in enumerate(rates) if rate is None]
        load = {
            link: sum(Fraction(weights[n]) for n in rising if link in paths[n])
            for link, c in left.items()
            if c != float("inf")
        }
        room = {link: left[link] / total for link, total in load.items() if total}
        if not room:
            return [float("inf") if rate is None else rate for rate in rates]
        step = min(room.values())
        level += step
        for link, total in load.items():
            left[link] -= step * total
        full = {link for link, space in room.items() if space == step}
        for n in rising:
            if full & paths[n]:
                rates[n] = level
    return rates


def rates_of(paths, weights, capacities):
    """What progressive filling answers for paths that are sets of links."""
    rows = [sorted(links) + [len(capacities)] * (4 - len(links)) for links in paths]
    return fill(
        np.array(rows, dtype=np.int64).reshape(-1, 4).T,
        np.array(weights, dtype=float),
        np.array([*capacities, math.inf], dtype=float),
    )


@given(
    classes=st.lists(st.tuples(path, weight), max_size=12),
    capacities=st.lists(capacity, min_size=LINKS, max_size=LINKS),
)
def test_equals_exact_progressive_filling(classes, capacities):
    paths, weights = [links for links, _ in classes], [weight for _, weight in classes]
    exact = max_min(paths, weights, dict(enumerate(capacities)))
    assert rates_of(paths, weights, capacities) == pytest.approx([float(r) for r in exact])


@given(
    classes=st.lists(st.tuples(path, weight), min_size=1, max_size=12),
    capacities=st.lists(st.integers(1, 50), min_size=LINKS, max_size=LINKS),
)
def test_feasible_and_every_class_has_a_bottleneck(classes, capacities):
    paths, weights = [links for links, _ in classes], [weight for _, weight in classes]
    rates = rates_of(paths, weights, capacities)
    used = [
        sum(
            rate * weight
            for rate, links, weight in zip(rates, paths, weights, strict=True)
            if link in links
        )
        for link in range(LINKS)
    ]
    for link in range(LINKS):
        assert used[link] <= capacities[link] * (1 + 1e-9)
    for rate, links in zip(rates, paths, strict=True):
        # a full link on which no class gets more: what makes an allocation max-min fair
        assert any(
            used[link] >= capacities[link] * (1 - 1e-9)
            and all(
                rate >= r * (1 - 1e-9)
                for r, others in zip(rates, paths, strict=True)
                if link in others
            )
            for link in links
        )


@given(
    classes=st.lists(st.tuples(path, weight), min_size=1, max_size=10),
    capacities=st.lists(capacity, min_size=LINKS, max_size=LINKS),
    order=st.randoms(use_true_random=False),
)
def test_order_does_not_matter(classes, capacities, order):
    shuffled = list(enumerate(classes))
    order.shuffle(shuffled)
    rates = rates_of(*zip(*classes, strict=True), capacities)
    again = rates_of(*zip(*(row for _, row in shuffled), strict=True), capacities)
    assert again == pytest.approx([rates[number] for number, _ in shuffled])


@pytest.mark.parametrize(
    ("paths", "weights", "capacities", "rates"),
    [
        pytest.param([{0}, {0}], [1, 3], [8], [2, 2], id="weights count: 2 and 6"),
        pytest.param([{0}, {0, 1}, {1}], [1, 1, 1], [10, 4], [8, 2, 2], id="Bertsekas-Gallager"),
        pytest.param([{0}, {0, 1}], [1, 1], [6, 1], [5, 1], id="what one can't use another gets"),
        pytest.param([{0}, {1}], [1, 1], [math.inf, 3], [math.inf, 3], id="one is unlimited"),
        pytest.param([{0}, {0, 1}], [1, 1], [6, 0], [6, 0], id="a dead link"),
        pytest.param([], [], [6], [], id="nobody"),
    ],
)
def test_worked_examples_of_water_filling(paths, weights, capacities, rates):
    assert list(rates_of(paths, weights, capacities)) == rates


def test_rows_without_weight_get_nothing():
    """Rows stay for a while after their flows have ended, also where nothing else is sent."""
    paths, capacities = np.array([[0, 0, 1]]), np.array([8.0, 3.0, math.inf])
    assert fill(paths, np.array([1.0, 0.0, 0.0]), capacities.copy()).tolist() == [8.0, 0.0, 0.0]
    assert fill(paths, np.zeros(3), capacities.copy()).tolist() == [0.0, 0.0, 0.0]


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UsageError, match='unknown flow scheduler "maxmi": did you mean "maxmin"'):
        flow_scheduler("maxmi")


def test_every_listed_scheduler_says_where_it_is_from():
    for name, kind in flow_schedulers().items():
        assert kind.name == name
        assert kind.source
