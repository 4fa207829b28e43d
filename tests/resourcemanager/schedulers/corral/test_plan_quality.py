"""Plans against brute force on small instances, and against the bounds at the paper's scale."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings

from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.resourcemanager.schedulers.corral.heuristics import Problem, allocations, prioritize
from railyard.resourcemanager.schedulers.corral.latency import RackCluster
from railyard.resourcemanager.schedulers.corral.lowerbounds import lp_batch, online_bound
from railyard.resourcemanager.schedulers.corral.planner import plan, problem_of
from railyard.resourcemanager.schedulers.corral.profiles import JobProfile, predicted_profiles
from railyard.resourcemanager.schedulers.corral.quicksearch import quick_provisioning
from tests.resourcemanager.schedulers.corral.problems import problem, problems


def best_of_all_allocations(given_problem: Problem) -> float:
    """The best that the prioritization phase makes of any of the R^J allocations."""
    widths = range(1, given_problem.racks + 1)
    every = itertools.product(widths, repeat=given_problem.jobs)
    return min(prioritize(given_problem, np.array(each)).cost_s for each in every)


def best_of_all_schedules(given_problem: Problem) -> float:
    """The optimum: each allocation in each order.

    Jobs of the best schedule, taken in the order in which it starts them, start no later when each
    takes those racks that are free first.
    """
    best_s = np.inf
    widths = range(1, given_problem.racks + 1)
    for order in itertools.permutations(range(given_problem.jobs)):
        for chosen in itertools.product(widths, repeat=given_problem.jobs):
            best_s = min(best_s, _cost(given_problem, order, chosen))
    return float(best_s)


def _cost(given_problem: Problem, order, widths) -> float:
    free_s = sorted(given_problem.busy_until_s.tolist())
    ends_s = []
    for j in order:
        start_s = max(free_s[widths[j] - 1], given_problem.arrive_s[j])
        end_s = start_s + given_problem.lengths_s[j, widths[j] - 1]
        free_s = sorted([end_s] * widths[j] + free_s[widths[j] :])
        ends_s.append(end_s - given_problem.arrive_s[j])
    return max(ends_s) if given_problem.scenario == "batch" else sum(ends_s)


@given(problems(jobs_max=4, racks_max=3))
@settings(max_examples=100)
def test_a_plan_is_the_best_of_the_allocations_that_are_tried(given_problem):
    made_s = prioritize(given_problem, quick_provisioning(given_problem)).cost_s
    tried = [prioritize(given_problem, widths).cost_s for widths in allocations(given_problem)]
    assert made_s == min(tried)
    assert made_s >= best_of_all_allocations(given_problem)


@given(problems(jobs_max=3, racks_max=3))
@settings(max_examples=100)
def test_bounds_are_below_the_optimum(given_problem):
    best_s = best_of_all_schedules(given_problem)
    made_s = prioritize(given_problem, quick_provisioning(given_problem)).cost_s
    assert best_s <= made_s * (1 + 1e-9)
    if given_problem.scenario == "batch":
        assert lp_batch(given_problem) <= best_s * (1 + 1e-6)
    else:
        jobs = given_problem.jobs
        bound_s = online_bound(given_problem, made_s / jobs, 100.0, intervals=20, rounds=40)
        assert bound_s * jobs <= best_s * (1 + 1e-9)


def test_a_batch_of_two_alike_gets_a_rack_each():
    """Worked by hand: 10 s on one rack, 6 s on two; two racks.  One rack each: 10 s; both: 12 s."""
    alike = problem([[10, 6], [10, 6]])
    assert quick_provisioning(alike).tolist() == [1, 1]
    assert lp_batch(alike) == pytest.approx(10)


def test_a_bound_knows_that_work_takes_racks():
    """Two jobs of 10 s on the only rack: the first waits for nothing, the second for the first."""
    two = problem([[10], [10]], [0, 0], "online")
    assert online_bound(two, 15, 20, intervals=20) == pytest.approx(15, rel=0.05)


def test_mapreduce_jobs_are_planned_near_the_optimum():
    """Four jobs of W1 on three racks: at most a tenth above the optimum, mostly next to none."""
    above = []
    for seed in range(1, 9):
        jobs, cluster = case("corral-w1,jobs=4", "corral-7x30,racks.count=3", seed)
        given_problem = problem_of(jobs, cluster, "batch")
        best_s = best_of_all_schedules(given_problem)
        above.append(plan(jobs, cluster, "batch").makespan_s / best_s - 1)
    assert np.median(above) < 0.02
    assert max(above) < 0.10


@pytest.mark.parametrize("name", ["corral-w1", "corral-w3"])
@pytest.mark.parametrize("topology", ["corral-7x30", "corral-50x40"])
def test_batches_are_planned_within_3_percent_of_lp_batch(name, topology):
    """Section 4.2, on the clusters and with the workloads of section 6."""
    jobs, cluster = case(name, topology, seed=1)
    made = plan(jobs, cluster, "batch")
    least_s = lp_batch(problem_of(jobs, cluster, "batch"))
    assert least_s * (1 - 1e-6) <= made.makespan_s <= 1.03 * least_s


def case(name: str, topology: str, seed: int) -> tuple[list[JobProfile], RackCluster]:
    place = load_topology(topology)
    return predicted_profiles(workload(name, seed).jobs, place.compute), RackCluster.of(place)
