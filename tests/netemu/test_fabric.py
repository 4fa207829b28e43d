"""The fluid network in virtual time."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from railyard.cluster.errors import InvariantError
from railyard.cluster.inputfile import build
from railyard.cluster.topology import Topology
from railyard.netemu.fabric.fabric import Fabric, RecentChanges
from railyard.netemu.messages import CloseFlow, FinishCoflow, RegisterCoflow, SetCapacity
from railyard.netemu.model.flows import Finished, FlowRows, FlowSpec
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.netemu.schedulers.base import FlowScheduler, Holds, Plan
from railyard.netemu.schedulers.maxmin import MaxMin
from railyard.oracles.orders import carry_out, open_flows
from tests.netemu.topologies import ends_by, ends_of_all, network_of


def topology(racks=3, nodes=2, nic="8Gbps", uplink="8Gbps"):
    """8 Gbps is 10**9 bytes a second."""
    return network_of(racks, nodes, nic, uplink)


def fabric(**shape):
    return Fabric(topology(**shape), MaxMin())


def start(fabric, flow, src, dst, size_bytes, **more):
    open_flows(fabric, FlowSpec(flow=flow, src=src, dst=dst, size_bytes=size_bytes, **more))


def test_a_flow_alone_takes_size_over_capacity():
    f = fabric()
    start(f, "a", "r0n0", "r1n0", 10**9)
    assert f.next_event_s() == 1.0
    assert f.handle(None, 0.999) == []
    assert f.sent_bytes("a") == 999_000_000
    assert f.handle(None, 5.0) == [Finished("a", 1.0)]
    assert (f.open_flows, f.next_event_s()) == (0, math.inf)


def test_flows_that_share_an_uplink_and_then_do_not():
    f = fabric()
    start(f, "a", "r0n0", "r1n0", 10**9)
    start(f, "b", "r0n1", "r2n0", 2 * 10**9)
    assert ends_of_all(f) == {"a": 2.0, "b": 3.0}


def test_a_late_flow_slows_the_one_under_way():
    f = fabric()
    start(f, "a", "r0n0", "r0n1", 2 * 10**9)
    f.handle(None, 1.0)
    start(f, "b", "r0n0", "r0n1", 5 * 10**8)
    assert ends_of_all(f) == {"b": 2.0, "a": 2.5}


def test_shadow_fig_9():
    """Four flows into rack 3, one of them from rack 2, which also sends two to rack 1.

    Its section 5.2: the downlink of rack 3 is the most critical link, 1/4 Gbps for each; then the
    uplink of rack 2 has 3/4 Gbps left for two.
    """
    f = fabric(racks=4, nodes=4, nic="unlimited", uplink="1Gbps")
    for number, src in enumerate(["r2n0", "r0n0", "r0n1", "r1n0"]):
        start(f, f"into-3-{number}", src, "r3n0", 10**9)
    for number in range(2):
        start(f, f"into-1-{number}", "r2n1", f"r1n{number}", 10**9)
    gbps = 1e9 / 8
    for number in range(4):
        assert f.rate_bytes_per_s(f"into-3-{number}") == pytest.approx(gbps / 4)
    for number in range(2):
        assert f.rate_bytes_per_s(f"into-1-{number}") == pytest.approx(gbps * 3 / 8)


def test_weights_share_the_bottleneck():
    f = fabric()
    start(f, "light", "r0n0", "r1n0", 10**9, weight=1.0)
    start(f, "heavy", "r0n1", "r2n0", 3 * 10**9, weight=3.0)
    assert ends_of_all(f) == {"light": pytest.approx(4.0), "heavy": pytest.approx(4.0)}


def test_weights_count_at_the_bottleneck_of_each_flow():
    """By hand, in GB and s, all links 1 but the downlink of rack 2, which is 1/2.

    That is the first bottleneck: b (weight 3) gets 3/8 of it, c (weight 1) 1/8.  a (weight 1) has
    what b leaves of the uplink of rack 0: 5/8.  b has .75 and ends at 2; by then a has sent 1.25 of
    2 and goes on at 1: ends at 2.75; c has sent .25 of .5 and goes on at 1/2: ends at 2.5.
    """
    f = fabric(racks=3, nodes=1, nic="unlimited", uplink="8Gbps")
    carry_out(f, SetCapacity(link="r2.down", bytes_per_s=5e8))
    start(f, "a", "r0n0", "r1n0", 2 * 10**9, weight=1.0)
    start(f, "b", "r0n0", "r2n0", 75 * 10**7, weight=3.0)
    start(f, "c", "r1n0", "r2n0", 5 * 10**8, weight=1.0)
    rates = [f.rate_bytes_per_s(flow) for flow in "abc"]
    assert rates == pytest.approx([625e6, 375e6, 125e6])
    assert ends_of_all(f) == {
        "b": pytest.approx(2),
        "c": pytest.approx(2.5),
        "a": pytest.approx(2.75),
    }


def test_background_traffic_takes_its_share():
    data = {
        "name": "test",
        "racks": {"count": 2, "nodes": 1},
        "links": {"nic": "unlimited", "uplink": "8Gbps", "background": 0.5},
    }
    f = Fabric(build(data, Topology, "test"), MaxMin())
    start(f, "a", "r0n0", "r1n0", 10**9)
    assert ends_of_all(f) == {"a": 2.0}


def test_no_bytes_and_no_links_take_no_time():
    f = fabric()
    f.handle(None, 3.0)
    start(f, "empty", "r0n0", "r1n0", 0)
    start(f, "local", "r0n0", "r0n0", 10**12)
    assert f.next_event_s() == 3.0
    assert f.handle(None, 3.0) == [Finished("empty", 3.0), Finished("local", 3.0)]
    assert f.bytes_by_category()["local"] == 10**12


def test_unlimited_links_take_no_time():
    f = fabric(nic="unlimited", uplink="unlimited")
    f.handle(None, 1.0)
    start(f, "a", "r0n0", "r1n0", 10**15)
    start(f, "b", "r0n0", "r1n0", 10**9)
    assert f.rate_bytes_per_s("a") == math.inf
    assert f.handle(None, 1.0) == [Finished("a", 1.0), Finished("b", 1.0)]


def test_a_cancelled_flow_leaves_its_bandwidth_and_what_it_sent_counts():
    f = fabric()
    start(f, "a", "r0n0", "r1n0", 10**9)
    start(f, "b", "r0n1", "r1n1", 10**9)
    f.handle(None, 1.0)
    for _ in range(2):
        carry_out(f, CloseFlow(flow="a"))
        assert not f.is_open("a")
    assert ends_of_all(f) == {"b": 1.5}
    assert f.bytes_by_category()["cross_rack"] == 1_500_000_000
    assert f.bytes_by_link()["r0n0.up"] == 500_000_000
    assert f.bytes_by_link()["r0.up"] == 1_500_000_000


def test_categories():
    f = fabric()
    start(f, "a", "r0n0", "r0n1", 100)
    start(f, "b", "r0n0", "r1n1", 50)
    start(f, "c", "r0n0", "r0n0", 7)
    ends_of_all(f)
    assert f.bytes_by_category() == {
        "local": 7, "rack": 100, "cross_rack": 50, "eps": 50, "ocs": 0, "wan": 0
    }  # fmt: skip


def test_capacity_changes_while_flows_run():
    f = fabric()
    start(f, "a", "r0n0", "r1n0", 10**9)
    f.handle(None, 0.5)
    carry_out(f, SetCapacity(link="r0.up", bytes_per_s=0))
    assert f.next_event_s() == math.inf
    f.handle(None, 10.0)
    assert f.sent_bytes("a") == 500_000_000
    carry_out(f, SetCapacity(link="r0.up", bytes_per_s=2.5e8))
    assert ends_of_all(f) == {"a": 12.0}


@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
def test_where_no_link_carries_anything_nothing_will_happen(scheduler):
    """Rates that are taken away one by one leave no rounding at which somebody seems to send."""
    f = Fabric(topology(racks=9, nodes=1, nic="unlimited"), flow_scheduler(scheduler))
    carry_out(f, RegisterCoflow(coflow="j0"))
    for rack in range(9):
        carry_out(f, SetCapacity(link=f"r{rack}.up", bytes_per_s=1e8 / (rack + 3)))
        start(f, f"f{rack}", f"r{rack}n0", f"r{(rack + 1) % 9}n0", 10**12, coflow="j0")
    for rack in range(9):
        assert f.next_event_s() < math.inf
        f.handle(None, f.now_s + 0.1)
        carry_out(f, SetCapacity(link=f"r{rack}.up", bytes_per_s=0.0))
    assert f.next_event_s() == math.inf


def test_coflows_own_their_flows():
    f = fabric()
    carry_out(f, RegisterCoflow(coflow="j0"))
    start(f, "a", "r0n0", "r1n0", 10**9, coflow="j0")
    start(f, "b", "r0n0", "r1n0", 10**9)
    carry_out(f, FinishCoflow(coflow="j0"))
    assert not f.is_open("a")
    assert f.is_open("b")
    with pytest.raises(ValueError, match='coflow "j0" is not registered'):
        start(f, "c", "r0n0", "r1n0", 1, coflow="j0")


@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
def test_many_flows_started_at_once_go_like_those_started_one_by_one(scheduler):
    specs = [
        FlowSpec(
            flow=f"f{number}",
            src=f"r{number % 3}n0",
            dst=f"r{(number // 3) % 4}n1",
            size_bytes=number % 5 * 10**8,
            coflow=(None, "j0", "j1")[number % 7 % 3],
        )
        for number in range(40)
    ]
    ends = []
    for all_at_once in (False, True):
        f = Fabric(topology(racks=4), flow_scheduler(scheduler))
        for coflow in ("j0", "j1"):
            carry_out(f, RegisterCoflow(coflow=coflow))
        if all_at_once:
            open_flows(f, *specs)
        else:
            for spec in specs:
                open_flows(f, spec)
        assert f.pasts()["j0"].arrived_s == 0
        ends.append(f.handle(None, 1000))
    names, times = (
        [[getattr(end, of) for end in those] for those in ends] for of in ("flow", "finished_s")
    )
    assert names[0] == names[1]
    assert times[0] == pytest.approx(times[1], rel=1e-12)  # sums are made in another order
    assert len(ends[0]) == len(specs)


def test_flows_before_the_wrong_one_are_open():
    f = fabric()
    specs = [
        FlowSpec(flow=flow, src="r0n0", dst="r1n0", size_bytes=10**9) for flow in ("a", "a", "b")
    ]
    with pytest.raises(ValueError, match='flow "a" is open already'):
        open_flows(f, *specs)
    assert f.is_open("a")
    assert f.rate_bytes_per_s("a") > 0
    assert not f.is_open("b")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: start(f, "a", "r0n0", "r1n0", 1), 'flow "a" is open already'),
        (lambda f: start(f, "b", "r9n0", "r1n0", 1), '"r9n0" is no node of this topology'),
        (lambda f: start(f, "b", "r0n0", "r1n0", -1), "need a size >= 0"),
        (lambda f: start(f, "b", "r0n0", "r1n0", 1, weight=0.0), "a weight > 0"),
        (lambda f: carry_out(f, FinishCoflow(coflow="x")), 'coflow "x" is not registered'),
        (
            lambda f: carry_out(f, SetCapacity(link="r0.left", bytes_per_s=1)),
            '"r0.left" is no link',
        ),
        (
            lambda f: carry_out(f, SetCapacity(link="r0.up", bytes_per_s=math.nan)),
            "= nan bytes/s: need 0",
        ),
        (
            lambda f: carry_out(f, SetCapacity(link="r0.up", bytes_per_s=1e-310)),
            "= 1e-310 bytes/s: need 0",
        ),
        (
            lambda f: carry_out(f, SetCapacity(link="r0.up", bytes_per_s=1e308)),
            r"= 1e\+308 bytes/s: need 0",
        ),
        (
            lambda f: carry_out(f, SetCapacity(link="r0.up", bytes_per_s=-1.0)),
            "= -1.0 bytes/s: need 0",
        ),
    ],
)
def test_nonsense_is_refused_and_changes_nothing(change, message):
    f = fabric()
    start(f, "a", "r0n0", "r1n0", 10**9)
    with pytest.raises(ValueError, match=message):
        change(f)
    assert ends_of_all(f) == {"a": 1.0}


def test_an_order_brings_time_up_and_returns_what_has_finished():
    f = fabric()
    start(f, "a", "r0n0", "r1n0", 10**9)
    assert f.handle(RegisterCoflow(coflow="c"), 0.5) == []
    assert f.handle(SetCapacity(link="r0.up", bytes_per_s=5e8), 1.0) == [Finished("a", 1.0)]
    assert f.now_s == 1.0


def test_what_finished_before_an_order_that_is_refused_is_returned_by_the_next():
    f = fabric()
    start(f, "a", "r0n0", "r1n0", 10**9)
    with pytest.raises(ValueError, match='coflow "x" is not registered'):
        f.handle(FinishCoflow(coflow="x"), 2.0)
    assert f.handle(CloseFlow(flow="b"), 2.0) == [Finished("a", 1.0)]
    assert f.handle(None, 2.0) == []


def test_time_counts_while_a_flow_is_open():
    f = fabric()
    start(f, "a", "r0n0", "r1n0", 10**9)
    f.handle(None, 5.0)
    start(f, "b", "r0n0", "r1n0", 10**9)
    f.handle(None, 5.5)
    stats = f.stats(opened=2, finished=1)
    assert stats.active_s == 1.5
    assert stats.cross_rack_room_bytes == 1.5 * sum(
        rate for name, rate in f.capacities_bytes_per_s().items() if name in f.network.cross_rack
    )
    assert stats.cross_rack_links["r0.up"] == 1_500_000_000
    assert (stats.flows_opened, stats.flows_finished, stats.flows_open) == (2, 1, 1)


def test_time_does_not_go_back():
    f = fabric()
    f.handle(None, 2.0)
    with pytest.raises(InvariantError, match=r"clock is at 2\.0, beyond 1\.0"):
        f.handle(None, 1.0)


class Wrong(FlowScheduler):
    """Says what can't be."""

    name = "wrong"
    source = "this test"

    def __init__(self, **plan):
        self.said = plan

    def plan(self, traffic):
        return Plan(**self.said)


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ({"order": np.array([], int)}, "wrong's order: need each of 1 coflows once"),
        ({"order": np.array([0, 0])}, "wrong's order: need each of 1 coflows once"),
        (
            {"order": np.array([0]), "queues": np.array([0]), "shares": np.array([1.1])},
            "wrong's shares: need 0 or more each, and at most 1 in all",
        ),
        ({"order": np.array([0]), "shares": np.array([1.0])}, "queues and shares go together"),
        ({"order": np.array([0]), "ends_together": True}, "wrong: ends_together needs by_bytes"),
    ],
)
def test_a_plan_that_cannot_be_is_refused(said, error):
    f = Fabric(topology(), Wrong(**said))
    start(f, "a", "r0n0", "r1n0", 10**9)
    with pytest.raises(InvariantError, match=error):
        f.next_event_s()


def test_ticks_do_not_change_when_a_flow_finishes():
    """However often it is asked on the way: 10**5 small steps add no rounding."""
    coarse, fine = fabric(), fabric()
    for f in (coarse, fine):
        start(f, "a", "r0n0", "r1n0", 10**9)
        start(f, "b", "r0n1", "r1n0", 777_777_777)
    for step in range(1, 10**5):
        fine.handle(None, step * 1e-5)
    assert ends_of_all(fine) == ends_of_all(coarse)


# Properties --------------------------------------------------------------------------------------
NODES = [f"r{rack}n{node}" for rack in range(3) for node in range(2)]
a_flow = st.tuples(
    st.floats(0, 5, allow_subnormal=False),
    st.sampled_from(NODES),
    st.sampled_from(NODES),
    st.one_of(st.just(0), st.integers(1, 10**10)),
    st.sampled_from([0.5, 1.0, 2.0]),
)


def links_of(f, src, dst):
    names = {number: name for name, number in f.network.number.items()}
    return [names[number] for number in f.network.route(src, dst).links]


def replay(flows, scheduler="maxmin", watch=lambda f: None):
    """Start flows at their times and drain; returns the fabric and {name: time}."""
    f = Fabric(topology(), flow_scheduler(scheduler))
    done = {}

    def advance(now_s):
        while f.next_event_s() <= now_s:
            take(f.handle(None, f.next_event_s()))
            watch(f)
        take(f.handle(None, now_s))  # what is due but for rounding

    def take(ends):
        done.update({ended.flow: ended.finished_s for ended in ends})

    for name, (start_s, src, dst, size_bytes, weight) in sorted(
        flows.items(), key=lambda item: item[1][0]
    ):
        advance(start_s)
        start(f, name, src, dst, size_bytes, weight=weight)
        watch(f)
    while f.open_flows:
        assert f.next_event_s() < math.inf
        advance(f.next_event_s())
    return f, done


@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
@given(flows=st.lists(a_flow, min_size=1, max_size=15))
def test_bytes_in_are_bytes_out_and_no_link_carries_too_much(scheduler, flows):
    named = {f"f{number}": flow for number, flow in enumerate(flows)}
    last = {"s": 0.0, "bytes": {}}

    def watch(f):
        carried = f.bytes_by_link()
        passed_s = f.now_s - last["s"]
        for link, total in carried.items():
            assert total - last["bytes"].get(link, 0) <= 1e9 * passed_s * (1 + 1e-9) + 10
        last["s"], last["bytes"] = f.now_s, carried

    f, done = replay(named, scheduler, watch)
    assert set(done) == set(named)
    expected = dict.fromkeys(f.network.number, 0)
    for _, src, dst, size_bytes, _ in flows:
        for link in links_of(f, src, dst):
            expected[link] += size_bytes
    assert f.bytes_by_link() == expected
    for name, (start_s, src, dst, size_bytes, _) in named.items():
        least_s = size_bytes / 1e9 if src != dst else 0.0
        assert done[name] >= start_s + least_s - 1e-6


@given(flows=st.lists(a_flow, min_size=1, max_size=15))
def test_work_conservation(flows):
    """Every open flow crosses a link that is full."""

    def watch(f):
        used = dict.fromkeys(f.network.number, 0.0)
        open_flows = [name for name in named if f.is_open(name)]
        for name in open_flows:
            for link in links_of(f, named[name][1], named[name][2]):
                used[link] += f.rate_bytes_per_s(name)
        for name in open_flows:
            links = links_of(f, named[name][1], named[name][2])
            if links and named[name][3]:
                assert any(used[link] >= 1e9 * (1 - 1e-9) for link in links)

    named = {f"f{number}": flow for number, flow in enumerate(flows)}
    replay(named, watch=watch)


@given(flows=st.lists(a_flow, min_size=1, max_size=12), order=st.randoms(use_true_random=False))
@example(  # a flow that is nearly due is not taken along with those that finish at once
    flows=[(0.0, "r0n0", "r0n0", 0, 0.5), (0.0, "r0n0", "r0n1", 1, 0.5)], order=random.Random(1)
)
def test_the_order_of_simultaneous_arrivals_does_not_matter(flows, order):
    named = {f"f{n}": (math.floor(flow[0]), *flow[1:]) for n, flow in enumerate(flows)}
    items = list(named.items())
    order.shuffle(items)
    _, done = replay(named)
    _, again = replay(dict(items))
    assert again == pytest.approx(done, abs=1e-8)  # within 1 ns, flows end at once


@given(flows=st.lists(a_flow, min_size=1, max_size=12), step_s=st.floats(0.01, 3))
def test_how_often_time_is_given_does_not_matter(flows, step_s):
    named = {f"f{number}": flow for number, flow in enumerate(flows)}
    _, exact = replay(named)
    f, done = Fabric(topology(), MaxMin()), {}
    coming = sorted(named.items(), key=lambda item: item[1][0])
    now_s = 0.0
    while coming or f.open_flows:
        now_s += step_s
        while coming and coming[0][1][0] <= now_s:
            name, (start_s, src, dst, size_bytes, weight) = coming.pop(0)
            done |= ends_by(f, start_s)
            start(f, name, src, dst, size_bytes, weight=weight)
        done |= ends_by(f, now_s)
    assert done == pytest.approx(exact, abs=1e-8)  # within 1 ns, flows end at once


class Watching(FlowScheduler):
    """Notes what it sees that the first coflow has sent."""

    name = "watching"

    def __init__(self, by_bytes):
        self.by_bytes, self.seen = by_bytes, []

    def plan(self, traffic):
        self.seen.append((traffic.sent_bytes[0], traffic.left_bytes[0]))
        return Plan(order=np.arange(len(traffic)), holds=Holds.UNTIL_END)


@pytest.mark.parametrize("by_bytes", [False, True])
def test_a_flow_scheduler_sees_what_coflows_have_sent(by_bytes):
    """1 GB and 3 GB of a coflow share 1 GB/s for a second; the larger is cancelled, 2 GB come."""
    watching = Watching(by_bytes)
    f = Fabric(network_of(2, 2, "unlimited", "8Gbps"), watching)
    carry_out(f, RegisterCoflow(coflow="c"))
    for flow, size in (("a", 1), ("b", 3)):
        open_flows(
            f, FlowSpec(flow=flow, src="r0n0", dst="r1n0", size_bytes=size * 10**9, coflow="c")
        )
    f.next_event_s()
    assert watching.seen == [(0, 4e9)]
    f.handle(None, 1.0)
    carry_out(f, CloseFlow(flow="b"))
    f.next_event_s()
    seen_of_a = 0.25e9 if by_bytes else 0.5e9
    assert watching.seen[-1] == pytest.approx((1e9, 1e9 - seen_of_a))
    open_flows(f, FlowSpec(flow="d", src="r0n0", dst="r1n1", size_bytes=2 * 10**9, coflow="c"))
    f.next_event_s()
    assert watching.seen[-1] == pytest.approx((1e9, 3e9 - seen_of_a))
    assert f.pasts()["c"].ended_bytes == pytest.approx(1e9 - seen_of_a)


def test_flows_that_start_together_have_different_names():
    f = fabric()
    carry_out(f, RegisterCoflow(coflow="c"))
    one, other, none = np.array([0, 0]), np.array([1, 2]), np.array([0, 0])
    with pytest.raises(ValueError, match='flow "7" is started twice'):
        carry_out(f, FlowRows([7, 7], one, other, np.array([10, 20]), none, ["c"]))
    assert f.open_flows == 0
    carry_out(f, FlowRows([7, 8], one, other, np.array([10, 20]), none, ["c"]))
    with pytest.raises(ValueError, match='flow "8" is open already'):
        carry_out(f, FlowRows([9, 8], one, other, np.array([10, 20]), none, ["c"]))
    assert f.open_flows == 2


# An error of a flow scheduler shows the last changes of what it is about.


class Late(FlowScheduler):
    """Forgets all coflows after 1 s."""

    name = "late"
    source = "this test"

    def plan(self, traffic):
        return Plan(order=np.arange(len(traffic) if traffic.now_s < 1 else 0))


def test_an_error_of_a_flow_scheduler_shows_the_last_changes():
    fabric = Fabric(topology(), Late())
    open_flows(fabric, FlowSpec(flow="f0", src="r0n0", dst="r1n0", size_bytes=10**10))
    fabric.next_event_s()
    fabric.handle(None, 1.5)
    carry_out(fabric, SetCapacity(link="r0.up", bytes_per_s=1e8))
    with pytest.raises(InvariantError, match="late's order") as caught:
        fabric.next_event_s()
    _, started, changed = str(caught.value).splitlines()
    assert started.startswith("    0.000  start f0 FlowSpec(flow='f0', src='r0n0', dst='r1n0'")
    assert changed == "    1.500  capacity of r0.up 100000000.0"


def test_only_changes_of_what_an_error_names_are_shown():
    recent = RecentChanges()
    for number in range(20):
        recent.add((float(number), "finish", f"f{number}", "c1" if number % 2 else "c10"))
    error = InvariantError("rates of c1: need 0 or more", ["c1"])
    recent.add_to(error)
    lines = str(error).splitlines()[1:]
    assert [line.split()[2] for line in lines] == [f"f{number}" for number in range(5, 20, 2)]
