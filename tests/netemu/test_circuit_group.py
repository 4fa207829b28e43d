"""The flows of a pair of racks on one circuit, as a flow scheduler sees them."""

from itertools import count

import pytest

from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers.reference.sunflow import Sunflow
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
