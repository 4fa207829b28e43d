"""Users, queues, arrivals, recurring jobs: shares and times as asked for."""

import numpy as np
import pytest

from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.recurring import is_weekend, predict


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
    with pytest.raises(ValueError, match="day 5: no earlier day of its kind"):
        predict(sizes, 5, history=10)


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
