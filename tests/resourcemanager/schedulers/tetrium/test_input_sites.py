"""At which site a map counts that has its input at several."""

from itertools import product
from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from railyard.resourcemanager.schedulers.tetrium.inputsites import InputSites


class Sites:
    """Sites whose nodes are called by their numbers."""

    def __init__(self, count):
        self._count = count

    def __len__(self):
        return self._count

    def all_of(self, nodes):
        return nodes


def inputs(replicas, sites):
    """A stage whose maps have 5 bytes each, with replicas at these sites."""
    tasks = [
        SimpleNamespace(index=index, input=SimpleNamespace(nodes=nodes, input_bytes=5))
        for index, nodes in enumerate(replicas)
    ]
    stage = SimpleNamespace(tasks=tasks, pending=range(len(tasks)))
    return stage, InputSites(stage, Sites(sites))


def counts(found):
    return [len(maps) for maps in found.at]


def test_blocks_named_by_their_first_site_are_not_all_there():
    _, found = inputs([(0, 1), (0, 2), (0, 3), (0, 1), (0, 2), (0, 3), (1, 2), (1, 3)], 4)
    assert counts(found) == [6, 2, 0, 0, 0]
    found.spread(np.array([1, 1, 1, 1]))
    assert counts(found) == [2, 2, 2, 2, 0]
    assert found.held_bytes.tolist() == [10, 10, 10, 10]


def test_sites_with_more_slots_have_more_maps_and_those_without_none():
    _, found = inputs([(0, 1, 2)] * 8, 3)
    found.spread(np.array([3, 1, 0]))
    assert counts(found) == [6, 2, 0, 0]


def test_a_map_makes_room_for_another_along_a_chain_of_sites():
    _, found = inputs([(0,), (0, 1), (1, 2), (2, 3)], 4)
    found.spread(np.array([1, 1, 1, 1]))
    assert counts(found) == [1, 1, 1, 1, 0]


def test_maps_count_anew_as_slots_and_maps_change():
    stage, found = inputs([(0, 1)] * 6, 2)
    found.spread(np.array([1, 1]))
    assert counts(found) == [3, 3, 0]
    found.spread(np.array([2, 1]))
    assert counts(found) == [4, 2, 0]
    for index in list(found.at[0]):
        assert found.remove(stage.tasks[index])
    found.spread(np.array([2, 1]))
    assert counts(found) == [1, 1, 0]
    assert not found.remove(stage.tasks[0]), "it has gone"


def test_one_replica_or_none_at_all_stay_where_they_are():
    _, found = inputs([(1,), (1,), ()], 2)
    assert not found.has_replicas
    found.spread(np.array([1, 0]))
    assert counts(found) == [0, 2, 1]


_REPLICAS = st.lists(
    st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True).map(tuple), max_size=6
)


@given(_REPLICAS, st.lists(st.integers(1, 3), min_size=4, max_size=4))
def test_no_choice_of_replicas_has_fewer_maps_for_a_slot_at_the_busiest_site(replicas, slots):
    def busiest(numbers):
        return max(number / of for number, of in zip(numbers, slots, strict=True))

    _, found = inputs(replicas, 4)
    found.spread(np.array(slots))
    choices = [[choice.count(site) for site in range(4)] for choice in product(*replicas)]
    assert busiest(counts(found)[:4]) == min(map(busiest, choices))
    for site, maps in enumerate(found.at[:4]):
        assert all(site in replicas[index] for index in maps)
