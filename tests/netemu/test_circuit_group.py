"""The flows of a pair of racks on one circuit, as a flow scheduler sees them."""

from itertools import count

import numpy as np
import pytest

from railyard.netemu.model.arrays import places
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers.sunflow import Sunflow
from tests.netemu.circuit_events import GB, fabric


class Counting(Sunflow):
    """Notes what each group has sent, as of its last decision."""

    def decide(self, traffic):
        self.sent_bytes = {group.key: group.sent_bytes() for group in traffic.groups}
        return super().decide(traffic)


def test_a_group_counts_what_all_its_flows_have_sent():
    """Also those that have ended, or were cancelled."""
    scheduler = Counting()
    network = fabric(scheduler)
    network.register_coflow("A")
    ends = {
        "A": ("r0n0", "r1n0", 2 * GB),
        "A2": ("r0n1", "r1n1", 9 * GB),
        "A3": ("r0n0", "r1n1", 9 * GB),
    }
    for flow, (src, dst, size_bytes) in ends.items():
        network.start(FlowSpec(flow=flow, src=src, dst=dst, size_bytes=size_bytes, coflow="A"))

    numbers = count()

    def decided_bytes():
        other = FlowSpec(flow=f"{next(numbers)}", src="r2n0", dst="r2n1", size_bytes=1)
        network.start(other)  # so that rates are decided again
        network.next_event_s()
        return scheduler.sent_bytes["A"]

    for until_s in (1.1, 2.1, 6.1):
        network.advance(until_s)
        open_flows = set(network.rates_bytes_per_s())
        sent_bytes = sum(network.sent_bytes(flow) for flow in open_flows)
        sent_bytes += sum(size for flow, (*_, size) in ends.items() if flow not in open_flows)
        assert decided_bytes() == pytest.approx(sent_bytes)
    assert "A" not in open_flows
    network.cancel("A2")
    assert decided_bytes() == pytest.approx(sent_bytes)


class Looking(Sunflow):
    """Notes the weights of A's rows, and the links of NICs on their paths."""

    def decide(self, traffic):
        ports = {*np.flatnonzero(traffic.is_port).tolist(), len(traffic.capacities) - 1}
        for group in traffic.groups:
            if group.key == "A":
                ways = [frozenset(way) - ports for way in group.paths.T.tolist()]
                self.seen = list(zip(ways, group.weights.tolist(), strict=True))
                assert frozenset().union(*group.paths.T.tolist()) == set(places(group.crossed))
        return super().decide(traffic)


def test_a_group_s_rows_follow_the_flows_that_come_and_go():
    scheduler = Looking()
    network = fabric(scheduler)
    network.register_coflow("A")

    def start(flow, src, dst):
        network.start(FlowSpec(flow=flow, src=src, dst=dst, size_bytes=9 * GB, coflow="A"))

    def weights():
        network.next_event_s()
        return {way: weight for way, weight in scheduler.seen if weight}

    start("A", "r0n0", "r1n0")
    network.advance(0.1)
    assert list(weights().values()) == [1.0]
    start("A2", "r0n0", "r1n0")
    start("A3", "r0n1", "r1n0")
    seen = weights()
    assert sorted(seen.values()) == [1.0, 2.0]
    assert len(frozenset.intersection(*seen)) == 1, "the NIC of r1n0"
    network.cancel("A3")
    assert list(weights().values()) == [2.0]
    network.cancel("A")
    assert list(weights().values()) == [1.0]
