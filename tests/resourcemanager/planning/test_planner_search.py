"""The planner against brute force, and the quick search against the plain one."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from resourcemanager.planning.prioritization import Problem
from resourcemanager.planning.provisioning import Path, allocations, plain_provisioning
from resourcemanager.planning.quicksearch import quick_provisioning


def problem(lengths_s, arrive_s=None, scenario="batch", busy_until_s=None) -> Problem:
    lengths = np.array(lengths_s, dtype=float)
    jobs, racks = lengths.shape
    return Problem(
        scenario=scenario,
        lengths_s=lengths,
        arrive_s=np.array(arrive_s or [0.0] * jobs, dtype=float),
        busy_until_s=np.array(busy_until_s or [0.0] * racks, dtype=float),
    )


@st.composite
def problems(draw, jobs_max=9, racks_max=6, scenarios=("batch", "online")) -> Problem:
    """Lengths with many ties and bumps; times of arrival with many ties."""
    jobs, racks = draw(st.integers(1, jobs_max)), draw(st.integers(1, racks_max))
    times = st.one_of(st.integers(1, 12), st.floats(0.1, 20))
    lengths = draw(
        st.lists(st.lists(times, min_size=racks, max_size=racks), min_size=jobs, max_size=jobs)
    )
    if draw(st.booleans()):  # as response functions are: falling
        lengths = [sorted(row, reverse=True) for row in lengths]
    scenario = draw(st.sampled_from(scenarios))
    arrivals = st.one_of(st.integers(0, 4), st.integers(0, 60), st.floats(0, 30))
    arrive = (
        draw(st.lists(arrivals, min_size=jobs, max_size=jobs)) if scenario == "online" else None
    )
    busy = draw(st.none() | st.lists(st.integers(0, 9), min_size=racks, max_size=racks))
    return problem(lengths, arrive, scenario, busy)


@given(problems())
@settings(max_examples=1500, deadline=None)
def test_the_path_is_the_plain_one(given_problem):
    path = Path(given_problem)
    plain = list(map(list, allocations(given_problem)))
    assert [list(path.widths(number)) for number in range(len(path))] == plain


@given(problems())
@settings(max_examples=2000, deadline=None)
def test_the_quick_search_finds_what_the_plain_one_finds(given_problem):
    quick, plain = quick_provisioning(given_problem), plain_provisioning(given_problem)
    assert list(quick) == list(plain)
