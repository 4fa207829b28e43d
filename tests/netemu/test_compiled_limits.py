"""Compiled loops stay within their arrays and come to an end."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from railyard.benchmarks._exact.versions import random_case
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import fast_version, flow_scheduler
from tests.netemu.topologies import ends_of_all, network_of

#: Loops are compiled if nobody has used them on this machine.
pytestmark = pytest.mark.timeout(600)

GB = 10**9


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


#: Few cases of each: what takes time here is to compile all loops anew.
CHECKED = """
from railyard.benchmarks._exact.differential import circuit_disagreements
from railyard.benchmarks._exact.versions import check
from railyard.netemu.schedulers import FLOW_SCHEDULERS

for scheduler in sorted(FLOW_SCHEDULERS):
    for seed in range(60):
        found = check(scheduler, seed)
        assert not found["wrong"], (scheduler, found)
for seed in range(60):
    assert not list(circuit_disagreements(seed))
"""


@pytest.mark.parametrize("scheduler", ["maxmin", "sunflow"])
def test_a_random_case_goes_on_until_its_flows_have_ended(scheduler: str):
    cases = [random_case(scheduler, seed) for seed in range(20)]
    late = [end_s > case.moments[-1][0] for case in cases for end_s in case.ends.values()]
    assert sum(late) > len(late) / 4


def test_no_compiled_loop_leaves_its_arrays(tmp_path: Path):
    """With bounds checked, which numba keeps apart from other loops only by their folder."""
    checked = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-c", CHECKED]
    ended = subprocess.run(
        command, env=os.environ | checked, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


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
