"""The paper's own examples (Tetrium, section 2.2; Fig. 3 and 4)."""

from __future__ import annotations

from itertools import product
from math import ceil
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.benchmarks.placement._problems import (
    Problem,
    nearest,
    placed_differently,
    random_change,
    random_problem,
    sent_bytes,
)
from railyard.resourcemanager.schedulers.shared.sites import Sites
from railyard.resourcemanager.schedulers.tetrium import exact, general, stageplans
from railyard.resourcemanager.schedulers.tetrium.placement import (
    Bounds,
    Stage,
    better_tasks,
    changed_at,
    compute_s,
    distance,
    links_s,
    map_budget_bytes,
    network_s,
    reduce_budget_bytes,
    tasks_between,
    whole_tasks,
)
from railyard.resourcemanager.schedulers.tetrium.stageplans import MapTasks

GB = 1e9
#: Fig. 4
SITES = Sites(np.array([40.0, 10, 20]), GB * np.array([5.0, 1, 2]), GB * np.array([5.0, 1, 5]))
INPUT = GB * np.array([20.0, 30, 50])
MAPS, MAP_S, REDUCES, REDUCE_S = 1000, 2.0, 500, 1.0
SOLVERS = pytest.mark.parametrize("solver", [exact, general])


def waves_s(tasks, task_s):
    """Seconds of the busiest site, with its waves rounded up as the example does."""
    return task_s * max(
        ceil(number / slots) for number, slots in zip(tasks, SITES.slots, strict=True)
    )


def shuffle_s(held, shares):
    return network_s(held * (1 - shares), shares * (held.sum() - held), SITES)


@SOLVERS
def test_iridium_takes_88_5_s(solver):
    maps = INPUT / (0.1 * GB)
    plan = solver.place_reduces(SITES, Stage(INPUT / 2, 0.0))
    tasks = whole_tasks(plan.shares, REDUCES)
    assert plan.network_s == pytest.approx(10.5)
    assert plan.shares[1] == pytest.approx(0.3)
    assert waves_s(maps, MAP_S) + plan.network_s + waves_s(tasks, REDUCE_S) == pytest.approx(88.5)


@SOLVERS
def test_the_better_plan_takes_59_83_s(solver):
    plan = stageplans.forward(
        solver, SITES, Stage(INPUT, MAPS * MAP_S), Stage(INPUT / 2, REDUCES * REDUCE_S)
    )
    maps = whole_tasks(plan.maps.shares, MAPS)
    assert maps.tolist() == [571, 143, 286]
    assert (INPUT / GB - maps * 0.1).round(1).tolist() == [-37.1, 15.7, 21.4]
    assert plan.reduces.shares.round(3).tolist() == [0.571, 0.143, 0.286]
    reduces = whole_tasks(plan.reduces.shares, REDUCES)
    held, shares = maps * 0.05 * GB, reduces / REDUCES
    moved_s = network_s(np.maximum(INPUT - 2 * held, 0), np.maximum(2 * held - INPUT, 0), SITES)
    total_s = moved_s + waves_s(maps, MAP_S) + shuffle_s(held, shares) + waves_s(reduces, REDUCE_S)
    assert total_s == pytest.approx(59.83, abs=0.01)
    assert plan.time_s == pytest.approx(57.551, abs=0.001), "with parts of waves"


def test_all_at_one_site_takes_93_s():
    sent = np.array([0.0, INPUT[1], INPUT[2]])
    moved_s = network_s(sent, np.array([sent.sum(), 0, 0]), SITES)
    assert moved_s == pytest.approx(30)
    assert moved_s + MAP_S * ceil(MAPS / 40) + REDUCE_S * ceil(REDUCES / 40) == pytest.approx(93)


@SOLVERS
@pytest.mark.parametrize(
    ("free", "held", "placed", "time_s"),
    [
        ([3, 2, 1], [2, 4, 6], [6, 4, 2], 2.4),  # job-2, when job-1 has its slots
        ([3, 0, 0], [0, 1, 2], [3, 0, 0], 1.3),  # job-1, when job-2 has its slots, for 2 s
    ],
)
def test_two_jobs_give_each_other_another_best_plan(solver, free, held, placed, time_s):
    links = np.full(3, GB)
    sites = Sites(np.array(free, float), links, links)
    plan = solver.place_maps(sites, Stage(0.1 * GB * np.array(held, float), float(sum(held))))
    assert whole_tasks(plan.shares, sum(held)).tolist() == placed
    assert plan.time_s == pytest.approx(time_s)


def test_the_order_of_two_jobs_gives_1_7_or_2_65_s():
    """Alone, both jobs run where their input is: 1 s, and 2 s as job-2 needs two waves."""
    first, other = (1 + 2.4) / 2, (2 + 3.3) / 2
    assert (first, other) == (pytest.approx(1.70), pytest.approx(2.65))
    links = np.full(3, GB)
    late = exact.place_maps(
        Sites(np.array([3.0, 0, 0]), links, links), Stage(0.1 * GB * np.array([0.0, 1, 2]), 3.0)
    )
    assert 2 + late.time_s == pytest.approx(3.3)


@SOLVERS
def test_iridium_needs_no_slots_to_choose(solver):
    plan = solver.place_reduces(SITES, Stage(INPUT / 2, 0.0))
    assert plan.compute_s == 0
    stage = Stage(INPUT / 2, REDUCES * REDUCE_S)
    assert compute_s(plan.shares, stage, SITES) == pytest.approx(17.5)


@SOLVERS
def test_in_reverse_maps_leave_what_reduces_get_fastest(solver):
    maps, reduces = Stage(INPUT, MAPS * MAP_S), Stage(INPUT / 2, REDUCES * REDUCE_S)
    wanted = stageplans.output_wanted(SITES, reduces.size_bytes)
    assert wanted.least == pytest.approx([0, 1 / 7, 0])
    assert wanted.most == pytest.approx([1, 1 / 7, 0.342857], abs=1e-6)
    plan = stageplans.reverse(solver, SITES, maps, reduces)
    shares = plan.maps.shares
    assert (shares >= wanted.least - 1e-9).all()
    assert (shares <= wanted.most + 1e-9).all()
    assert shuffle_s(shares * reduces.size_bytes, SITES.slots / 70) == pytest.approx(
        6.122, abs=1e-3
    )
    assert stageplans.best_job_plan(solver, SITES, maps, reduces).time_s <= plan.time_s + 1e-9


# The exact solver against the linear programs, and what any plan has to be.


EVEN = Sites(np.full(3, 4.0), np.full(3, 1e8), np.full(3, 1e8))


@pytest.mark.parametrize("begin", range(0, 300, 50))
def test_the_exact_plan_is_the_linear_programs(begin):
    for seed in range(begin, begin + 50):
        assert placed_differently(random_problem(seed, sites_max=25))[1] == "", seed


def test_nearly_equal_sites_under_a_budget_are_solved():
    """The search once stood still on them: their line is so steep that rounding hid the step."""
    up, down = np.array([86e6, 166e6, 197e6, 243e6]), np.array([56e6, 114e6, 223e6, 222e6])
    sites = Sites(np.array([3.0, 1, 3, 2]), up, down)
    held = 1e9 + np.array([1e9 + 4, 1, 0, 2])
    budget_bytes = reduce_budget_bytes(Stage(held, 180.0), rho=0.25)
    problem = Problem("reduces", sites, Stage(held, 180.0, budget_bytes, task_s=30.0))
    found, known = problem.exact(), problem.general()
    assert found.time_s == pytest.approx(known.time_s, rel=1e-6)


def test_a_wrong_plan_is_noticed(monkeypatch):
    problem = random_problem(1, sites_max=40)
    plan = problem.exact()
    worse = exact.Plan(np.roll(plan.shares, 1), plan.network_s, plan.compute_s * 1.001)
    monkeypatch.setattr(exact, f"place_{problem.kind}", lambda *args: worse)
    assert "takes" in placed_differently(problem)[1]


def without(array, site):
    changed = array.copy()
    changed[site] = 0
    return changed


@SOLVERS
def test_a_site_without_slots_sends_all_it_has_even_beyond_the_budget(solver):
    sites = Sites(without(EVEN.slots, 1), EVEN.up_bytes_per_s, EVEN.down_bytes_per_s)
    stage = Stage(np.array([1e9, 2e9, 3e9]), 60.0)
    stage = Stage(stage.held_bytes, 60.0, map_budget_bytes(stage, rho=0.0))
    plan = solver.place_maps(sites, stage)
    assert plan.shares[1] == 0
    assert not plan.in_budget
    sent = sent_bytes("maps", stage, plan.shares)
    assert sent == pytest.approx(2e9), "the least that is possible"


@SOLVERS
def test_reduces_without_a_budget_run_where_most_of_the_data_is(solver):
    stage = Stage(np.array([1e9, 2e9, 3e9]), 600.0)
    plan = solver.place_reduces(
        EVEN, Stage(stage.held_bytes, 600.0, reduce_budget_bytes(stage, rho=0.0))
    )
    assert plan.shares == pytest.approx([0, 0, 1])
    assert plan.in_budget


@SOLVERS
@pytest.mark.parametrize("maps", [True, False])
@pytest.mark.parametrize(
    ("tasks", "stay"),
    [
        pytest.param(4, True, id="a wave where the data is"),
        pytest.param(40, False, id="many waves there"),
    ],
)
def test_data_moves_for_whole_waves_only(solver, maps, tasks, stay):
    place = solver.place_maps if maps else solver.place_reduces
    held = np.array([0.0, 1e9, 0.0])
    plan = place(EVEN, Stage(held, work_s=tasks * 50.0, task_s=50.0))
    assert (plan.shares[1] == pytest.approx(1)) == stay
    assert plan.compute_s >= 50.0
    spread = place(EVEN, Stage(held, work_s=tasks * 50.0))
    assert spread.shares[1] < 1, "to the letter, parts of a wave count"


@SOLVERS
def test_maps_without_a_budget_stay_where_their_data_is(solver):
    held = np.array([1e9, 2e9, 3e9])
    plan = solver.place_maps(EVEN, Stage(held, 600.0, 0.0))
    assert plan.shares == pytest.approx(held / 6e9)
    assert plan.network_s == pytest.approx(0)


@SOLVERS
@pytest.mark.parametrize("maps", [True, False])
def test_there_is_no_plan_without_slots_or_for_data_that_is_cut_off(solver, maps):
    place = solver.place_maps if maps else solver.place_reduces
    stage = Stage(np.array([1e9, 2e9, 3e9]), 60.0)
    nowhere = Sites(np.zeros(3), EVEN.up_bytes_per_s, EVEN.down_bytes_per_s)
    assert place(nowhere, stage) is None
    cut_off = Sites(without(EVEN.slots, 1), without(EVEN.up_bytes_per_s, 1), EVEN.down_bytes_per_s)
    assert place(cut_off, stage) is None


@SOLVERS
def test_no_task_goes_where_no_byte_can(solver):
    sites = Sites(EVEN.slots, EVEN.up_bytes_per_s, without(EVEN.down_bytes_per_s, 0))
    held = np.array([0.0, 2e9, 3e9])
    assert solver.place_maps(sites, Stage(held, 6000.0)).shares[0] == 0
    assert solver.place_reduces(sites, Stage(held, 6000.0)).shares[0] == 0


@given(st.integers(0, 10**6), st.floats(0, 1), st.floats(0, 1))
def test_a_larger_budget_is_never_slower(seed, rho, other):
    problem = random_problem(seed, sites_max=12)
    budget = map_budget_bytes if problem.kind == "maps" else reduce_budget_bytes
    place = exact.place_maps if problem.kind == "maps" else exact.place_reduces
    held, work_s = problem.stage.held_bytes, problem.stage.work_s
    tight, loose = (
        place(problem.sites, Stage(held, work_s, budget(problem.stage, each)))
        for each in sorted((rho, other))
    )
    if tight is None:
        assert loose is None
    else:
        assert loose.time_s <= tight.time_s * (1 + 1e-9)


@given(st.integers(0, 10**6))
def test_the_better_of_forward_and_reverse_is_no_slower_than_either(seed):
    problem = random_problem(seed, sites_max=8)
    maps, reduces = problem.stage, Stage(problem.stage.held_bytes / 2, problem.stage.work_s / 3)
    plans = [
        plan(exact, problem.sites, maps, reduces)
        for plan in (stageplans.forward, stageplans.reverse)
    ]
    best = stageplans.best_job_plan(exact, problem.sites, maps, reduces)
    times_s = [plan.time_s for plan in plans if plan is not None]
    assert best is None if not times_s else best.time_s == min(times_s)


# Plans in whole tasks, and changes of few sites.


WEIGHTS = st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any)


@given(WEIGHTS, st.integers(0, 500))
def test_rounding_keeps_the_sum_and_empty_sites_empty(weights, tasks):
    shares = np.array(weights, float) / sum(weights)
    whole = whole_tasks(shares, tasks)
    assert whole.sum() == tasks
    assert (whole[shares == 0] == 0).all()
    assert (np.abs(whole - shares * tasks) < 1 + 1e-6).all()


def test_the_largest_remainders_get_the_tasks_that_are_left():
    assert whole_tasks(np.array([0.5, 0.24, 0.26]), 10).tolist() == [5, 2, 3]
    assert whole_tasks(np.array([0.25, 0.25, 0.5]), 2).tolist() == [1, 0, 1], "the first of equals"


def whole_s(tasks, stage, sites, *, maps):
    shares = tasks / tasks.sum()
    waves = np.ceil(tasks[sites.slots > 0] / sites.slots[sites.slots > 0])
    task_s = stage.work_s / tasks.sum()
    return links_s(shares, stage, sites, maps=maps)[1].max() + task_s * waves.max()


def test_tasks_that_a_plan_has_in_parts_go_where_the_stage_is_shortest():
    sites = Sites(np.array([2.0, 2, 4]), 1e6 * np.array([200.0, 50, 10]), np.full(3, 2e8))
    stage = Stage(np.array([4e9, 3e9, 0.0]), work_s=7 * 40.0, task_s=40.0)
    plan = exact.place_maps(sites, stage)
    assert plan.shares * 7 == pytest.approx([2.5, 2.5, 2])
    assert plan.time_s == pytest.approx(60)
    by_remainder = whole_tasks(plan.shares, 7)
    better = better_tasks(by_remainder, stage, sites, None, maps=True)
    assert whole_s(by_remainder, stage, sites, maps=True) == pytest.approx(100), "a second wave"
    assert better.tolist() == [2, 2, 3]
    assert whole_s(better, stage, sites, maps=True) == pytest.approx(60)


@given(st.integers(0, 10**6), st.integers(1, 60), st.floats(0, 1))
def test_moving_single_tasks_never_makes_a_stage_longer(seed, tasks, rho):
    problem = random_problem(seed, sites_max=8)
    maps = problem.kind == "maps"
    budget_bytes = (map_budget_bytes if maps else reduce_budget_bytes)(problem.stage, rho)
    stage = Stage(problem.stage.held_bytes, problem.stage.work_s, budget_bytes)
    plan = (exact.place_maps if maps else exact.place_reduces)(problem.sites, stage)
    if plan is None:
        return
    before = whole_tasks(plan.shares, tasks)
    after = better_tasks(before, stage, problem.sites, None, maps=maps)
    assert after.sum() == tasks
    assert (after >= 0).all()
    assert (after[problem.sites.slots == 0] <= before[problem.sites.slots == 0]).all()
    times_s = [whole_s(each, stage, problem.sites, maps=maps) for each in (before, after)]
    assert times_s[1] <= times_s[0] * (1 + 1e-9)
    sent = [
        links_s(each / tasks, stage, problem.sites, maps=maps)[0].sum() for each in (before, after)
    ]
    assert sent[1] <= max(sent[0], budget_bytes) * (1 + 1e-6)


@pytest.mark.parametrize(
    ("least", "most", "tasks"),
    [
        pytest.param(0.0, 1.0, [1, 4, 0], id="none that matter"),
        pytest.param(0.0, 0.0, [0, 4, 1], id="none at the first site"),
        pytest.param(1.0, 1.0, [0, 5, 0], id="all where they are"),
    ],
)
def test_a_reverse_plan_keeps_its_bounds(least, most, tasks):
    stage = Stage(np.array([0.0, 5e9, 0.0]), work_s=5 * 40.0, task_s=40.0)
    bounds = Bounds(np.array([0.0, least, 0.0]), np.array([most, 1.0, 1.0]))
    after = better_tasks(np.array([0, 5, 0]), stage, EVEN, bounds, maps=True)
    assert after.tolist() == tasks, "five maps are two waves at four slots"


@given(WEIGHTS, st.randoms(use_true_random=False))
def test_tasks_read_elsewhere_only_if_they_must(weights, dice):
    held = np.array(weights)
    placed = np.bincount([dice.randrange(len(held)) for _ in range(held.sum())], None, len(held))
    between = tasks_between(held, placed)
    assert between.sum(axis=1).tolist() == held.tolist()
    assert between.sum(axis=0).tolist() == placed.tolist()
    assert np.diag(between).tolist() == np.minimum(held, placed).tolist()


def test_remote_tasks_of_a_site_are_spread_over_sources():
    between = tasks_between(np.array([0, 0, 8, 4]), np.array([6, 6, 0, 0]))
    assert between[2:, :2].tolist() == [[4, 4], [2, 2]]


@pytest.mark.parametrize("begin", range(0, 400, 100))
def test_few_sites_change_and_come_near_the_ideal(begin):
    for seed in range(begin, begin + 100):
        before, ideal, k_sites = random_change(seed)
        after = changed_at(before, ideal, k_sites)
        assert after.sum() == before.sum()
        assert (after >= 0).all()
        assert np.count_nonzero(after != before) <= k_sites
        best = nearest(before, ideal, k_sites)
        assert distance(after, ideal) <= 1.5 * best + 1e-9, (seed, before, ideal, k_sites)


def test_the_site_that_shrinks_most_sends_to_those_that_lack_most():
    before, ideal = np.array([10, 6, 0, 1, 3]), np.array([2, 4, 7, 4, 3])
    assert changed_at(before, ideal, 1).tolist() == before.tolist(), "one site alone can't change"
    assert changed_at(before, ideal, 2).tolist() == [2, 6, 8, 1, 3]
    assert changed_at(before, ideal, 3).tolist() == [2, 6, 6, 3, 3], "both end one below"
    assert changed_at(before, ideal, 4).tolist() == ideal.tolist()


# At which site a map counts that has its input at several.


class StandInSites:
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
    return stage, MapTasks(stage, StandInSites(sites))


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
        assert found.launched(stage.tasks[index])
    found.spread(np.array([2, 1]))
    assert counts(found) == [1, 1, 0]
    assert not found.launched(stage.tasks[0]), "it has gone"


def test_one_replica_or_none_at_all_stay_where_they_are():
    _, found = inputs([(1,), (1,), ()], 2)
    assert counts(found) == [0, 2, 1]
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
