"""Co-scheduler's guidelines: the paper's numbers, and what must hold for any job."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from fractions import Fraction
from itertools import product
from math import ceil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.resourcemanager.schedulers.co_scheduler.guidelines import (
    DataGuideline,
    ShuffleForecast,
    data_guideline,
    latency_matrix,
    recurring_guideline,
    replica_racks,
)
from railyard.resourcemanager.schedulers.co_scheduler.reduceschedule import Hybrid

GB = 10**9
ELEPHANT = 1_125_000_000


def hybrid(racks: int = 60, slots: int = 200, elephant: float = ELEPHANT) -> Hybrid:
    """The paper's simulated cluster, or one like it."""
    return Hybrid(
        racks=racks,
        slots=slots,
        eps_bytes_per_s=1.25 * GB,
        ocs_bytes_per_s=12.5 * GB,
        elephant_bytes=elephant,
    )


# Non-recurring jobs ------------------------------------------------------------------------------
def test_a_terasort_of_10_gb_should_have_two_map_racks():
    """Section III-A: 2 map racks x 2 reduce racks give 4 flows of 2.5 GB; sqrt(10/1.125) = 2.98."""
    assert data_guideline(10 * GB, hybrid()) == DataGuideline(2)
    assert 10 * GB / (2 * 2) == 2.5 * GB >= ELEPHANT


@pytest.mark.parametrize(
    ("input_gb", "sir", "racks"),
    [
        pytest.param(1.124, 1.0, None, id="less than an elephant is not shuffle-heavy"),
        pytest.param(1.125, 1.0, 1, id="an elephant, exactly"),
        pytest.param(10, 0.1, None, id="much input, little shuffle"),
        pytest.param(1, 4.5, 2, id="little input, much shuffle"),
        pytest.param(1000, 1.0, 20, id="at most a third of 60 racks: 3 disjoint sets"),
        pytest.param(0, 1.0, None, id="no input"),
    ],
)
def test_map_racks_of_a_job_of_which_only_the_size_is_known(input_gb, sir, racks):
    found = data_guideline(input_gb * GB * sir, hybrid())
    assert (found and found.map_racks) == racks


@given(size=st.integers(0, 10**12), sir=st.floats(0, 5), elephant=st.integers(10**6, 2 * 10**9))
def test_equation_7_leaves_every_flow_large_enough(size, sir, elephant):
    found = data_guideline(size * sir, hybrid(elephant=elephant))
    assert (found is not None) == (size * sir >= elephant)
    if found is not None:
        # eq. 4 for R_red = R_map
        assert size * sir / found.map_racks**2 >= elephant * (1 - 1e-12)
        assert found.map_racks == 20 or size * sir / (found.map_racks + 1) ** 2 < elephant


def test_without_circuits_no_job_is_shuffle_heavy():
    assert data_guideline(10**15, hybrid(elephant=float("inf"))) is None


# Recurring jobs ----------------------------------------------------------------------------------
def fig_4(shuffle_gb: float = 78.0) -> ShuffleForecast:
    """The job of Fig. 4.  Its sizes are not given: D_shu must be 74.25 to 81 GB, see below."""
    return ShuffleForecast(
        maps=3472, map_s=10, reduces=169, reduce_s=20, shuffle_bytes=shuffle_gb * GB
    )


FIG_4 = hybrid(racks=15, slots=600)


@pytest.mark.parametrize(
    ("shuffle_gb", "last"), [(74.24, 10), (74.25, 11), (78, 11), (80.99, 11), (81, 12)]
)
def test_latency_jumps_where_the_shuffle_is_too_spread_for_circuits(shuffle_gb, last):
    """Fig. 4, row R_map = 6: circuits up to R_red = 11, and a jump at 12."""
    latency_s, circuits = latency_matrix(fig_4(shuffle_gb), FIG_4)
    row = latency_s[5]
    assert circuits[5].sum() == last
    assert int(np.diff(row).argmax()) + 1 == last
    assert row[last] - row[last - 1] > 4 * np.abs(np.diff(row[:last])).max()


def test_more_map_racks_help_until_all_maps_run_at_once():
    """Fig. 4: 3472 maps are more than the slots of 5 racks, so latency drops up to R_map = 6."""
    latency_s, _ = latency_matrix(fig_4(), FIG_4)
    assert np.ceil(3472 / (np.arange(1, 8) * 600)).tolist() == [6, 3, 2, 2, 2, 1, 1]
    assert latency_s[0, 0] == 6 * 10 + 0 + 20  # one reduce rack: nothing crosses, by eq. 10
    assert (latency_s[5] < latency_s[4]).all()
    assert latency_s[5, 0] == latency_s[6, 0]


def test_equations_8_to_10_by_hand():
    latency_s, circuits = latency_matrix(fig_4(), FIG_4)
    assert circuits[5, 10]
    assert latency_s[5, 10] == pytest.approx(10 + 78 / (6 * 11) * 10 / 12.5 + 20)
    assert not circuits[5, 11]
    assert latency_s[5, 11] == pytest.approx(10 + 78 / (6 * 12) * 11 / 1.25 + 20)


def test_the_smallest_number_of_map_racks_in_the_zone_is_taken():
    """All maps at once needs 6 racks; at most 5 leave room for three replicas on 15."""
    assert recurring_guideline(fig_4(), FIG_4, 1.1) == DataGuideline(3, tuple(range(1, 16)))
    three = Hybrid(
        racks=18,
        slots=600,
        eps_bytes_per_s=1.25 * GB,
        ocs_bytes_per_s=12.5 * GB,
        elephant_bytes=ELEPHANT,
    )
    assert recurring_guideline(fig_4(), three, 1.1) == DataGuideline(6, tuple(range(1, 12)))


def test_a_recurring_job_with_a_small_shuffle_has_no_guideline():
    assert recurring_guideline(fig_4(1.1), FIG_4, 1.1) is None


@given(
    maps=st.integers(1, 5000),
    reduces=st.integers(1, 500),
    shuffle_gb=st.floats(0.1, 500),
    racks=st.integers(1, 60),
)
def test_the_zone_uses_circuits_and_is_nearly_as_fast_as_the_best(maps, reduces, shuffle_gb, racks):
    job = ShuffleForecast(
        maps=maps, map_s=3, reduces=reduces, reduce_s=5, shuffle_bytes=shuffle_gb * GB
    )
    place = hybrid(racks=racks, slots=20)
    found = recurring_guideline(job, place, 1.1)
    latency_s, circuits = latency_matrix(job, place)
    assert (found is None) == (shuffle_gb * GB < ELEPHANT)
    if found is not None:
        rows = slice(0, place.racks_max)
        best_s = latency_s[rows][circuits[rows]].min()
        for width in found.reduce_racks:
            assert circuits[found.map_racks - 1, width - 1]
            assert latency_s[found.map_racks - 1, width - 1] <= 1.1 * best_s
        for row in range(found.map_racks - 1):  # no row before it has one in the zone
            assert not (latency_s[row][circuits[row]] <= 1.1 * best_s).any()


# Data --------------------------------------------------------------------------------------------
@given(racks=st.integers(1, 60), count=st.integers(1, 20), replicas=st.integers(1, 4))
def test_replicas_are_on_disjoint_racks(racks, count, replicas):
    names = [f"r{number}" for number in range(racks)]
    sets = replica_racks(names, count, replicas, random.Random(1))
    used = Counter(rack for each in sets for rack in each)
    assert max(used.values()) == 1
    assert set(used) <= set(names)
    assert {len(each) for each in sets} == {min(count, max(1, racks // replicas))}
    assert len(sets) == min(replicas, racks)


def test_every_rack_gets_its_turn():
    names = [f"r{number}" for number in range(8)]
    dice = random.Random(1)
    used = Counter(r for _ in range(1000) for s in replica_racks(names, 2, 3, dice) for r in s)
    assert all(650 < count < 850 for count in used.values())


def test_a_shuffle_may_be_predicted_to_take_as_long_as_its_largest_rack():
    """By eq. 10 one that goes to one rack is free; by eq. 2 that rack gets all of it."""
    job = ShuffleForecast(maps=40, map_s=1.0, reduces=40, reduce_s=1.0, shuffle_bytes=400 * GB)
    place = Hybrid(
        racks=12, slots=20, eps_bytes_per_s=1 * GB, ocs_bytes_per_s=10 * GB, elephant_bytes=1 * GB
    )
    printed_s, circuits = latency_matrix(job, place)
    bounded_s, same = latency_matrix(job, replace(place, shuffle_bound=True))
    assert (circuits == same).all()
    assert printed_s[3, 0] == 1.0 + 2.0
    assert bounded_s[3, 0] == 1.0 + 2.0 + 400 / 10  # the one rack gets all
    assert bounded_s[0, 3] == 2.0 + 1.0 + 400 / 10  # the one rack sends all
    assert bounded_s[3, 3] == 1.0 + 1.0 + 100 / 10
    found = recurring_guideline(job, replace(place, shuffle_bound=True), 1.1)
    assert found == DataGuideline(4, tuple(range(4, 13)))


# Ties --------------------------------------------------------------------------------------------
def by_fractions(job: ShuffleForecast, place: Hybrid, factor: float) -> DataGuideline | None:
    """Equations 8 to 10 and the zone, in exact arithmetic."""
    latency_s: dict[tuple[int, int], Fraction] = {}
    for m, r in product(range(1, place.racks_max + 1), range(1, place.racks + 1)):
        flow_bytes = Fraction(job.shuffle_bytes) / (m * r)
        if flow_bytes >= Fraction(place.elephant_bytes):
            crossing_bytes = flow_bytes * (max(m, r) if place.shuffle_bound else r - 1)
            latency_s[m, r] = (
                ceil(Fraction(job.maps, m * place.slots)) * Fraction(job.map_s)
                + crossing_bytes / Fraction(place.ocs_bytes_per_s)
                + ceil(Fraction(job.reduces, r * place.slots)) * Fraction(job.reduce_s)
            )
    if not latency_s:
        return None
    limit_s = Fraction(str(factor)) * min(latency_s.values())
    zone = [entry for entry in sorted(latency_s) if latency_s[entry] <= limit_s]
    racks = zone[0][0]
    return DataGuideline(racks, tuple(r for m, r in zone if m == racks))


def test_entries_that_are_as_fast_as_the_best_are_in_the_zone():
    """One wave of maps and of reduces, and a shuffle that takes as long from 5 to 15 racks."""
    job = ShuffleForecast(maps=7, map_s=3, reduces=5, reduce_s=0.7, shuffle_bytes=78 * GB)
    place = replace(hybrid(racks=17, slots=5, elephant=GB), ocs_bytes_per_s=3 * GB)
    place = replace(place, shuffle_bound=True)
    assert recurring_guideline(job, place, 1.0) == DataGuideline(5, tuple(range(5, 16)))


@pytest.mark.parametrize("seed", range(10))
def test_zones_are_exact(seed):
    dice = random.Random(seed)
    for _ in range(100):
        place = Hybrid(
            racks=dice.randint(1, 20),
            slots=dice.randint(1, 8),
            eps_bytes_per_s=GB,
            ocs_bytes_per_s=dice.choice((10 * GB, 3 * GB, 7 * GB)),
            elephant_bytes=dice.choice((GB, ELEPHANT, 3e8)),
            shuffle_bound=dice.random() < 0.5,
        )
        job = ShuffleForecast(
            maps=dice.randint(1, 60),
            map_s=dice.choice((0.1, 0.3, 3, 1.7)),
            reduces=dice.randint(1, 60),
            reduce_s=dice.choice((0.1, 5, 0.7)),
            shuffle_bytes=dice.choice((10, 30, 78, 2.4)) * GB,
        )
        factor = dice.choice((1.0, 1.1, 1.5))
        assert recurring_guideline(job, place, factor) == by_fractions(job, place, factor)
