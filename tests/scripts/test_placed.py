"""A simulation of an emulated run: the same blocks, and offers that begin at the same node."""

from pathlib import Path

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.jobs.workloads.model import InputFile, WorkloadJob, WorkStage
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.scripts.comparing.placed import last_node, placed_as_in
from tests.harness import TinyCluster, tiny_cluster
from tests.workloads import job_of, workload

BLOCKS = {"b0": ["r0n0", "r1n1"], "b1": ["r1n0", "r0n1"]}


def job(name: str, blocks: int = 2) -> WorkloadJob:
    file = InputFile(path=f"/{name}", size_bytes=100 * blocks, block_bytes=100)
    stage = WorkStage(name="m", files=(file.path,), tasks=blocks, output_bytes=0)
    return job_of(stage, name=name, files=(file,))


@pytest.fixture
def run() -> TinyCluster:
    """A job that generates something, then two over a file."""
    c = tiny_cluster(racks=2, nodes=2)
    c.store("in", blocks=BLOCKS)
    c.submit("j0", maps=3)
    c.run()
    c.submit("j1", input="in")
    c.run()
    c.submit("j2", input="in")
    c.run()
    return c


@pytest.fixture
def events(run: TinyCluster, tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, ClusterConfig(topology=run.topology, scheduler="fair"))
    for (at_s, event), commands in zip(run.events, run.led_to, strict=True):
        log.write(at_s, event, commands)
    log.close()
    return path


def test_blocks_are_where_the_run_had_them(events: Path):
    placed = placed_as_in(workload(job("j2"), job("j7"), job("j1", blocks=3)), events)
    files = {one.name: one.files[0].nodes for one in placed.jobs}
    assert files["j2"] == (("r0n0", "r1n1"), ("r1n0", "r0n1"))
    assert files["j7"] == files["j1"] == ()  # it did not run there, or not with so many


def test_the_node_that_had_its_turn_last_before_the_first_of_the_jobs(
    run: TinyCluster, events: Path
):
    nodes = run.run().nodes_of("j0.")
    assert len(nodes) == 3
    assert last_node(workload(job("j1"), job("j2")), events) == nodes[-1]
    nodes += run.run().nodes_of("j1.")
    assert last_node(workload(job("j2")), events) == nodes[-1]
    assert last_node(workload(job("j0"), job("j2")), events) is None


def test_offers_go_on_after_the_node_that_is_turned_to():
    """Each rack's first nodes come before any rack's second ones."""
    turns = ["r0n0", "r1n0", "r0n1", "r1n1"]
    for number, node in enumerate(turns):
        c = tiny_cluster(racks=2, nodes=2)
        c.core.state.start_offers_after(node)
        c.submit("j0", maps=4)
        assert c.run().nodes_of("j0.") == turns[number + 1 :] + turns[: number + 1]
