"""Planning problems for tests: by hand, and by hypothesis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st

from railyard.resourcemanager.schedulers.corral.heuristics import Problem, Scenario


def problem(
    lengths_s: Sequence[Sequence[float]],
    arrive_s: Sequence[float] | None = None,
    scenario: Scenario = "batch",
    busy_until_s: Sequence[float] | None = None,
) -> Problem:
    """A problem by its lengths [j][r - 1]."""
    lengths = np.array(lengths_s, dtype=float)
    jobs, racks = lengths.shape
    return Problem(
        scenario=scenario,
        lengths_s=lengths,
        arrive_s=np.array(arrive_s or [0.0] * jobs, dtype=float),
        busy_until_s=np.array(busy_until_s or [0.0] * racks, dtype=float),
    )


@st.composite
def problems(draw, jobs_max: int = 9, racks_max: int = 6) -> Problem:
    """Lengths with many ties and bumps; times of arrival with many ties."""
    jobs, racks = draw(st.integers(1, jobs_max)), draw(st.integers(1, racks_max))
    times = st.one_of(st.integers(1, 12), st.floats(0.1, 20))
    row = st.lists(times, min_size=racks, max_size=racks)
    lengths = draw(st.lists(row, min_size=jobs, max_size=jobs))
    if draw(st.booleans()):  # as response functions are: falling
        lengths = [sorted(row, reverse=True) for row in lengths]
    arrive, scenario = None, draw(st.sampled_from(["batch", "online"]))
    if scenario == "online":
        arrivals = st.one_of(st.integers(0, 4), st.integers(0, 60), st.floats(0, 30))
        arrive = draw(st.lists(arrivals, min_size=jobs, max_size=jobs))
    busy = draw(st.none() | st.lists(st.integers(0, 9), min_size=racks, max_size=racks))
    return problem(lengths, arrive, scenario, busy)
