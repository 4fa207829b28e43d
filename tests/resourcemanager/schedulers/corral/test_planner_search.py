"""The phases by hand, and the quick search against the plain one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from railyard.cluster.errors import UsageError
from railyard.resourcemanager.schedulers.corral.heuristics import (
    allocations,
    plain_provisioning,
    prioritize,
)
from railyard.resourcemanager.schedulers.corral.latency import RackCluster
from railyard.resourcemanager.schedulers.corral.planner import plan
from railyard.resourcemanager.schedulers.corral.profiles import JobProfile, StageProfile
from railyard.resourcemanager.schedulers.corral.quicksearch import Path, quick_provisioning
from tests.resourcemanager.schedulers.corral.problems import problem, problems


@given(problems())
@settings(max_examples=150)
def test_the_path_is_the_plain_one(given_problem):
    path = Path(given_problem)
    plain = [widths.tolist() for widths in allocations(given_problem)]
    assert len(path) == len(plain) == given_problem.jobs * (given_problem.racks - 1) + 1
    assert [path.widths(number).tolist() for number in range(len(path))] == plain


@given(problems())
@settings(max_examples=300)
def test_the_quick_search_finds_what_the_plain_one_finds(given_problem):
    quick, plain = quick_provisioning(given_problem), plain_provisioning(given_problem)
    assert quick.tolist() == plain.tolist()


@pytest.mark.parametrize("scenario", ["batch", "online"])
@pytest.mark.parametrize("ties", [False, True], ids=["apart", "whole minutes"])
def test_the_quick_search_on_many_jobs(scenario, ties):
    dice = np.random.default_rng(7)
    work, fixed = dice.lognormal(3, 1.5, (40, 1)), dice.lognormal(0, 1, (40, 1))
    lengths = fixed + np.ceil(work / np.arange(1, 13))
    come = np.sort(dice.uniform(0, 300, 40))
    come = come // 60 * 60 if ties else come
    many = problem(lengths, come.tolist() if scenario == "online" else None, scenario)
    assert quick_provisioning(many).tolist() == plain_provisioning(many).tolist()


@given(problems())
@settings(max_examples=150)
def test_no_rack_has_two_jobs_at_once(given_problem):
    widths = quick_provisioning(given_problem)
    schedule = prioritize(given_problem, widths)
    lengths_s = given_problem.lengths_at(widths)
    free_s = given_problem.busy_until_s.tolist()
    for j in sorted(schedule.order, key=schedule.start_s.__getitem__):
        assert len(set(schedule.racks[j])) == widths[j]
        assert schedule.start_s[j] >= given_problem.arrive_s[j]
        for rack in schedule.racks[j]:
            assert schedule.start_s[j] >= free_s[rack]
            free_s[rack] = schedule.start_s[j] + lengths_s[j]


# The phases by hand ------------------------------------------------------------------------------
def test_a_batch_goes_widest_first_then_longest_first():
    widths = np.array([1, 2, 1, 3])
    lengths = [[5, 0, 0], [0, 4, 0], [9, 0, 0], [0, 0, 2]]
    schedule = prioritize(problem(lengths), widths)
    assert schedule.order == [3, 1, 2, 0]
    # j3 has all racks for 2 s, then j1 two of them until 6 and j2 the last until 11; j0 follows j1
    assert schedule.racks == {3: [0, 1, 2], 1: [0, 1], 2: [2], 0: [0]}
    assert schedule.start_s == {3: 0, 1: 2, 2: 2, 0: 6}
    assert schedule.cost_s == 11


def test_online_jobs_go_as_they_come_and_ties_as_in_a_batch():
    lengths = [[4, 0], [3, 0], [0, 1], [2, 0]]
    schedule = prioritize(problem(lengths, [1, 0, 1, 9], "online"), np.array([1, 1, 2, 1]))
    assert schedule.order == [1, 2, 0, 3]
    # j2 waits until j1 leaves its rack at 3; j0 follows at 4; j3 finds a rack when it comes
    assert schedule.start_s == {1: 0, 2: 3, 0: 4, 3: 9}
    assert schedule.cost_s == (3 - 0) + (4 - 1) + (8 - 1) + (11 - 9)


def test_the_longest_job_gets_the_next_rack():
    lengths = [[8, 5, 5], [7, 6, 1]]
    steps = [widths.tolist() for widths in allocations(problem(lengths))]
    assert steps == [[1, 1], [2, 1], [2, 2], [2, 3], [3, 3]]


def test_a_job_that_got_longer_gets_another_rack_at_once():
    lengths = [[8, 9, 1], [7, 7, 7]]
    steps = [widths.tolist() for widths in allocations(problem(lengths))]
    assert steps[:3] == [[1, 1], [2, 1], [3, 1]]


def test_racks_that_still_work_are_left_alone():
    schedule = prioritize(problem([[4, 9], [4, 9]], busy_until_s=[10, 0]), np.array([1, 1]))
    assert schedule.start_s == {0: 0, 1: 4}
    assert schedule.racks == {0: [1], 1: [1]}


# The plan ----------------------------------------------------------------------------------------
CLUSTER = RackCluster(racks=4, machines=2, nic_bytes_per_s=100.0, core_bytes_per_s=25.0)


def job(name: str, tasks: int, arrive_s: float = 0.0) -> JobProfile:
    """Tasks of 3 s, each of which reads 100 bytes."""
    maps = StageProfile(maps=tasks, input_bytes=100.0 * tasks, map_rate_bytes_per_s=1e9, map_s=3.0)
    return JobProfile(name=name, arrive_s=arrive_s, stages=(maps,))


def test_a_plan_tells_racks_priority_and_times():
    made = plan([job("small", 2), job("large", 12)], CLUSTER, "batch")
    # large: 12 tasks on 6 machines of three racks, twice 3 s; its 400 bytes a rack come at 50 a s
    large, small = sorted(made.jobs, key=lambda planned: planned.name)
    assert (large.racks, large.latency_s, large.planned_s) == (
        ("r0", "r1", "r2"),
        pytest.approx(6, abs=1e-5),
        pytest.approx(14, abs=1e-5),
    )
    assert (small.racks, small.planned_s) == (("r3",), pytest.approx(7, abs=1e-5))
    assert (large.priority, small.priority) == (1, 2)
    assert made.makespan_s == pytest.approx(14, abs=1e-5)
    assert made == plan([job("small", 2), job("large", 12)], CLUSTER, "batch", plain=True)


def test_a_batch_does_not_care_when_its_jobs_come():
    made = plan([job("a", 2, arrive_s=50.0)], CLUSTER, "batch")
    assert made.jobs[0].start_s == made.jobs[0].arrive_s == 0.0


def test_priorities_ascend_with_the_planned_start():
    jobs = [job(f"j{n}", 2 + n % 9, arrive_s=float(n * 5 % 31)) for n in range(30)]
    made = plan(jobs, CLUSTER, "online")
    assert [planned.priority for planned in made.jobs] == list(range(1, 31))
    starts_s = [planned.start_s for planned in made.jobs]
    assert starts_s == sorted(starts_s)


def test_planning_anew_waits_for_what_runs():
    made = plan([job("a", 2)], CLUSTER, "online", busy_until_s=[9, 9, 2, 9])
    assert made.jobs[0].racks == ("r2",)
    assert made.jobs[0].start_s == 2


@pytest.mark.parametrize(
    ("jobs", "words"),
    [([], "a plan of no jobs"), ([job("a", 1), job("a", 2)], "job a: there are two of that name")],
)
def test_what_cannot_be_planned_is_refused(jobs, words):
    with pytest.raises(UsageError, match=words):
        plan(jobs, CLUSTER, "batch")


def test_busy_times_are_for_each_rack():
    with pytest.raises(UsageError, match="need a time for each of 4 racks"):
        plan([job("a", 1)], CLUSTER, "batch", busy_until_s=[1.0])
