"""Planning problems for tests: by hand, and by hypothesis."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import rack_id
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import workload
from railyard.resourcemanager.schedulers.corral.latency import (
    JobProfile,
    RackCluster,
    StageProfile,
    predicted_profiles,
)
from railyard.resourcemanager.schedulers.corral.planner import (
    AllocationPath,
    Plan,
    PlannedJob,
    Problem,
    Scenario,
    allocations,
    as_toml,
    load_plan,
    lp_batch,
    online_bound,
    plain_provisioning,
    plan,
    prioritize,
    problem_of,
    quick_provisioning,
    save_plan,
)


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


# The phases by hand, and the quick search against the plain one.


@given(problems())
@settings(max_examples=150)
def test_the_path_is_the_plain_one(given_problem):
    path = AllocationPath(given_problem)
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


# Plans against brute force on small instances, and against the bounds at the paper's scale.


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


# A plan's file: written, read, and refused.


SMALL = """
scenario = "batch"
racks = 3
jobs = [
  { name = "b", priority = 2, racks = ["r2"] },
  { name = "a", priority = 1, racks = ["r0", "r1"], start_s = 1.5, planned_s = 2 },
]
"""


def test_a_person_may_write_one(tmp_path):
    (tmp_path / "plan.toml").write_text(SMALL)
    plan = load_plan(tmp_path / "plan.toml")
    assert [job.name for job in plan.jobs] == ["b", "a"]
    assert plan.jobs[1].end_s == plan.makespan_s == 3.5
    assert plan.completion_s == 1.75


def test_a_file_has_a_line_for_each_job_by_priority(tmp_path):
    (tmp_path / "plan.toml").write_text(SMALL)
    text = as_toml(load_plan(tmp_path / "plan.toml"))
    assert text.startswith("# Corral's plan: 2 jobs on 3 racks.\n")
    first, second = [line for line in text.splitlines() if "name =" in line]
    assert first.startswith('  { name = "a", priority = 1, ')
    assert first.endswith('racks = ["r0", "r1"] },')
    assert '"b"' in second


times = st.floats(0, 1e12)
planned = st.lists(
    st.tuples(st.text(), st.sets(st.integers(0, 4), min_size=1), times, times),
    unique_by=lambda row: row[0],
)


@given(planned)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read(tmp_path, rows):
    jobs = tuple(
        PlannedJob(
            name=name,
            racks=tuple(rack_id(rack) for rack in sorted(racks)),
            priority=at + 1,
            start_s=start_s,
            planned_s=planned_s,
        )
        for at, (name, racks, start_s, planned_s) in enumerate(rows)
    )
    plan = Plan(scenario="online", racks=5, workload='a "b"', jobs=jobs)
    save_plan(plan, tmp_path / "plan.toml")
    assert load_plan(tmp_path / "plan.toml") == plan


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('"batch"', '"bath"', r"scenario = 'bath': need \"batch\" or \"online\""),
        ('"r2"', '"r3"', r"job b: racks = \['r3'\]: need racks of r0 to r2, each once"),
        ('["r2"]', "[]", r"job b: racks = \[\]: need racks of r0 to r2"),
        ('"r1"', '"r0"', r"job a: racks = \['r0', 'r0'\]: need racks of r0 to r2, each once"),
        ("priority = 2", "priority = 1", "job a: priority = 1: need a number that no other job"),
        ('"b"', '"a"', "job = 'a': need a name that no other job has"),
        ("priority = 2, ", "", r'missing key "jobs\[0\].priority"'),
        ("priority = 2", "prior = 2", "unknown field prior"),
        ("racks = 3", "racks = 'x'", "racks: need a whole number, not text"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, old, new, words):
    (tmp_path / "plan.toml").write_text(SMALL.replace(old, new))
    with pytest.raises(UsageError, match=f"plan.toml: .*{words}"):
        load_plan(tmp_path / "plan.toml")


def test_a_plan_that_cannot_be_written_says_why(tmp_path):
    with pytest.raises(UsageError, match="cannot be written: No such file"):
        save_plan(Plan(scenario="batch", racks=1, jobs=()), tmp_path / "no" / "plan.toml")
