"""What the emulator's messages admit, its model can compute: no error, no NaN, no standstill."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.messaging.wire import BYTES_MAX, SECONDS_MAX, Vocabulary, pack, unpack
from railyard.cluster.topology import Topology
from railyard.netemu.emulator.grants import Ledger
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import OpenFlow, RegisterCoflow
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.oracles.orders import carry_out, open_flows
from tests.netemu.topologies import ends_by, ends_of_all, network_of

WEIGHTS = (5e-324, 1e-310, 1e-9, 1e-6, 1.0, 1e6, 1e9, 1e308, math.inf, math.nan)
SIZES = (0, 1, 2**31, 2**53 + 1, BYTES_MAX, 2**62, 2**63, -1)
CAPACITIES = (0.0, 1e-3, 1.0, 1e9, 1e18, math.inf)
RANKS = ((), (-1e18,), (0.0, 1e18), (5e-324,))
KNOWN = Vocabulary([OpenFlow])


def topology() -> Topology:
    return network_of(3, 2, "8Gbps", "8Gbps", ocs={"port_bytes_per_s": "8Gbps"})


def admitted() -> list[OpenFlow]:
    """The orders with extreme values that get through."""
    orders = []
    for number, (weight, size, rank) in enumerate(itertools.product(WEIGHTS, SIZES, RANKS)):
        name, ends = f"f{number}", [("r0n0", "r1n0"), ("r0n1", "r2n0"), ("r1n0", "r1n1")]
        src, dst = ends[number % 3]
        try:
            order = OpenFlow(
                flow=name, src=src, dst=dst, size_bytes=size, weight=weight, priority=rank
            )
            _, message = unpack(pack(order), KNOWN)
        except PeerError:
            continue
        assert isinstance(message, OpenFlow)
        orders.append(message)
    return orders


def test_what_no_model_can_compute_is_refused():
    orders = admitted()
    assert {order.weight for order in orders} == {1e-6, 1.0, 1e6}
    assert {order.size_bytes for order in orders} == {0, 1, 2**31, 2**53 + 1, BYTES_MAX}


@pytest.mark.parametrize("seed", [1])
@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
def test_the_emulators_model_goes_on_whatever_was_admitted(scheduler: str, seed: int) -> None:
    dice, now_s = random.Random(seed), 0.0
    fabric = Fabric(topology(), flow_scheduler(scheduler))
    ledger = Ledger(fabric, scale=1000)
    carry_out(fabric, RegisterCoflow(coflow="c"))
    orders = admitted()
    dice.shuffle(orders)
    links = sorted(fabric.capacities_bytes_per_s())
    for order in orders:
        coflow = dice.choice([None, "c"])
        ledger.open(
            FlowSpec(
                flow=order.flow,
                src=order.src,
                dst=order.dst,
                size_bytes=order.size_bytes,
                coflow=coflow,
                weight=order.weight,
                priority=order.priority,
            ),
            b"peer",
        )
        if dice.random() < 0.2:
            ledger.set_capacity(dice.choice(links), dice.choice(CAPACITIES))
        step_s = min(max(ledger.next_due_s() - now_s, 0.0), 1.0)
        now_s += step_s + dice.choice([0.0, 1e-9, 1e-3, 1.0])
        ledger.advance(now_s)
        for grants in ledger.take_grants().values():
            assert all(0 <= total <= BYTES_MAX for total in grants.total_bytes.values())
        rates = fabric.rates_bytes_per_s()
        assert not any(math.isnan(rate) or rate < 0 for rate in rates.values())
        assert not math.isnan(ledger.next_due_s())
    assert now_s < SECONDS_MAX


@pytest.mark.timeout(400)  # loops may have to be compiled
@pytest.mark.parametrize("compiled_from", [math.inf, 0], ids=["plain", "compiled"])
@pytest.mark.parametrize("scheduler", ["maxmin", "aalo", "aalo+weighted", "sjf"])
def test_the_rounding_of_a_large_weight_does_not_stay_in_a_row(
    scheduler: str, compiled_from: float
) -> None:
    network = network_of(2, 1, "unlimited", "8Gbps")
    fabric = Fabric(network, flow_scheduler(scheduler), compiled_from=compiled_from)
    carry_out(fabric, RegisterCoflow(coflow="c"))
    for weight in (1.0, 1e-6, 1e6):
        ends = {"src": "r0n0", "dst": "r1n0", "size_bytes": 10**9}
        open_flows(fabric, FlowSpec(flow=f"{weight}", coflow="c", weight=weight, **ends))
    ends = ends_of_all(fabric)
    assert ends["1000000.0"] == pytest.approx(1.000001000001, rel=1e-14)
    assert ends["1.0"] == pytest.approx(
        2.000001 if scheduler != "sjf" else 2.000000000001, rel=1e-14
    )
    assert ends["1e-06"] == pytest.approx(3.0, rel=1e-14)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("compiled_from", [math.inf, 0], ids=["plain", "compiled"])
def test_a_flow_on_what_others_leave_is_not_left_with_a_hundredth_of_a_byte(
    compiled_from: float,
) -> None:
    fabric = Fabric(
        network_of(2, 2, "8Gbps", "unlimited"), flow_scheduler("varys"), compiled_from=compiled_from
    )
    carry_out(fabric, RegisterCoflow(coflow="c"))
    for src, dst, size in [("r0n1", "r1n1", 10**15), ("r1n0", "r1n1", 10**8)]:
        open_flows(fabric, FlowSpec(flow=f"{size}", src=src, dst=dst, size_bytes=size, coflow="c"))
    small = FlowSpec(flow="small", src="r0n1", dst="r1n0", size_bytes=30_000_098, coflow="c")
    open_flows(fabric, small)
    # r1n1 is busy for (10**15 + 10**8) / 10**9 s; the large flow needs that long, and leaves the
    # small one 10**9 * 10**8 / (10**15 + 10**8) = 99.99999 bytes/s of r0n1's link
    assert fabric.rate_bytes_per_s("small") == pytest.approx(99.99999, rel=1e-8)
    end_s = 30_000_098 * (10**15 + 10**8) / (10**9 * 10**8)
    assert end_s == pytest.approx(300_001.01, abs=1e-6)
    ended = fabric.handle(None, end_s)
    open_flows(fabric, FlowSpec(flow="next", src="r0n1", dst="r0n0", size_bytes=10**9))
    ends = {flow.flow: flow.finished_s for flow in ended} | ends_of_all(fabric)
    assert ends["small"] == pytest.approx(end_s, rel=1e-9)
    assert ends["next"] == pytest.approx(end_s + 1, rel=1e-9)
    assert ends[f"{10**15}"] == pytest.approx(1_000_001.03, rel=1e-8)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("compiled_from", [math.inf, 0], ids=["plain", "compiled"])
@pytest.mark.parametrize("scheduler", ["maxmin", "aalo", "sunflow"])
def test_a_flow_counts_its_bytes_beside_one_of_a_far_smaller_weight(
    scheduler: str, compiled_from: float
) -> None:
    ocs = {"port_bytes_per_s": "80Mbps", "delta_s": "0s", "elephant_bytes": "1B"}
    tables = {"ocs": ocs} if scheduler == "sunflow" else {}
    fabric = Fabric(
        network_of(2, 1, "unlimited", "80Mbps", **tables),
        flow_scheduler(scheduler),
        compiled_from=compiled_from,
    )
    carry_out(fabric, RegisterCoflow(coflow="c"))
    pair = {"src": "r0n0", "dst": "r1n0", "coflow": "c"}
    open_flows(fabric, FlowSpec(flow="light", size_bytes=10**9, weight=1e-6, **pair))
    fabric.handle(None, fabric.now_s + 0.5)
    open_flows(fabric, FlowSpec(flow="light too", size_bytes=10**6, weight=1e-6, **pair))
    fabric.handle(None, 2.0)  # 2 * 10**13 bytes for each unit of weight, about: 2**-8 are a digit
    open_flows(fabric, FlowSpec(flow="heavy", size_bytes=1000, weight=1e6, **pair))
    fabric.handle(None, 2.00005)
    assert fabric.sent_bytes("heavy") == pytest.approx(500, abs=1)
    assert fabric.sent_bytes("light") == pytest.approx(19 * 10**6, abs=1)
    ends = ends_of_all(fabric)
    assert ends == pytest.approx({"heavy": 2.0001, "light": 100.1001}, rel=1e-12)


# Flows with equally much to send are equals, whatever the clock says: rounding decides nothing.


MB = 10**6
RACKS = 4


def ends_of(scheduler, seed, begin_s):
    """Shuffles of whole megabytes, at whole milliseconds: many flows have equally much left."""
    dice = random.Random(seed)
    f = Fabric(network_of(RACKS, 1, "unlimited", "8Gbps"), flow_scheduler(scheduler))
    f.handle(None, begin_s)
    ends, at_s = {}, begin_s
    for number in range(6):
        at_s += dice.randint(0, 20) / 1000
        ends |= {ended.flow: ended.finished_s - begin_s for ended in f.handle(None, at_s)}
        racks = [dice.sample(range(RACKS), dice.randint(1, RACKS)) for _ in range(2)]
        for src, dst in [(src, dst) for src in racks[0] for dst in racks[1] if src != dst]:
            spec = FlowSpec(
                flow=f"{number}: {src}>{dst}",
                src=f"r{src}n0",
                dst=f"r{dst}n0",
                size_bytes=dice.randint(1, 10) * MB,
            )
            open_flows(f, spec)
    while f.open_flows:
        due_s = f.next_event_s()
        ends |= {ended.flow: ended.finished_s - begin_s for ended in f.handle(None, due_s)}
    return ends


@pytest.mark.parametrize("scheduler", ["maxmin", "sjf"])
def test_a_day_later_the_same_happens(scheduler):
    for seed in range(15):
        at_once, later = ends_of(scheduler, seed, 0.0), ends_of(scheduler, seed, 86_400.0)
        assert later == pytest.approx(at_once, abs=1e-6), f"seed {seed}"


# What happens at one instant: flows end first, then others come, and then it is decided, once.


GB = 10**9

DELTA_S = 0.01


def fabric(scheduler, uplink_bytes_per_s=GB, **more):
    """Three racks of one node; all links but the racks' are unlimited."""
    return Fabric(
        network_of(3, 1, "unlimited", f"{uplink_bytes_per_s * 8}bps", **more),
        flow_scheduler(scheduler),
    )


def start(f, flow, src, dst, size_bytes, coflow=None, priority=()):
    ends = f"r{src}n0", f"r{dst}n0"
    open_flows(
        f,
        FlowSpec(
            flow=flow,
            src=ends[0],
            dst=ends[1],
            size_bytes=size_bytes,
            coflow=coflow,
            priority=priority,
        ),
    )


def one_after_the_other(scheduler, uplink_bytes_per_s, sizes_bytes, coflows=math.inf):
    """Flows on one link, each of which comes as the one before ends: how long each takes.

    They take turns in being of so many coflows.
    """
    f, came_s, ends_s = fabric(scheduler, uplink_bytes_per_s), [], {}
    at_s = Fraction(0)
    for number, size_bytes in enumerate(sizes_bytes):
        came_s.append(float(at_s))
        ends_s |= ends_by(f, came_s[-1])
        if number < coflows:
            carry_out(f, RegisterCoflow(coflow=f"c{number}"))
        start(f, f"f{number}", 0, 1, size_bytes, coflow=f"c{number % coflows:.0f}")
        at_s += Fraction(size_bytes, uplink_bytes_per_s)
    ends_s |= ends_of_all(f)
    return [ends_s[f"f{number}"] - came_s[number] for number in range(len(sizes_bytes))]


@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
def test_a_flow_whose_last_byte_is_due_has_ended_when_the_next_one_comes(scheduler):
    """By rounding, its end is due some digits after that; it must not share the link, nor wait."""
    for seed in range(40):
        dice = random.Random(seed)
        uplink_bytes_per_s = dice.choice([125 * MB, 250 * MB, 300 * MB, 700 * MB, GB])
        sizes_bytes = [dice.choice([MB, 3 * MB, 7 * MB, 10 * MB, 100 * MB]) for _ in range(20)]
        took_s = one_after_the_other(scheduler, uplink_bytes_per_s, sizes_bytes)
        expected_s = [size_bytes / uplink_bytes_per_s for size_bytes in sizes_bytes]
        assert took_s == pytest.approx(expected_s, abs=1e-8), f"seed {seed}"


@pytest.mark.parametrize("coflows", [1, 3, math.inf])
@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
def test_rounding_of_large_sizes_starves_nobody(scheduler, coflows):
    """10**15 bytes take 93 days, and the last digit of their end is some of the last bytes."""
    for seed in range(10):
        dice = random.Random(seed)
        sizes_bytes = [dice.randint(10**13, 10**15) for _ in range(10)]
        took_s = one_after_the_other(scheduler, 123_456_789, sizes_bytes, coflows)
        expected_s = [size_bytes / 123_456_789 for size_bytes in sizes_bytes]
        assert took_s == pytest.approx(expected_s, abs=1e-3), f"seed {seed}"


def test_what_is_freed_goes_to_the_highest_priority_of_that_instant():
    """a ends as high comes; low, which waited, has a lower priority."""
    f = fabric("afap")
    start(f, "a", 0, 1, GB, priority=(2.0,))
    start(f, "low", 0, 1, GB, priority=(3.0,))
    assert [ended.flow for ended in f.handle(None, 1.0)] == ["a"]
    start(f, "high", 0, 1, GB, priority=(1.0,))
    assert [f.rate_bytes_per_s(flow) for flow in ("high", "low")] == [GB, 0.0]


def test_a_circuit_that_carries_is_kept_for_who_comes_as_its_user_ends():
    """a's circuit from rack 0 to 1 carries; next, which is shorter than other, can go on on it."""
    f = optical()
    for coflow, dst, megabytes in (("a", 1, 1000), ("other", 2, 2000)):
        carry_out(f, RegisterCoflow(coflow=coflow))
        start(f, coflow, 0, dst, megabytes * MB, coflow=coflow)
    carry_out(f, RegisterCoflow(coflow="next"))
    assert [ended.flow for ended in f.handle(None, 1.0 + DELTA_S)] == ["a"]
    start(f, "next", 0, 1, 100 * MB, coflow="next")
    circuits = [(c.src, c.dst, c.coflow, c.ready_s) for c in f.circuits()]
    assert circuits == [("r0", "r1", "next", DELTA_S)]
    assert ends_of_all(f) == pytest.approx({"next": 1.1 + DELTA_S, "other": 3.1 + 2 * DELTA_S})


def optical():
    """Circuits of 1 GB/s, for all that goes between racks."""
    ocs = {"port_bytes_per_s": "8Gbps", "delta_s": f"{DELTA_S}s", "elephant_bytes": "1B"}
    return fabric("sunflow", ocs=ocs)


def test_bytes_sent_are_known_without_a_decision():
    """Who asks what a flow has sent must not have the rest of the instant decided on."""
    f = fabric("afap")
    start(f, "a", 0, 1, GB, priority=(2.0,))
    start(f, "low", 0, 1, GB, priority=(3.0,))
    f.handle(None, 1.0)
    assert f.sent_bytes("low") == 0
    assert f.bytes_by_category()["cross_rack"] == GB
    start(f, "high", 0, 1, GB, priority=(1.0,))
    assert f.rate_bytes_per_s("high") == GB


def test_the_emulators_ledger_ends_flows_before_others_come():
    f = fabric("afap")
    ledger = Ledger(f, scale=1)
    ledger.open(FlowSpec(flow="a", src="r0n0", dst="r1n0", size_bytes=GB, priority=(2.0,)), b"p")
    ledger.open(FlowSpec(flow="low", src="r0n0", dst="r1n0", size_bytes=GB, priority=(3.0,)), b"p")
    ledger.advance(1.0)
    ledger.advance(1.0)  # for the next of the orders that were given at that time
    high = FlowSpec(flow="high", src="r0n0", dst="r1n0", size_bytes=GB, priority=(1.0,))
    ledger.open(high, b"p")
    ledger.advance(1.5)
    assert [f.rate_bytes_per_s(flow) for flow in ("high", "low")] == [GB, 0.0]


def test_what_finishes_alone_is_due_at_its_time_and_not_before():
    f = fabric("maxmin")
    start(f, "a", 0, 1, GB)
    assert f.handle(None, 1.0 - 1e-8) == []
    assert math.isclose(f.next_event_s(), 1.0)
