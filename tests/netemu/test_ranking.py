"""Shortest first that follows changes, against serving lengths one after the other from scratch."""

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from netemu.schedulers.filling import load_of, rounding_of
from netemu.schedulers.ranking import Ranking
from netemu.schedulers.sjf import _greedy

LINKS = 6


class Rows:
    """What ``Ranking`` wants to know of a group; rows that have ended weigh nothing."""

    def __init__(self, flows):
        rows = [sorted(links) + [LINKS] * (3 - len(links)) for links, _, _ in flows]
        self.layout = 0
        self.paths = np.array(rows, dtype=np.int64).reshape(-1, 3).T
        self.left_bytes = np.array([1e6 * size for _, size, _ in flows])
        self.weights = np.array([float(weight) for _, _, weight in flows])
        self.rates = np.zeros(len(flows))

    @property
    def load(self):
        return load_of(self.paths, self.rates * self.weights, LINKS + 1)

    def remaining_bytes(self, rows=slice(None)):
        return np.maximum(self.left_bytes[rows], 1e-6)

    def add(self, flows):
        new = Rows(flows)
        self.paths = np.concatenate([self.paths, new.paths], axis=1)
        for name in ("left_bytes", "weights", "rates"):
            setattr(self, name, np.concatenate([getattr(self, name), getattr(new, name)]))

    def end(self, row):
        if row < len(self.weights):
            self.weights[row] = self.rates[row] = 0.0

    def send(self, seconds):
        """Let time pass, but not beyond the first end."""
        needed = self.left_bytes / np.maximum(self.rates * self.weights, 1e-9)
        needed = needed[self.rates > 0]
        passed_s = min(seconds * 1e6, needed.min() * 0.9) if len(needed) else 0.0
        self.left_bytes = self.left_bytes - self.rates * self.weights * passed_s

    def renumber(self):
        """As when rows that have ended are forgotten."""
        stays = np.flatnonzero(self.weights)[::-1]
        self.paths = self.paths[:, stays]
        for name in ("left_bytes", "weights", "rates"):
            setattr(self, name, getattr(self, name)[stays])
        self.layout += 1


a_flow = st.tuples(
    st.sets(st.integers(0, LINKS - 1), min_size=1, max_size=3),
    st.integers(1, 4),
    st.integers(1, 3),
)
a_change = st.one_of(
    st.tuples(st.just("end"), st.integers(0, 15)),
    st.tuples(st.just("add"), st.lists(a_flow, min_size=1, max_size=2)),
    st.tuples(st.just("capacity"), st.integers(0, LINKS - 1), st.integers(0, 9)),
    st.tuples(st.just("send"), st.sampled_from([0.01, 0.1, 1.0])),
    st.tuples(st.just("renumber")),
)


@example(  # a link that stops, and then goes on
    flows=[({0, 1, 2}, 4, 1)],
    capacities=[5, 5, 5, 5, 5, 5],
    changes=[[("capacity", 1, 0)], [("capacity", 1, 5)]],
)
@given(
    flows=st.lists(a_flow, min_size=1, max_size=15),
    capacities=st.lists(st.integers(0, 9), min_size=LINKS, max_size=LINKS),
    changes=st.lists(st.lists(a_change, max_size=3), max_size=6),
)
def test_what_follows_changes_equals_serving_one_after_the_other(flows, capacities, changes):
    ranking, rows = Ranking(), Rows(flows)
    for now in [[], *changes]:
        for what, *how in now:
            if what == "capacity":
                capacities[how[0]] = how[1]
            else:
                getattr(rows, what)(*how)
        links = np.array([*map(float, capacities), math.inf])
        rates = ranking.share(rows, links, rounding_of(links))
        left = links.copy()
        expected = _greedy(rows, left)
        if rates is None:
            rates = expected
            ranking.start(rows, rates, left)
        assert rates == pytest.approx(expected, abs=1e-9)
        rows.rates = rates
