"""The rule by which a soak is flat, and that what measures recoveries can be asked for."""

import random

import pytest

from railyard.benchmarks.recovery._growth import growth_of
from railyard.benchmarks.recovery._joblengths import covered_s
from railyard.benchmarks.recovery.soak import growth_row, plan_soak
from railyard.cluster.topology import load_topology
from railyard.resourcemanager.process.messages import AttemptReport
from railyard.scripts.chaos.plan import DEADLY, possible_kinds
from railyard.scripts.chaos.runs import wasted_s
from railyard.scripts.commands.bench import benchmark_names, parts_of

TIMES_S = [2.0 * number for number in range(900)]  # half an hour


def noisy(value_of, seed=1):
    dice = random.Random(seed)
    return [value_of(time_s) + dice.gauss(0, 0.5) for time_s in TIMES_S]


def test_a_line_that_rises_is_not_flat_and_its_slope_is_found():
    found = growth_of(TIMES_S, noisy(lambda time_s: 40 + 12 * time_s / 3600))
    assert found.low_per_hour < 12 < found.high_per_hour
    assert found.high_per_hour - found.low_per_hour < 5
    assert found.lasted_s == pytest.approx(600, abs=4)
    assert not found.is_below(9)
    assert found.is_below(16)


def test_what_rose_only_at_first_is_flat():
    assert growth_of(TIMES_S, noisy(lambda time_s: min(40 + time_s / 60, 55))).is_below(4)


def test_noise_alone_is_flat_unless_it_hides_what_is_asked_for():
    for seed in range(50):
        assert growth_of(TIMES_S, noisy(lambda _: 40, seed)).is_below(4)
    dice = random.Random(1)
    assert not growth_of(TIMES_S, noisy(lambda _: dice.gauss(40, 20))).is_below(4)


def test_constant_descriptors_are_flat():
    assert growth_of(TIMES_S, [31.0] * len(TIMES_S)).is_below(0)


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="need 20"):
        growth_of(TIMES_S[:30], [1.0] * 30)


@pytest.mark.parametrize(
    ("spans", "covered"),
    [
        ([], 0.0),
        ([(0.0, 20.0)], 5.0),
        ([(11.0, 12.0), (11.5, 13.0)], 2.0),  # what both cover counts once
        ([(13.0, 14.0), (9.0, 11.0), (30.0, 31.0)], 2.0),
        ([(10.0, 14.0), (11.0, 12.0)], 4.0),
    ],
)
def test_time_in_which_something_recovered(spans, covered):
    assert covered_s(spans, 10.0, 15.0) == pytest.approx(covered)


def test_only_the_last_success_of_a_task_is_work_that_counts():
    def attempt(number, state, launched_s, ended_s):
        return AttemptReport(
            attempt=f"j1.m0.{number}", node="r0n0", state=state, level="remote", copy=False,
            launched_s=launched_s, ended_s=ended_s,
        )  # fmt: skip

    died = attempt(0, "failed", 1.0, 3.0)
    output_lost = attempt(1, "output lost", 3.0, 7.0)
    counts = attempt(2, "succeeded", 8.0, 9.0)
    assert wasted_s([died, output_lost, counts]) == 6.0
    assert wasted_s([counts]) == 0.0
    assert wasted_s([died]) == 2.0


def test_the_end_of_a_soak_has_no_kills_of_daemons():
    place = load_topology("flat-4x4")
    kinds = possible_kinds(place)
    plan = plan_soak(3, place, kinds, minutes=30)
    assert len(plan) == 360
    assert [fault.at_s for fault in plan] == sorted(fault.at_s for fault in plan)
    late = {fault.kind for fault in plan if fault.at_s > plan[-1].at_s * 2 / 3}
    assert late == set(kinds) - set(DEADLY) | {"kill-jobhelper", "kill-attempt"}
    assert {fault.kind for fault in plan} == set(kinds)


def test_what_grows_is_broken_but_for_what_the_supervisors_children_change():
    grown = growth_of(TIMES_S, noisy(lambda time_s: 40 + 12 * time_s / 3600))
    assert growth_row("namenode", "unshared memory", grown)["ok"] is False
    assert growth_row("supervisor", "resident memory", grown)["ok"] is False
    assert growth_row("supervisor", "unshared memory", grown)["ok"] is None


def test_it_can_be_asked_for():
    assert "recovery" in benchmark_names()
    assert parts_of("recovery") == ["recovery.kills", "recovery.soak"]
