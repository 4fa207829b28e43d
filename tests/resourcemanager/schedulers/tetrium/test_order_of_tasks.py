"""Which of a stage's tasks go first (3.3, and the local share of section 5)."""

from collections import Counter
from random import Random
from types import SimpleNamespace

import numpy as np

from railyard.resourcemanager.schedulers.tetrium.parameters import TetriumConfig
from railyard.resourcemanager.schedulers.tetrium.sitetasks import MapTasks, reduces_in_order

LINKS = np.array([4e8, 1e8, 2e8, 8e8])


class Pending(dict):
    """Numbers of pending tasks."""

    @property
    def count(self) -> int:
        return len(self)


class Sites:
    """Four sites; a task's nodes are its site's number."""

    def __len__(self) -> int:
        return 4

    def all_of(self, nodes):
        return tuple(node for node in nodes if node >= 0)


class OneSite:
    """A site of several nodes."""

    def __len__(self) -> int:
        return 1

    def all_of(self, nodes):
        return (0,)


def maps(*held):
    """A stage with so many pending maps at each site; the last are at none."""
    places = [
        site for site, count in zip((0, 1, 2, 3, -1), held, strict=False) for _ in range(count)
    ]
    tasks = [
        SimpleNamespace(index=index, site=site, input=SimpleNamespace(nodes=(site,), input_bytes=5))
        for index, site in enumerate(places)
    ]
    stage = SimpleNamespace(tasks=tasks, pending=Pending.fromkeys(range(len(tasks))))
    return MapTasks(stage, Sites())


def sites_of(chosen):
    return [task.site for task in chosen]


def choose(tasks, planned, given, **settings):
    config = TetriumConfig(**settings)
    return tasks.choose(np.array(planned), np.array(given), LINKS, config)


def test_remote_maps_first_from_the_slowest_uplink_one_of_each_site_in_turn():
    found = choose(maps(2, 4, 4, 2), [12, 0, 0, 0], [6, 0, 0, 0], local_share=0.0)
    assert sites_of(found[0]) == [1, 2, 3, 1, 2, 3]


def test_a_share_of_the_slots_is_for_local_maps():
    found = choose(maps(6, 6, 0, 0), [12, 0, 0, 0], [4, 0, 0, 0], local_share=0.3)
    assert sites_of(found[0]) == [1, 1, 0, 0], "1.2 slots, rounded up"


def test_slots_that_no_remote_map_needs_get_local_ones():
    found = choose(maps(6, 1, 0, 0), [7, 0, 0, 0], [5, 0, 0, 0])
    assert sites_of(found[0]) == [1, 0, 0, 0, 0]


def test_local_first_is_the_other_way_round():
    found = choose(maps(2, 6, 0, 0), [8, 0, 0, 0], [4, 0, 0, 0], map_order="local-first")
    assert sites_of(found[0]) == [0, 0, 1, 1]


def test_no_task_is_chosen_twice():
    tasks = maps(0, 9, 3, 0)
    found = choose(tasks, [4, 2, 1, 5], [4, 2, 1, 5])
    assert {site: len(chosen) for site, chosen in found.items()} == {0: 4, 1: 2, 2: 1, 3: 5}
    times = Counter(task.index for chosen in found.values() for task in chosen)
    assert set(times.values()) == {1}


def test_maps_whose_input_is_nowhere_run_where_there_is_room():
    found = choose(maps(2, 0, 0, 0, 3), [1, 2, 2, 0], [1, 2, 2, 0])
    assert Counter(site for chosen in found.values() for site in sites_of(chosen)) == {0: 2, -1: 3}


def test_of_local_maps_those_first_with_their_input_at_free_nodes():
    nodes = ("r0n0", "r0n1", "r0n0", "r0n2", "r0n1")
    tasks = [
        SimpleNamespace(index=index, input=SimpleNamespace(nodes=(node,), input_bytes=5))
        for index, node in enumerate(nodes)
    ]
    stage = SimpleNamespace(tasks=tasks, pending=Pending.fromkeys(range(len(tasks))))
    found = MapTasks(stage, OneSite()).choose(
        np.array([5]), np.array([3]), LINKS[:1], TetriumConfig(), {0: {"r0n1": 1, "r0n2": 2}}
    )
    assert [task.input.nodes[0] for task in found[0]] == ["r0n1", "r0n2", "r0n0"]


def test_what_runs_is_no_longer_held():
    tasks = maps(2, 1, 0, 0)
    assert tasks.held_bytes.tolist() == [10, 5, 0, 0]
    assert tasks.launched(tasks.stage.tasks[0])
    assert tasks.held_bytes.tolist() == [5, 5, 0, 0]
    assert not tasks.is_current()
    del tasks.stage.pending[0]
    assert tasks.is_current()


def reduces(*outputs):
    source = SimpleNamespace(
        outputs={"r0n0": [SimpleNamespace(partition_bytes=output) for output in outputs]}
    )
    return SimpleNamespace(size=len(outputs[0]), reads=[source])


def test_reduces_with_the_largest_input_first():
    stage = reduces((1, 5, 2), (1, 0, 7))
    assert reduces_in_order(stage, TetriumConfig(), Random(1)) == [2, 1, 0]


def test_outputs_that_share_their_sizes_count_each():
    same = (3, 1)
    stage = reduces(same, same, (0, 3))
    assert reduces_in_order(stage, TetriumConfig(), Random(1)) == [0, 1]


def test_random_reduces_are_all_of_them():
    stage = reduces(tuple(range(50)))
    order = reduces_in_order(stage, TetriumConfig(reduce_order="random"), Random(1))
    assert sorted(order) == list(range(50)) != order[::-1]
