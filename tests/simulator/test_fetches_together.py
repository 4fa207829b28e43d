"""Fetches that end at one time start others together; all is as if they did one by one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.messages.execution import StartFlow
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.simulator.cluster import Simulation
from railyard.simulator.faults.faultspec import parse_faults
from railyard.simulator.nodes.behaviour import Behaviour

CONFIG = ClusterConfig(
    topology=load_topology("corral-7x30"), scheduler="capacity", flow_scheduler="maxmin"
)
WORKLOAD = "corral-w1,jobs=2,window=10"


def events(path: Path, config: ClusterConfig, faults: str, *, together: bool, **settings) -> str:
    """The log of a run; without ``together``, its flows start and end one by one."""
    log = EventLog(path, config)
    wrong = parse_faults(faults, config.topology, 60.0) if faults else ()
    run = Simulation(config, workload(WORKLOAD, 1), Behaviour(**settings), wrong, log=log)
    sizes: list[int] = []

    def start_all(flows):
        sizes.append(len(flows))
        run.workers.start_flows(flows)

    def start_each(flows):
        for flow in flows:
            run.workers.start_flow(flow)

    def end_each(ends):
        for on_end in ends:
            on_end(0, "")

    run.driver.on_all(StartFlow, start_all if together else start_each)
    if not together:
        run.network.call_each = end_each
    run.run()
    log.close()
    assert not together or max(sizes) > 10
    return path.read_text()


@pytest.mark.parametrize(
    ("scheduler", "flows", "faults", "settings"),
    [
        pytest.param("capacity", "maxmin", "", {}, id="exact"),
        pytest.param("fair", "varys", "", {"variance": 0.3, "launch_s": 0.2}, id="late-starts"),
        pytest.param("co-scheduler", "maxmin", "", {"together_s": 0.1}, id="rounded-times"),
        pytest.param("capacity", "maxmin", "node:r0n1@5s+5s,rack:r2@8s+4s", {}, id="faults"),
    ],
)
def test_the_events_are_those_of_one_by_one(tmp_path, scheduler, flows, faults, settings):
    config = msgspec.structs.replace(CONFIG, scheduler=scheduler, flow_scheduler=flows)
    one, many = (
        events(tmp_path / f"{together}.jsonl", config, faults, together=together, **settings)
        for together in (False, True)
    )
    assert one == many
    assert one.count("flow-finished") > 1000
