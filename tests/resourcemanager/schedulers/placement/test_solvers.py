"""The exact solver against the linear programs, and what any plan has to be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.benchmarks.placement._problems import Problem, placed_differently, random_problem
from railyard.resourcemanager.schedulers.placement import exact, general, stages
from railyard.resourcemanager.schedulers.placement.model import (
    Sites,
    Stage,
    map_budget_bytes,
    reduce_budget_bytes,
)

SOLVERS = pytest.mark.parametrize("solver", [exact, general])
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
    worse = exact.Plan(
        np.roll(plan.shares, 1), plan.network_s, plan.compute_s * 1.001, plan.wan_bytes
    )
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
    assert plan.wan_bytes == pytest.approx(2e9), "the least that is possible"


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
    assert (plan.wan_bytes == pytest.approx(0)) == stay
    assert plan.compute_s >= 50.0
    spread = place(EVEN, Stage(held, work_s=tasks * 50.0))
    assert spread.wan_bytes > 0, "to the letter, parts of a wave count"


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
    plans = [plan(exact, problem.sites, maps, reduces) for plan in (stages.forward, stages.reverse)]
    best = stages.best(exact, problem.sites, maps, reduces)
    times_s = [plan.time_s for plan in plans if plan is not None]
    assert best is None if not times_s else best.time_s == min(times_s)
