"""Properties of every workload of the list, and the errors of wrong names and options."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.jobs.workloads.catalog import FAMILIES, workload
from railyard.jobs.workloads.model import (
    InputFile,
    Recurrence,
    WorkloadJob,
    WorkStage,
    split_by,
)
from tests.command_line import ROOT
from tests.workloads import check_workload, stage_specs

GENERATORS = [name for name, family in FAMILIES.items() if not family.file]
_DIGESTS = """
import hashlib, sys, msgspec
from railyard.jobs.workloads.catalog import workload
for text in sys.argv[1:]:
    print(hashlib.sha256(msgspec.msgpack.encode(workload(text, 7).jobs)).hexdigest())
"""


def digest(text, seed):
    return hashlib.sha256(msgspec.msgpack.encode(workload(text, seed).jobs)).hexdigest()


@pytest.mark.parametrize("name", FAMILIES)
def test_jobs_can_run_and_come_in_order(asked_for, name):
    made = workload(asked_for[name], 3)
    check_workload(made.jobs)
    times_s = [job.submit_s for job in made.jobs]
    assert times_s == sorted(times_s)
    assert FAMILIES[name].source
    for job in made.jobs:
        for file in job.files:
            assert len(file.shares) in (0, made.sites)


@settings(max_examples=40)
@given(
    name=st.sampled_from(GENERATORS),
    seed=st.integers(0, 2**40),
    options=st.sampled_from(["", ",queues=3,users=9", ",late=1,size_error=0.3,recurring=1"]),
)
def test_jobs_of_any_seed_are_sound(name, seed, options):
    made = workload(name + options, seed)
    check_workload(made.jobs)
    for job in made.jobs:
        inputs, read = job.stage_input_bytes(), {n for s in job.stages for n in s.reads}
        outputs = sum(stage.output_bytes for stage in job.stages if stage.name not in read)
        assert sum(inputs.values()) == job.input_bytes + job.shuffle_bytes
        assert job.output_bytes == outputs
        if (predicted := job.predicted()) is not None:
            assert predicted.input_bytes == pytest.approx(
                job.input_bytes * job.recurrence.size_ratio, abs=len(job.files)
            )
    if name != "corral-tpch":  # where queries share the tables, and each predicts its own size
        check_workload([predicted for job in made.jobs if (predicted := job.predicted())])


@pytest.mark.parametrize("name", GENERATORS)
@pytest.mark.parametrize("seed", range(5))
def test_figures_are_the_published_ones(name, seed):
    missed = [statistic for statistic in workload(name, seed).statistics if not statistic.holds]
    assert not missed


def test_same_seed_same_jobs_in_any_process(asked_for):
    texts = list(asked_for.values())
    digests = []
    for hash_seed in ("0", "1"):
        environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", _DIGESTS, *texts],
            env=environment, capture_output=True, text=True, check=True,
        )  # fmt: skip
        digests.append(done.stdout.split())
    assert digests[0] == digests[1] == [digest(text, 7) for text in texts]


@pytest.mark.parametrize("name", GENERATORS)
def test_another_seed_gives_other_jobs(name):
    text = f"{name},users=50,arrivals=uniform,window=1h"
    assert digest(text, 1) != digest(text, 2)


def test_more_users_leave_sizes_and_times_alone():
    one, many = workload("corral-w1", 1).jobs, workload("corral-w1,users=20,queues=3", 1).jobs
    assert {job.user for job in many} == {f"u{number}" for number in range(20)}
    assert {job.queue for job in many} == {"q0", "q1", "q2"}
    assert {job.queue for job in one} == {"default"}
    for a, b in zip(one, many, strict=True):
        assert (a.name, a.submit_s, a.stages, a.files) == (b.name, b.submit_s, b.stages, b.files)
    queues = {(job.user, job.queue) for job in many}
    assert len(queues) == 20  # a user has one queue


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("corral-w4", 'unknown workload "corral-w4": did you mean "corral-w3"?'),
        ("swim", "workload swim: need a file, as in swim:FILE.tsv"),
        ("fb2009", 'unknown workload "fb2009": Facebook\'s traces are swim:FILE.tsv'),
        ("swim:", "railyard workloads fetch puts the public traces into"),
        ("swim:", "need a file, as in swim:FILE.tsv"),
        ("corral-mix,ad_hoc=-1", "ad_hoc = -1: need a whole number >= 0"),
        ("shadow,block=0", "block = 0: need a size above 0"),
        ("shadow,shuffle=-1", "shuffle = -1.0: need a number from 0 to 1000"),
        ("swim:x,times=inf", "workload swim: times = inf: need a number above 0"),
        ("corral-w1:x", "workload corral-w1:x: need corral-w1 without a file"),
        ("corral-w1,jbos=3", 'workload corral-w1: unknown key "jbos": did you mean "jobs"?'),
        ("corral-w1,jobs", "need KEY=VALUE, not 'jobs'"),
        ("corral-w1,jobs=many", "jobs: need a whole number, not text"),
        ("corral-w1,jobs=0", "jobs = 0: need a whole number >= 1"),
        ("corral-w1,window=soon", "window = 'soon': need a time such as 10ms"),
        ("corral-w1,arrivals=often", "arrivals = 'often': need \"batch\" or"),
        ("corral-w1,arrivals=trace", "this workload has no times of its own: need another"),
        ("corral-w1,recurring=2", "recurring = 2.0: need a share of 0 to 1"),
        ("corral-w1,recurring=nan", "recurring = nan: need a share of 0 to 1"),
        ("corral-w1,size_error=0.5", "size_error = 0.5: need 0 to below 0.5"),
        ("corral-w1,users=0", "users = 0: need a whole number >= 1"),
        ("tetrium,variation=8", "variation = 8.0: need 0 to 7, that of 50 sites"),
        ("tetrium,stages_max=1", "stages_max = 1: need a whole number >= stages_min, 2"),
        ("shadow,app=teragen", 'unknown application of Shadow "teragen": did you mean "terasort"?'),
        ("corral-recurring,smallest=1TB,largest=1GB", "largest = 1000000000: need at least"),
        ("wfcommons:/no/such.json", "/no/such.json: cannot be read: No such file"),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(text, message):
    with pytest.raises(UsageError) as error:
        workload(text, 1)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


# Jobs of a workload: sizes add up, the graph can run, and mistakes are reported.


def job(**changes):
    """1,000 bytes in blocks of 300 through 4 maps and 3 reduces."""
    file = InputFile(path="/in", size_bytes=1000, block_bytes=300)
    maps = WorkStage(name="m", files=("/in",), tasks=4, output_bytes=500)
    reduces = WorkStage(name="r", reads=("m",), tasks=3, output_bytes=250)
    usual = {
        "name": "j", "user": "u0", "queue": "default", "submit_s": 1.0,
        "stages": (maps, reduces), "files": (file,),
    }  # fmt: skip
    return WorkloadJob(**usual | changes)


def changed(stage, **changes):
    stages = {each.name: each for each in job().stages}
    stages[stage] = msgspec.structs.replace(stages[stage], **changes)
    return job(stages=tuple(stages.values()))


def test_a_job_s_bytes_add_up():
    plain = job()
    assert plain.files[0].block_sizes() == [300, 300, 300, 100]
    assert (plain.input_bytes, plain.shuffle_bytes, plain.output_bytes) == (1000, 500, 250)
    assert plain.stage_input_bytes() == {"m": 1000, "r": 500}
    assert plain.tasks == 7
    assert [(spec.name, spec.reads, spec.tasks) for spec in stage_specs(plain)] == [
        ("m", (), 0),
        ("r", ("m",), 3),
    ]


def test_two_readers_of_a_stage_fetch_it_twice():
    first, second = job().stages
    again = msgspec.structs.replace(second, name="s", output_bytes=1)
    both = job(stages=(first, second, again))
    assert (both.shuffle_bytes, both.output_bytes) == (1000, 251)


def test_what_is_predicted_is_the_job_in_other_sizes():
    past = Recurrence(name="daily", day=3, size_ratio=1.3, submit_s=9.0)
    predicted = job(recurrence=past).predicted()
    assert predicted.submit_s == 9.0
    assert predicted.input_bytes == 1300
    assert (predicted.shuffle_bytes, predicted.output_bytes) == (650, 325)
    assert [stage.tasks for stage in predicted.stages] == [5, 3]  # blocks; reduces are configured
    check_workload([predicted])
    assert job().predicted() is None


@given(
    size=st.integers(0, 10**18),
    weights=st.lists(st.floats(0, 1e6), min_size=1, max_size=40).filter(lambda w: sum(w) > 1e-3),
)
def test_parts_are_whole_and_sum_up(size, weights):
    parts = split_by(size, weights)
    assert sum(parts) == size
    assert min(parts) >= 0
    for part, weight in zip(parts, weights, strict=True):
        assert part == pytest.approx(size * weight / sum(weights), rel=1e-9, abs=len(parts) + 1e3)


@given(size=st.integers(0, 10**15), tasks=st.integers(1, 50))
def test_even_parts_differ_by_a_byte(size, tasks):
    stage = WorkStage(name="r", reads=("m",), tasks=tasks, output_bytes=0)
    parts = stage.parts(size)
    assert (sum(parts), len(parts)) == (size, tasks)
    assert max(parts) - min(parts) <= 1


def test_weights_spread_what_is_fetched():
    stage = WorkStage(name="r", reads=("m",), tasks=3, output_bytes=0, weights=(3.0, 1.0, 0.0))
    assert stage.parts(100) == [75, 25, 0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (changed("m", tasks=3), "job j: stage m: tasks = 3: need 4, as many as its files have"),
        (changed("m", files=("/no",)), "stage m: files = '/no': need a file of the job"),
        (changed("r", reads=("x",)), 'job j: stage "r": reads "x": need a stage listed before it'),
        (changed("r", files=("/in",)), "stage r: reads files and stages: need one of the two"),
        (changed("r", output_bytes=-1), "stage r: output_bytes = -1: need bytes >= 0"),
        (changed("r", weights=(1.0,)), "stage r: weights = (1.0,): need a number >= 0 for each"),
        (changed("r", rate_bytes_per_s=0.0), "rate_bytes_per_s = 0.0: need a rate above 0"),
        (changed("r", task_s=float("nan")), "task_s = nan: need seconds >= 0"),
        (changed("r", name="R2"), 'stage "R2": need a name of small letters only'),
        (job(submit_s=-1.0), "job j: submit_s = -1.0: need seconds >= 0"),
        (
            job(files=(InputFile(path="/in", size_bytes=0, block_bytes=1),)),
            "file /in: size_bytes = 0: need at least one byte",
        ),
        (
            job(files=(InputFile(path="/in", size_bytes=1000, block_bytes=300, shares=(0.5,)),)),
            "file /in: shares = (0.5,): need numbers >= 0 with sum 1",
        ),
    ],
)
def test_a_job_that_cannot_run_is_reported(wrong, message):
    with pytest.raises(UsageError) as error:
        check_workload([wrong])
    assert message in str(error.value)


def test_names_are_unique_and_shared_files_are_alike():
    with pytest.raises(UsageError, match="job j: there are two of that name"):
        check_workload([job(), job()])
    check_workload([job(), job(name="k")])
    other = InputFile(path="/in", size_bytes=1001, block_bytes=300)
    with pytest.raises(UsageError, match="job k: file /in is another in an earlier job"):
        check_workload([job(), job(name="k", files=(other,))])
