"""Many events that are computed at once come to the same as one after the other."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.cluster.topology import Topology, load_topology
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.model.flows import Finished, FlowSpec
from railyard.netemu.model.instants import instant_s
from railyard.netemu.schedulers import fast_version, flow_scheduler

GOES_AHEAD = ("aalo", "aalo+weighted", "sjf")
TOPOLOGY = "ports-150x1,racks.count=6"

#: When, and the flows of one coflow that come then.
Arrivals = list[tuple[float, list[FlowSpec]]]


@dataclass
class Run:
    """A network that is run to its end."""

    fabric: Fabric
    ahead: bool  #: whether many events may be computed at once
    ended: list[Finished] = field(default_factory=list)
    at_once: int = 0  #: events that were

    def until(self, before_s: float) -> None:
        fabric = self.fabric
        while fabric.now_s < before_s and (due_s := fabric.next_event_s()) < before_s:
            decided = fabric.decided
            ended = fabric.go_ahead(before_s) if self.ahead else None
            self.at_once += fabric.decided - decided
            assert fabric.now_s < before_s
            self.ended += fabric.advance(due_s) if ended is None else ended

    def all(self, arrivals: Arrivals) -> None:
        for at_s, flows in arrivals:
            self.until(at_s - instant_s(at_s))
            self.ended += self.fabric.advance(at_s)
            for coflow in {spec.coflow: None for spec in flows if spec.coflow is not None}:
                self.fabric.register_coflow(coflow)
            for spec in flows:
                self.fabric.start(spec)
        self.until(math.inf)


def fast_fabric(name: str, topology: Topology) -> Fabric:
    return Fabric(topology, flow_scheduler(name), fast=fast_version(name, 0))


def both(name: str, arrivals: Arrivals, topology: str = TOPOLOGY) -> tuple[Run, Run]:
    """The same, one event after the other and with many at once."""
    places = load_topology(topology)
    by_steps = Run(fast_fabric(name, places), ahead=False)
    at_once = Run(fast_fabric(name, places), ahead=True)
    for run in (by_steps, at_once):
        run.all(arrivals)
        assert run.fabric.open_flows == 0
    return by_steps, at_once


def random_shuffles(seed: int) -> Iterator[tuple[float, list[FlowSpec]]]:
    dice = random.Random(seed)
    nodes = [NodeId(f"r{rack}n0") for rack in range(6)]
    at_s, number = 0.0, 0
    for coflow in range(dice.randint(2, 6)):
        at_s += dice.choice([0.0, 0.01, 0.5, 3.0])
        flows = []
        alone = dice.random() < 0.1
        for dst in dice.sample(nodes, dice.randint(1, 6)):
            for src in dice.sample(nodes, dice.randint(1, 6)):
                # some that end together, and at a queue's limit
                size_bytes = int(10 ** dice.choice([6, 7, dice.uniform(3, 8.5)]))
                name = None if alone else CoflowId(f"c{coflow}")
                flow = FlowId(f"f{number}")
                flows.append(
                    FlowSpec(flow=flow, src=src, dst=dst, size_bytes=size_bytes, coflow=name)
                )
                number += 1
        yield at_s, flows


@pytest.mark.parametrize("name", GOES_AHEAD)
def test_flows_end_when_they_do_one_event_after_the_other(name):
    at_once = 0
    for seed in range(40):
        one, other = both(name, list(random_shuffles(seed)))
        at_once += other.at_once
        assert [flow.flow for flow in other.ended] == [flow.flow for flow in one.ended]
        ends_s = [flow.finished_s for flow in one.ended]
        assert [flow.finished_s for flow in other.ended] == pytest.approx(ends_s, rel=1e-12)
        assert other.fabric.decided == one.fabric.decided
        assert other.fabric.bytes_by_link() == one.fabric.bytes_by_link()
        assert other.fabric.finished_bytes == one.fabric.finished_bytes
    assert at_once > 500


@pytest.mark.parametrize("name", GOES_AHEAD)
def test_what_is_seen_in_between_is_the_same(name):
    places = load_topology(TOPOLOGY)
    (_, flows), *_ = random_shuffles(7)
    runs = [Run(fast_fabric(name, places), ahead=ahead) for ahead in (False, True)]
    for run in runs:
        run.fabric.register_coflow(CoflowId("c0"))
        for spec in flows:
            run.fabric.start(spec)
        run.until(0.3)
        run.ended += run.fabric.advance(0.3)
    one, other = (run.fabric for run in runs)
    assert runs[1].at_once > 0
    assert other.rates_bytes_per_s() == pytest.approx(one.rates_bytes_per_s())
    assert other.bytes_by_category() == one.bytes_by_category()
    assert [other.sent_bytes(flow) for flow in other.rates_bytes_per_s()] == pytest.approx(
        [one.sent_bytes(flow) for flow in one.rates_bytes_per_s()], abs=1
    )


def a_flow(name: str, src: str, dst: str, size_bytes: int, coflow: str) -> FlowSpec:
    return FlowSpec(
        flow=FlowId(name),
        src=NodeId(src),
        dst=NodeId(dst),
        size_bytes=size_bytes,
        coflow=CoflowId(coflow),
    )


def test_a_coflow_moves_to_its_next_queue_at_its_limit():
    # 1 Gbps, 125 MB/s: the first has sent 10 MB at .08 s, and its flow of 5 MB ended at .08 s, as
    # both had half of the link; from then on the second is first
    first = [
        a_flow("long", "r0n0", "r1n0", 125_000_000, "a"),
        a_flow("short", "r0n0", "r2n0", 5_000_000, "a"),
    ]
    second = [
        a_flow("x", "r0n0", "r3n0", 2_500_000, "b"),
        a_flow("y", "r0n0", "r4n0", 5_000_000, "b"),
    ]
    one, other = both("aalo", [(0.0, first), (0.01, second)])
    assert other.at_once > 0
    ends_s = {flow.flow: flow.finished_s for flow in other.ended}
    assert ends_s == pytest.approx({"short": 0.08, "x": 0.12, "y": 0.14, "long": 1.1})
    assert [flow.flow for flow in one.ended] == [flow.flow for flow in other.ended]


def test_several_flows_of_a_row_go_step_by_step():
    flows = [a_flow(f"f{number}", "r0n0", "r1n0", 10**6 * number, "a") for number in range(1, 9)]
    flows.append(a_flow("other", "r0n0", "r2n0", 10**9, "a"))
    one, other = both("aalo", [(0.0, flows)])
    assert [flow.flow for flow in other.ended] == [flow.flow for flow in one.ended]
    # once the last of them is alone in the row, nothing stands in the way but the coflow's end
    assert other.fabric.decided == one.fabric.decided


def test_a_flow_that_will_grow_stops_and_goes_on():
    for ahead in (False, True):
        run = Run(fast_fabric("aalo", load_topology(TOPOLOGY)), ahead=ahead)
        run.fabric.register_coflow(CoflowId("a"))
        grows = a_flow("grows", "r0n0", "r1n0", 10**6, "a")
        run.fabric.start(
            FlowSpec(
                flow=grows.flow,
                src=grows.src,
                dst=grows.dst,
                size_bytes=10**6,
                coflow=grows.coflow,
                more=True,
            )
        )
        for number in range(2, 5):
            run.fabric.start(a_flow(f"f{number}", "r0n0", f"r{number}n0", 10**7, "a"))
        run.until(0.1)
        run.ended += run.fabric.advance(0.1)
        assert run.ended == []
        assert run.fabric.sent_bytes(grows.flow) == 10**6
        run.fabric.grow(grows.flow, 10**6, more=False)
        run.until(math.inf)
        assert {flow.flow for flow in run.ended} == {"grows", "f2", "f3", "f4"}
        assert max(flow.finished_s for flow in run.ended) == pytest.approx(32 / 125)
        assert bool(run.at_once) == ahead


def test_circuits_and_references_are_never_ahead():
    fabric = Fabric(load_topology("hybrid-8x4"), flow_scheduler("sunflow"))
    assert fabric.go_ahead(math.inf) is None
    reference = Fabric(load_topology(TOPOLOGY), flow_scheduler("aalo"))
    reference.register_coflow(CoflowId("a"))
    reference.start(a_flow("f", "r0n0", "r1n0", 10**6, "a"))
    assert reference.go_ahead(math.inf) is None
    assert reference.now_s == 0.0
