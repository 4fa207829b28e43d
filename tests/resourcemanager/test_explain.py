"""Explanations of recorded runs: what was waited for, who answered what, and where things went."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from railyard.cluster.errors import UsageError
from railyard.resourcemanager.driving.explain import explain
from railyard.resourcemanager.driving.explanation import (
    FileExplanation,
    FlowExplanation,
    JobExplanation,
)
from railyard.resourcemanager.interface.events import DataAnnounced
from tests.resourcemanager.explained import Recorded
from tests.resourcemanager.schedulers.test_corral import plan_file


def held_out(folder: Path, node_wait_s: float) -> Recorded:
    """A job whose only map has its input on a node that has no slot; delay scheduling."""
    options = {"delay.node_wait_s": node_wait_s}
    run = Recorded(folder, "delay", options, racks=1, nodes=2, slots=1)
    run.c.store("in", blocks={"b0": ["r0n0"]})
    run.c.occupy("r0n0")
    run.c.submit("j0", input="in", map_s=1)
    run.c.run()
    return run


@pytest.mark.parametrize("node_wait_s", [2.0, 5.0])
def test_delay_says_how_long_it_held_out(node_wait_s: float, tmp_path: Path):
    e = held_out(tmp_path, node_wait_s).task("j0.m0")
    [wait] = e.waits
    assert (wait.from_s, wait.to_s, wait.who) == (0.0, node_wait_s, "delay/tasks")
    assert wait.why == "only a rack-local slot is free"
    [answer] = e.answers
    assert (answer.answer, answer.until_s, answer.nodes) == ("wait", node_wait_s, ("r0n1",))
    [story] = e.attempts
    assert story.chosen is not None
    assert story.chosen.why == f"rack-local after {node_wait_s:g} s"
    assert (story.node, story.slot_s, story.level) == ("r0n1", node_wait_s, "rack-local")
    assert story.replicas == ("r0n0",)
    assert story.chosen.free_nodes == {"rack-local": 1}
    assert (e.runnable_s, e.submitted_s, e.state) == (0.0, 0.0, "done")


def test_a_full_cluster_says_who_had_the_slots(tmp_path: Path):
    run = Recorded(tmp_path, "fair", racks=1, nodes=1, slots=2)
    c = run.c
    c.submit("j0", maps=6, map_s=2)
    c.submit("j1", maps=1, map_s=1, user="other")
    c.run()
    e = run.task("j1.m0")
    [wait] = e.waits
    assert (wait.from_s, wait.to_s, wait.who, wait.cause) == (0.0, 2.0, "core", "slots")
    assert e.turns.order == [(0.0, "0 jobs ahead (holds 0 of 2 slots)")]
    later = run.task("j0.m5")
    # each freed slot goes to whoever holds fewest: j1's one task is first, then j0's in order
    assert later.turns.slots == {"j0": 3, "j1": 1}


def test_reduces_say_what_the_shuffle_policy_held_them_for(tmp_path: Path):
    run = Recorded(tmp_path, "fair", racks=2, nodes=2, slots=1, flow_s=0.5)
    c = run.c
    c.submit("j0", maps=4, reduces=1, map_s=3)
    c.run()
    e = run.task("j0.r0")
    assert e.waits[0].who == "fair/shuffle"
    assert e.waits[0].why == "slow start: 0 of 4 tasks of m done, needs 1"
    assert e.runnable_s == 3.0
    [story] = e.attempts
    assert len(story.fetches) == 4
    assert {fetch.how for fetch in story.fetches} == {"finished"}
    assert max(fetch.ended_s or 0.0 for fetch in story.fetches) == 3.5


def test_an_attempt_that_failed_and_the_one_after_it(tmp_path: Path):
    run = Recorded(tmp_path, "fair", racks=1, nodes=2, slots=1)
    c = run.c
    c.failure = lambda attempt, node: "no luck" if attempt == "j0.m0.0" else None
    c.submit("j0", maps=1, map_s=1)
    c.run()
    e = run.task("j0.m0")
    assert [story.outcome for story in e.attempts] == ["failed: no luck", "succeeded"]
    only = run.task("j0.m0.1")
    assert [story.attempt for story in only.attempts] == ["j0.m0.1"]
    assert only.attempts[0].chosen is not None


def test_a_job_is_the_sum_of_its_stages(tmp_path: Path):
    e = held_out(tmp_path, 5.0).of("j0", JobExplanation)
    [stage] = e.stages
    assert (stage.stage, stage.tasks, stage.first_launch_s, stage.done_s) == ("j0.m", 1, 5.0, 6.0)
    assert stage.whys == {"rack-local after 5 s": 1}
    assert (stage.levels, stage.racks) == ({"rack-local": 1}, {"r0": 1})
    assert (e.ended_s, e.outcome) == (6.0, "succeeded")


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("j7", r"j7: there is no such job in .*; there are: j0"),
        ("j0.m3", r"j0.m3: there is no such task; j0 has one map \(j0.m0\)$"),
        ("j0.x1", r"j0.x1: there is no such task"),
        ("j0.m0.4", r"j0.m0.4: there is no such attempt; j0.m0 has j0.m0.0"),
        ("j0.m", r"j0.m: there is no such coflow; j0 has none"),
        ("j0.r0.0:r0n0:0", "there is no such flow"),
        ("r0-r9", "there is no rack r9; need two of r0 to r0"),
        ("/other", "no event is about it; there are: in"),
        ("nonsense", r"nonsense: need a job \(j3\), a task"),
    ],
)
def test_what_is_not_there_is_refused(what: str, error: str, tmp_path: Path):
    log = held_out(tmp_path, 5.0).log()
    with pytest.raises(UsageError, match=error):
        explain(log, what)


def test_a_run_that_goes_on_says_so(tmp_path: Path):
    run = Recorded(tmp_path, "fair", racks=1, nodes=1, slots=1)
    c = run.c
    c.submit("j0", maps=2, map_s=10)
    c.run(until_s=5.0)
    e = run.task("j0.m1")
    assert (e.state, e.attempts) == ("pending", [])
    assert [(wait.from_s, wait.why) for wait in e.waits] == [(0.0, "no slot is free")]
    story = run.attempt("j0.m0")
    assert (story.ended_s, story.outcome) == (None, "runs at the end of the record")


def test_a_flow_waits_for_the_one_before_it_from_the_same_node(tmp_path: Path):
    """Maps of two waves on one node; a fetch takes 5 s, so the second wave's waits for it."""
    run = Recorded(tmp_path, "fair", racks=1, nodes=2, slots=2, flow_s=5.0)
    run.c.submit("j0", maps=5, reduces=1, map_s=2)
    run.c.run()
    story = run.attempt("j0.r0")
    by_node: dict[str, list[Any]] = {}
    for fetch in story.fetches:
        by_node.setdefault(fetch.src, []).append(fetch)
    first, second = next(fetches for fetches in by_node.values() if len(fetches) == 2)
    e = run.of(second.flow, FlowExplanation)
    assert (e.before, e.before_ended_s) == (first.flow, first.started_s + 5.0)
    assert e.why == f"{first.flow} from {first.src} ended then: one at a time from each node"
    begun = run.of(first.flow, FlowExplanation)
    assert begun.before is None
    assert begun.why.startswith("its reader j0.r0.0 was launched then")
    assert begun.pair is None, "it stays within its rack"


def test_a_file_was_moved_as_the_data_policy_wanted(tmp_path: Path):
    run = Recorded(tmp_path, "centralized", racks=3, nodes=1, slots=2)
    run.c.set_slots("r1n0", 4)
    run.c.store("/in", [["r0n0"], ["r1n0"], ["r2n0"]])
    run.c.submit("j0", input="/in")
    run.c.run()
    e = run.of("/in", FileExplanation)
    assert e.blocks == [("r1n0",)] * 3
    moves = [(move.block, move.source, move.node, move.why, move.outcome) for move in e.moves]
    assert moves == [
        (0, None, "r1n0", "wanted in r1", "moved"),
        (2, None, "r1n0", "wanted in r1", "moved"),
    ]
    assert [(move.asked_s, move.ended_s) for move in e.moves] == [(0.0, 1.0)] * 2
    [reader] = e.readers
    assert (reader.job, reader.splits, reader.racks) == ("j0", 3, {"r0": 1, "r1": 1, "r2": 1})


def test_a_file_has_a_replica_in_the_racks_of_its_job_s_plan(tmp_path: Path):
    options = {"corral.plan": plan_file(tmp_path, 3, {"j0": "r1 r2"})}
    run = Recorded(tmp_path, "corral", options, racks=3)
    run.c.feed(DataAnnounced(path="/j0", size_bytes=400, job="j0"))
    e = run.of("/j0", FileExplanation)
    assert (e.racks, e.who, e.for_job) == ((("r1", "r2"),), "corral/data", "j0")
