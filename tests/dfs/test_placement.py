from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.ids import NodeId, rack_of
from railyard.dfs.loads import Loads, Uses
from railyard.dfs.messages import PlacementHint
from railyard.dfs.placement import PlacementPolicy, RackAware, Spread, StorageView, reading_rank


def nodes(racks, each):
    return [NodeId(f"r{r}n{n}") for r in range(racks) for n in range(each)]


def view(alive, load=0):
    return StorageView(load=dict.fromkeys(alive, load))


@st.composite
def situations(draw):
    everything = nodes(draw(st.integers(1, 5)), draw(st.integers(1, 4)))
    alive = draw(st.lists(st.sampled_from(everything), unique=True))
    load = {node: draw(st.integers(0, 3)) for node in alive}
    some = st.lists(st.sampled_from(everything), unique=True, max_size=3)
    return {
        "view": StorageView(load=load),
        "count": draw(st.integers(0, 5)),
        "present": draw(some),
        "exclude": draw(some),
        "writer": draw(st.none() | st.sampled_from(everything)),
        "hint": PlacementHint(first=tuple(draw(some)), racks=(("r0",),) * draw(st.integers(0, 3))),
    }


@pytest.mark.parametrize("policy", [RackAware, Spread])
@given(situation=situations(), seed=st.integers(0, 9))
def test_alive_nodes_only_and_none_twice_and_as_many_as_there_are(policy, situation, seed):
    chosen = policy(random.Random(seed)).choose(**situation)
    barred = {*situation["present"], *situation["exclude"]}
    usable = set(situation["view"].load) - barred
    assert len(set(chosen)) == len(chosen)
    assert set(chosen) <= usable
    assert len(chosen) == min(situation["count"], len(usable))


@given(racks=st.integers(2, 5), each=st.integers(2, 4), seed=st.integers(0, 99))
def test_three_replicas_writer_other_rack_that_rack(racks, each, seed):
    alive = nodes(racks, each)
    writer = random.Random(seed).choice(alive)
    first, second, third = RackAware(random.Random(seed)).choose(3, view(alive), writer=writer)
    assert first == writer
    assert rack_of(second) != rack_of(first)
    assert rack_of(third) == rack_of(second)


@given(situation=situations(), seed=st.integers(0, 9))
def test_two_racks_whenever_two_are_alive(situation, seed):
    situation |= {"exclude": (), "hint": PlacementHint(), "count": 3, "present": ()}
    chosen = RackAware(random.Random(seed)).choose(**situation)
    racks = {rack_of(node) for node in situation["view"].load}
    assert len({rack_of(node) for node in chosen}) >= min(2, len(racks), len(chosen))


@given(
    racks=st.integers(1, 5),
    each=st.integers(1, 4),
    count=st.integers(1, 4),
    seed=st.integers(0, 99),
    of_one_file=st.booleans(),
)
def test_new_blocks_go_where_the_general_rule_puts_them_and_by_the_same_chance(
    racks, each, count, seed, of_one_file
):
    alive, dice = nodes(racks, each), random.Random(seed)
    short, general = RackAware(random.Random(seed)), RackAware(random.Random(seed))
    loads, uses = Loads(dict.fromkeys(alive, 0)), Uses()
    for _ in range(40):
        writer = dice.choice([None, NodeId("r9n9"), *alive])
        view = StorageView(load=loads, of_file=uses if of_one_file else Uses())
        chosen = short.choose(count, view, writer=writer)
        plain = StorageView(load=dict(loads), of_file=dict(view.of_file))
        assert chosen == PlacementPolicy.choose(general, count, plain, writer=writer)
        loads.add(dice.randrange(3), chosen, uses)
        if dice.random() < 0.1:
            gone = dice.choice(alive)
            loads.leave(gone)
            loads.join(gone)


@given(
    racks=st.integers(1, 5),
    each=st.integers(1, 8),
    count=st.integers(1, 4),
    blocks=st.lists(st.integers(1, 30), max_size=4),
    seed=st.integers(0, 99),
)
def test_a_file_that_is_there_lies_where_its_blocks_would_go_one_by_one(
    racks, each, count, blocks, seed
):
    short, general = RackAware(random.Random(seed)), RackAware(random.Random(seed))
    loads, dice = Loads(dict.fromkeys(nodes(racks, each), 0)), random.Random(seed)
    plain = dict(loads)
    for number in blocks:
        lengths, of_file = [*(dice.choice([5, 5, 7]) for _ in range(number)), 3], Counter()
        placed = short.choose_all(lengths, count, loads)
        for length, chosen in zip(lengths, placed, strict=True):
            view = StorageView(load=plain, of_file=of_file)
            assert chosen == PlacementPolicy.choose(general, count, view)
            of_file.update(chosen)
            for node in chosen:
                plain[node] += length
        assert dict(loads) == plain


def test_a_lost_replica_comes_back_on_the_missing_rack():
    alive = nodes(3, 3)
    policy = RackAware(random.Random(1))
    for _ in range(20):
        (new,) = policy.choose(1, view(alive), present=[NodeId("r1n0"), NodeId("r1n2")])
        assert rack_of(new) != "r1"


def test_writers_outside_fill_the_cluster_evenly():
    alive = nodes(8, 4)
    policy = RackAware(random.Random(1))
    load, firsts = dict.fromkeys(alive, 0), Counter()
    for _ in range(64):
        chosen = policy.choose(3, StorageView(load=load))
        firsts[chosen[0]] += 1
        for node in chosen:
            load[node] += 1
    assert max(load.values()) - min(load.values()) <= 2
    assert max(firsts.values()) <= 5


def test_a_file_is_spread_even_if_some_nodes_are_empty():
    load = {node: 0 if node.startswith("r0") else 9 for node in nodes(4, 2)}
    policy, of_file = Spread(random.Random(1)), Counter()
    for _ in range(8):
        of_file.update(policy.choose(1, StorageView(load=load, of_file=of_file)))
    assert set(of_file.values()) == {1}


def test_hints_are_followed_while_they_can_be():
    alive = nodes(4, 2)
    hint = PlacementHint(first=(NodeId("r3n1"), NodeId("r2n0")), racks=((), ("r2",), ("r2", "r3")))
    policy = RackAware(random.Random(1))
    first, *others = policy.choose(3, view(alive), writer=NodeId("r0n0"), hint=hint)
    assert first == "r3n1"
    assert {rack_of(n) for n in others} <= {"r2", "r3"}
    alive.remove("r3n1")
    assert policy.choose(1, view(alive), hint=hint) == ["r2n0"]
    assert len(policy.choose(5, view(alive), hint=hint)) == 5


def test_each_replica_has_racks_of_its_own_and_fills_them_evenly():
    sets = (("r0", "r4"), ("r1", "r5"), ("r2", "r3"))
    policy, of_file = RackAware(random.Random(1)), Counter()
    for _ in range(12):
        chosen = policy.choose(
            3,
            StorageView(load=dict.fromkeys(nodes(6, 2), 0), of_file=of_file),
            hint=PlacementHint(racks=sets),
        )
        assert all(rack_of(node) in racks for node, racks in zip(chosen, sets, strict=True))
        of_file.update(chosen)
    assert set(of_file.values()) == {3}


def test_files_of_one_block_are_spread_evenly_over_the_racks_of_a_hint():
    alive = nodes(6, 4)
    policy, load = RackAware(random.Random(1)), dict.fromkeys(alive, 0)
    racks = Counter()
    hint = PlacementHint(racks=(("r0", "r4"), ("r1", "r5"), ("r2", "r3")))
    for _ in range(4):
        for node in policy.choose(3, StorageView(load=load), hint=hint):
            load[node] += 1
            racks[rack_of(node)] += 1
    assert set(racks.values()) == {2}


def test_replicas_without_racks_of_their_own_go_by_the_stores_rule():
    policy = RackAware(random.Random(1))
    first, *others = policy.choose(3, view(nodes(5, 3)), hint=PlacementHint(racks=(("r3",),)))
    assert rack_of(first) == "r3"
    assert len({rack_of(node) for node in others} - {"r3"}) == 1


def test_surplus_goes_where_most_are_then_where_it_is_fullest():
    load = {NodeId("r0n0"): 5, NodeId("r0n1"): 9, NodeId("r1n0"): 99}
    assert RackAware(random.Random(1)).surplus(list(load), 2, StorageView(load=load)) == ["r0n1"]
    assert RackAware(random.Random(1)).surplus(list(load), 3, StorageView(load=load)) == []


def first_choice(reader, replicas):
    return min(replicas, key=lambda node: reading_rank(reader, node, replicas))


@given(replicas=st.permutations(nodes(3, 1)), reader=st.none() | st.sampled_from(nodes(9, 2)))
def test_a_reader_s_first_choice_does_not_depend_on_the_order_in_which_replicas_are_told(
    replicas, reader
):
    assert first_choice(reader, replicas) == first_choice(reader, sorted(replicas))


def test_readers_choose_differently_and_a_reader_does_among_other_replicas():
    readers, replicas = nodes(20, 5), nodes(3, 1)
    chosen = Counter(first_choice(reader, replicas) for reader in readers)
    assert min(chosen[node] for node in replicas) >= 20  # of 33
    of_pairs = {first_choice("r9n9", ["r0n0", other]) == "r0n0" for other in nodes(9, 2)[1:]}
    assert of_pairs == {True, False}
