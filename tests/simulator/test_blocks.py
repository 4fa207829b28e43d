"""tests.simulator.test_blocks."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.config import ClusterConfig
from railyard.cluster.faults import Fault
from railyard.cluster.ids import NodeId
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Storage
from railyard.dfs.messages import CheckFiles, CheckReport, HeldBlock
from railyard.jobs.workloads.model import InputFile, WorkloadJob, WorkStage
from railyard.oracles.faults.toys import DiceMoves
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.interface.decisions import MoveInput, Proposal
from railyard.resourcemanager.interface.defaults import StoreDecides
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.simulator.blockstore import Disks
from railyard.simulator.simulation import Simulation
from tests.resourcemanager.toys import moving
from tests.workloads import MB, job_of, topology, workload

NODES = ("r0n0", "r0n1", "r1n0")
some = st.lists(st.sampled_from(NODES), unique=True).map(tuple)
steps = st.tuples(st.sampled_from(["put", "add", "remove"]), st.integers(0, 3), some)


@given(st.lists(steps, max_size=30))
def test_a_node_holds_what_was_put_there_and_not_removed(steps):
    disks, plain = Disks(), {node: {} for node in NODES}
    for step, block, nodes in steps:
        size_bytes = 10 + block
        if step == "put":
            disks.put(block, size_bytes, nodes)
            for held in plain.values():
                held.pop(block, None)
        for node in nodes:
            if step == "add":
                disks.add(block, size_bytes, node)
            if step == "remove":
                disks.remove(block, node)
                plain[node].pop(block, None)
            else:
                plain[node][block] = HeldBlock(block=block, stored_length=size_bytes)
        for node in NODES:
            assert [disks.has(block, node) for block in range(4)] == [
                block in plain[node] for block in range(4)
            ]
    assert {n: set(held) for n, held in disks.held(NODES).items()} == {
        n: set(held.values()) for n, held in plain.items()
    }
    assert list(disks.held(NODES[:1])) == ["r0n0"]


# Moves of blocks in virtual time: flows between nodes, then tasks run there; faults; replay.


def place(replication: int = 1) -> Topology:
    """Two racks of two nodes with a slot."""
    return topology(2, 2, storage=Storage(block=100 * MB, replication=replication))


def job(nodes: tuple[tuple[str, ...], ...] = (), submit_s: float = 0.0, blocks: int = 1):
    file = InputFile(path="/in", size_bytes=blocks * 100 * MB, block_bytes=100 * MB, nodes=nodes)
    stage = WorkStage(name="m", files=("/in",), tasks=blocks, output_bytes=0)
    return job_of(stage, name=f"job{submit_s:g}", submit_s=submit_s, files=(file,))


def simulation(recipe: Recipe, *jobs: WorkloadJob, faults: tuple[Fault, ...] = (), **settings):
    config = ClusterConfig(topology=settings.pop("topology", place()), seed=settings.pop("seed", 1))
    return Simulation(config, workload(*jobs), faults=faults, recipe=recipe, **settings)


class ToR1(StoreDecides):
    """Each block to r1n0, at once."""

    def propose(self) -> Iterable[Proposal]:
        node = self.cluster.nodes.get(NodeId("r1n0"))
        for path, blocks in self.cluster.data.items():
            for number, block in enumerate(blocks):
                if node and node.alive and block.moving_to is None and node.id not in block.nodes:
                    yield MoveInput(path, number, node.id)


def healthy(run: Simulation) -> CheckReport:
    report = run.store.send(CheckFiles(path="/"))
    assert isinstance(report, CheckReport)
    assert report.healthy
    assert not report.over_replicated
    return report


def test_a_move_takes_as_long_as_its_flow_and_later_jobs_read_there():
    run = simulation(moving(ToR1), job(nodes=(("r0n0",),), submit_s=5.0))
    run.run()
    [record] = run.core.records.values()
    assert record.finished_s == pytest.approx(5.0 + 2.0), "its block is beside it"
    assert run.store.namenode.blocks.load == {"r0n0": 0, "r0n1": 0, "r1n0": 100 * MB, "r1n1": 0}
    summary = run.summary()
    assert summary["bytes"]["cross_rack"] == summary["bytes"]["eps"] == 100 * MB
    assert summary["locality"]["node"] == 1
    healthy(run)


def test_a_running_task_reads_on_from_where_it_began():
    # The map reads 100 MB from r0n0 to r0n1, as r0n0 has no slot; the block moves meanwhile.
    class Late(ToR1):
        def propose(self) -> Iterable[Proposal]:
            return super().propose() if self.cluster.jobs else ()

    run = simulation(moving(Late), job(nodes=(("r0n0",),)), job(nodes=(("r0n0",),), submit_s=9.0))
    run.run()
    assert [record.ok for record in run.core.records.values()] == [True, True]
    assert run.core.state.data["/in"][0].nodes == ("r1n0",)
    healthy(run)


@pytest.mark.parametrize("lost", ["r0n0", "r1n0"])
def test_a_node_that_is_lost_during_a_move_leaves_the_block_where_it_was(lost: str):
    heard = []

    class Once(ToR1):
        def propose(self) -> Iterable[Proposal]:
            return () if heard else super().propose()

        def input_moved(self, path: str, block: int) -> None:
            heard.append("moved")

        def input_not_moved(self, path: str, block: int) -> None:
            heard.append("not moved")

    faults = (Fault(kind="node", at_s=0.5, target=NodeId(lost), lasts_s=2.0),)
    wanted = job(nodes=(("r0n0", "r0n1"),), submit_s=4.0)
    run = simulation(moving(Once), wanted, faults=faults, topology=place(replication=2))
    run.run()
    assert heard[:1] in (["not moved"], ["moved"])
    [record] = run.core.records.values()
    assert record.ok
    if lost == "r1n0":
        assert heard == ["not moved"]
        assert set(run.store.locate(next(iter(run.store.namenode.blocks.blocks)))) == {
            "r0n0",
            "r0n1",
        }
    for _ in range(4):
        run.store.tick()
    healthy(run)


@pytest.mark.parametrize("seed", range(8))
def test_moves_by_dice_among_faults_replay(tmp_path, monkeypatch, seed: int):
    recipe = moving(DiceMoves)
    log = tmp_path / "events.jsonl"
    doubled = place(replication=2)
    config = ClusterConfig(topology=doubled, seed=seed)
    events = EventLog(log, config)
    jobs = tuple(job(submit_s=at, blocks=8) for at in (0.0, 3.0, 6.0))
    faults = (Fault(kind="node", at_s=2.0, target=NodeId("r0n1"), lasts_s=3.0),)
    run = Simulation(config, workload(*jobs), faults=faults, log=events, recipe=recipe)
    run.run()
    events.close()
    assert all(record.ok for record in run.core.records.values())
    kinds = [json.loads(line)["type"] for line in log.read_text().splitlines()]
    assert kinds.count("input-moved") > 0
    monkeypatch.setattr(
        "railyard.resourcemanager.driving.coredriver.recipe_named", lambda _: recipe
    )
    assert sum(1 for _ in replay(log)) == len(kinds) - 1
