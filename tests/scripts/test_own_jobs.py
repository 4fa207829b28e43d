"""A job of one's own under every scheduler, in virtual time."""

from __future__ import annotations

import pytest

from railyard.cluster.topology import load_topology
from railyard.jobs.mixes.mixes import Defaults
from railyard.resourcemanager.schedulers import all_recipes
from railyard.scripts.clusters.config import cluster_config
from railyard.scripts.clusters.pairs import pair_of
from railyard.scripts.simulating.virtual import VirtualRun, run_virtually
from railyard.scripts.simulating.workloads import measured_jobs
from tests.integration.test_joins import JOIN

TOPOLOGY = load_topology("hybrid-8x4")


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "join.py").write_text(JOIN)
    (folder / "orders").mkdir()
    for part in range(3):
        rows = [f"o{part}{at},{at % 50},{at}\n" for at in range(300)]
        (folder / "orders" / f"{part}.csv").write_text("".join(rows))
    (folder / "customers").write_text("".join(f"{at},name{at}\n" for at in range(60)))
    inputs = (f"orders={folder}/orders/*.csv", f"customers={folder}/customers")
    defaults = Defaults(size_bytes=1, inputs=inputs)
    return measured_jobs([f"{folder}/join.py"], defaults, TOPOLOGY, 1)


@pytest.mark.parametrize("scheduler", sorted(all_recipes()))
def test_a_join_of_ones_own_ends_under_every_scheduler(workload, scheduler):
    config = cluster_config(TOPOLOGY, pair=pair_of(scheduler, None), options=(), seed=1)
    [job] = run_virtually(VirtualRun(config=config, workload=workload))["jobs"]
    assert job["ok"], job
    assert (job["maps"], job["input_bytes"]) == (4, workload.jobs[0].input_bytes)
