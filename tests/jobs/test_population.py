"""Users, queues, arrivals, recurring jobs: shares and times as asked for."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.jobs.skew import RATIO_MAX, Skew, skew_of
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.corral import is_weekend, predict
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, plan_mix, read_mix
from railyard.jobs.workloads.model import rack_of_each


def times_s(text, seed=1):
    return [job.submit_s for job in workload(text, seed).jobs]


def test_batch_uniform_and_poisson_arrivals():
    assert set(times_s("corral-w1,arrivals=batch")) == {0.0}
    uniform = times_s("corral-w1,window=10min,jobs=1000")
    assert 0 <= min(uniform) < 10 < 590 < max(uniform) <= 600
    assert np.mean(uniform) == pytest.approx(300, rel=0.1)
    gaps = np.diff(times_s("corral-w1,arrivals=poisson,gap=5s,jobs=2000"))
    assert np.mean(gaps) == pytest.approx(5, rel=0.1)
    assert np.std(gaps) == pytest.approx(5, rel=0.1)
    over = times_s("corral-w1,arrivals=poisson,window=1h,jobs=2000")
    assert over[-1] == pytest.approx(3600, rel=0.1)


def test_times_of_a_trace_begin_at_zero_and_can_be_squeezed(swim_file):
    assert times_s(f"swim:{swim_file}") == [10.0 * at for at in range(60)]
    squeezed = times_s(f"swim:{swim_file},window=59s")
    assert squeezed == pytest.approx([float(at) for at in range(60)])


def test_some_jobs_come_at_another_time_than_predicted():
    jobs = workload("corral-w1,late=0.3,late_by=4min,window=60min", 1).jobs
    off = [job.submit_s - job.recurrence.submit_s for job in jobs]
    moved = [each for each in off if each]
    assert len(moved) == 60
    assert min(off) >= -240
    assert max(off) <= 240
    assert min(moved) < 0 < max(moved)


def test_a_share_of_the_jobs_recurs_with_the_error_asked_for():
    jobs = workload("corral-w1,jobs=2000,recurring=0.5,size_error=0.2", 1).jobs
    ratios = [job.recurrence.size_ratio for job in jobs if job.recurrence]
    assert len(ratios) == 1000
    assert np.mean(np.abs(np.array(ratios) - 1)) == pytest.approx(0.2, rel=0.1)
    assert 0.6 <= min(ratios) < max(ratios) <= 1.4
    exact = workload("corral-w1,size_error=0", 1).jobs
    assert {job.recurrence.size_ratio for job in exact} == {1.0}


def test_the_error_leaves_the_jobs_themselves_alone():
    off, right = (workload(f"corral-w1,size_error={e}", 1).jobs for e in (0.4, 0))
    assert [job.stages for job in off] == [job.stages for job in right]


def test_a_day_is_predicted_from_earlier_days_of_its_kind():
    # Corral, section 2: weekdays from weekdays, weekends from weekends.
    sizes = [10, 20, 30, 40, 50, 1, 3, 60, 70]
    assert [is_weekend(day) for day in range(8)] == [False] * 5 + [True] * 2 + [False]
    assert predict(sizes, 6, history=10) == 1
    assert predict(sizes, 7, history=10) == 30
    assert predict(sizes, 8, history=2) == 55
    assert predict(sizes, 12, history=10) == 2


def test_a_month_of_recurring_jobs_has_the_published_error():
    made = workload("corral-recurring,days=30,users=7,queues=2", 1)
    assert len(made.jobs) == 600
    ratios = np.array([job.recurrence.size_ratio for job in made.jobs])
    assert np.mean(np.abs(ratios - 1)) == pytest.approx(0.065, rel=0.1)
    assert len({(job.recurrence.name, job.user) for job in made.jobs}) == 20
    days = {job.recurrence.day for job in made.jobs}
    assert days == set(range(14, 44))
    for job in made.jobs:
        assert job.submit_s // 86_400 == job.recurrence.day - 14


# Skewed inputs: shares by Zipf's law or by a ratio, and which parts lie where; words, errors.


FLAT = load_topology("flat-4x4")


def test_shares_follow_zipfs_law():
    shares = sorted(Skew(exponent=2.0).shares(4, "a"), reverse=True)
    total = 1 + 1 / 4 + 1 / 9 + 1 / 16
    assert shares == pytest.approx([1 / total, 1 / 4 / total, 1 / 9 / total, 1 / 16 / total])
    assert Skew(exponent=0.0).shares(4, "a") == (0.25,) * 4


@given(st.integers(2, 60), st.floats(1, RATIO_MAX), st.integers(0, 99))
def test_a_ratio_is_that_of_most_to_least(racks, ratio, seed):
    shares = Skew(ratio=ratio).shares(racks, str(seed))
    assert max(shares) / min(shares) == pytest.approx(ratio)
    assert sum(shares) == pytest.approx(1)


def test_one_rack_has_everything():
    assert Skew(ratio=1.0).shares(1, "a") == Skew(exponent=0.0).shares(1, "a") == (1.0,)
    with pytest.raises(
        UsageError, match=r"skew_ratio = 8\.0: need racks that differ: there is one"
    ):
        Skew(ratio=8.0).shares(1, "a")
    with pytest.raises(UsageError, match=r"skew = 1\.0: need racks that differ"):
        Skew(exponent=1.0).shares(1, "a")


def test_the_key_decides_which_rack_has_most():
    skew = Skew(exponent=1.0)
    assert skew.shares(8, "1 a") == skew.shares(8, "1 a")
    most = Counter(max(range(8), key=skew.shares(8, f"1 {at}").__getitem__) for at in range(400))
    assert len(most) == 8
    assert max(most.values()) < 100


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9).filter(any), st.integers(1, 500))
def test_every_part_has_a_rack_and_no_rack_is_off_by_one(weights, parts):
    total = sum(weights)
    shares = [weight / total for weight in weights]
    counts = Counter(rack_of_each(shares, parts))
    assert counts.total() == parts
    assert all(abs(counts[rack] - share * parts) < 1 + 1e-6 for rack, share in enumerate(shares))


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("skew=17", "skew = 17.*exponent of Zipf's law, 0 to 16"),
        ("skew_ratio=0.5", "skew_ratio = 0.5.*most / least, 1 to 1,000,000,000"),
        ("skew_ratio=-1", "skew_ratio = -1.*most / least, 1 to 1,000,000,000"),
        ("skew_ratio=2000000000", "skew_ratio = 2000000000.0: .*1 to 1,000,000,000"),
        ("skew=1,skew_ratio=2", "skew and skew_ratio: .* need one of them"),
        ("skew=much", "skew"),
    ],
)
def test_wrong_words_are_refused_in_mixes_and_in_workloads(word, right):
    with pytest.raises(UsageError, match=right):
        workload(f"corral-w1,{word}", 1, 4)
    with pytest.raises(UsageError, match=right):
        read_mix([f"terasort,{word}"], Defaults(size_bytes=10**9), 1)


def test_no_words_no_skew():
    assert skew_of(None, None) is None


@pytest.mark.parametrize("name", ["corral-w1,jobs=4", "tetrium,jobs=4,sites=8", "joint,jobs=3"])
def test_every_workload_takes_the_words(name):
    plain, skewed = workload(name, 1, 4), workload(f"{name},skew_ratio=9", 1, 4)
    for before, after in zip(plain.jobs, skewed.jobs, strict=True):
        assert after.stages == before.stages
        for file in after.files:
            assert max(file.shares) / min(file.shares) == pytest.approx(9)
    assert len({job.files[0].shares for job in skewed.jobs}) > 1, "each input for itself"
    assert workload(f"{name},skew=1", 1).jobs == plain.jobs, "the racks are not known"


def racks_of_parts(job):
    """[rack] of each file of an input that is skewed whole file by whole file."""
    return [file.shares.index(1.0) for file in job.files]


def test_what_a_real_job_generates_lies_as_in_the_simulator():
    words = ["terasort,size=4GB,skew=2", "wordcount,size=2GB,skew_ratio=3,inputs=own,times=2"]
    mix = read_mix(words, Defaults(size_bytes=10**9), 5)
    simulated = measured_workload(mix, FLAT, 5).jobs
    for planned, job in zip(plan_mix(mix, FLAT, 5, "/runs/mix-abcdef"), simulated, strict=True):
        generate = planned.plan.before[0]
        assert rack_of_each(generate.shares, len(job.files)) == racks_of_parts(job)
    [sort, one, two] = simulated
    assert Counter(racks_of_parts(sort)).most_common(1)[0][1] == round(0.7024 * len(sort.files))
    assert one.files[0].path != two.files[0].path


def test_inputs_that_differ_in_skew_only_are_not_shared():
    words = ["terasort,skew=1", "terasort,skew=2", "terasort,skew=1", "terasort"]
    jobs = measured_workload(read_mix(words, Defaults(size_bytes=10**9), 1), FLAT, 1).jobs
    folders = [job.files[0].folder for job in jobs]
    assert folders[0] == folders[2]
    assert len(set(folders)) == 3


def test_a_job_that_generates_nothing_cannot_be_skewed(tmp_path):
    file = tmp_path / "own.py"
    file.write_text("def map(line):\n    yield line, 1\n")
    mix = read_mix([f"{file},skew=1"], Defaults(size_bytes=10**9), 1)
    with pytest.raises(UsageError, match=r"own: .*reads input: need --input FILE"):
        plan_mix(mix, FLAT, 1, "/")
