"""Coflows alone in virtual time."""

from __future__ import annotations

import json
import math

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import InvariantError, UsageError
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.catalog import sample_workload, workload
from railyard.jobs.workloads.coflows import CoflowTrace, TraceCoflow
from railyard.jobs.workloads.model import (
    InputFile,
    Workload,
    WorkloadJob,
    WorkStage,
    in_waves,
)
from railyard.netemu.messages import SetCapacity
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.netemu.schedulers.maxmin import MaxMin
from railyard.oracles.orders import carry_out
from railyard.simulator import behaviour
from railyard.simulator.behaviour import Behaviour, coarsened
from railyard.simulator.coflows import CoflowRun
from railyard.simulator.simulation import Simulation
from tests.workloads import check_workload

MB = 10**6  #: 8 ms of a port of 1 Gbps


def coflow(name, arrival_s, mappers, reducers):
    megabytes = tuple((rack, size * MB) for rack, size in reducers)
    return TraceCoflow(name=name, arrival_s=arrival_s, mappers=tuple(mappers), reducers=megabytes)


def run(*coflows, scheduler="maxmin", topology="ports-150x1,racks.count=4"):
    racks = 4
    trace = CoflowTrace(name="t", racks=racks, coflows=coflows)
    done = CoflowRun(trace, load_topology(topology), flow_scheduler(scheduler))
    done.run()
    return done.summary()


def ccts_s(summary):
    return {job["id"]: pytest.approx(job["cct_s"]) for job in summary["jobs"]}


def test_a_coflow_alone_takes_what_its_busiest_port_needs():
    """Rack 2 gets 250 MB, rack 3 gets 500 MB, half of each from both senders."""
    summary = run(coflow("a", 5.0, [0, 1], [(2, 250), (3, 500)]))
    assert ccts_s(summary) == {"a": 4.0}
    assert summary["makespan_s"] == pytest.approx(4.0)
    assert summary["jobs"][0]["finished_s"] == pytest.approx(9.0)


def test_coflows_share_by_flows_under_maxmin():
    """Both leave rack 0: half each until b's 125 MB are sent at 3 s."""
    summary = run(coflow("a", 0.0, [0], [(1, 250)]), coflow("b", 1.0, [0], [(2, 125)]))
    assert ccts_s(summary) == {"a": 3.0, "b": 2.0}
    assert summary["cct_s"] == {
        "mean": pytest.approx(2.5),
        "p50": pytest.approx(2.5),
        "p95": pytest.approx(2.95),
        "p99": pytest.approx(2.99),
        "max": pytest.approx(3.0),
    }


def test_what_stays_in_a_rack_takes_no_time():
    summary = run(coflow("a", 2.0, [1], [(1, 500)]), coflow("b", 2.0, [1, 2], [(2, 250)]))
    assert ccts_s(summary) == {"a": 0.0, "b": 1.0}
    assert summary["bytes"] == {
        "local": 625 * MB,
        "rack": 0,
        "cross_rack": 125 * MB,
        "eps": 125 * MB,
        "ocs": 0,
        "wan": 0,
    }


def test_the_summary_has_the_format_of_all_runs():
    summary = run(coflow("a", 0.0, [0, 1], [(2, 10), (3, 10)]), coflow("b", 9.0, [0], [(3, 125)]))
    assert json.loads(json.dumps(summary)) == summary
    assert (summary["clock"], summary["flow_scheduler"]) == ("virtual", "maxmin")
    assert summary["flows"] == 5
    # 145 MB up and down, in 0.16 + 1.16 s... with 8 links of 125 MB/s
    assert summary["network_utilization"] == pytest.approx(290 / (8 * 125 * 1.16), rel=0.1)
    assert summary["jobs"][1]["maps"] == summary["jobs"][1]["reduces"] == 1


def test_a_rack_of_several_nodes_sends_with_all_of_them():
    """4 x 10 Gbps behind 40 Gbps: 5 GB to each of 4 readers need 4 s through the uplinks."""
    summary = run(coflow("a", 0.0, [0] * 4, [(1, 5000)] * 4), topology="flat-4x4,racks.count=4")
    assert ccts_s(summary) == {"a": 4.0}


@pytest.mark.parametrize("scheduler", sorted(FLOW_SCHEDULERS))
def test_any_flow_scheduler_lets_all_finish_and_none_too_early(scheduler):
    coflows = [
        coflow(str(n), 0.3 * (n // 2), [n % 4, (n + 1) % 4], [((n + 2) % 4, 40), (n % 4, 7)])
        for n in range(12)
    ]
    summary = run(*coflows, scheduler=scheduler)
    assert summary["cct_s"]["max"] < math.inf
    for job in summary["jobs"]:
        assert job["ok"]
        assert job["cct_s"] >= 0.32 * (1 - 1e-9)  # 40 MB into one port


def test_a_circuit_that_carries_is_kept_for_a_coflow_that_arrives_as_its_user_ends():
    """a needs 1.01 s; next goes on at once on its circuit, which other would have taken down."""
    summary = run(
        coflow("a", 0.0, [0], [(1, 125)]),
        coflow("other", 0.0, [0], [(2, 250)]),
        coflow("next", 1.01, [0], [(1, 25)]),
        scheduler="sunflow",
        topology="ports-150x1,racks.count=4,ocs.port_bytes_per_s=1Gbps,delta=10ms,elephant=1",
    )
    assert ccts_s(summary) == {"a": 1.01, "next": 0.2, "other": 3.22}


def test_a_topology_that_is_too_small_is_refused():
    with pytest.raises(UsageError, match="tetrium-8 has 8 racks: need at least the 9 racks of t"):
        CoflowRun(CoflowTrace(name="t", racks=9, coflows=()), load_topology("tetrium-8"), MaxMin())


def test_flows_that_never_finish_are_reported():
    trace = CoflowTrace(name="t", racks=4, coflows=(coflow("a", 0.0, [0], [(1, 1)]),))
    stuck = CoflowRun(trace, load_topology("ports-150x1,racks.count=4"), MaxMin())
    carry_out(stuck.fabric, SetCapacity(link="r0.up", bytes_per_s=0.0))
    with pytest.raises(InvariantError, match="maxmin never lets coflow a finish"):
        stuck.run()


# Which runs become coarser by themselves, how, and what is said about it.


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

    return Workload(name="made", jobs=tuple(job(number) for number in range(count)))


def test_runs_of_few_tasks_are_exact_however_many_flows_they_have():
    assert coarsened(jobs_of(maps=1000, reduces=1000, count=10), PLACE, USUAL) is None


@pytest.mark.parametrize("chosen", [{"output_block": 10**9}, {"together_s": 0.001}])
def test_whoever_says_how_coarse_it_is_to_be_keeps_that(chosen):
    made = sample_workload("terasort", 200 * 10**12, 256 * MB, 16)
    assert coarsened(made, SMALL, Behaviour(**chosen)) is None


SMALL = load_topology("hybrid-8x4")  # 32 slots, blocks of 256 MB


def test_many_waves_of_maps_become_fewer_larger_ones():
    few = jobs_of(maps=behaviour.TASKS_MAX - 16, reduces=16)
    assert coarsened(few, SMALL, USUAL) is None
    made = sample_workload("terasort", 200 * 10**12, 256 * MB, 16)
    coarse = coarsened(made, SMALL, USUAL)
    assert coarse is not None
    assert coarse.tasks_in_one == 781_250 // (behaviour.WAVES * 32)
    [job], [exact] = coarse.workload.jobs, made.jobs
    assert behaviour.WAVES * 32 <= job.stages[0].tasks < 1.01 * behaviour.WAVES * 32
    assert job.input_bytes == exact.input_bytes
    assert job.stages[0].output_bytes == exact.stages[0].output_bytes
    assert job.stages[1] == exact.stages[1]
    check_workload(coarse.workload.jobs)
    assert coarse.behaviour.output_block == coarse.tasks_in_one * 256 * MB
    assert str(coarse) == (
        "coarse, as 781,266 tasks would take long: up to 61 blocks are one, read and written; "
        "of 20 workloads that were drawn, 19 were off by at most "
        f"{behaviour.OFF['jct_s']:.1%} in mean job times and {behaviour.OFF['cct_s']:.1%} in "
        "mean shuffle times (scripts/bench simulator.coarse); --exact: not coarse"
    )


@pytest.mark.parametrize("chance", [{"variance": 0.3}, {"failures": 0.1}, {"launch_s": 1.0}])
def test_tasks_that_differ_by_chance_or_take_long_to_start_stay_as_many(chance):
    made = sample_workload("terasort", 200 * 10**12, 256 * MB, 16)
    assert coarsened(made, SMALL, Behaviour(**chance)) is None


def test_files_that_several_read_keep_their_blocks():
    [job] = jobs_of(maps=100_000, reduces=1).jobs
    other = msgspec.structs.replace(job, name="other")
    made = Workload(name="made", jobs=(job, other))
    assert in_waves(made, 32, 10) == (made, 1)
    [file] = job.files
    beside = WorkStage(name="b", files=job.stages[0].files, tasks=file.blocks, output_bytes=0)
    both = msgspec.structs.replace(job, stages=(job.stages[0], beside, *job.stages[1:]))
    made = Workload(name="made", jobs=(both,))
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
    made, most = in_waves(Workload(name="w", jobs=(job,)), 1, maps.tasks // grain or 1)
    check_workload(made.jobs)
    [after] = made.jobs
    assert after.input_bytes == job.input_bytes
    assert list(after.stages[0].files) == [file.path for file in after.files]
    assert set(after.stages[0].files) <= set(maps.files)
    assert after.stages[0].tasks <= maps.tasks
    assert after.stages[0].task_s == 2.0 * most


# Simulations of one seed that differ by chance, as emulations of one seed do.


def test_chance_changes_computing_times_and_not_what_policies_draw():
    config = ClusterConfig(topology=load_topology("shadow-4x13"), scheduler="kmn", seed=7)
    jobs, varied = workload("shadow,app=terasort,input=1GB", 7), Behaviour(variance=0.2)
    runs = [Simulation(config, jobs, varied, chance=chance) for chance in (None, 7, 8)]
    drawn = [run.core.state.random.getstate() for run in runs]
    assert drawn[0] == drawn[1] == drawn[2]
    times_s = []
    for run in runs:
        run.run()
        times_s.append(run.summary()["makespan_s"])
    orders = [{node.id: node.position for node in run.core.state.nodes.values()} for run in runs]
    assert orders[0] == orders[1] == orders[2]
    assert times_s[0] == times_s[1] != times_s[2]
