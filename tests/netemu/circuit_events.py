"""What can happen to a network with circuits, drawn by hypothesis, and a network to do it to."""

import math

from hypothesis import strategies as st

from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import CloseFlow, FinishCoflow, RegisterCoflow, SetCapacity
from railyard.netemu.model.flows import FlowSpec
from railyard.oracles.orders import carry_out, open_flows
from tests.netemu.topologies import network_of

GB = 10**9
RACKS = 3
NODES = [f"r{rack}n{node}" for rack in range(RACKS) for node in (0, 1)]


def topology(nic="8Gbps", racks=RACKS, nodes=2, **ocs):
    """Two wavelengths of 2 GB/s a rack; NICs of 1 GB/s, which packets share with circuits.

    Without a limit to NICs, nothing but their circuit limits the flows on it.
    """
    return network_of(
        racks,
        nodes,
        nic,
        "12Gbps",
        ocs={
            "port_bytes_per_s": "16Gbps",
            "delta_s": "100ms",
            "elephant_bytes": "1GB",
            "wavelengths": 2,
            **ocs,
        },
    )


def fabric(scheduler, nic="8Gbps", **ocs):
    """A network of that topology."""
    return Fabric(topology(nic, **ocs), scheduler)


COFLOWS = ["a", "b", "c"]
LINKS = ["r0n0.up", "r1n1.down", "r2n0.down", "r0.up", "r1.down", "r0.ocs.up", "r2.ocs.down"]

a_node = st.sampled_from(NODES)
a_size = st.integers(1, 40).map(lambda tenths: tenths * GB // 10)
a_number = st.integers(0, 9)
a_start = st.tuples(
    st.just("start"),
    st.sampled_from([None, *COFLOWS]),
    st.tuples(a_node, a_node),
    a_size,
    st.sampled_from([1.0, 1.0, 2.5]),
)
an_event = st.one_of(
    a_start,
    a_start,
    a_start,
    st.tuples(st.just("cancel"), a_number),
    st.tuples(st.just("finish_coflow"), st.sampled_from(COFLOWS)),
    st.tuples(  # a port fails or works again
        st.just("set_capacity"),
        st.sampled_from([f"r{rack}.ocs.{way}" for rack in range(RACKS) for way in ("up", "down")]),
        st.sampled_from([0.0, 0.0, 4.0 * GB]),
    ),
    st.tuples(
        st.just("set_capacity"),
        st.sampled_from(LINKS),
        st.sampled_from([0.0, 0.3 * GB, 0.7 * GB, 1.0 * GB, 2.0 * GB, math.inf]),
    ),
)
#: what happens at one time, and for how many tenths of a second nothing does after it
a_moment = st.tuples(st.lists(an_event, min_size=1, max_size=3), st.integers(0, 9))


class Run:
    """A network, with what happens to it."""

    def __init__(self, made):
        self.fabric = made
        self.usual = self.fabric.capacities_bytes_per_s()
        self.started = 0
        self.open = []
        self.ends = {}
        for coflow in COFLOWS:
            carry_out(self.fabric, RegisterCoflow(coflow=coflow))

    def do(self, event):
        what, *how = event
        getattr(self, what)(*how)

    def start(self, coflow, nodes, size_bytes, weight):
        flow = f"f{self.started}"
        src, dst = nodes
        spec = FlowSpec(
            flow=flow, src=src, dst=dst, size_bytes=size_bytes, coflow=coflow, weight=weight
        )
        open_flows(self.fabric, spec)
        self.started += 1
        self.open.append(flow)

    def cancel(self, number):
        if self.open:
            flow = self.open.pop(number % len(self.open))
            carry_out(self.fabric, CloseFlow(flow=flow))

    def finish_coflow(self, coflow):
        for flow in self.fabric.flows_of(coflow):
            self.open.remove(flow)
        carry_out(self.fabric, FinishCoflow(coflow=coflow))
        carry_out(self.fabric, RegisterCoflow(coflow=coflow))

    def set_capacity(self, link, bytes_per_s):
        if ".ocs." not in link or bytes_per_s < math.inf:
            carry_out(self.fabric, SetCapacity(link=link, bytes_per_s=bytes_per_s))

    def wait(self, seconds):
        self.take(self.fabric.handle(None, self.fabric.now_s + seconds))

    def take(self, finished):
        for ended in finished:
            self.ends[ended.flow] = ended.finished_s
            self.open.remove(ended.flow)

    def finish(self):
        """Mend all links, and let all flows end."""
        for link, bytes_per_s in self.usual.items():
            carry_out(self.fabric, SetCapacity(link=link, bytes_per_s=bytes_per_s))
        for _ in range(200):
            if not self.open:
                return
            self.wait(1.0)
        raise AssertionError("flows are stuck")
