"""Figures from counters."""

import math

import pytest

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
from railyard.netemu.model.network import Network

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
