"""Fair parts of slots (4.4)."""

from hypothesis import given
from hypothesis import strategies as st

from railyard.resourcemanager.schedulers.tetrium.sharing import FairParts

TASKS = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 100), min_size=1)


@given(TASKS, st.integers(1, 200))
def test_with_epsilon_1_a_job_may_have_all(tasks, free):
    assert all(FairParts(1.0, free, tasks).cap(job) == free for job in tasks)


def test_with_epsilon_0_slots_are_in_proportion_to_tasks():
    parts = FairParts(0.0, 12, {"a": 10, "b": 20, "c": 30})
    given_slots = []
    for job in "abc":
        cap = parts.cap(job)
        parts.given(cap)
        given_slots.append(cap)
    assert given_slots == [2, 4, 6]


def test_half_way_the_first_may_have_what_the_others_do_not_keep():
    parts = FairParts(0.5, 12, {"a": 10, "b": 20, "c": 30})
    assert parts.cap("a") == 12 - (0.5 * 4 + 0.5 * 6)


@given(TASKS, st.floats(0, 1), st.integers(1, 200), st.randoms(use_true_random=False))
def test_whatever_others_take_each_job_may_have_its_part(tasks, epsilon, free, dice):
    """But for rounding: each of those before may have taken up to one slot more."""
    parts, total = FairParts(epsilon, free, tasks), sum(tasks.values())
    jobs, left = sorted(tasks, key=lambda job: dice.random()), free
    for served, job in enumerate(jobs):
        cap = parts.cap(job)
        assert cap >= (1 - epsilon) * free * tasks[job] / total - served - 1e-6
        taken = min(dice.randint(0, cap), left)
        parts.given(taken)
        left -= taken
