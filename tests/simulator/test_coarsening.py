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
from railyard.simulator.coarsening import LEVELS, coarsened, expected_flows
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


def test_an_exact_run_has_a_flow_for_each_block_pair_and_further_replica():
    made = jobs_of(maps=100, reduces=40, output_bytes=40 * 600 * MB)
    assert expected_flows(made, PLACE, USUAL) == 100 + 100 * 40 + 40 * 3 * 2


def test_a_merged_shuffle_has_a_few_flows_for_each_look_of_a_reader():
    made = jobs_of(maps=1000, reduces=100)
    coarse = msgspec.structs.replace(USUAL, shuffle_flows=2000)
    # 20 flows each time; a map takes 12.8 s, and all have slots at once
    assert expected_flows(made, PLACE, coarse) == 1000 + round(100 * 20 * 13.8)
    few = jobs_of(maps=40, reduces=50)
    assert expected_flows(few, PLACE, coarse) == expected_flows(few, PLACE, USUAL)


def test_larger_output_blocks_are_fewer_flows():
    made = jobs_of(maps=10, reduces=10, output_bytes=10 * 1024 * MB)
    exact, coarse = (
        expected_flows(made, PLACE, Behaviour(output_block=size)) for size in (0, 2 * 10**9)
    )
    assert exact - coarse == 10 * (4 - 1) * 2


def test_small_runs_are_not_coarser():
    assert coarsened(jobs_of(maps=1000, reduces=1000), PLACE, USUAL) is None


def test_runs_of_millions_of_flows_are():
    coarse = coarsened(jobs_of(maps=1000, reduces=1000, count=10), PLACE, USUAL)
    assert coarse is not None
    assert coarse.exact_flows > 10**7 > coarse.flows
    assert coarse.level is LEVELS[0]
    assert "10 million flows" in str(coarse)
    assert f"off by at most {LEVELS[0].jct_off:.0%}" in str(coarse)
    assert "\n" not in str(coarse)


def test_the_first_level_that_is_enough_is_taken_and_otherwise_the_last(monkeypatch):
    made = jobs_of(maps=1000, reduces=1000, count=10)
    flows = [expected_flows(made, PLACE, level.applied_to(USUAL)) for level in LEVELS]
    assert flows == sorted(flows, reverse=True)
    for limit, level in ((flows[0], 0), (flows[0] - 1, 1), (flows[-1], -1), (1, -1)):
        monkeypatch.setattr(coarsening, "FLOWS_MAX", limit)
        coarse = coarsened(made, PLACE, USUAL)
        assert coarse is not None
        assert coarse.level is LEVELS[level]


@pytest.mark.parametrize(
    "chosen", [{"shuffle_flows": 10_000}, {"output_block": 10**9}, {"together_s": 0.001}]
)
def test_whoever_says_how_coarse_it_is_to_be_keeps_that(chosen):
    made = jobs_of(maps=1000, reduces=1000, count=10)
    assert coarsened(made, PLACE, Behaviour(**chosen)) is None


def test_what_else_nodes_do_stays(monkeypatch):
    monkeypatch.setattr(coarsening, "FLOWS_MAX", 1)
    asked = Behaviour(variance=0.3, progress_s=1.0, launch_s=0.2)
    coarse = coarsened(jobs_of(maps=1000, reduces=1000), PLACE, asked)
    assert coarse is not None
    kept = coarse.behaviour
    assert (kept.variance, kept.progress_s, kept.launch_s) == (0.3, 1.0, 0.2)
    assert coarse.behaviour.shuffle_flows == LEVELS[-1].shuffle_flows


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
    assert coarse.level is None
    assert coarse.behaviour.output_block == coarse.tasks_in_one * 256 * MB
    assert str(coarse) == (
        "coarse, as 781,266 tasks would take long: up to 61 blocks are one, read and written; "
        "expected to be off by at most 8% in mean job times and 2% in shuffle times "
        "(--exact: not coarse)"
    )


@pytest.mark.parametrize("chance", [{"variance": 0.3}, {"failures": 0.1}, {"launch_s": 1.0}])
def test_tasks_that_differ_by_chance_or_take_long_to_start_stay_as_many(chance):
    made = sample_workload("terasort", 200 * 10**12, 256 * MB, 16)
    coarse = coarsened(made, SMALL, Behaviour(**chance))
    assert coarse is None or coarse.tasks_in_one == 1


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
