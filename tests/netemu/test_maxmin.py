"""The numpy max-min against exact progressive filling, and its worked examples."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.netemu.model.links import load_of
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.netemu.schedulers.filling import _link_by_link, fill, rounding_of
from railyard.netemu.schedulers.reference.leveling import Leveling

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


@given(
    classes=st.lists(st.tuples(path, weight), min_size=1, max_size=12),
    capacities=st.lists(
        st.one_of(st.integers(1, 50), st.just(math.inf)), min_size=LINKS, max_size=LINKS
    ),
)
def test_link_by_link_is_the_same(classes, capacities):
    rows = [sorted(links) + [LINKS] * (4 - len(links)) for links, _ in classes]
    paths, weights = np.array(rows).T, np.array([float(weight) for _, weight in classes])
    left, again = np.array([[*capacities, math.inf]] * 2, dtype=float)
    levels = np.full(LINKS + 1, math.inf)
    rates = _link_by_link(paths, weights, left, levels)
    assert rates == pytest.approx(fill(paths, weights, again))
    assert left == pytest.approx(again, abs=1e-9)
    assert levels.take(paths).min(axis=0) == pytest.approx(rates)


class Rows:
    """What ``Leveling`` wants to know of a group; rows that have ended weigh nothing."""

    def __init__(self, classes):
        rows = [sorted(links) + [LINKS] * (4 - len(links)) for links, _ in classes]
        self.layout = 0
        self.paths = np.array(rows, dtype=np.int64).reshape(-1, 4).T
        self.weights = np.array([float(weight) for _, weight in classes])
        self.rates = np.zeros(len(classes))

    @property
    def load(self):
        return load_of(self.paths, self.rates * self.weights, LINKS + 1)

    def add(self, classes):
        new = Rows(classes)
        self.layout += 1
        self.paths = np.concatenate([self.paths, new.paths], axis=1)
        self.weights = np.concatenate([self.weights, new.weights])
        self.rates = np.concatenate([self.rates, new.rates])

    def end(self, row):
        if row < len(self.weights):
            self.weights[row] = self.rates[row] = 0.0


a_change = st.one_of(
    st.tuples(st.just("end"), st.integers(0, 20)),
    st.tuples(st.just("add"), st.lists(st.tuples(path, weight), min_size=1, max_size=2)),
    st.tuples(st.just("capacity"), st.integers(0, LINKS - 1), capacity),
    st.tuples(st.just("weight"), st.integers(0, 20), weight),
)


@given(
    classes=st.lists(st.tuples(path, weight), min_size=1, max_size=20),
    capacities=st.lists(capacity, min_size=LINKS, max_size=LINKS),
    changes=st.lists(st.lists(a_change, max_size=3), max_size=6),
)
def test_what_follows_changes_equals_exact_progressive_filling(classes, capacities, changes):
    leveling, rows = Leveling(), Rows(classes)
    for now in [[], *changes]:
        for what, *how in now:
            if what == "capacity":
                capacities[how[0]] = how[1]
            elif what == "weight":
                if how[0] < len(rows.weights) and rows.weights[how[0]]:
                    rows.weights[how[0]] = how[1]
            else:
                getattr(rows, what)(*how)
        links = np.array([*capacities, math.inf], dtype=float)
        # as in the fabric, paths have limited links only
        limited = np.where(np.isinf(links[rows.paths]), LINKS, rows.paths)
        rows.paths, rows.layout = limited, rows.layout + 1
        rows.rates, left = leveling.share(rows, links, rounding_of(links))
        alive = np.flatnonzero(rows.weights)
        paths = [set(rows.paths[:, row].tolist()) - {LINKS} for row in alive]
        exact = max_min(paths, rows.weights[alive], dict(enumerate(capacities)))
        assert rows.rates[alive] == pytest.approx([float(rate) for rate in exact])
        assert not rows.rates[rows.weights == 0].any()
        assert left[:-1] == pytest.approx((links - rows.load)[:-1], abs=1e-9)


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


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UsageError, match='unknown flow scheduler "maxmi": did you mean "maxmin"'):
        flow_scheduler("maxmi")


def test_every_listed_scheduler_says_where_it_is_from():
    for name, kind in FLOW_SCHEDULERS.items():
        assert kind.name == name
        assert kind.source
