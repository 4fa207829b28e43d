"""Fetches that start and end together, in compiled loops or not: all is as if one by one."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.simulator.cluster import Simulation
from railyard.simulator.nodes.behaviour import Behaviour

pytestmark = pytest.mark.timeout(400)  # loops may have to be compiled

CONFIG = ClusterConfig(
    topology=load_topology("corral-7x30"), scheduler="capacity", flow_scheduler="maxmin"
)
JOINT = msgspec.structs.replace(
    CONFIG, topology=load_topology("joint-16x6"), scheduler="joint", flow_scheduler="afap"
)
HYBRID = msgspec.structs.replace(CONFIG, topology=load_topology("hybrid-8x4"), scheduler="fair")


def records(config: ClusterConfig, jobs: str, settings: dict[str, float], **how: bool) -> Any:
    """All that is recorded of a run's jobs, and what the network has carried."""
    run = Simulation(config, workload(jobs, 1), Behaviour(**settings), **how)
    run.run()
    run.core.check_invariants()
    assert not run.core.fetches
    found = [msgspec.structs.asdict(record) for record in run.core.records.values()]
    assert any(record["cct_s"] for record in found)
    assert all(record["ok"] for record in found)
    return found, run.network.stats()


@pytest.mark.parametrize(
    ("config", "flows", "jobs", "settings"),
    [
        pytest.param(CONFIG, "maxmin", "corral-w1,jobs=2,window=10", {}, id="exact"),
        pytest.param(CONFIG, "varys", "corral-w1,jobs=2,window=10", {}, id="coflows"),
        pytest.param(
            CONFIG, "maxmin", "corral-w1,jobs=2,window=10", {"together_s": 0.1}, id="rounded-times"
        ),
        pytest.param(
            CONFIG,
            "maxmin",
            "corral-w1,jobs=2,window=10",
            {"failures": 0.1, "stragglers": 0.1},
            id="failures",
        ),
        pytest.param(HYBRID, "sunflow", "corral-w1,jobs=2,window=10", {}, id="circuits"),
        pytest.param(
            JOINT, "afap", "joint,edges=jobs,work=1210s,median=20,jobs=3", {}, id="priorities"
        ),
    ],
)
def test_the_results_are_those_of_fetches_told_one_by_one(config, flows, jobs, settings):
    config = msgspec.structs.replace(config, flow_scheduler=flows)
    one_by_one = records(config, jobs, settings, one_by_one=True)
    assert records(config, jobs, settings, compiled=False) == one_by_one
    assert records(config, jobs, settings, compiled=True) == one_by_one


@pytest.mark.parametrize("scheduler", ["kmn", "shadow"])
def test_copies_that_are_given_up_have_their_fetches_cancelled(scheduler):
    config = msgspec.structs.replace(CONFIG, scheduler=scheduler)
    settings = {"stragglers": 0.3, "straggler_factor": 20.0}
    found = [
        records(config, "corral-w1,jobs=3,grain=6,arrivals=batch", settings, **how)
        for how in ({"one_by_one": True}, {"compiled": False}, {"compiled": True})
    ]
    assert found[0] == found[1] == found[2]
