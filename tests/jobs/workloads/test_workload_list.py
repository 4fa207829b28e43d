"""Properties of every workload of the list, and the errors of wrong names and options."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.jobs.workloads.catalog import FAMILIES, workload
from railyard.jobs.workloads.model import check_workload

ROOT = Path(__file__).parents[3]
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
    assert made.source
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
