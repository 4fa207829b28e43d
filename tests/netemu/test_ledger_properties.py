"""Whatever happens to flows, whenever somebody looks: what senders are granted adds up."""

import contextlib
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from railyard.cluster.inputfile import build
from railyard.cluster.topology import Topology
from railyard.netemu.emulator.grants import Ledger
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import SetCapacity
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.oracles.orders import carry_out

MB = 10**6
DATA = {
    "name": "test",
    "racks": {"count": 3, "nodes": 1},
    "links": {"nic": "unlimited", "uplink": "8Mbps"},  # 1 MB/s
}
#: With circuits that take long to set up, which limit flows alone or together with NICs.
OPTICAL = {"ocs": {"port_bytes_per_s": "16Mbps", "delta_s": "300ms", "elephant_bytes": "500kB"}}
TOPOLOGIES = {
    "circuits": DATA | OPTICAL,
    "circuits and NICs": DATA | OPTICAL | {"links": {"nic": "12Mbps", "uplink": "8Mbps"}},
}
NODES = ["r0n0", "r1n0", "r2n0"]
PEERS = [b"ann", b"bob"]
FLOWS = [f"f{number}" for number in range(8)]

a_flow = st.sampled_from(FLOWS)
a_size = st.one_of(st.just(0), st.integers(1, 100), st.integers(1, 2 * MB))
a_peer = st.sampled_from(PEERS)
an_event = st.one_of(
    st.tuples(
        st.just("open"),
        a_flow,
        st.sampled_from(NODES),
        st.sampled_from(NODES),
        a_size,
        st.one_of(st.none(), a_peer),
        st.sampled_from([None, "j0"]),
    ),
    st.tuples(st.just("attach"), a_flow, a_peer),
    st.tuples(st.just("close"), a_flow),
    st.tuples(st.just("peer_gone"), a_peer),
    st.tuples(st.just("come_back"), a_flow, a_peer),
    st.tuples(st.just("restart"), st.permutations(FLOWS), st.integers(0, len(FLOWS))),
    st.tuples(
        st.just("set_capacity"),
        st.sampled_from(["r0.up", "r1.down", "r0.ocs.up", "r1.ocs.down"]),
        st.sampled_from([0.0, 1e4, 5e5, 1e6, math.inf]),
    ),
    # time passes, and nobody looks before the end of it, or everybody does at each turn
    st.tuples(st.just("wait"), st.floats(0, 2, allow_subnormal=False)),
    st.tuples(st.just("serve"), st.floats(0, 2, allow_subnormal=False)),
)


class LedgerRun:
    """What the senders of a ledger heard, checked as it comes."""

    def __init__(self, scheduler, data=DATA):
        self.scheduler, self.data = scheduler, data
        self.fabric = self.new_fabric()
        self.ledger = Ledger(self.fabric, scale=1)
        self.ledger.register_coflow("j0")
        self.capacity = {}
        self.size = {}  # {flow: bytes} of those that were opened and not closed
        self.sender = {}
        self.spec = {}  # {flow: how it was opened}
        self.own = set()  # flows that their senders opened
        self.total = {}  # {flow: bytes that its sender may send}
        self.finished = set()

    def do(self, event):
        what, *how = event
        with contextlib.suppress(ValueError):  # refused: the other checks find out if it changed
            getattr(self, what)(*how)
        self.hear()

    def new_fabric(self):
        return Fabric(build(self.data, Topology, "test"), flow_scheduler(self.scheduler))

    # What happens
    def open(self, flow, src, dst, size, sender, coflow):
        spec = FlowSpec(flow=flow, src=src, dst=dst, size_bytes=size, coflow=coflow)
        self.ledger.open(spec, sender)
        self.size[flow] = size
        self.spec[flow] = spec
        if sender is not None:
            self.sender[flow] = sender
            self.own.add(flow)

    def attach(self, flow, sender):
        self.ledger.attach(flow, sender)
        self.sender[flow] = sender

    def come_back(self, flow, peer):
        """A sender's connection broke, and there is a new one."""
        if flow not in self.sender:
            return
        self.tell_again(flow, peer)
        self.sender[flow] = peer
        self.total.pop(flow, None)

    def tell_again(self, flow, peer):
        granted = self.total.get(flow, 0)
        if flow in self.own:
            self.ledger.open(self.spec[flow], peer, again=True, sent_bytes=granted)
        else:
            self.ledger.attach(flow, peer, again=True, sent_bytes=granted)

    def restart(self, order, told_before):
        """Another emulator: senders report their flows, some before it knows the coflows."""
        before, pasts = self.fabric.now_s, self.ledger.pasts()
        self.fabric = self.new_fabric()
        self.ledger = Ledger(self.fabric, 1, pasts)
        self.ledger.advance(before)
        for link, bytes_per_s in self.capacity.items():
            carry_out(self.fabric, SetCapacity(link=link, bytes_per_s=bytes_per_s))
        of_jobs = [flow for flow in self.size if self.spec[flow].coflow is not None]
        for flow in self.size.keys() - self.own:
            if flow not in of_jobs:  # the ResourceManager opens flows of coflows only
                self.forget(flow)
        told = set()
        for flow in order[:told_before]:
            if flow in self.sender and not (flow in of_jobs and flow in self.own):
                self.tell_again(flow, self.sender[flow])
                told.add(flow)
        self.ledger.resume(["j0"], [self.spec[flow] for flow in of_jobs])
        for flow in order:
            if flow not in self.sender or flow in told:
                continue
            if flow in self.size:
                self.tell_again(flow, self.sender[flow])
            else:
                del self.sender[flow]  # nobody has opened it: that it is over is what it hears
                with pytest.raises(ValueError, match="is over"):
                    self.ledger.attach(flow, PEERS[0], again=True)

    def close(self, flow):
        self.ledger.close(flow)
        self.forget(flow)

    def peer_gone(self, peer):
        self.ledger.peer_gone(peer)
        for flow in [flow for flow, sender in self.sender.items() if sender == peer]:
            del self.sender[flow]
            self.total.pop(flow, None)
            if flow in self.size and not self.fabric.is_open(flow):
                self.forget(flow)

    def set_capacity(self, link, bytes_per_s):
        if ".ocs." in link and bytes_per_s == math.inf:
            return  # a port without limit is none that exists
        carry_out(self.fabric, SetCapacity(link=link, bytes_per_s=bytes_per_s))
        self.capacity[link] = bytes_per_s

    def wait(self, seconds):
        self.ledger.advance(self.fabric.now_s + seconds)

    def serve(self, seconds):
        until_s = self.fabric.now_s + seconds
        while (due_s := self.ledger.next_due_s()) <= until_s:
            self.ledger.advance(due_s)
            self.hear()
        self.ledger.advance(until_s)

    # What is heard of it
    def hear(self):
        for peer, grants in self.ledger.take_grants().items():
            for flow, total in grants.total_bytes.items():
                assert self.sender[flow] == peer
                assert flow not in self.finished
                assert total > self.total.get(flow, 0), "totals only rise"
                assert total <= self.size[flow]
                if self.fabric.is_open(flow):
                    assert total <= self.fabric.sent_bytes(flow)
                self.total[flow] = total
            for flow in grants.finished:
                assert self.sender.pop(flow) == peer
                assert not self.fabric.is_open(flow)
                self.forget(flow)

    def forget(self, flow):
        for kept in (self.size, self.sender, self.spec, self.total):
            kept.pop(flow, None)
        self.own.discard(flow)

    def finish(self):
        """Mend all links; then every flow with a sender ends."""
        for link in self.capacity:
            carry_out(self.fabric, SetCapacity(link=link, bytes_per_s=1e6))
        self.serve(1000.0)
        assert self.fabric.open_flows == 0
        assert not self.sender.keys() & self.size.keys(), "granted to the end, each once"


LIMIT_COMES_BACK = [
    ("set_capacity", "r0.up", math.inf),
    ("set_capacity", "r1.down", math.inf),
    ("open", "f0", "r0n0", "r1n0", 1, None, None),
]
#: The ResourceManager says that there is f1, whose sender has yet to come: its name is taken.
NAME_TAKEN_AFTER_A_RESTART = [
    ("open", "f1", "r0n0", "r1n0", 0, None, "j0"),
    ("restart", FLOWS, 0),
    ("open", "f1", "r0n0", "r0n0", 0, b"ann", None),
    ("wait", 0.0),
]


@pytest.mark.timeout(600)  # hypothesis takes long to shrink an example that fails
@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
@example(events=LIMIT_COMES_BACK)
@example(events=NAME_TAKEN_AFTER_A_RESTART)
@given(events=st.lists(an_event, min_size=1, max_size=40))
def test_grants_add_up_whatever_happens(scheduler, events):
    """Flows come, are closed and lose their senders; links shrink; turns are late.

    The emulator dies, and another goes on.
    """
    run = LedgerRun(scheduler)
    for event in events:
        run.do(event)
    run.finish()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("topology", TOPOLOGIES)
@given(events=st.lists(an_event, min_size=1, max_size=40))
def test_grants_add_up_on_circuits(topology, events):
    """The same under sunflow, where flows wait for circuits and ports fail."""
    run = LedgerRun("sunflow", TOPOLOGIES[topology])
    for event in events:
        run.do(event)
    run.finish()
