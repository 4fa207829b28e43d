"""The numpy max-min against exact progressive filling, and its worked examples."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.netemu.model.filling import fill
from railyard.netemu.schedulers import flow_scheduler, flow_schedulers

LINKS = 7
capacity = st.one_of(st.integers(1, 50), st.just(math.inf), st.just(0))
path = st.sets(st.integers(0, LINKS - 1), min_size=1, max_size=4)
weight = st.integers(1, 5)


def max_min(paths, weights, capacities):
    """By the book, in exact fractions: fill all alike, freeze who crosses a full link, repeat.

    ``paths``: for each class, the set of its links; ``capacities``: {link: Fraction or inf}.
    A rate is inf where no link limits it.
    """
    rates = [None] * len(paths)
    left = {link: c if c == float("inf") else Fraction(c) for link, c in capacities.items()}
    level = Fraction(0)
    while None in rates:
        rising = [n for n, rate in enumerate(rates) if rate is None]
        load = {
            link: sum(Fraction(weights[n]) for n in rising if link in paths[n])
            for link, c in left.items()
            if c != float("inf")
        }
        room = {link: left[link] / total for link, total in load.items() if total}
        if not room:
            return [float("inf") if rate is None else rate for rate in rates]
        step = min(room.values())
        level += step
        for link, total in load.items():
            left[link] -= step * total
        full = {link for link, space in room.items() if space == step}
        for n in rising:
            if full & paths[n]:
                rates[n] = level
    return rates


def rates_of(paths, weights, capacities):
    """What progressive filling answers for paths that are sets of links."""
    rows = [sorted(links) + [len(capacities)] * (4 - len(links)) for links in paths]
    return fill(
        np.array(rows, dtype=np.int64).reshape(-1, 4).T,
        np.array(weights, dtype=float),
        np.array([*capacities, math.inf], dtype=float),
    )


@given(
    classes=st.lists(st.tuples(path, weight), max_size=12),
    capacities=st.lists(capacity, min_size=LINKS, max_size=LINKS),
)
def test_equals_exact_progressive_filling(classes, capacities):
    paths, weights = [links for links, _ in classes], [weight for _, weight in classes]
    exact = max_min(paths, weights, dict(enumerate(capacities)))
    assert rates_of(paths, weights, capacities) == pytest.approx([float(r) for r in exact])


@given(
    classes=st.lists(st.tuples(path, weight), min_size=1, max_size=12),
    capacities=st.lists(st.integers(1, 50), min_size=LINKS, max_size=LINKS),
)
def test_feasible_and_every_class_has_a_bottleneck(classes, capacities):
    paths, weights = [links for links, _ in classes], [weight for _, weight in classes]
    rates = rates_of(paths, weights, capacities)
    used = [
        sum(
            rate * weight
            for rate, links, weight in zip(rates, paths, weights, strict=True)
            if link in links
        )
        for link in range(LINKS)
    ]
    for link in range(LINKS):
        assert used[link] <= capacities[link] * (1 + 1e-9)
    for rate, links in zip(rates, paths, strict=True):
        # a full link on which no class gets more: what makes an allocation max-min fair
        assert any(
            used[link] >= capacities[link] * (1 - 1e-9)
            and all(
                rate >= r * (1 - 1e-9)
                for r, others in zip(rates, paths, strict=True)
                if link in others
            )
            for link in links
        )


@given(
    classes=st.lists(st.tuples(path, weight), min_size=1, max_size=10),
    capacities=st.lists(capacity, min_size=LINKS, max_size=LINKS),
    order=st.randoms(use_true_random=False),
)
def test_order_does_not_matter(classes, capacities, order):
    shuffled = list(enumerate(classes))
    order.shuffle(shuffled)
    rates = rates_of(*zip(*classes, strict=True), capacities)
    again = rates_of(*zip(*(row for _, row in shuffled), strict=True), capacities)
    assert again == pytest.approx([rates[number] for number, _ in shuffled])


@pytest.mark.parametrize(
    ("paths", "weights", "capacities", "rates"),
    [
        pytest.param([{0}, {0}], [1, 3], [8], [2, 2], id="weights count: 2 and 6"),
        pytest.param([{0}, {0, 1}, {1}], [1, 1, 1], [10, 4], [8, 2, 2], id="Bertsekas-Gallager"),
        pytest.param([{0}, {0, 1}], [1, 1], [6, 1], [5, 1], id="what one can't use another gets"),
        pytest.param([{0}, {1}], [1, 1], [math.inf, 3], [math.inf, 3], id="one is unlimited"),
        pytest.param([{0}, {0, 1}], [1, 1], [6, 0], [6, 0], id="a dead link"),
        pytest.param([], [], [6], [], id="nobody"),
    ],
)
def test_worked_examples(paths, weights, capacities, rates):
    assert list(rates_of(paths, weights, capacities)) == rates


def test_rows_without_weight_get_nothing():
    """Rows stay for a while after their flows have ended, also where nothing else is sent."""
    paths, capacities = np.array([[0, 0, 1]]), np.array([8.0, 3.0, math.inf])
    assert fill(paths, np.array([1.0, 0.0, 0.0]), capacities.copy()).tolist() == [8.0, 0.0, 0.0]
    assert fill(paths, np.zeros(3), capacities.copy()).tolist() == [0.0, 0.0, 0.0]


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UsageError, match='unknown flow scheduler "maxmi": did you mean "maxmin"'):
        flow_scheduler("maxmi")


def test_every_listed_scheduler_says_where_it_is_from():
    for name, kind in flow_schedulers().items():
        assert kind.name == name
        assert kind.source
