"""The rule of ``dfs.placement``: its guarantees for every block, and the uniformity of draws."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.ids import NodeId, node_id, rack_id, rack_of
from railyard.dfs.messages import PlacementHint
from railyard.dfs.placement import (
    Loads,
    RackAware,
    distance,
    draws_of,
    nearest,
    nearest_first,
    one_of,
)

BLOCK = ("/file", 0)


def nodes(racks, each):
    return [NodeId(f"r{r}n{n}") for r in range(racks) for n in range(each)]


def empty(racks, each):
    return Loads(dict.fromkeys(nodes(racks, each), 0))


def is_uniform(counts: Counter, choices: Iterable) -> bool:
    """Whether counts of choices are consistent with uniform draws, by a chi-square test."""
    choices = list(choices)
    expected, freedom = counts.total() / len(choices), len(choices) - 1
    chi_square = sum((counts[each] - expected) ** 2 / expected for each in choices)
    return counts.keys() <= set(choices) and chi_square < freedom + 4 * math.sqrt(2 * freedom)


@st.composite
def situations(draw):
    everything = nodes(draw(st.integers(1, 5)), draw(st.integers(1, 4)))
    alive = draw(st.lists(st.sampled_from(everything), unique=True))
    some = st.lists(st.sampled_from(everything), unique=True, max_size=3)
    return {
        "block": ("/file", draw(st.integers(0, 99))),
        "loads": Loads({node: draw(st.integers(0, 3)) for node in alive}),
        "uses": draw(st.dictionaries(st.sampled_from(everything), st.integers(0, 3))),
        "count": draw(st.integers(0, 5)),
        "present": draw(some),
        "exclude": draw(some),
        "writer": draw(st.none() | st.sampled_from(everything)),
        "hint": PlacementHint(first=tuple(draw(some)), racks=(("r0",),) * draw(st.integers(0, 3))),
    }


# The rule ----------------------------------------------------------------------------------------
@given(situation=situations())
def test_alive_nodes_only_and_none_twice_and_as_many_as_there_are(situation):
    chosen = RackAware(1).choose(**situation)
    usable = set(situation["loads"]) - {*situation["present"], *situation["exclude"]}
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= usable
    assert len(chosen) == min(situation["count"], len(usable))


@given(racks=st.integers(2, 5), each=st.integers(2, 4), number=st.integers(0, 99))
def test_three_replicas_writer_other_rack_that_rack(racks, each, number):
    loads = empty(racks, each)
    writer = random.Random(number).choice(list(loads))
    first, second, third = RackAware(1).choose(("/f", number), 3, loads, {}, writer=writer)
    assert first == writer
    assert rack_of(second) != rack_of(first)
    assert rack_of(third) == rack_of(second)


@given(situation=situations())
def test_two_racks_whenever_two_are_alive(situation):
    situation |= {"exclude": (), "hint": PlacementHint(), "count": 3, "present": ()}
    chosen = RackAware(1).choose(**situation)
    racks = {rack_of(node) for node in situation["loads"]}
    assert len({rack_of(node) for node in chosen}) >= min(2, len(racks), len(chosen))


@given(racks=st.integers(3, 6), number=st.integers(0, 99), count=st.integers(4, 9))
def test_from_the_fourth_on_replicas_go_where_fewest_are(racks, number, count):
    chosen = RackAware(1).choose(("/f", number), count, empty(racks, 9), {})
    for before in range(3, count):
        replicas = Counter(rack_of(node) for node in chosen[:before])
        fewest = min(replicas[f"r{rack}"] for rack in range(racks))
        assert replicas[rack_of(chosen[before])] == fewest


def test_a_lost_replica_comes_back_on_the_missing_rack():
    for number in range(20):
        (new,) = RackAware(1).choose((number,), 1, empty(3, 3), {}, ["r1n0", "r1n2"])
        assert rack_of(new) != "r1"


# Chance ------------------------------------------------------------------------------------------
def test_of_equal_nodes_each_is_taken_as_often_as_the_others():
    loads, rule = empty(5, 4), RackAware(1)
    blocks = [rule.choose(("/f", n), 3, loads, {}) for n in range(4000)]
    assert is_uniform(Counter(first for first, _, _ in blocks), loads)
    second_of_r0 = Counter(second for first, second, _ in blocks if rack_of(first) == "r0")
    assert is_uniform(second_of_r0, [node for node in loads if rack_of(node) != "r0"])
    third_of_r1n0 = Counter(third for _, second, third in blocks if second == "r1n0")
    assert is_uniform(third_of_r1n0, ["r1n1", "r1n2", "r1n3"])


def test_draws_are_even_over_long_sequences_and_over_keys():
    one = draws_of("a key")
    assert is_uniform(Counter(one_of(one, range(7)) for _ in range(7000)), range(7))
    assert is_uniform(Counter(one_of(draws_of("key", n), range(7)) for n in range(7000)), range(7))
    pairs = Counter(itertools.pairwise(one_of(one, range(5)) for _ in range(5000)))
    assert is_uniform(pairs, itertools.product(range(5), repeat=2))


def test_seed_file_and_block_decide_and_not_what_was_placed_before():
    def placed(seed, file, number):
        return RackAware(seed).choose((file, number), 3, empty(9, 9), {})

    rule, loads = RackAware(1), empty(9, 9)
    rule.choose(("/other", 0), 3, loads, {})
    assert rule.choose(("/f", 0), 3, loads, {}) == placed(1, "/f", 0)
    different = [placed(1, "/f", 0), placed(2, "/f", 0), placed(1, "/g", 0), placed(1, "/f", 1)]
    assert len({tuple(each) for each in different}) == 4


# Evenness ----------------------------------------------------------------------------------------
def test_of_two_nodes_that_are_drawn_the_emptier_is_taken():
    firsts = Counter()
    loads = Loads({"r0n0": 5, "r1n0": 5, "r2n0": 0})
    for number in range(900):
        firsts.update(RackAware(1).choose((number,), 1, loads, {}))
    assert firsts["r2n0"] == pytest.approx(600, abs=50)  # two of the three pairs have it
    less_used = Counter()
    for number in range(900):
        less_used.update(RackAware(1).choose((number,), 1, loads, {"r2n0": 1}))
    assert not less_used["r2n0"]  # each pair has another


def test_a_cluster_is_filled_evenly():
    loads, rule, firsts = empty(8, 4), RackAware(1), Counter()
    for number in range(640):
        chosen = rule.choose(("/f", number), 3, loads, {})
        firsts[chosen[0]] += 1
        loads.add(1, chosen)
    assert max(loads.values()) - min(loads.values()) <= 6  # of 60; by chance alone about 30
    assert max(firsts.values()) <= 35  # of 20


# Hints and the rest -------------------------------------------------------------------------------
def test_hints_are_followed_while_they_can_be():
    loads, rule = empty(4, 2), RackAware(1)
    hint = PlacementHint(first=(NodeId("r3n1"), NodeId("r2n0")), racks=((), ("r2",), ("r2", "r3")))
    first, *others = rule.choose(BLOCK, 3, loads, {}, writer=NodeId("r0n0"), hint=hint)
    assert first == "r3n1"
    assert {rack_of(n) for n in others} <= {"r2", "r3"}
    loads.leave(NodeId("r3n1"))
    assert rule.choose(BLOCK, 1, loads, {}, hint=hint) == ["r2n0"]
    assert len(rule.choose(BLOCK, 5, loads, {}, hint=hint)) == 5


def test_each_replica_has_racks_of_its_own_and_fills_them_evenly():
    sets = (("r0", "r4"), ("r1", "r5"), ("r2", "r3"))
    loads, uses = empty(6, 2), Counter()
    for number in range(12):
        hint = PlacementHint(racks=sets)
        chosen = RackAware(1).choose(("/f", number), 3, loads, uses, hint=hint)
        assert all(rack_of(node) in racks for node, racks in zip(chosen, sets, strict=True))
        uses.update(chosen)
    assert set(uses.values()) == {3}


def test_files_of_one_block_are_spread_evenly_over_the_racks_of_a_hint():
    loads, racks = empty(6, 4), Counter()
    hint = PlacementHint(racks=(("r0", "r4"), ("r1", "r5"), ("r2", "r3")))
    for number in range(4):
        chosen = RackAware(1).choose((f"/f{number}", 0), 3, loads, {}, hint=hint)
        loads.add(1, chosen)
        racks.update(map(rack_of, chosen))
    assert set(racks.values()) == {2}


def test_replicas_without_racks_of_their_own_go_by_the_rule():
    hint = PlacementHint(racks=(("r3",),))
    first, *others = RackAware(1).choose(BLOCK, 3, empty(5, 3), {}, hint=hint)
    assert rack_of(first) == "r3"
    assert len({rack_of(node) for node in others} - {"r3"}) == 1


def test_surplus_goes_where_most_are_then_where_it_is_fullest():
    loads = Loads({NodeId("r0n0"): 5, NodeId("r0n1"): 9, NodeId("r1n0"): 99})
    assert RackAware(1).surplus(list(loads), 2, loads) == ["r0n1"]
    assert RackAware(1).surplus(list(loads), 3, loads) == []


# Which replica a reader reads, for the client, the simulator and policies.


def placed_on(racks: int, each: int) -> list[NodeId]:
    return [node_id(rack_id(rack), at) for rack in range(racks) for at in range(each)]


def none_lost(node: NodeId) -> bool:
    return False


def first_choice(reader, replicas):
    return nearest_first(reader, replicas, none_lost)[0]


@given(
    replicas=st.lists(st.sampled_from(placed_on(5, 3)), unique=True),
    reader=st.sampled_from(placed_on(5, 3)),
)
def test_the_nearest_is_the_first_of_all_and_nearer_ones_come_first(replicas, reader):
    order = nearest_first(reader, replicas, none_lost)
    assert sorted(order) == sorted(replicas)
    assert nearest(reader, replicas) == (order[0] if order else None)
    away = [distance(reader, node) for node in order]
    assert away == sorted(away)


def test_own_node_then_own_rack_then_others_then_what_is_lost():
    replicas = [NodeId(name) for name in ("r1n0", "r0n0", "r0n1", "r2n0")]
    order = nearest_first(NodeId("r0n1"), replicas, lambda node: node == "r0n0")
    assert order[0] == "r0n1"
    assert order[-1] == "r0n0"
    outside = [distance(None, node) for node in replicas]
    assert outside == [2, 2, 2, 2]


@given(
    replicas=st.permutations(placed_on(3, 1)), reader=st.none() | st.sampled_from(placed_on(9, 2))
)
def test_a_reader_s_first_choice_does_not_depend_on_the_order_of_the_replicas(replicas, reader):
    assert first_choice(reader, replicas) == first_choice(reader, sorted(replicas))


def test_readers_choose_differently_and_a_reader_does_among_other_replicas():
    readers, replicas = placed_on(20, 5)[15:], placed_on(3, 1)
    chosen = Counter(first_choice(reader, replicas) for reader in readers)
    assert min(chosen[node] for node in replicas) >= 17  # of 28
    of_pairs = {
        first_choice(NodeId("r9n9"), [NodeId("r0n0"), other]) == "r0n0"
        for other in placed_on(9, 2)[1:]
    }
    assert of_pairs == {True, False}
