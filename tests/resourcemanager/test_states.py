"""The table of states: it is the page's, it is whole, and the core goes by it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.reference_pages import page
from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import JobId, node_id, rack_id, rack_of
from railyard.oracles.invariants import check_core, misplaced
from railyard.resourcemanager.core.jobs import Node
from railyard.resourcemanager.core.lifecycles import LIFECYCLES, Lifecycle
from railyard.resourcemanager.core.pending import PendingTasks
from railyard.resourcemanager.interface.events import TaskInput
from tests.harness import tiny_cluster

PAGE = Path(__file__).parents[2] / "docs" / "states.md"


def test_the_page_of_states_is_drawn_from_the_table():
    assert PAGE.read_text(encoding="utf-8") == page("states.md"), "run scripts/state-diagrams"


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
    check_core(c.core)  # what was refused has changed nothing


# The pending tasks of a stage, found by place: how near the nearest is, against all of them.


_NODES = [node_id(rack_id(rack), index) for rack in range(3) for index in range(2)]
_INPUTS = st.lists(st.lists(st.sampled_from(_NODES), max_size=2, unique=True), max_size=5)


@given(_INPUTS, st.lists(st.integers(0, 4), max_size=8))
def test_nearness_is_that_of_the_closest(places, changes):
    inputs = [TaskInput(nodes=tuple(nodes)) for nodes in places]
    pending = PendingTasks(len(inputs), inputs)
    pending.add_all()
    for index in [None, *changes]:
        if index is not None and index < len(inputs):
            (pending.remove if index in pending else pending.add)(index)
        for node in _NODES:
            slot = Node(node, rack_of(node), 1, (0, 0, ""))
            levels = {pending.level(task, node, slot.rack) for task in pending}
            near = [level for level in ("node-local", "rack-local", "anywhere") if level in levels]
            expected = near[0] if near else ("remote" if levels else "anywhere")
            assert pending.nearness(slot) == expected
            index_there, level = pending.closest(node, slot.rack)
            assert index_there is None or level == expected


@given(
    _INPUTS, st.lists(st.tuples(st.integers(0, 4), st.lists(st.sampled_from(_NODES))), max_size=8)
)
def test_a_task_with_input_that_has_moved_is_found_there_only(places, moves):
    inputs = [TaskInput(nodes=tuple(nodes)) for nodes in places]
    pending = PendingTasks(len(inputs), inputs)
    pending.add_all()
    for at, (index, nodes) in enumerate(moves):
        if index >= len(inputs):
            continue
        if at % 3 == 1:  # also those that are not pending, and pending again
            (pending.remove if index in pending else pending.add)(index)
        there = TaskInput(nodes=tuple(sorted(set(nodes))))
        pending.renew(index, there)
        assert pending.input(index) == there
        assert list(misplaced(pending)) == []
        places = {rack_of(node) for task in pending for node in pending.input(task).nodes}
        assert sorted(pending.racks()) == sorted(places)
        for node in _NODES:
            found, level = pending.closest(node, rack_of(node))
            near = [task for task in pending if node in pending.input(task).nodes]
            if near:
                assert (found, level) == (min(near), "node-local")
            else:
                assert level != "node-local"
    for index in range(len(inputs)):
        if index not in pending:
            pending.add(index)
    assert list(misplaced(pending)) == []
