"""The paper's own examples (Tetrium, section 2.2; Fig. 3 and 4)."""

from math import ceil

import numpy as np
import pytest

from railyard.resourcemanager.schedulers.placement import exact, general, stages
from railyard.resourcemanager.schedulers.placement.model import (
    Sites,
    Stage,
    compute_s,
    network_s,
)
from railyard.resourcemanager.schedulers.placement.rounding import whole_tasks

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
    plan = stages.forward(
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
    wanted = stages.output_wanted(SITES, reduces.size_bytes)
    assert wanted.least == pytest.approx([0, 1 / 7, 0])
    assert wanted.most == pytest.approx([1, 1 / 7, 0.342857], abs=1e-6)
    plan = stages.reverse(solver, SITES, maps, reduces)
    shares = plan.maps.shares
    assert (shares >= wanted.least - 1e-9).all()
    assert (shares <= wanted.most + 1e-9).all()
    assert shuffle_s(shares * reduces.size_bytes, SITES.slots / 70) == pytest.approx(
        6.122, abs=1e-3
    )
    assert stages.best(solver, SITES, maps, reduces).time_s <= plan.time_s + 1e-9
