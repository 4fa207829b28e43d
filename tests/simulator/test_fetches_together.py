"""Fetches that end at one time start others together, or are rows; attempts report their progress
together: all is as if one by one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.messages.execution import StartFlow
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.shuffling.rowmessages import StartFetches
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.simulator.cluster import Simulation
from railyard.simulator.faults.faultspec import parse_faults
from railyard.simulator.nodes.behaviour import Behaviour

CONFIG = ClusterConfig(
    topology=load_topology("corral-7x30"), scheduler="capacity", flow_scheduler="maxmin"
)
WORKLOAD = "corral-w1,jobs=2,window=10"


def events(path: Path, config: ClusterConfig, faults: str, *, how: str, **settings) -> str:
    """The log of a run; ``how`` its flows start and end: "one by one", "together" or as "rows"."""
    log, together = EventLog(path, config), how != "one by one"
    wrong = parse_faults(faults, config.topology, 60.0) if faults else ()
    run = Simulation(
        config, workload(WORKLOAD, 1), Behaviour(**settings), wrong, log=log, rows=how == "rows"
    )
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

    def start_rows(command):
        sizes.append(len(command.fetches))
        run.workers.start_fetches(command)

    run.driver.on(StartFetches, start_rows)
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
def test_the_events_are_those_of_one_by_one(
    tmp_path, monkeypatch, scheduler, flows, faults, settings
):
    config = msgspec.structs.replace(CONFIG, scheduler=scheduler, flow_scheduler=flows)
    many = events(tmp_path / "together.jsonl", config, faults, how="together", **settings)
    monkeypatch.setattr(Core, "only_notes_progress", False)
    one = events(tmp_path / "one.jsonl", config, faults, how="one by one", **settings)
    assert one == many
    assert one.count("attempt-progressed") > 1000
    assert one.count("flow-finished") > 1000


@pytest.mark.parametrize(
    ("scheduler", "settings"),
    [
        pytest.param("capacity", {}, id="exact"),
        pytest.param("capacity", {"failures": 0.1, "stragglers": 0.1}, id="failures"),
        pytest.param("co-scheduler", {"together_s": 0.1}, id="rounded-times"),
    ],
)
def test_the_events_are_those_of_fetches_that_are_no_rows(tmp_path, scheduler, settings):
    config = msgspec.structs.replace(CONFIG, scheduler=scheduler)
    objects, rows = (
        events(tmp_path / f"{how}.jsonl", config, "", how=how, **settings)
        for how in ("together", "rows")
    )
    assert objects == rows
    assert objects.count("flow-finished") > 1000
