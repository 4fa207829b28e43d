"""Where Tetrium runs tasks, and whose turn it is."""

from __future__ import annotations

from collections import Counter
from random import Random
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.netemu.messages import LinksObserved
from railyard.netemu.model.network import LinkState
from railyard.resourcemanager.interface.events import StagePlan
from railyard.resourcemanager.schedulers import recipe_named
from railyard.resourcemanager.schedulers.tetrium.scheduler import Claim, FairParts
from railyard.resourcemanager.schedulers.tetrium.stageplans import (
    MapTasks,
    TetriumConfig,
    reduces_in_order,
)
from tests.harness import tiny_cluster

MB = 10**6
NODES = ("r0n0", "r1n0", "r2n0")


def sites(scheduler="tetrium", slots=2, **settings):
    """Three sites of one node each; a map of 100 MB takes 2 s, and .1 s on its link."""
    c = tiny_cluster(racks=3, nodes=1, slots=slots, scheduler=scheduler, **settings)
    c.flow_s = 0.1
    return c


def store(c, name, *at, blocks=12):
    c.store(name, blocks=[[at[number % len(at)]] for number in range(blocks)], block_bytes=100 * MB)


def at_nodes(run, prefix):
    return Counter(run.nodes_of(prefix))


def test_maps_leave_a_site_with_all_of_the_data_for_slots_elsewhere():
    c = sites()
    store(c, "in", "r0n0")
    c.submit("j0", input="in", map_s=2.0)
    assert at_nodes(c.run(), "j0.m") == dict.fromkeys(NODES, 4)


def test_without_a_budget_maps_stay_where_their_data_is():
    c = sites(rho=0.0)
    store(c, "in", "r0n0")
    c.submit("j0", input="in", map_s=2.0)
    run = c.run()
    assert at_nodes(run, "j0.m") == {"r0n0": 12}
    assert run.unfinished == []


def test_data_at_a_site_without_slots_leaves_it_even_without_a_budget():
    c = sites(rho=0.0)
    store(c, "in", "r0n0", "r1n0")
    c.set_slots("r0n0", 0)
    c.submit("j0", input="in", map_s=2.0)
    run = c.run()
    assert run.unfinished == []
    assert "r0n0" not in at_nodes(run, "j0.m")
    assert c.core.state.policies.order.figures() == {"stages_beyond_wan_budget": 1}


@pytest.mark.parametrize("rho", [0.0, 1.0])
def test_no_map_is_remote_while_replicas_are_spread_over_sites(rho):
    """Nodes of a block come sorted: by the first of them all data would be at the first sites."""
    c = tiny_cluster(racks=4, nodes=2, slots=1, scheduler="tetrium", rho=rho)
    nodes = [f"r{rack}n{node}" for rack in range(4) for node in range(2)]
    pairs = [(one, other) for one in nodes for other in nodes if one < other and one[1] != other[1]]
    c.store("in", blocks=[list(pair) for pair in pairs], block_bytes=100 * MB)
    c.submit("j0", input="in", map_s=2.0)
    run = c.run()
    held = {f"j0.m{index}": pair for index, pair in enumerate(pairs)}
    assert all(node[1] in {held[task][0][1], held[task][1][1]} for task, node, _ in run.placements)
    assert set(at_nodes(run, "j0.m").values()) == {3}, "24 maps on 8 slots"


def test_maps_run_at_the_node_of_their_input():
    c = tiny_cluster(racks=2, nodes=3, slots=1, scheduler="tetrium")
    nodes = [f"r{rack}n{node}" for rack in range(2) for node in range(3)]
    c.store("in", blocks=[[node] for node in nodes[::-1]], block_bytes=100 * MB)
    c.submit("j0", input="in", map_s=2.0)
    placed = {task: node for task, node, _ in c.run().placements}
    assert placed == {f"j0.m{index}": node for index, node in enumerate(nodes[::-1])}


def test_reduces_go_where_slots_are():
    c = sites()
    store(c, "in", "r0n0", "r1n0")
    c.submit("j0", input="in", reduces=6, map_s=2.0, partition_bytes=10, reduce_s=5.0)
    run = c.run()
    assert at_nodes(run, "j0.r") == dict.fromkeys(NODES, 2)
    maps_end_s = max(when for _, when in run.launches("j0.m")) + 2.0
    assert min(when for _, when in run.launches("j0.r")) >= maps_end_s, "stage by stage"


def test_fewest_remaining_stages_first_then_least_time():
    c = sites(slots=1)
    for name, blocks in (("three", 3), ("nine", 9), ("six", 6)):
        store(c, name, *NODES, blocks=blocks)
    c.submit("busy", input="three", map_s=5.0)
    c.at(1.0, lambda: c.submit("staged", input="three", reduces=1, map_s=2.0))
    c.at(1.0, lambda: c.submit("long", input="nine", map_s=2.0))
    c.at(1.0, lambda: c.submit("short", input="six", map_s=2.0))
    run = c.run()
    first = {name: run.launches(f"{name}.m")[0][1] for name in ("staged", "long", "short")}
    assert first["short"] < first["long"] < first["staged"]


def test_fair_parts_keep_a_long_job_running():
    def first_s(epsilon):
        c = sites(slots=1, epsilon=epsilon)
        store(c, "three", *NODES, blocks=3)
        store(c, "many", *NODES, blocks=60)
        c.submit("busy", input="three", map_s=5.0)
        c.at(1.0, lambda: c.submit("long", input="many", map_s=2.0))
        for number in range(6):
            name = f"short{number}"
            c.at(1.0, lambda name=name: c.submit(name, input="three", map_s=2.0))
        return c.run().launches("long.m")[0][1]

    assert first_s(0.0) < first_s(1.0)


@pytest.mark.parametrize("scheduler", ["tetrium", "delay"])
def test_work_leaves_a_site_that_lost_its_slots_only_under_tetrium(scheduler):
    c = sites(scheduler, slots=4, seed=2)
    store(c, "in", *NODES, blocks=90)
    c.submit("j0", input="in", map_s=2.0)
    c.at(3.0, lambda: c.set_slots("r1n0", 1))
    run = c.run()
    before = Counter(task[1] for task in run.placements if task[2] < 3.0)
    assert before["r1n0"] == before["r0n0"]
    after = at_nodes(run, "j0.m")
    moved = after["r1n0"] < after["r0n0"] / 2
    assert moved == (scheduler == "tetrium"), after
    assert run.unfinished == []


def test_no_more_than_k_sites_are_assigned_other_work_after_a_loss():
    def tasks_at(k_sites):
        c = sites(slots=4, k_sites=k_sites)
        store(c, "in", *NODES, blocks=90)
        c.submit("j0", input="in", map_s=2.0)
        c.at(3.0, lambda: c.set_slots("r1n0", 1))
        return at_nodes(c.run(), "j0.m")

    assert tasks_at(1)["r1n0"] == 30, "its site keeps what it was assigned"
    one, two = tasks_at(2), tasks_at(3)
    assert one["r1n0"] == two["r1n0"] < 30
    assert sorted(number == 30 for number in one.values()) == [False, False, True]
    assert abs(two["r0n0"] - two["r2n0"]) <= 1


def test_losses_within_a_second_are_one_and_k_sites_change_for_all_of_them():
    def changed_sites(k_sites):
        c = tiny_cluster(racks=4, nodes=1, slots=6, scheduler="tetrium", k_sites=k_sites)
        c.flow_s = 0.1
        store(c, "in", *NODES, "r3n0", blocks=120)
        c.submit("j0", input="in", map_s=2.0)
        c.at(3.0, lambda: c.set_slots("r1n0", 2))
        c.at(3.5, lambda: c.set_slots("r2n0", 3))
        return sum(number != 30 for number in at_nodes(c.run(), "j0.m").values())

    assert changed_sites(2) == 2
    assert changed_sites(4) == 4


def test_by_the_time_of_all_stages_a_small_job_of_many_stages_goes_first():
    def first(remaining):
        c = sites(slots=1, remaining=remaining)
        for name, blocks in (("three", 3), ("many", 30)):
            store(c, name, *NODES, blocks=blocks)
        c.submit("busy", input="three", map_s=5.0)
        c.at(1.0, lambda: c.submit("large", input="many", map_s=2.0))
        c.at(1.0, lambda: c.submit("small", input="three", reduces=1, map_s=2.0))
        run = c.run()
        return min(("large", "small"), key=lambda name: run.launches(f"{name}.m")[0][1])

    assert (first("stages"), first("time")) == ("large", "small")


def test_freed_slots_are_collected_before_they_are_given():
    def launched_s(batch):
        c = sites(slots=1, batch=batch)
        store(c, "in", *NODES, blocks=9)
        c.submit("j0", input="in", map_s=2.0)
        return sorted({when for _, when in c.run().launches("j0.m")})[:2]

    assert launched_s(0.0) == [0.0, 2.0]
    assert launched_s(0.5) == [0.0, 3.0], "half of a task's duration later"


def test_a_stage_waits_while_all_that_it_reads_is_cut_off():
    def uplink(bytes_per_s):
        state = LinkState(capacity_bytes_per_s=bytes_per_s, free_bytes_per_s=bytes_per_s)
        return lambda: c.feed(LinksObserved(links={"r0.up": state}))

    c = sites()
    store(c, "in", "r0n0", blocks=2)
    c.at(1.0, uplink(0.0))
    c.at(1.0, lambda: c.set_slots("r0n0", 0))
    c.at(2.0, lambda: c.submit("j0", input="in", map_s=2.0))
    c.at(9.0, uplink(1e9))
    assert {when for _, when in c.run().launches("j0.m")} == {9.0}


def test_a_tree_of_stages_and_input_free_stages_run():
    c = sites()
    stages = (
        StagePlan(name="a", tasks=4),
        StagePlan(name="b", tasks=3),
        StagePlan(name="c", reads=("a", "b"), tasks=5),
    )
    c.submit("j0", stages=stages, durations={"a": 1.0, "b": 1.0, "c": 1.0})
    assert c.run().unfinished == []


@pytest.mark.parametrize(
    ("option", "value", "right"),
    [
        ("rho", 1.2, "a number in [0, 1]"),
        ("epsilon", -1.0, "a number in [0, 1]"),
        ("k_sites", 0, "a whole number above 0"),
        ("local_share", 1.0, "a share in [0, 1)"),
        ("batch", -0.5, "a number in [0, 10]"),
        ("estimate_error", 2.0, "a number in [0, 1]"),
        ("solver", "gurobi", "'gurobi'"),
    ],
)
def test_settings_that_cannot_be(option, value, right):
    with pytest.raises(UsageError) as refused:
        sites(**{option: value})
    assert f"tetrium.{option}" in str(refused.value)
    assert right in str(refused.value)


@pytest.mark.parametrize(
    "name", ["reverse", "whole-time", "local-first", "random-reduces", "local-first-random-reduces"]
)
def test_variants_are_the_same_scheduler_with_other_settings(name):
    recipe, variant = recipe_named("tetrium"), recipe_named(f"tetrium:{name}")
    assert variant.classes == recipe.classes
    assert dict(variant.settings) != dict(recipe.settings)


# Ablations (Fig. 8) ------------------------------------------------------------------------------
def _first_six_launches(scheduler):
    """Of a long and a short job with data everywhere, once a job that held all slots is done."""
    c = sites(scheduler, slots=2)
    for name, blocks in (("six", 6), ("many", 24)):
        store(c, name, *NODES, blocks=blocks)
    c.submit("busy", input="six", map_s=5.0)
    c.at(1.0, lambda: c.submit("long", input="many", map_s=2.0))
    c.at(1.0, lambda: c.submit("short", input="six", map_s=2.0))
    run = c.run()
    assert run.unfinished == []
    both = sorted((when, task) for task, _, when in run.placements if not task.startswith("busy"))
    return Counter(task.partition(".")[0] for _, task in both[:6])


@pytest.mark.parametrize(
    ("scheduler", "first"),
    [
        pytest.param("tetrium", {"short": 6}, id="least time first"),
        pytest.param("tetrium+fair-order", {"short": 3, "long": 3}, id="equal shares"),
        pytest.param("tetrium+iridium-tasks", {"short": 6}, id="least time first, too"),
    ],
)
def test_whose_turn_it_is_under_ablations(scheduler, first):
    assert _first_six_launches(scheduler) == first


@pytest.mark.parametrize("scheduler", ["tetrium+fair-order", "tetrium+iridium-tasks"])
def test_where_maps_run_under_ablations(scheduler):
    c = sites(scheduler)
    store(c, "in", "r0n0")
    c.submit("j0", input="in", map_s=2.0)
    leave = scheduler == "tetrium+fair-order"
    assert at_nodes(c.run(), "j0.m") == (dict.fromkeys(NODES, 4) if leave else {"r0n0": 12})


# Which of a stage's tasks go first (3.3, and the local share of section 5).


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
    return tasks.choose(np.array(planned), np.array(given), LINKS, config, {})


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
    assert len(tasks) == 3
    assert tasks.launched(SimpleNamespace(index=0))
    assert tasks.held_bytes.tolist() == [5, 5, 0, 0]
    assert len(tasks) == 2


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


# Fair parts of slots (4.4).


CLAIMS = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.builds(Claim, st.integers(0, 30), st.integers(1, 100)),
    min_size=1,
)


def parts_of(epsilon, slots, claims):
    return FairParts(epsilon, slots, sum(claim.held for claim in claims.values()), claims)


@given(CLAIMS, st.integers(1, 200))
def test_with_epsilon_1_a_job_may_have_all(claims, free):
    parts = parts_of(1.0, 300, claims)
    assert not parts.lacking
    assert all(parts.cap(job, free) == free for job in claims)


def test_with_epsilon_0_slots_are_in_proportion_to_tasks():
    parts = parts_of(0.0, 12, {"a": Claim(0, 10), "b": Claim(0, 20), "c": Claim(0, 30)})
    free, caps = 12, []
    for job in "abc":
        caps.append(parts.cap(job, free))
        free -= caps[-1]
    assert caps == [2, 4, 6]


def test_half_way_the_first_may_have_what_the_others_do_not_lack():
    parts = parts_of(0.5, 12, {"a": Claim(0, 10), "b": Claim(0, 20), "c": Claim(0, 30)})
    assert parts.cap("a", 12) == 12 - (0.5 * 4 + 0.5 * 6)


def test_what_a_job_holds_counts_though_few_slots_are_free():
    """11 of 12 slots are held: the only free one is for the job that has less than its part."""
    claims = {"much": Claim(9, 21), "little": Claim(2, 28)}
    parts = parts_of(0.0, 12, claims)
    assert list(parts.lacking) == ["little"]
    assert parts.cap("much", 1) == 0
    assert parts.cap("little", 1) == 1
    assert not parts_of(1.0, 12, claims).lacking


def test_what_others_run_who_want_no_more_is_not_given_again():
    parts = FairParts(0.0, 12, 6, {"a": Claim(0, 6)})
    assert parts.lacking == {"a": 6.0}


@given(CLAIMS, st.floats(0, 1), st.integers(1, 200), st.randoms(use_true_random=False))
def test_whatever_others_take_each_job_that_lacks_some_may_have_its_part(
    claims, epsilon, more, dice
):
    """But for rounding: each of those before may have taken up to one slot more."""
    held = sum(claim.held for claim in claims.values())
    slots, free = held + more, more
    tasks = held + sum(claim.pending for claim in claims.values())
    parts = parts_of(epsilon, slots, claims)
    lacking = dict(parts.lacking)
    short = max(0.0, sum(lacking.values()) - free)  # as others hold more than their part
    for served, job in enumerate(sorted(lacking, key=lambda job: dice.random())):
        cap = parts.cap(job, free)
        part = (1 - epsilon) * slots * (claims[job].held + claims[job].pending) / tasks
        assert cap >= part - claims[job].held - short - served - 1e-6
        free -= min(dice.randint(0, cap), free)
