"""Plans in whole tasks, and changes of few sites."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.benchmarks.placement._problems import nearest, random_change
from railyard.resourcemanager.schedulers.placement.ksites import changed_at, distance
from railyard.resourcemanager.schedulers.placement.rounding import tasks_between, whole_tasks

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
