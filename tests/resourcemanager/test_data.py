"""Moves of inputs: proposed, checked, carried out; then tasks look for their blocks there."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId, RackId
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.driving.orders import report_data
from railyard.resourcemanager.interface.commands import MoveBlock, PlaceData
from railyard.resourcemanager.interface.decisions import InvalidDecision, MoveInput, Proposal
from railyard.resourcemanager.interface.defaults import StoreDecides
from railyard.resourcemanager.interface.events import (
    DATA_BLOCKS_MAX,
    DataAnnounced,
    DataBlock,
    DataStored,
    InputMoved,
    InputNotMoved,
)
from railyard.resourcemanager.interface.policies import CopyPolicy, DataPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView
from railyard.resourcemanager.schedulers import recipe_named
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.simulator.simulation import Simulation
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.toys import copying, moving

Propose = Callable[[ClusterView], Iterable[Proposal]]


def proposing(propose: Propose) -> Recipe:
    class Moves(StoreDecides):
        heard: list[tuple[str, str, int]] = []

        def propose(self) -> Iterable[Proposal]:
            return propose(self.cluster)

        def input_moved(self, path: str, block: int) -> None:
            self.heard.append(("moved", path, block))

        def input_not_moved(self, path: str, block: int) -> None:
            self.heard.append(("not moved", path, block))

    return moving(Moves)


def once(*moves: MoveInput) -> Propose:
    """Propose these moves as soon as the data is there."""
    left = list(moves)

    def propose(cluster: ClusterView) -> Iterable[Proposal]:
        while left and cluster.data:
            yield left.pop(0)

    return propose


def test_a_block_is_moved_and_tasks_of_later_jobs_find_it_there():
    recipe = proposing(once(MoveInput("in", 0, NodeId("r1n0"))))
    c = tiny_cluster(racks=2, nodes=1, slots=1, scheduler=recipe)
    c.store("in", [["r0n0"]])
    assert c.moves() == [MoveBlock(path="in", block=0, node="r1n0", source=None)]
    [block] = c.core.state.data["in"]
    assert (block.nodes, block.moving_to) == (("r0n0",), "r1n0")
    c.run()
    assert (block.nodes, block.moving_to) == (("r1n0",), None)
    assert recipe.data.heard == [("moved", "in", 0)]
    c.submit("j0", input="in")
    assert c.run().placements == [("j0.m0", "r1n0", 1.0)]


def test_pending_tasks_look_for_a_block_where_it_is_now():
    recipe = proposing(once(MoveInput("in", 1, NodeId("r1n0"), NodeId("r0n0"))))
    c = tiny_cluster(racks=2, nodes=1, slots=1, scheduler=recipe)
    for node in ("r0n0", "r1n0"):
        c.occupy(node)
    c.store("in", [["r0n0"], ["r0n0"], ["r0n0"]])
    c.submit("j0", input="in")
    c.run(until_s=2)
    stage = c.core.state.jobs["j0"].stages["m"]
    assert [task.input.nodes for task in stage.tasks] == [("r0n0",), ("r1n0",), ("r0n0",)]
    assert stage.pending.closest("r1n0", "r1") == (1, "node-local")
    assert stage.pending.closest("r0n0", "r0") == (0, "node-local")
    c.vacate("r1n0")
    assert c.run(until_s=2).placements == [("j0.m1", "r1n0", 2.0)]
    assert c.core.state.jobs["j0"].submission.stages[0].inputs[1].nodes == ("r0n0",)


def test_a_task_that_fails_looks_where_its_block_was_moved_to_meanwhile():
    recipe = proposing(once(MoveInput("in", 0, NodeId("r1n0"))))
    c = tiny_cluster(racks=2, nodes=1, slots=1, scheduler=recipe)
    c.move_s = 3.0
    c.failure = lambda attempt, node: "it broke" if attempt == "j0.m0.0" else None
    c.store("in", [["r0n0"]])
    c.submit("j0", input="in", map_s=5.0)
    run = c.run()
    assert [(node, when) for _, node, when in run.placements] == [("r0n0", 0.0), ("r1n0", 5.0)]
    assert run.ended == {"j0": ""}


def test_a_job_that_waits_for_a_near_slot_is_asked_again_after_a_move():
    class Moves(StoreDecides):
        def propose(self) -> Iterable[Proposal]:
            data = self.cluster.data.get("in", ())
            asked = self.cluster.jobs and data and data[0].moving_to is None
            if asked and data[0].nodes == ("r0n0",):
                yield MoveInput("in", 0, NodeId("r1n0"))

    recipe = replace(recipe_named("delay"), data=Moves)
    c = tiny_cluster(racks=2, nodes=1, slots=1, scheduler=recipe, node_wait_s=50.0)
    c.occupy("r0n0")
    c.store("in", [["r0n0"]])
    c.submit("j0", input="in")
    assert c.run(until_s=0.9).placements == []
    assert c.run(until_s=1.0).placements == [("j0.m0", "r1n0", 1.0)]


def test_a_move_that_fails_leaves_the_block_and_is_told():
    recipe = proposing(once(MoveInput("in", 0, NodeId("r1n0"))))
    c = tiny_cluster(racks=2, nodes=1, scheduler=recipe)
    c.move_failure = lambda move: "the disk is full"
    c.store("in", [["r0n0"]])
    c.run()
    [block] = c.core.state.data["in"]
    assert (block.nodes, block.moving_to) == (("r0n0",), None)
    assert recipe.data.heard == [("not moved", "in", 0)]
    assert any(isinstance(event, InputNotMoved) for _, event in c.events)


def test_a_file_that_is_told_of_again_is_still_being_moved():
    c = tiny_cluster(
        racks=2, nodes=1, scheduler=proposing(once(MoveInput("in", 0, NodeId("r1n0"))))
    )
    c.store("in", [["r0n0"]])
    c.store("in", [["r0n0"], ["r0n0"]])
    assert [block.moving_to for block in c.core.state.data["in"]] == ["r1n0", None]
    c.run()
    assert [block.nodes for block in c.core.state.data["in"]] == [("r1n0",), ("r0n0",)]


@pytest.mark.parametrize(
    ("move", "why"),
    [
        (
            MoveInput("no", 0, NodeId("r1n0")),
            "move block 0 of no .*0 blocks of it are known",
        ),
        (MoveInput("in", 1, NodeId("r1n0")), "1 blocks of it are known"),
        (MoveInput("in", -1, NodeId("r1n0")), "1 blocks of it are known"),
        (MoveInput("in", 0, NodeId("r9n0")), "there is no such node"),
        (MoveInput("in", 0, NodeId("r2n0")), "r2n0 is lost"),
        (MoveInput("in", 0, NodeId("r0n0")), "it is there already"),
        (MoveInput("in", 0, NodeId("r1n0"), NodeId("r1n0")), "it is not on r1n0, from where"),
    ],
)
def test_impossible_moves_stop_the_core(move: MoveInput, why: str):
    c = tiny_cluster(racks=3, nodes=1, scheduler=proposing(once(move)))
    c.lose("r2n0")
    with pytest.raises(InvalidDecision, match=f"moving/data proposed to .*{why}"):
        c.store("in", [["r0n0"]])


def test_a_block_is_not_moved_twice_at_once():
    moves = (MoveInput("in", 0, NodeId("r1n0")), MoveInput("in", 0, NodeId("r2n0")))
    c = tiny_cluster(racks=3, nodes=1, scheduler=proposing(once(*moves)))
    with pytest.raises(InvalidDecision, match="it is being moved to r1n0"):
        c.store("in", [["r0n0"]])


def test_moves_are_the_data_policys():
    class Copies(CopyPolicy):
        uses_data = True

        def propose(self) -> Iterable[Proposal]:
            if self.cluster.data:
                yield MoveInput("in", 0, NodeId("r1n0"))

    c = tiny_cluster(racks=2, nodes=1, scheduler=copying(Copies))
    with pytest.raises(InvalidDecision, match=r"copies proposed a MoveInput.*the data policy's"):
        c.store("in", [["r0n0"]])


def test_moves_that_nobody_ordered_cannot_be():
    c = tiny_cluster()
    with pytest.raises(PeerError, match="in: there is no block 0 that could have been moved"):
        c.feed(InputMoved(path="in", block=0, nodes=()))


# Where the data of jobs is: reported in events of bounded size, to recipes that use it.


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
        "railyard.resourcemanager.driving.coredriver.recipe_named", lambda name: LOOKS
    )
    assert sum(1 for _ in replay(log)) == len(rows) - 1


# Where data goes is asked before it is written: the policy answers, the core checks.


class LargeFilesApart(DataPolicy):
    """Each replica of a large file in a rack of its own."""

    def replica_racks(self, data):
        if data.path == "/nowhere":
            return [["r7"]]
        if data.path == "/broken":
            raise KeyError("oops")
        return [[RackId("r0")], [RackId("r1")], []] if data.size_bytes > 100 else []


RECIPE = Recipe(name="apart", source="a test", order=FairOrder, data=LargeFilesApart)


def placed(c: TinyCluster, path: str, size_bytes: int) -> PlaceData:
    c.feed(DataAnnounced(path=path, size_bytes=size_bytes))
    command = c.commands[-1][1]
    assert isinstance(command, PlaceData)
    return command


def test_the_policy_names_racks_for_each_replica():
    c = tiny_cluster(racks=2, scheduler=RECIPE)
    assert placed(c, "/in", 101).racks == (("r0",), ("r1",), ())
    assert placed(c, "/in", 100).racks == ()


def test_by_default_the_block_store_goes_by_its_own_rule():
    assert placed(tiny_cluster(), "/in", 10**9).racks == ()


def test_wrong_answers_and_wrong_questions_are_refused():
    c = tiny_cluster(racks=2, scheduler=RECIPE)
    with pytest.raises(InvalidDecision, match=r"apart/data placed /nowhere in r7 at 0.000 s, but"):
        placed(c, "/nowhere", 1)
    with pytest.raises(InvalidDecision, match=r"apart/data failed at 0.000 s, placing /broken: Ke"):
        placed(c, "/broken", 1)
    with pytest.raises(PeerError, match="/in: size_bytes = -1: need bytes >= 0"):
        placed(c, "/in", -1)


def test_a_job_passes_racks_on_to_those_who_write_its_output():
    c = tiny_cluster(racks=2)
    racks = ((RackId("r1"),), (RackId("r0"),))
    c.submit("j0", reduces=1, output_racks=racks)
    c.run()
    launched = {order.task.stage: order.task.output_racks for order in c.launched()}
    assert launched == {"m": (), "r": racks}
