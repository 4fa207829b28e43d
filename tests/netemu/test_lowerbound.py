"""T(C) with the papers' numbers and against its definition."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.oracles.lowerbound import circuit_times_s, lower_bound_s


def coflow(maps, reduces):
    """Bytes between racks if each map has one unit for each reduce."""
    return np.outer(maps, reduces)


@pytest.mark.parametrize("delta", [0.0, 0.01, 0.1, 0.5])
@pytest.mark.parametrize(
    ("maps", "reduces", "transfer_s"),
    [
        ((3, 3, 3), (0, 2, 1), 12),  # Fig. 2(a), Job1
        ((5, 5, 5), (2, 0, 1), 20),  # Fig. 2(a), Job2
        ((3, 3, 3), (1, 1, 1), 6),  # Fig. 2(b), Job1
        ((5, 5, 5), (1, 1, 1), 10),  # Fig. 2(b), Job2
    ],
)
def test_co_scheduler_fig_2(maps, reduces, transfer_s, delta):
    assert lower_bound_s(coflow(maps, reduces), 1.0, delta) == pytest.approx(transfer_s + 2 * delta)


def test_co_scheduler_s_10_gb_sort_on_two_by_two_racks():
    """Four flows of 2.5 GB over 100 Gbps: each rack has 5 GB for two circuits of 10 ms set-up."""
    racks = coflow((20, 20, 0, 0), (0, 0, 5, 5)) * 25e6
    assert racks.max() == 2.5e9 >= 1.125e9
    assert circuit_times_s(racks, 12.5e9, 0.010)[0, 2] == pytest.approx(0.21)
    assert lower_bound_s(racks, 12.5e9, 0.010) == pytest.approx(0.42)
    assert lower_bound_s(racks, 12.5e9, 0.010, wavelengths=2) == pytest.approx(0.21)


def test_nothing_to_send_takes_no_time():
    assert lower_bound_s(np.zeros((3, 3)), 1.0, 0.5) == 0.0
    assert lower_bound_s(np.diag([5.0, 6.0]), 1.0, 0.5) == 0.0  # all of it stays in its rack
    assert lower_bound_s(np.zeros((0, 0)), 1.0, 0.5) == 0.0


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(0, 10**12), min_size=n, max_size=n), min_size=n, max_size=n
        )
    ),
    st.floats(0, 1),
    st.integers(1, 4),
)
def test_it_is_what_the_busiest_port_needs(rows, delta, wavelengths):
    n, rate = len(rows), 12.5e9

    def needs_s(pairs):
        return sum(rows[i][j] / rate + delta for i, j in pairs if i != j and rows[i][j])

    ports = [needs_s([(i, j) for j in range(n)]) for i in range(n)]
    ports += [needs_s([(i, j) for i in range(n)]) for j in range(n)]
    expected = pytest.approx(max(ports) / wavelengths)
    assert lower_bound_s(rows, rate, delta, wavelengths) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (([[1.0, 2.0]], 1.0, 0.0), "need a square matrix"),
        (([[0.0, -1.0], [0.0, 0.0]], 1.0, 0.0), "need none below 0"),
        (([[0.0]], 0.0, 0.0), "need a rate above 0"),
        (([[0.0]], 1.0, -1.0), "need seconds >= 0"),
        (([[0.0]], 1.0, 0.0, 0), "need at least 1"),
        (([[float("nan")]], 1.0, 0.0), "need none below 0"),
    ],
)
def test_nonsense_is_refused(arguments, expected):
    with pytest.raises(ValueError, match=expected):
        lower_bound_s(*arguments)
