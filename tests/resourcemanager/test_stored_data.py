"""Where the data of jobs is: reported in events of bounded size, to recipes that use it."""

from __future__ import annotations

import json

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.resourcemanager.driving.datastored import report_data
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.interface.events import DATA_BLOCKS_MAX, DataBlock, DataStored
from railyard.resourcemanager.interface.policies import DataPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers import recipe_named
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.simulator.cluster import Simulation
from tests.harness import TinyCluster, tiny_cluster


class Looks(DataPolicy):
    """Leaves data where it is, and looks at it."""

    uses_data = True

    def __init__(self, config, cluster):
        super().__init__(config, cluster)
        self.readers = []

    def replica_racks(self, data):
        return ()

    def data_stored(self, path, jobs):
        self.readers.append((path, jobs))


LOOKS = Recipe(name="looks", source="a test", order=FairOrder, data=Looks)


def blocks(count: int, node: str = "r0n0") -> list[DataBlock]:
    return [DataBlock(at * 10, 100, (node,)) for at in range(count)]


class FeedsOnly:
    """A driver of a tiny cluster, as far as ``report_data`` uses one."""

    def __init__(self, c: TinyCluster) -> None:
        self.core, self.feed = c.core, c.feed


def test_a_view_shows_the_blocks_of_a_file():
    c = tiny_cluster(racks=2, scheduler=LOOKS)
    report_data(FeedsOnly(c), "/in", [DataBlock(0, 100, ("r0n0", "r1n0")), DataBlock(10, 7, ())])
    first, last = c.core.state.data["/in"]
    assert (first.size_bytes, first.nodes, first.moving_to) == (100, ("r0n0", "r1n0"), None)
    assert (last.size_bytes, last.nodes) == (7, ())


def test_a_large_file_comes_in_several_events_and_the_same_is_not_told_twice():
    c = tiny_cluster(racks=2, scheduler=LOOKS)
    count = 2 * DATA_BLOCKS_MAX + 1
    for _ in range(2):
        report_data(FeedsOnly(c), "/in", blocks(count), ["j0"])
    assert c.core.state.policies.data.readers == [("/in", ()), ("/in", ()), ("/in", ("j0",))]
    reported = [event for _, event in c.events if isinstance(event, DataStored)]
    assert [(e.first, len(e.blocks)) for e in reported] == [
        (0, DATA_BLOCKS_MAX),
        (DATA_BLOCKS_MAX, DATA_BLOCKS_MAX),
        (2 * DATA_BLOCKS_MAX, 1),
    ]
    assert len(c.core.state.data["/in"]) == count
    report_data(FeedsOnly(c), "/in", blocks(3, "r1n0"))
    assert [block.nodes for block in c.core.state.data["/in"]] == [("r1n0",)] * 3


def test_blocks_come_in_order():
    c = tiny_cluster(scheduler=LOOKS)
    c.feed(DataStored(path="/in", blocks=tuple(blocks(2))))
    with pytest.raises(PeerError, match="/in: first = 3: need 0 or 2, the next block"):
        c.feed(DataStored(path="/in", blocks=tuple(blocks(1)), first=3))
    c.feed(DataStored(path="/in", blocks=tuple(blocks(1)), first=2))
    assert len(c.core.state.data["/in"]) == 3


def test_those_who_do_not_look_are_told_nothing():
    c = tiny_cluster()
    report_data(FeedsOnly(c), "/in", blocks(2))
    assert not any(isinstance(event, DataStored) for _, event in c.events)
    assert not recipe_named("corral").uses_data
    assert LOOKS.uses_data


def test_simulated_data_is_told_before_jobs_come_and_a_run_replays(tmp_path, monkeypatch):
    topology = load_topology("flat-4x4")
    made = workload("corral-w1,jobs=2,skew=2,arrivals=poisson,gap=10s,grain=12", 1, 4)
    log = tmp_path / "events.jsonl"
    config = ClusterConfig(topology=topology)
    events = EventLog(log, config)
    run = Simulation(config, made, log=events, recipe=LOOKS)
    run.run()
    events.close()
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    kinds = [row["type"] for row in rows]
    assert kinds.count("data-stored") == 2
    assert max(at for at, kind in enumerate(kinds) if kind == "data-stored") < kinds.index(
        "job-submitted"
    ), "all input is stored before the first job comes, and is where it was when they come"
    for job in made.jobs:
        [file] = job.files
        [reported] = [r for r in rows if r["type"] == "data-stored" and r["path"] == file.path]
        assert reported["jobs"] == [job.name]
        assert [size for _, size, _ in reported["blocks"]] == file.block_sizes()
        submitted = next(r for r in rows if r["type"] == "job-submitted" and r["name"] == job.name)
        inputs = submitted["stages"][0]["inputs"]
        assert [nodes for _, _, nodes in reported["blocks"]] == [task["nodes"] for task in inputs]
    monkeypatch.setattr(
        "railyard.resourcemanager.driving.makecore.recipe_named", lambda name: LOOKS
    )
    assert sum(1 for _ in replay(log)) == len(rows) - 1
