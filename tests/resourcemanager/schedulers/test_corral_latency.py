"""Profiles of a workload's jobs, and what earlier runs predict."""

from __future__ import annotations

import dataclasses
import math

import msgspec
import numpy as np
import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.cluster.topologyfile import Compute
from railyard.jobs.workloads.model import InputFile, Recurrence, WorkloadJob, WorkStage
from railyard.resourcemanager.schedulers.corral.latency import (
    JobProfile,
    PlanOptions,
    RackCluster,
    Run,
    StageProfile,
    core_s,
    imbalance_s,
    job_s,
    load_runs,
    local_s,
    map_s,
    predict,
    predicted_profiles,
    reduce_s,
    shuffle_s,
    stage_s,
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
    [alone_s] = job_s(predicted(sort_job()), np.arange(1.0, wide.racks + 1), wide)
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


def test_sizes_tasks_and_rates_are_averaged_over_the_last_days(monkeypatch):
    monkeypatch.setattr("railyard.resourcemanager.schedulers.corral.latency.DAYS", 3)
    sizes = (1000.0, 10.0, 20.0, 30.0)
    runs = [run(day, size, map_rate_bytes_per_s=day + 1.0) for day, size in enumerate(sizes)]
    [stage] = predict(runs, "logs", day=4).stages
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
    lines = [msgspec.json.encode(each) for each in runs]
    (tmp_path / "runs.jsonl").write_bytes(b"\n".join(lines))
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
    right = msgspec.json.encode(run(0, 10.0))
    (tmp_path / "runs.jsonl").write_bytes(right + b"\n" + line.encode())
    with pytest.raises(UsageError, match=rf"runs.jsonl:2: .*{words}"):
        load_runs(tmp_path / "runs.jsonl")


# Latency response functions, with numbers worked out by hand.
#
# The cluster is the paper's (section 6.1): 7 racks of 30 machines at 10 Gbps, 60 Gbps to the core
# of each, so V = 5 and a machine's part of the core is 2 Gbps.


GB, MB = 1e9, 1e6
CLUSTER = RackCluster(racks=7, machines=30, nic_bytes_per_s=1.25 * GB, core_bytes_per_s=0.25 * GB)
R = np.arange(1.0, CLUSTER.racks + 1)

#: 300 MB a map at 50 MB/s: 6 s; 300 MB a reduce at 100 MB/s: 3 s
JOB = StageProfile(
    input_bytes=36 * GB,
    shuffle_bytes=30 * GB,
    output_bytes=18 * GB,
    maps=120,
    reduces=60,
    map_rate_bytes_per_s=50 * MB,
    reduce_rate_bytes_per_s=100 * MB,
)


def test_maps_run_in_waves_of_a_task_a_machine():
    # ceil(120 / 30 r) = 4, 2, 2, 1, ... waves
    assert map_s(JOB, R, CLUSTER) == pytest.approx([24, 12, 12, 6, 6, 6, 6])


def test_reduces_run_in_waves_too():
    # ceil(60 / 30 r) = 2, 1, ... waves
    assert reduce_s(JOB, R, CLUSTER) == pytest.approx([6, 3, 3, 3, 3, 3, 3])


def test_the_core_takes_what_leaves_a_rack():
    # r = 2: each machine has 500 MB, sends half of them, 250 MB, at 250 MB/s
    # r = 4: of 250 MB it sends three quarters
    assert core_s(JOB, R, CLUSTER)[[0, 1, 3]] == pytest.approx([0, 1, 0.75])


def test_the_core_takes_what_the_sketch_says():
    """Section 3.3: (r-1) S V / (r^2 B), with B of the whole rack."""
    rack_bytes_per_s = 30 * 1.25 * GB
    sketch = (R - 1) * 30 * GB * 5 / (R**2 * rack_bytes_per_s)
    assert core_s(JOB, R, CLUSTER) == pytest.approx(sketch)


def test_a_rack_takes_what_stays_but_for_the_own_machine():
    # r = 1: 1 GB a machine, 29/30 of it to others, at 10 - 2 Gbps = 1 GB/s
    # r = 2: 500 MB a machine, half of them stay in the rack
    assert local_s(JOB, R, CLUSTER)[:2] == pytest.approx([29 / 30, 0.25 * 29 / 30])


def test_the_slower_of_both_counts_once_a_wave():
    # r = 1: two waves of the rack's 29/30 s; then one wave, and the core is slower
    assert shuffle_s(JOB, R, CLUSTER)[:2] == pytest.approx([2 * 29 / 30, 1])
    assert shuffle_s(JOB, R, CLUSTER, in_waves=False)[:2] == pytest.approx([29 / 30, 1])


def test_a_mapreduce_job_is_the_sum_of_its_stages():
    whole = stage_s(JOB, R, CLUSTER)
    assert whole[[0, 1, 3]] == pytest.approx([24 + 2 * 29 / 30 + 6, 12 + 1 + 3, 6 + 0.75 + 3])


def test_several_tasks_on_a_machine_take_fewer_waves():
    two = dataclasses.replace(CLUSTER, slots=2)
    # ceil(120 / 60 r) = 2, 1, ...; one wave of reduces throughout
    assert stage_s(JOB, R, two)[:2] == pytest.approx([12 + 29 / 30 + 3, 6 + 1 + 3])


def test_a_job_of_maps_only_shuffles_nothing():
    maps = StageProfile(input_bytes=36 * GB, maps=120, map_rate_bytes_per_s=50 * MB)
    assert stage_s(maps, R, CLUSTER) == pytest.approx(map_s(JOB, R, CLUSTER))


def test_what_a_task_takes_besides_its_bytes_counts_once_a_wave():
    slow = StageProfile(maps=120, reduces=60, map_s=1.0, reduce_s=10.0)
    assert stage_s(slow, R, CLUSTER)[:2] == pytest.approx([4 + 2 * 10, 2 + 10])


def test_without_oversubscription_all_share_the_machines_own_link():
    flat = RackCluster(racks=7, machines=30, nic_bytes_per_s=GB, core_bytes_per_s=GB)
    # r = 2: 250 MB to the other rack, 250 MB x 29/30 within
    assert shuffle_s(JOB, R, flat)[1] == pytest.approx(0.25 + 0.25 * 29 / 30)


def test_a_network_without_limits_takes_no_time():
    inf = RackCluster(racks=7, machines=30, nic_bytes_per_s=math.inf, core_bytes_per_s=math.inf)
    assert shuffle_s(JOB, R, inf).tolist() == [0.0] * 7
    job = JobProfile(name="j", stages=(JOB,))
    assert imbalance_s(job, R, inf).tolist() == [0.0] * 7


def test_a_dag_takes_its_critical_path():
    """Two sources, one of many short tasks, one of few long ones, and a sink that reads both."""
    wide = StageProfile(name="wide", maps=210, map_s=2.0)  # 7, 4, 3, 2, 2, 2, 1 waves
    long = StageProfile(name="long", maps=30, map_s=9.0)
    sink = StageProfile(name="sink", reads=("wide", "long"), reduces=30, reduce_s=1.0)
    job = JobProfile(name="dag", stages=(wide, long, sink))
    assert job_s(job, R, CLUSTER) == pytest.approx([14 + 1, 9 + 1, 9 + 1, 9 + 1, 10, 10, 10])


def test_a_dag_with_two_ends_takes_the_later_one():
    first = StageProfile(name="a", maps=1, map_s=1.0)
    ends = [
        StageProfile(name=n, reads=("a",), reduces=1, reduce_s=s)
        for n, s in (("b", 5.0), ("c", 2.0))
    ]
    assert job_s(JobProfile(name="j", stages=(first, *ends)), R, CLUSTER)[0] == pytest.approx(6)


def test_the_penalty_is_the_time_to_upload_a_racks_part():
    # 36 GB at 60 Gbps = 7.5 GB/s: 4.8 s, over r racks
    job = JobProfile(name="j", stages=(JOB,))
    assert imbalance_s(job, R, CLUSTER)[:2] == pytest.approx([4.8, 2.4])
    assert imbalance_s(job, R, CLUSTER, imbalance=0.0).tolist() == [0.0] * 7


def test_a_cluster_is_what_its_topology_leaves_to_us():
    paper = load_topology("corral-7x30", [("background", "0")])
    assert RackCluster.of(paper, slots=1) == CLUSTER
    busy = RackCluster.of(load_topology("corral-7x30"))  # half of the core is taken
    assert busy.core_bytes_per_s == pytest.approx(0.125 * GB)
    assert busy.slots == 8


def test_racks_that_differ_count_with_their_mean():
    topology = load_topology("tetrium-8")
    found = RackCluster.of(topology)
    assert (found.racks, found.machines) == (8, 1)
    assert found.slots == pytest.approx(topology.slots / 8)
    narrow = [min(r.uplink_bytes_per_s, r.downlink_bytes_per_s) for r in topology.rack_list()]
    assert found.core_bytes_per_s == pytest.approx(sum(narrow) / 8)


@pytest.mark.parametrize("field", ["imbalance", "slots"])
def test_options_are_checked(field):
    with pytest.raises(UsageError, match=f"{field} = -1: need"):
        PlanOptions(**{field: -1})


def test_latency_never_grows_from_two_racks_on():
    """As section 4.2 observed; from one rack to two it may, as the core is slower than a rack."""
    whole = stage_s(JOB, R, CLUSTER)
    assert (np.diff(whole[1:]) <= 1e-12).all()


def test_a_profile_refuses_a_stage_that_reads_a_later_one():
    late = (StageProfile(name="b", reads=("a",)), StageProfile(name="a"))
    with pytest.raises(UsageError, match="job j: stage b reads a: need a stage listed before it"):
        JobProfile(name="j", stages=late)


def test_a_profile_refuses_a_negative_size():
    with pytest.raises(UsageError, match="input_bytes = -1"):
        msgspec.convert({"input_bytes": -1.0}, StageProfile)
