"""The fast version of each flow scheduler decides what its reference decides."""

from __future__ import annotations

import math
import random
import resource
from collections.abc import Iterator

import pytest

from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.cluster.topology import load_topology
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import FLOW_SCHEDULERS, fast_version, flow_scheduler

#: What rates may differ by: rounding, which decides of near-equal shares too.
CLOSE = {"rel": 1e-6, "abs": 1e-3}

UNLIMITED = "ports-150x1,racks.count=3,racks.nodes=2"
TOPOLOGIES = ("ports-150x1,racks.count=6", "hybrid-8x4,racks.count=3", "joint-16x6,racks.count=8")


class Pair:
    """Two networks to which the same happens: one has the reference, one the fast version."""

    def __init__(self, topology: str, name: str, seed: int) -> None:
        self.dice = random.Random(seed)
        places = load_topology(topology)
        self.reference = Fabric(places, flow_scheduler(name))
        self.fast = Fabric(places, flow_scheduler(name), fast=fast_version(name, 0))
        self.nodes = [node.id for rack in places.rack_list() for node in rack.nodes]
        self.links = list(self.reference.network.number)
        self.started = 0
        self.coflows: list[CoflowId] = []

    def both(self, method: str, *args: object) -> None:
        for fabric in (self.reference, self.fast):
            getattr(fabric, method)(*args)

    def start(self, coflow: CoflowId | None, src: NodeId, dst: NodeId, size_bytes: int) -> None:
        spec = FlowSpec(
            flow=FlowId(f"f{self.started}"),
            src=src,
            dst=dst,
            size_bytes=size_bytes,
            coflow=coflow,
            weight=self.dice.choice([1.0, 1.0, 2.5]),
            priority=self.dice.choice([(), (1.0,), (1.0, 2.0)]),
        )
        self.started += 1
        self.both("start", spec)

    def shuffle(self) -> None:
        """A coflow of several sources and destinations."""
        dice = self.dice
        coflow = CoflowId(f"c{len(self.coflows)}")
        self.coflows.append(coflow)
        self.both("register_coflow", coflow)
        width = len(self.nodes)
        for dst in dice.sample(self.nodes, dice.randint(1, width)):
            size_bytes = int(10 ** dice.uniform(5, 9))
            for src in dice.sample(self.nodes, dice.randint(1, width)):
                self.start(coflow, src, dst, size_bytes)

    def single(self) -> None:
        src, dst = self.dice.sample(self.nodes, 2)
        coflow = self.dice.choice([None, *self.coflows])
        self.start(coflow, src, dst, int(10 ** self.dice.uniform(4, 9)))

    def cancel(self) -> None:
        flow = FlowId(f"f{self.dice.randrange(self.started)}")
        self.both("cancel", flow)

    def limit(self) -> None:
        link = self.dice.choice(self.links)
        before = self.reference.capacities_bytes_per_s()[link]
        self.both("set_capacity", link, self.dice.choice([0.0, before / 2 or 1e6, 1e8, 3e8]))

    def wait(self) -> None:
        """Until the next event, or half of the time that it is away."""
        dues_s = self.reference.next_event_s(), self.fast.next_event_s()
        assert dues_s[1] == pytest.approx(dues_s[0], rel=1e-9)
        if dues_s[0] == math.inf:
            return
        if self.dice.random() < 0.25:
            until_s = (self.reference.now_s + dues_s[0]) / 2
            dues_s = until_s, until_s
        assert ends(self.reference, dues_s[0]) == ends(self.fast, dues_s[1])

    def step(self) -> None:
        deeds = [self.shuffle, self.single, self.cancel, self.limit, *[self.wait] * 12]
        self.dice.choice(deeds if self.started else [self.shuffle])()
        assert self.fast.rates_bytes_per_s() == pytest.approx(
            self.reference.rates_bytes_per_s(), **CLOSE
        )


def network(topology: str, name: str, from_flows: float) -> Fabric:
    """One in which the fast version takes over from so many open flows on."""
    fast = fast_version(name, from_flows)
    return Fabric(load_topology(topology), flow_scheduler(name), fast=fast)


def ends(fabric: Fabric, until_s: float) -> set[str]:
    """The flows that have finished by then, or finish at the same time but for rounding."""
    fabric.together_s = 1e-6
    return {done.flow for done in fabric.advance(max(until_s, fabric.now_s))}


@pytest.mark.parametrize("name", sorted(FLOW_SCHEDULERS))
def test_rates_are_those_of_the_reference(name: str) -> None:
    for seed, topology in enumerate(TOPOLOGIES):  # one test: its process compiles the loops once
        pair = Pair(topology, name, seed)
        pair.shuffle()
        for _ in range(100):
            pair.step()


@pytest.mark.parametrize("name", ["maxmin", "aalo", "aalo+weighted"])
def test_links_of_nodes_get_limits_and_lose_them(name: str) -> None:
    """Loops look at links up to the last that has a limit; those of nodes come last."""
    pair = Pair(UNLIMITED, name, seed=1)
    pair.shuffle()
    last, first = "r2n1.down", "r0n0.up"
    assert pair.links.index(last) > pair.links.index(first)
    for link, bytes_per_s in [(last, 1e7), (first, 2e7), (last, math.inf), (first, math.inf)]:
        pair.both("set_capacity", link, bytes_per_s)
        assert pair.fast.rates_bytes_per_s() == pytest.approx(
            pair.reference.rates_bytes_per_s(), **CLOSE
        )
        pair.shuffle()
        for _ in range(3):
            pair.wait()


@pytest.mark.parametrize("from_flows", [0, math.inf], ids=["fast", "reference"])
def test_varys_knows_what_a_coflow_has_left_in_its_last_moments(from_flows: float) -> None:
    """At 10,000 s the clock can't tell 2 bytes more from fewer; rates must still fit the links."""
    fabric = network("ports-150x1,racks.count=6", "varys", from_flows)
    fabric.advance(10_000.0)
    big, small = CoflowId("big"), CoflowId("small")
    fabric.register_coflow(big)
    fabric.register_coflow(small)
    ends = [(f"b{row}", f"r{row + 1}n0", "r0n0", big) for row in range(3)]
    for flow, src, dst, coflow in ends:
        fabric.start(spec(flow, src, dst, coflow))
    most_bytes_per_s = fabric.capacities_bytes_per_s()["r0.down"]
    ends_s = fabric.next_event_s()
    for number, before_s in enumerate((1.0, 1e-3, 1e-6, 1e-8, 3e-9)):
        fabric.advance(ends_s - before_s)
        fabric.start(spec(f"s{number}", "r5n0", "r4n0", small))
        rates = fabric.rates_bytes_per_s()
        taken_bytes_per_s = sum(rate for flow, rate in rates.items() if flow[0] == "b")
        assert taken_bytes_per_s == pytest.approx(most_bytes_per_s, rel=1e-12)


def spec(flow: str, src: str, dst: str, coflow: CoflowId) -> FlowSpec:
    """A gigabyte."""
    return FlowSpec(
        flow=FlowId(flow), src=NodeId(src), dst=NodeId(dst), size_bytes=10**9, coflow=coflow
    )


@pytest.mark.parametrize("lacks_bytes", [5e-4, 1e-5])
@pytest.mark.parametrize("from_flows", [0, math.inf], ids=["fast", "reference"])
def test_aalo_moves_a_coflow_that_is_at_its_limit_as_its_rates_are_set(
    from_flows: float, lacks_bytes: float
) -> None:
    """What it lacks to 10 MB is rounding: the other one, which has sent nothing, goes first."""
    fabric = network("ports-150x1,racks.count=2", "aalo", from_flows)
    most_bytes_per_s = fabric.capacities_bytes_per_s()["r0.up"]
    for name in ("first", "second"):
        fabric.register_coflow(CoflowId(name))
        fabric.start(spec(name, "r0n0", "r1n0", CoflowId(name)))
    fabric.next_event_s()
    fabric.advance((10e6 - lacks_bytes) / most_bytes_per_s)
    fabric.set_capacity("r0.up", most_bytes_per_s / 2)
    half = most_bytes_per_s / 2
    assert fabric.rates_bytes_per_s() == {"first": 0.0, "second": half}
    fabric.advance(fabric.now_s + 9e6 / half)
    assert fabric.rates_bytes_per_s() == {"first": 0.0, "second": half}
    fabric.advance(fabric.now_s + 2e6 / half)
    assert fabric.rates_bytes_per_s() == {"first": half, "second": 0.0}


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Two more GB at most: a loop without an end must not take all that the machine has."""
    usual = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as statm:
        now_bytes = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now_bytes + 2 * 10**9, usual[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, usual)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("name", sorted(FLOW_SCHEDULERS))
def test_a_flow_with_an_unlimited_rate_is_taken_over_by_the_loops(name: str) -> None:
    """The reference gave it its rate at this very instant: 0 s at an unlimited rate."""
    fabric = network(UNLIMITED, name, 3)
    start_within_rack(fabric, "a")
    assert fabric.rate_bytes_per_s(FlowId("a")) == math.inf
    for number in range(3):
        start_within_rack(fabric, f"f{number}")
    assert fabric.next_event_s() == 0.0
    assert len(fabric.advance(0.0)) == 4


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("from_flows", [0, math.inf], ids=["fast", "reference"])
@pytest.mark.parametrize("name", sorted(FLOW_SCHEDULERS))
def test_a_link_gets_a_limit_at_the_instant_at_which_it_had_none(
    name: str, from_flows: float
) -> None:
    fabric = network(UNLIMITED, name, from_flows)
    for number in range(3):
        start_within_rack(fabric, f"f{number}")
    assert fabric.rate_bytes_per_s(FlowId("f0")) == math.inf
    fabric.set_capacity("r0n0.up", 3e8)
    assert sum(fabric.rates_bytes_per_s().values()) == pytest.approx(3e8)


def start_within_rack(fabric: Fabric, flow: str) -> None:
    ends = NodeId("r0n0"), NodeId("r0n1")
    fabric.start(FlowSpec(flow=FlowId(flow), src=ends[0], dst=ends[1], size_bytes=10**9))
