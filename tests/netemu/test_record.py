"""The record of what links carried: bounded, and without a byte lost."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.netemu.emulator.statistics import (
    cpu_saturated,
    grant_lag_ms_p99,
    lateness_class,
    layer_utilization,
    link_skew,
    network_utilization,
    since,
)
from railyard.netemu.messages import NetworkStats
from railyard.netemu.model.flows import CircuitChange
from railyard.netemu.model.network import Network
from railyard.netemu.record import (
    SAMPLES_MAX,
    CircuitLog,
    CircuitUse,
    LinkLog,
    circuit_rows,
    read_circuits,
    read_samples,
)


def rows(log, path, capacities=None):
    log.write(path, capacities or {"r0.up": 100.0, "r0.down": float("inf")})
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_links_come_first_then_what_has_changed(tmp_path):
    log = LinkLog()
    log.take(0.0, {"r0.up": 0, "r0.down": 0})
    log.take(0.5, {"r0.up": 50, "r0.down": 0})
    log.take(1.0, {"r0.up": 50, "r0.down": 7})
    assert rows(log, tmp_path / "network.jsonl") == [
        {"type": "links", "capacity_bytes_per_s": {"r0.up": 100.0, "r0.down": None}},
        {"at_s": 0.0, "bytes": {}},
        {"at_s": 0.5, "bytes": {"r0.up": 50}},
        {"at_s": 1.0, "bytes": {"r0.down": 7}},
    ]


def test_what_links_carry_now_is_there_when_it_changes(tmp_path):
    log = LinkLog()
    log.take(0.0, {"r0.up": 0})
    for at_s, total, now in (
        (1.0, 50, {"r0.up": 2.0}),
        (2.0, 51, {"r0.up": 2.0}),
        (3.0, 51, {"r0.up": float("inf")}),
        (4.0, 51, {}),
    ):
        log.take(at_s, {"r0.up": total}, now)
    assert rows(log, tmp_path / "network.jsonl")[1:] == [
        {"at_s": 0.0, "bytes": {}},
        {"at_s": 1.0, "bytes": {"r0.up": 50}, "now_bytes_per_s": {"r0.up": 2.0}},
        {"at_s": 2.0, "bytes": {"r0.up": 51}},
        {"at_s": 3.0, "bytes": {}, "now_bytes_per_s": {"r0.up": None}},
        {"at_s": 4.0, "bytes": {}, "now_bytes_per_s": {}},
    ]
    assert read_samples(tmp_path / "network.jsonl") == list(log.changes())


def test_samples_are_wanted_a_period_apart():
    log = LinkLog(period_s=0.5)
    assert log.wants(3.0)
    log.take(3.0, {})
    assert not log.wants(3.4)
    assert log.wants(3.5)


@given(st.integers(min_value=1, max_value=20_000))
def test_however_long_a_run_is_its_record_is_short_and_ends_with_all_bytes(ticks):
    log = LinkLog(period_s=1.0)
    taken = 0
    for tick in range(ticks):
        if log.wants(float(tick)):
            log.take(float(tick), {"r0.up": tick})
            taken = tick
    samples = list(log.changes())
    assert len(samples) <= SAMPLES_MAX
    assert samples[0][0] == 0.0
    assert samples[-1][0] == taken > ticks - 1 - log.period_s
    carried = 0
    for at_s, changed, _ in samples:
        carried = changed.get("r0.up", carried)
        assert carried == at_s


# The record of who had which circuit when.


def log_of(*changes):
    log = CircuitLog()
    log.take(CircuitChange(at_s, what, "r0", "r3", who, n) for at_s, what, who, n in changes)
    return log


def test_a_coflow_has_a_circuit_dark_then_lit_until_it_is_done():
    log = log_of((1.0, "set-up", "a", 1), (1.5, "up", "a", 1), (3.0, "up", None, 1))
    assert log.uses(9.0) == [CircuitUse("r0", "r3", "a", 1.0, 1.5, 3.0)]


def test_the_next_finds_it_lit_and_is_under_way_at_the_end():
    log = log_of((1.0, "up", "a", 1), (2.0, "up", None, 1), (4.0, "up", "b", 1))
    assert log.uses(5.0)[1] == CircuitUse("r0", "r3", "b", 4.0, 4.0, 5.0)


def test_what_was_given_up_dark_never_carried():
    log = log_of((1.0, "set-up", "a", 1), (1.2, "set-up", None, 1), (1.3, "down", None, 1))
    assert log.uses(9.0) == [CircuitUse("r0", "r3", "a", 1.0, None, 1.2)]


def test_circuits_between_the_same_racks_are_told_apart():
    log = log_of((1.0, "up", "a", 1), (2.0, "up", "b", 2), (3.0, "up", None, 1))
    assert [(use.coflow, use.end_s) for use in log.uses(9.0)] == [("a", 3.0), ("b", 9.0)]


def test_a_record_that_is_full_says_how_much_more_there_was(monkeypatch):
    monkeypatch.setattr("railyard.netemu.record.USES_MAX", 1)
    log = log_of(
        (1.0, "up", "a", 1), (2.0, "up", None, 1), (3.0, "up", "b", 1), (4.0, "down", "b", 1)
    )
    assert [use.coflow for use in log.uses(9.0)] == ["a"]
    assert circuit_rows([], log.left_out) == [{"type": "circuits-left-out", "count": 1}]


def test_rows_are_read_back(tmp_path):
    uses = log_of((1.0, "set-up", "a", 1), (1.5, "up", "a", 1)).uses(2.0)
    file = tmp_path / "network.jsonl"
    assert read_circuits(file) == []
    rows = [{"type": "links", "capacity_bytes_per_s": {}}, *circuit_rows(uses, 0)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert read_circuits(file) == uses


@pytest.mark.parametrize("text", ["nonsense\n", "[]\n", '{"type": "circuit", "src": "r0"}\n'])
def test_what_is_no_record_is_refused(tmp_path, text):
    file = tmp_path / "network.jsonl"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"network\.jsonl: is no record of the network: "):
        read_circuits(file)


# Figures from counters.


NOTHING = NetworkStats(
    active_s=0.0,
    cross_rack_room_bytes=0.0,
    bytes={"rack": 0},
    cross_rack_links={"r0.up": 0, "r1.down": 0},
    grant_lags=(),
    cpu_samples=0,
    cpu_saturated=0,
    flows_opened=0,
    flows_finished=0,
    flows_cancelled=0,
    flows_open=0,
)


def stats(**counters):
    return NetworkStats(**{name: getattr(NOTHING, name) for name in FIELDS} | counters)


FIELDS = NetworkStats.__struct_fields__


def test_nothing_happened():
    assert link_skew(NOTHING) == 0
    assert network_utilization(NOTHING) == 0
    assert grant_lag_ms_p99(NOTHING) == 0
    assert cpu_saturated(NOTHING) == 0


def test_skew_leaves_out_links_that_were_not_used():
    assert link_skew(stats(cross_rack_links={"r0.up": 40, "r1.up": 0, "r1.down": 10})) == 4


@pytest.mark.parametrize(("room", "utilization"), [(200.0, 0.25), (math.inf, 0.0)])
def test_utilization(room, utilization):
    links = {"r0.up": 40, "r1.down": 10}
    figures = stats(cross_rack_room_bytes=room, cross_rack_links=links)
    assert network_utilization(figures) == utilization


def test_utilization_of_a_tree_s_layers():
    network = Network(load_topology("joint-16x6"))  # ToRs of 3 Gbps, all others of 2
    carried = dict.fromkeys(network.cross_rack, 0) | {"root": 10**9, "agg0": 10**9, "agg1": 0}
    figures = stats(cross_rack_links=carried)
    assert layer_utilization(figures, network, 8.0) == {"tor": 0, "aggregation": 0.125, "root": 0.5}
    assert layer_utilization(figures, Network(load_topology("hybrid-8x4")), 8.0) == {}


def test_lag_is_of_the_99th_of_a_hundred_grants():
    assert grant_lag_ms_p99(stats(grant_lags=((1, 90), (30, 9), (500, 1)))) == 3.0
    assert grant_lag_ms_p99(stats(grant_lags=((1, 90), (30, 8), (500, 2)))) == 50.0


@pytest.mark.parametrize(
    ("late_s", "tenth_ms"),
    [(0.0, 0), (1e-6, 1), (0.00995, 100), (0.0101, 110), (0.0991, 1000), (4.321, 44_000)],
)
def test_a_lateness_is_rounded_up_from_10_ms_on_to_two_digits(late_s, tenth_ms):
    assert lateness_class(late_s) == tenth_ms


def test_there_are_few_classes_of_lateness():
    found = {lateness_class(number / 1e4) for number in range(600_000)}  # up to a minute
    assert len(found) < 500


def test_a_span_of_time_is_the_difference_of_two_looks():
    before = stats(
        active_s=1.0, bytes={"rack": 5}, grant_lags=((1, 9),), cpu_samples=4, cpu_saturated=4
    )
    now = stats(
        active_s=3.0,
        bytes={"rack": 9},
        grant_lags=((1, 9), (20, 2)),
        cpu_samples=8,
        cpu_saturated=5,
        flows_open=2,
    )
    span = since(now, before)
    assert (span.active_s, span.bytes, span.flows_open) == (2.0, {"rack": 4}, 2)
    assert grant_lag_ms_p99(span) == 2.0
    assert cpu_saturated(span) == 0.25


def test_a_span_over_unlimited_links():
    room = stats(cross_rack_room_bytes=math.inf)
    assert since(room, room).cross_rack_room_bytes == math.inf
