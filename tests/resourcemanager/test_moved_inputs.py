"""Moves of inputs: proposed, checked, carried out; then tasks look for their blocks there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import NodeId
from railyard.resourcemanager.interface.commands import MoveBlock
from railyard.resourcemanager.interface.decisions import InvalidDecision, MoveInput, Proposal
from railyard.resourcemanager.interface.defaults import StoreDecides
from railyard.resourcemanager.interface.events import InputMoved, InputNotMoved
from railyard.resourcemanager.interface.policies import CopyPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView
from railyard.resourcemanager.schedulers import recipe_named
from tests.harness import tiny_cluster
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
