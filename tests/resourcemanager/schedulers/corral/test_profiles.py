"""Profiles of a workload's jobs, and what earlier runs predict."""

from __future__ import annotations

import msgspec
import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topologies.tables import Compute
from railyard.jobs.workloads.model import InputFile, Recurrence, WorkloadJob, WorkStage
from railyard.resourcemanager.schedulers.corral.latency import RackCluster, job_s
from railyard.resourcemanager.schedulers.corral.prediction import (
    Run,
    load_runs,
    predict,
    record,
)
from railyard.resourcemanager.schedulers.corral.profiles import (
    JobProfile,
    StageProfile,
    predicted_profiles,
)

COMPUTE = Compute(map_rate=50e6, reduce_rate=25e6)


def sort_job(**changes) -> WorkloadJob:
    """12 GB in 120 blocks; each of 60 reduces fetches 200 MB and writes 100 MB."""
    stages = (
        WorkStage(name="m", files=("in",), tasks=120, output_bytes=12 * 10**9),
        WorkStage(name="r", reads=("m",), tasks=60, output_bytes=6 * 10**9),
    )
    file = InputFile(path="in", size_bytes=12 * 10**9, block_bytes=10**8)
    fields = {"name": "sort", "user": "u", "queue": "q", "submit_s": 5.0, "stages": stages}
    return WorkloadJob(**(fields | {"files": (file,)} | changes))


def predicted(job: WorkloadJob) -> JobProfile:
    """The profile of a job that recurs as it was."""
    again = msgspec.structs.replace(job, recurrence=Recurrence(name=job.name))
    [profile] = predicted_profiles([again], COMPUTE)
    return profile


def test_a_workloads_job_takes_as_long_as_its_tasks():
    wide = RackCluster(racks=1, machines=120, nic_bytes_per_s=1e15, core_bytes_per_s=1e14)
    [alone_s] = job_s(predicted(sort_job()), wide.all_widths(), wide)
    assert alone_s == pytest.approx(100 / 50 + 200 / 25, abs=1e-3)


def test_a_workloads_job_has_the_papers_five_numbers():
    maps, reduces = predicted(sort_job()).stages
    assert (maps.input_bytes, maps.maps) == (12e9, 120)
    assert (reduces.shuffle_bytes, reduces.output_bytes, reduces.reduces) == (12e9, 6e9, 60)
    assert reduces.reduce_rate_bytes_per_s == 12.5e6  # of what it writes: half of what it reads


def test_reduces_that_write_nothing_still_take_their_time():
    maps, _ = sort_job().stages
    silent = WorkStage(name="r", reads=("m",), tasks=60, output_bytes=0, task_s=1.5)
    profile = predicted(sort_job(stages=(maps, silent)))
    assert profile.stages[1].reduce_s == pytest.approx(1.5 + 200 / 25)


def test_only_predicted_jobs_have_profiles_with_what_was_predicted():
    known = sort_job(name="known", recurrence=Recurrence(name="k", size_ratio=0.5, submit_s=7.0))
    [profile] = predicted_profiles([sort_job(), known], COMPUTE)
    assert (profile.name, profile.arrive_s, profile.input_bytes) == ("known", 7.0, 6e9)
    assert profile.stages[0].maps == 60


def run(day: int, input_bytes: float, **changes) -> Run:
    stage = StageProfile(input_bytes=input_bytes, maps=int(input_bytes), **changes)
    return Run(job="logs", day=day, profile=JobProfile(name="x", arrive_s=60.0, stages=(stage,)))


def test_a_weekday_is_predicted_from_weekdays_and_a_weekend_from_weekends():
    runs = [run(day, 100.0 if day % 7 < 5 else 10.0) for day in range(14)]
    assert predict(runs, "logs", day=14).input_bytes == 100.0  # a Monday
    assert predict(runs, "logs", day=19).input_bytes == 10.0  # a Saturday
    assert predict(runs, "logs", day=14).name == "logs"


def test_sizes_tasks_and_rates_are_averaged_over_the_last_days():
    sizes = (1000.0, 10.0, 20.0, 30.0)
    runs = [run(day, size, map_rate_bytes_per_s=day + 1.0) for day, size in enumerate(sizes)]
    [stage] = predict(runs, "logs", day=4, days=3).stages
    assert (stage.input_bytes, stage.maps, stage.map_rate_bytes_per_s) == (20.0, 20, 3.0)


def test_days_to_come_and_other_jobs_predict_nothing():
    assert predict([run(5, 10.0)], "logs", day=5) is None
    assert predict([run(0, 10.0)], "other", day=5) is None


def test_the_other_kind_of_day_is_better_than_nothing():
    assert predict([run(0, 10.0)], "logs", day=5).input_bytes == 10.0


def test_a_job_that_was_rewritten_is_predicted_from_its_new_runs():
    rewritten = [run(day, 10.0, name="other") for day in (2, 3)]
    assert predict([run(0, 99.0), run(1, 99.0), *rewritten], "logs", day=4).input_bytes == 10.0


def test_runs_are_kept_in_a_file(tmp_path):
    runs = [run(0, 10.0), run(1, 20.5)]
    for each in runs:
        record(each, tmp_path / "runs.jsonl")
    assert load_runs(tmp_path / "runs.jsonl") == runs


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nonsense", "JSON is malformed"),
        ('{"job": "a", "day": -1, "profile": {"name": "a", "stages": []}}', "day = -1"),
        ('{"job": "a", "profile": {"name": "a", "stages": []}}', "missing required field `day`"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, line, words):
    record(run(0, 10.0), tmp_path / "runs.jsonl")
    with open(tmp_path / "runs.jsonl", "a", encoding="utf-8") as file:
        file.write(line + "\n")
    with pytest.raises(UsageError, match=rf"runs.jsonl:2: .*{words}"):
        load_runs(tmp_path / "runs.jsonl")
