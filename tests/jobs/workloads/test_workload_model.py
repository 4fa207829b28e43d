"""Jobs of a workload: sizes add up, the graph can run, and mistakes are reported."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.jobs.workloads.model import (
    InputFile,
    Recurrence,
    WorkloadJob,
    WorkStage,
    check_workload,
    split_by,
)


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
    assert [(spec.name, spec.reads, spec.tasks) for spec in plain.specs()] == [
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
