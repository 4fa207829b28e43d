"""The pending tasks of a stage, found by place: how near the nearest is, against all of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.ids import node_id, rack_id, rack_of
from railyard.resourcemanager.core.state.jobs import Node
from railyard.resourcemanager.core.state.pending import PendingTasks
from railyard.resourcemanager.interface.events import TaskInput

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
        assert list(pending.misplaced()) == []
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
    assert list(pending.misplaced()) == []
