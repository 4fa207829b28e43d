"""Which runs become coarser by themselves, how, and what is said about it."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.coarse import in_waves
from railyard.jobs.workloads.model import (
    InputFile,
    Workload,
    WorkloadJob,
    WorkStage,
    check_workload,
)
from railyard.jobs.workloads.samples import sample_workload
from railyard.simulator import coarsening
from railyard.simulator.coarsening import coarsened
from railyard.simulator.nodes.behaviour import Behaviour

MB = 10**6
PLACE = load_topology("corral-7x30")  # 1,680 slots of 50 MB/s, blocks of 256 MB, 3 replicas
USUAL = Behaviour()


def jobs_of(maps: int, reduces: int, count: int = 1, output_bytes: int = 0) -> Workload:
    def job(number: int) -> WorkloadJob:
        path = f"/in/{number}"
        return WorkloadJob(
            name=f"job-{number}",
            user="u",
            queue="q",
            submit_s=0.0,
            files=(InputFile(path=path, size_bytes=maps * 256 * MB, block_bytes=256 * MB),),
            stages=(
                WorkStage(name="m", files=(path,), tasks=maps, output_bytes=10**9),
                WorkStage(name="r", reads=("m",), tasks=reduces, output_bytes=output_bytes),
            ),
        )

    return Workload(name="made", source="", jobs=tuple(job(number) for number in range(count)))


def test_runs_of_few_tasks_are_exact_however_many_flows_they_have():
    assert coarsened(jobs_of(maps=1000, reduces=1000, count=10), PLACE, USUAL) is None


@pytest.mark.parametrize("chosen", [{"output_block": 10**9}, {"together_s": 0.001}])
def test_whoever_says_how_coarse_it_is_to_be_keeps_that(chosen):
    made = sample_workload("terasort", 200 * 10**12, 256 * MB, 16)
    assert coarsened(made, SMALL, Behaviour(**chosen)) is None


SMALL = load_topology("hybrid-8x4")  # 32 slots, blocks of 256 MB


def test_many_waves_of_maps_become_fewer_larger_ones():
    few = jobs_of(maps=coarsening.TASKS_MAX - 16, reduces=16)
    assert coarsened(few, SMALL, USUAL) is None
    made = sample_workload("terasort", 200 * 10**12, 256 * MB, 16)
    coarse = coarsened(made, SMALL, USUAL)
    assert coarse is not None
    assert coarse.tasks_in_one == 781_250 // (coarsening.WAVES * 32)
    [job], [exact] = coarse.workload.jobs, made.jobs
    assert coarsening.WAVES * 32 <= job.stages[0].tasks < 1.01 * coarsening.WAVES * 32
    assert job.input_bytes == exact.input_bytes
    assert job.stages[0].output_bytes == exact.stages[0].output_bytes
    assert job.stages[1] == exact.stages[1]
    check_workload(coarse.workload.jobs)
    assert coarse.behaviour.output_block == coarse.tasks_in_one * 256 * MB
    assert str(coarse) == (
        "coarse, as 781,266 tasks would take long: up to 61 blocks are one, read and written; "
        "of 20 workloads that were drawn, 19 were off by at most "
        f"{coarsening.OFF['jct_s']:.1%} in mean job times and {coarsening.OFF['cct_s']:.1%} in "
        "mean shuffle times (scripts/bench simulator.coarse); --exact: not coarse"
    )


@pytest.mark.parametrize("chance", [{"variance": 0.3}, {"failures": 0.1}, {"launch_s": 1.0}])
def test_tasks_that_differ_by_chance_or_take_long_to_start_stay_as_many(chance):
    made = sample_workload("terasort", 200 * 10**12, 256 * MB, 16)
    assert coarsened(made, SMALL, Behaviour(**chance)) is None


def test_files_that_several_read_keep_their_blocks():
    [job] = jobs_of(maps=100_000, reduces=1).jobs
    other = msgspec.structs.replace(job, name="other")
    made = Workload(name="made", source="", jobs=(job, other))
    assert in_waves(made, 32, 10) == (made, 1)
    [file] = job.files
    beside = WorkStage(name="b", files=job.stages[0].files, tasks=file.blocks, output_bytes=0)
    both = msgspec.structs.replace(job, stages=(job.stages[0], beside, *job.stages[1:]))
    made = Workload(name="made", source="", jobs=(both,))
    assert in_waves(made, 32, 10) == (made, 1)


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=60),
    folders=st.lists(st.sampled_from(["", "a"]), min_size=60, max_size=60),
    grain=st.integers(2, 9),
)
def test_merged_blocks_have_all_bytes_in_order(sizes, folders, grain):
    files = tuple(
        InputFile(path=f"/{number}", folder=folder, size_bytes=size, block_bytes=3)
        for number, (size, folder) in enumerate(zip(sizes, folders, strict=False))
    )
    maps = WorkStage(
        name="m",
        files=tuple(file.path for file in files),
        tasks=sum(file.blocks for file in files),
        output_bytes=7,
        task_s=2.0,
    )
    job = WorkloadJob(name="j", user="u", queue="q", submit_s=0.0, files=files, stages=(maps,))
    made, most = in_waves(Workload(name="w", source="", jobs=(job,)), 1, maps.tasks // grain or 1)
    check_workload(made.jobs)
    [after] = made.jobs
    assert after.input_bytes == job.input_bytes
    assert list(after.stages[0].files) == [file.path for file in after.files]
    assert set(after.stages[0].files) <= set(maps.files)
    assert after.stages[0].tasks <= maps.tasks
    assert after.stages[0].task_s == 2.0 * most
