"""What happens at one instant: flows end first, then others come, and then it is decided, once."""

import math
import random
from fractions import Fraction

import pytest

from railyard.netemu.emulator.grants import Ledger
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import RegisterCoflow
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.oracles.orders import carry_out, open_flows
from tests.netemu.topologies import ends_by, ends_of_all, network_of

GB = 10**9
MB = 10**6
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
