"""Explanations of recorded runs: what was waited for, who answered what, and where things went."""

from __future__ import annotations

from pathlib import Path

import pytest

from railyard.cluster.errors import UsageError
from railyard.resourcemanager.driving.explaining.explain import explain
from railyard.resourcemanager.driving.explaining.explanation import JobExplanation, TaskExplanation
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.explained import explained, the_attempt, write_log


def held_out(node_wait_s: float) -> TinyCluster:
    """A job whose only map has its input on a node that has no slot; delay scheduling."""
    c = tiny_cluster(racks=1, nodes=2, slots=1, scheduler="delay", node_wait_s=node_wait_s)
    c.store("in", blocks={"b0": ["r0n0"]})
    c.occupy("r0n0")
    c.submit("j0", input="in", map_s=1)
    c.run()
    return c


@pytest.mark.parametrize("node_wait_s", [2.0, 5.0])
def test_delay_says_how_long_it_held_out(node_wait_s: float, tmp_path: Path):
    c = held_out(node_wait_s)
    e = explained(c, tmp_path, "j0.m0", TaskExplanation, delay__node_wait_s=node_wait_s)
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
    c = tiny_cluster(racks=1, nodes=1, slots=2, scheduler="fair")
    c.submit("j0", maps=6, map_s=2)
    c.submit("j1", maps=1, map_s=1, user="other")
    c.run()
    e = explained(c, tmp_path, "j1.m0", TaskExplanation)
    [wait] = e.waits
    assert (wait.from_s, wait.to_s, wait.who, wait.cause) == (0.0, 2.0, "core", "slots")
    assert e.turns.order == [(0.0, "0 jobs ahead (holds 0 of 2 slots)")]
    later = explained(c, tmp_path, "j0.m5", TaskExplanation)
    # each freed slot goes to whoever holds fewest: j1's one task is first, then j0's in order
    assert later.turns.slots == {"j0": 3, "j1": 1}


def test_reduces_say_what_the_shuffle_policy_held_them_for(tmp_path: Path):
    c = tiny_cluster(racks=2, nodes=2, slots=1, flow_s=0.5)
    c.submit("j0", maps=4, reduces=1, map_s=3)
    c.run()
    e = explained(c, tmp_path, "j0.r0", TaskExplanation)
    assert e.waits[0].who == "fair/shuffle"
    assert e.waits[0].why == "slow start: 0 of 4 m tasks done, needs 1"
    assert e.runnable_s == 3.0
    [story] = e.attempts
    assert len(story.fetches) == 4
    assert {fetch.how for fetch in story.fetches} == {"finished"}
    assert max(fetch.ended_s or 0.0 for fetch in story.fetches) == 3.5


def test_an_attempt_that_failed_and_the_one_after_it(tmp_path: Path):
    c = tiny_cluster(racks=1, nodes=2, slots=1)
    c.failure = lambda attempt, node: "no luck" if attempt == "j0.m0.0" else None
    c.submit("j0", maps=1, map_s=1)
    c.run()
    e = explained(c, tmp_path, "j0.m0", TaskExplanation)
    assert [story.outcome for story in e.attempts] == ["failed: no luck", "succeeded"]
    only = explained(c, tmp_path, "j0.m0.1", TaskExplanation)
    assert [story.attempt for story in only.attempts] == ["j0.m0.1"]
    assert only.attempts[0].chosen is not None


def test_a_job_is_the_sum_of_its_stages(tmp_path: Path):
    c = held_out(5.0)
    e = explained(c, tmp_path, "j0", JobExplanation, delay__node_wait_s=5.0)
    [stage] = e.stages
    assert (stage.stage, stage.tasks, stage.first_launch_s, stage.done_s) == ("j0.m", 1, 5.0, 6.0)
    assert stage.whys == {"rack-local after 5 s": 1}
    assert (stage.levels, stage.racks) == ({"rack-local": 1}, {"r0": 1})
    assert (e.ended_s, e.outcome) == (6.0, "succeeded")


@pytest.mark.parametrize(
    ("what", "error"),
    [
        ("j7", r"j7: there is no such job in .*; there are: j0"),
        ("j0.m3", r"j0.m3: there is no such task; j0 has j0.m0 to j0.m0"),
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
    log = write_log(held_out(5.0), tmp_path / "events.jsonl", {"delay.node_wait_s": 5.0})
    with pytest.raises(UsageError, match=error):
        explain(log, what)


def test_a_run_that_goes_on_says_so(tmp_path: Path):
    c = tiny_cluster(racks=1, nodes=1, slots=1)
    c.submit("j0", maps=2, map_s=10)
    c.run(until_s=5.0)
    e = explained(c, tmp_path, "j0.m1", TaskExplanation)
    assert (e.state, e.attempts) == ("pending", [])
    assert [(wait.from_s, wait.why) for wait in e.waits] == [(0.0, "no slot is free")]
    story = the_attempt(c, tmp_path, "j0.m0")
    assert (story.ended_s, story.outcome) == (None, "runs at the end of the record")
