"""What holds for links, ports and bytes with circuits, whatever happens to flows and capacities."""

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.ids import rack_of
from railyard.netemu.schedulers.sunflow import Sunflow
from tests.netemu.circuit_events import Run, a_moment, fabric


class Checked(Run):
    """A network that is looked at each time that something happens to it."""

    def __init__(self, nic, wavelengths):
        super().__init__(fabric(Sunflow(), nic, wavelengths=wavelengths))
        self.wavelengths = wavelengths
        self.ends_of = {}  # {flow: (src, dst)}
        self.pair_of = {}  # {flow: (src, dst, coflow)}, racks
        self.sent = {}  # {flow: bytes}, of those that are closed
        self.size = {}

    def start(self, coflow, nodes, size_bytes, weight, more):
        flow = f"f{self.started}"
        super().start(coflow, nodes, size_bytes, weight, more)
        self.ends_of[flow], self.size[flow] = nodes, size_bytes
        self.pair_of[flow] = (*map(rack_of, nodes), coflow or f"flow {flow}")

    def cancel(self, number):
        sent = self._sent_by_now()
        super().cancel(number)
        self._close(sent)

    def grow(self, number, by_bytes, more):
        growing = [flow for flow, more in self.open.items() if more]
        if growing:
            self.size[growing[number % len(growing)]] += by_bytes
        super().grow(number, by_bytes, more)

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
        used = [one for one in circuits if one.coflow is not None]
        assert len({one[:3] for one in used}) == len(used), "a pair has two circuits"
        for one in used:
            ports = capacities[f"{one.src}.ocs.up"], capacities[f"{one.dst}.ocs.down"]
            is_dark = one.ready_s > self.fabric.now_s
            most = 0 if is_dark else min(ports) / self.wavelengths
            assert carried[one[:3]] <= most * (1 + 1e-9), one

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
