"""The table of states: it is the page's, it is whole, and the core goes by it."""

from __future__ import annotations

from pathlib import Path

import pytest

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import JobId
from railyard.resourcemanager.core.state.lifecycles import LIFECYCLES, Lifecycle
from railyard.resourcemanager.driving.statepage import state_page
from tests.harness import tiny_cluster

PAGE = Path(__file__).parents[2] / "docs" / "states.md"


def test_the_page_of_states_is_drawn_from_the_table():
    assert PAGE.read_text(encoding="utf-8") == state_page(), "run scripts/state-diagrams"


@pytest.mark.parametrize("lifecycle", LIFECYCLES, ids=lambda lifecycle: lifecycle.kind)
def test_each_state_can_be_reached_and_left_for_an_end(lifecycle: Lifecycle):
    first = next(iter(lifecycle.states))
    reached, ending = {first}, set(lifecycle.ends)
    for _ in lifecycle.states:
        for before, _, after in lifecycle.transitions:
            reached |= {after} if before in reached else set()
            ending |= {before} if after in ending else set()
    assert reached == ending == set(lifecycle.states)
    assert len({(before, event) for before, event, _ in lifecycle.transitions}) == len(
        lifecycle.transitions
    )


def test_a_transition_that_the_table_does_not_have_is_refused():
    c = tiny_cluster()
    c.submit("j0", maps=1)
    job = c.core.state.jobs[JobId("j0")]
    with pytest.raises(InvariantError, match="job j0 is running: it can't be committed"):
        job.move("committed")
    with pytest.raises(InvariantError, match=r"task j0.m0 is running: it can't be launched"):
        job.stages["m"].tasks[0].move("launched")
    (attempt,) = job.stages["m"].live.values()
    with pytest.raises(InvariantError, match=r"attempt j0.m0.0 is running: it can't be without"):
        attempt.move("without its output")
    c.core.check_invariants()  # what was refused has changed nothing
