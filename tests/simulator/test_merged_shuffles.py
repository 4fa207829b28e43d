from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from railyard.resourcemanager.core.shuffling.merging import Bundle

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.simulator.cluster import Simulation
from railyard.simulator.nodes.behaviour import Behaviour

CONFIG = ClusterConfig(
    topology=load_topology("corral-7x30"), scheduler="capacity", flow_scheduler="maxmin"
)
#: 143 tasks; the larger of its two shuffles is of 2,948 pairs
WORKLOAD = "corral-w1,jobs=2,window=10"


def run_with(flows: int, log: EventLog | None = None) -> Simulation:
    jobs = workload(WORKLOAD, 1)
    run = Simulation(CONFIG, jobs, Behaviour(shuffle_flows=flows), log=log)
    run.run()
    return run


def jcts_s(run: Simulation) -> list[float]:
    return [job["jct_s"] for job in run.summary()["jobs"]]


def ccts_s(run: Simulation) -> list[float]:
    return [cct_s for record in run.core.records.values() for cct_s in record.cct_s]


def test_shuffles_of_few_pairs_are_not_merged():
    assert jcts_s(run_with(5000)) == jcts_s(run_with(0))


@pytest.mark.parametrize("flows", [100, 400])
def test_merged_shuffles_carry_all_bytes_in_nearly_the_same_time(flows: int):
    exact, merged = run_with(0), run_with(flows)
    assert merged.network.counts.opened < exact.network.counts.opened / 2
    records = [list(run.core.records.values()) for run in (exact, merged)]
    assert [r.shuffled_bytes for r in records[0]] == [r.shuffled_bytes for r in records[1]]
    assert jcts_s(merged) == pytest.approx(jcts_s(exact), rel=0.05)
    assert ccts_s(merged) == pytest.approx(ccts_s(exact), rel=0.1)


@dataclass(eq=False)
class Place:
    """As much of a node as a bundle looks at."""

    name: str


def test_a_merged_flow_comes_from_each_node_as_often_as_its_share_of_the_bytes():
    readers, sizes = 1000, {"r0n0": (3, 5), "r0n1": (1, 5), "r1n0": (2, 10), "r1n1": (1, 0)}
    nodes = {name: Place(name) for name in sizes}
    outputs = [
        SimpleNamespace(
            id=f"j0.m{name}.{number}",
            node=nodes[name],
            task=SimpleNamespace(stage=SimpleNamespace(name="m"), index=number),
            partition_bytes=(size_bytes,) * readers,
        )
        for name, (count, size_bytes) in sizes.items()
        for number in range(count)
    ]
    bundle = Bundle(tuple(outputs), tuple(nodes.values()))
    served = Counter[str]()
    for reader in range(readers):
        node, size_bytes = bundle.for_reader(reader)
        served[node.name] += 1
        assert size_bytes == 40
    for name, (count, size_bytes) in sizes.items():
        assert served[name] == pytest.approx(readers * count * size_bytes / 40, abs=3)


def test_flows_that_end_together_change_little():
    jobs = workload(WORKLOAD, 1)
    exact, rough = (Simulation(CONFIG, jobs, Behaviour(together_s=t)) for t in (0.0, 0.05))
    for run in (exact, rough):
        run.run()
    assert jcts_s(rough) == pytest.approx(jcts_s(exact), abs=0.5)
    assert jcts_s(rough) != jcts_s(exact)


def test_settings_that_are_out_of_range_are_refused():
    with pytest.raises(UsageError, match="shuffle_flows"):
        Behaviour(shuffle_flows=-1)
