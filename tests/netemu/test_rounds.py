"""Filling in compiled rounds, or row by row, gives the rates of arrays, to the last bit."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.netemu.schedulers.fast.loops.rounds import fill_in_rounds
from railyard.netemu.schedulers.filling import fill, fill_many

LINKS = 12  #: the last one stands for no link


def rows(weights, most=40):
    """Rows of these weights, each on up to three links."""
    links = st.lists(st.integers(0, LINKS - 1), min_size=3, max_size=3)
    return st.lists(st.tuples(links, weights), min_size=1, max_size=most)


whole, any_weight = st.sampled_from([0.0, 1.0, 2.0, 7.0]), st.floats(0.01, 100.0)
capacities = st.lists(
    st.sampled_from([0.0, 1.0, 1e9, 1.25e9, 1e9 / 3, np.inf]),
    min_size=LINKS - 1,
    max_size=LINKS - 1,
)


def are_alike(found, capacities):
    paths = np.array([links for links, _ in found]).T
    weights = np.array([weight for _, weight in found])
    left = np.array([*capacities, np.inf])
    expected = left.copy()
    rates = fill_many(paths, weights, expected).tolist()
    for filled in (fill_in_rounds, fill):
        mine = left.copy()
        assert filled(paths, weights, mine).tolist() == rates
        assert mine.tolist() == expected.tolist()


@given(found=rows(st.one_of(whole, any_weight), most=4), capacities=capacities)
@settings(max_examples=500)
def test_rates_of_few_rows_are_the_reference_s(found, capacities):
    are_alike(found, capacities)


@given(found=rows(whole), capacities=capacities)
@settings(max_examples=200)
def test_rates_of_rows_with_whole_weights_are_the_reference_s(found, capacities):
    """These weights' sums are kept up to date instead of made anew."""
    are_alike(found, capacities)


@given(found=rows(st.one_of(whole, any_weight)), capacities=capacities)
@settings(max_examples=200)
def test_rates_of_rows_with_any_weights_are_the_reference_s(found, capacities):
    are_alike(found, capacities)


def test_a_link_that_is_crossed_twice_counts_twice():
    left = np.array([1.0, 3.0, np.inf])
    paths = np.array([[0, 0, 1], [0, 1, 2]])
    rates = fill_in_rounds(paths, np.ones(3), left)
    assert rates.tolist() == [1 / 3, 1 / 3, 3 - 1 / 3]
    assert left.tolist() == [0.0, 0.0, np.inf]


def test_without_rows_nothing_is_shared():
    left = np.array([1.0, np.inf])
    assert fill_in_rounds(np.zeros((1, 0), np.int64), np.zeros(0), left).tolist() == []
    assert left.tolist() == [1.0, np.inf]
