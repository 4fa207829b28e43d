"""Compiled loops stay within their arrays and come to an end."""

from __future__ import annotations

import random

import numpy as np
import pytest
from numba import njit

from railyard.benchmarks._exact.versions import check, random_case
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import FLOW_SCHEDULERS, fast_version, flow_scheduler
from tests.netemu.topologies import ends_by, ends_of_all, network_of

#: Loops are compiled if nobody has used them on this machine.
pytestmark = pytest.mark.timeout(600)

MB, GB = 10**6, 10**9


def on_circuits(racks: int, delta: str, fast: bool) -> Fabric:
    """One circuit at a port, of 1 GB/s."""
    ocs = {"port_bytes_per_s": "8Gbps", "delta_s": delta, "elephant_bytes": "1B"}
    return Fabric(
        network_of(racks, 1, "unlimited", "8Gbps", ocs=ocs),
        flow_scheduler("sunflow"),
        fast=fast_version("sunflow", from_flows=0) if fast else None,
        has_circuit_log=False,
    )


def start_matrix(fabric: Fabric, coflow: str, rows: list[str]) -> None:
    """Start a coflow of so many GB by row and column of racks."""
    fabric.register_coflow(coflow)
    for src, row in enumerate(rows):
        for dst, size in enumerate(row):
            if size != "0":
                ends = {"src": f"r{src}n0", "dst": f"r{dst}n0", "size_bytes": int(size) * GB}
                fabric.start(FlowSpec(flow=f"{coflow}.{src}.{dst}", coflow=coflow, **ends))


@pytest.mark.parametrize("fast", [False, True], ids=["reference", "compiled"])
def test_a_booked_port_that_another_coflow_holds_is_listed_once(fast):
    fabric = on_circuits(4, "1s", fast)
    start_matrix(fabric, "a", ["0011", "0021", "0000", "1200"])
    start_matrix(fabric, "b", ["0002", "0000", "0001", "0000"])
    ends = ends_of_all(fabric)
    by_coflow = {name: max(ends[flow] for flow in ends if flow[0] == name) for name in "ab"}
    assert sorted(by_coflow.values()) == [5.0, 9.0]  # by exact fractions


@pytest.mark.parametrize("fast", [False, True], ids=["reference", "compiled"])
def test_a_port_that_was_booked_is_looked_at_again_by_the_version_that_takes_over(fast):
    fabric = on_circuits(4, "16ms", fast)
    for coflow in "ab":
        fabric.register_coflow(coflow)

    def start(coflow: str, src: int, dst: int, size_bytes: int) -> None:
        ends = {"src": f"r{src}n0", "dst": f"r{dst}n0"}
        flow = f"{coflow}.{src}.{dst}"
        fabric.start(FlowSpec(flow=flow, coflow=coflow, size_bytes=size_bytes, **ends))

    start("a", 2, 3, 3 * GB // 100)  # until .016 + .03 s
    start("a", 1, 3, 1000)  # then
    fabric.advance(0.04)
    start("b", 1, 0, 1)  # must not be in the way of that, as it seems
    start("b", 2, 3, 10**15)
    assert fabric.next_event_s() == pytest.approx(0.046)
    fabric.set_capacity("r3.ocs.down", GB / 100)  # so that it is not, after all
    assert fabric.next_event_s() == pytest.approx(0.046)
    fabric.set_capacity("r0n0.up", GB)  # the compiled version takes over
    ends: dict[str, float] = {}
    while "b.1.0" not in ends:
        ends |= ends_by(fabric, fabric.next_event_s())
    assert ends == {"b.1.0": pytest.approx(0.046 + 0.016 + 1e-9)}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_hundred_coflows_on_six_racks_end_as_by_the_reference(seed):
    ends = []
    for fast in (False, True):
        dice, fabric = random.Random(seed), on_circuits(6, "16ms", fast)
        for number in range(200):
            coflow = f"c{number}"
            fabric.register_coflow(coflow)
            for flow in range(dice.randint(1, 15)):
                src, dst = dice.sample(range(6), 2)
                ends_at = {"src": f"r{src}n0", "dst": f"r{dst}n0"}
                size_bytes = dice.randint(1, 500) * 10**6
                spec = {"flow": f"{coflow}.{flow}", "coflow": coflow, "size_bytes": size_bytes}
                fabric.start(FlowSpec(**spec, **ends_at))
            fabric.advance(fabric.now_s + dice.random())
        ends.append(ends_of_all(fabric))
    assert ends[1] == pytest.approx(ends[0])


@pytest.mark.parametrize("fast", [False, True], ids=["reference", "compiled"])
def test_a_flow_that_grows_asks_for_its_bandwidth_anew(fast):
    version = fast_version("afap", from_flows=0) if fast else None
    fabric = Fabric(network_of(2, 1, "8Gbps", "8Gbps"), flow_scheduler("afap"), fast=version)
    ends = {"src": "r0n0", "dst": "r1n0"}
    fabric.start(FlowSpec(flow="z", size_bytes=10**12, priority=(9.0,), **ends))
    assert fabric.next_event_s() == 1000.0
    fabric.start(FlowSpec(flow="a", size_bytes=10**9, priority=(1.0,), more=True, **ends))
    assert fabric.next_event_s() == 1000.0
    fabric.grow("a", 10**9, False)
    assert ends_of_all(fabric) == {"z": 1000.0, "a": 1002.0}


def of_one_coflow(scheduler: str, uplink: str, flows: list[tuple[str, str, float]]) -> Fabric:
    """Flows of 1 MB from rack to rack, with their weights, under a compiled version."""
    network, version = network_of(3, 1, "unlimited", uplink), fast_version(scheduler, from_flows=0)
    fabric = Fabric(network, flow_scheduler(scheduler), fast=version)
    fabric.register_coflow("c")
    for number, (src, dst, weight) in enumerate(flows):
        ends = {"src": f"{src}n0", "dst": f"{dst}n0", "size_bytes": MB}
        fabric.start(FlowSpec(flow=f"f{number}", coflow="c", weight=weight, **ends))
    return fabric


BY_LEVELS = ["maxmin", "aalo", "aalo+weighted"]


@pytest.mark.parametrize("scheduler", BY_LEVELS)
def test_weights_behind_a_shut_link_leave_no_rounding_on_other_links(scheduler):
    fabric = of_one_coflow(scheduler, "8Gbps", [("r1", "r0", 1e6), ("r2", "r0", 1e-5)])
    fabric.set_capacity("r1.up", 0.0)
    fabric.set_capacity("r0.down", 5e8)
    assert fabric.next_event_s() == pytest.approx(0.002, rel=1e-9)


@pytest.mark.parametrize("scheduler", BY_LEVELS)
def test_a_small_weight_beside_a_large_one_does_not_slow_it_down(scheduler):
    flows = [("r0", "r1", 1e6), ("r0", "r2", 1e-6), ("r2", "r1", 1e-6)]
    ends = ends_of_all(of_one_coflow(scheduler, "24Mbps", flows))
    each_s = MB / 3e6  # the small ones have each a link to themselves once the large one has ended
    assert ends == pytest.approx({"f0": each_s, "f1": 2 * each_s, "f2": 2 * each_s}, rel=1e-9)


@pytest.mark.parametrize("scheduler", ["maxmin", "sunflow"])
def test_a_random_case_goes_on_until_its_flows_have_ended(scheduler: str):
    cases = [random_case(scheduler, seed) for seed in range(20)]
    late = [end_s > case.moments[-1][0] for case in cases for end_s in case.ends.values()]
    assert sum(late) > len(late) / 4


@njit(cache=True)
def past_the_end(array):
    return array[array.size]


def test_loops_of_all_tests_check_their_indices():
    with pytest.raises(IndexError):
        past_the_end(np.zeros(1))


@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
def test_compiled_schedulers_do_as_the_reference_does(scheduler):
    found = [check(scheduler, seed) for seed in range(60)]
    assert not [each for each in found if each["wrong"]]


def test_circuits_are_not_asked_for_again_and_again_while_a_nodes_link_is_shut():
    ocs = {"port_bytes_per_s": "8Gbps", "delta_s": "100ms", "elephant_bytes": "1B"}
    network = network_of(4, 1, "unlimited", "24Mbps", ocs=ocs)
    fabric = Fabric(network, flow_scheduler("sunflow"))
    for coflow in "abc":
        fabric.register_coflow(coflow)
    fabric.start(FlowSpec(flow="a", src="r0n0", dst="r3n0", size_bytes=GB // 10, coflow="a"))
    fabric.start(FlowSpec(flow="b", src="r0n0", dst="r2n0", size_bytes=GB, coflow="b"))
    fabric.advance(0.15)
    fabric.set_capacity("r0n0.up", 0.0)  # b would book r2 for when a has ended
    fabric.advance(0.2)
    fabric.start(FlowSpec(flow="c", src="r1n0", dst="r2n0", size_bytes=2 * GB, coflow="c"))
    events = 0
    while fabric.open_flows > 2 and events < 1000:
        fabric.advance(fabric.next_event_s())
        events += 1
    assert events < 20
    assert fabric.now_s == pytest.approx(2.3)  # c's circuit was set up at once
