"""Jobs in virtual time: worked examples, both logs, and repeatable runs."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import msgspec
import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import InvariantError, UsageError
from railyard.cluster.faults import Fault
from railyard.cluster.ids import rack_of
from railyard.cluster.messages import AttemptSucceeded, BeginAttempt, FlowFinished, LaunchAttempt
from railyard.cluster.messaging.wire import Event
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Storage
from railyard.jobs.workloads.catalog import sample_workload
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, read_mix
from railyard.jobs.workloads.model import (
    InputFile,
    Workload,
    WorkloadJob,
    WorkStage,
)
from railyard.oracles.invariants import check_core
from railyard.resourcemanager.driving.eventlog import Diverged, EventLog, replay
from railyard.resourcemanager.interface.decisions import Pass
from railyard.resourcemanager.interface.policies import TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers import all_recipes
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.simulator.behaviour import Behaviour, draw_deviation
from railyard.simulator.simulation import Simulation
from tests.workloads import MB, check_workload, job_of, topology, workload

ROOT = Path(__file__).resolve().parents[2]


def job(
    maps: int = 1,
    reduces: int = 0,
    *,
    shuffle: int = 0,
    output: int = 0,
    files: bool = True,
    shares: tuple[float, ...] = (),
    submit_s: float = 0.0,
    name: str = "job",
) -> WorkloadJob:
    """A job with maps of 100 MB each, and its shuffle and output in bytes."""
    path = f"/in/{name}"
    size_bytes, block_bytes = maps * 100 * MB, 100 * MB
    file = InputFile(path=path, size_bytes=size_bytes, block_bytes=block_bytes, shares=shares)
    stages = [
        WorkStage(
            name="m",
            files=(path,) if files else (),
            tasks=maps,
            output_bytes=shuffle if reduces else output,
            task_s=0.0 if files else 1.0,
        )
    ]
    if reduces:
        stages.append(WorkStage(name="r", reads=("m",), tasks=reduces, output_bytes=output))
    return job_of(*stages, name=name, submit_s=submit_s, files=(file,) if files else ())


def simulation(
    *jobs: WorkloadJob,
    place: Topology | None = None,
    faults: tuple[Fault, ...] = (),
    **behaviour: float,
) -> Simulation:
    """A simulation of these jobs that has not begun."""
    config = ClusterConfig(topology=place or topology())
    return Simulation(config, workload(*jobs), Behaviour(**behaviour), faults)


def ended_s(run: Simulation) -> float:
    """When the only job ended; it must have succeeded."""
    run.run()
    (record,) = run.core.records.values()
    assert record.ok, record.reason
    assert record.finished_s is not None
    return record.finished_s


# Times -------------------------------------------------------------------------------------------
def test_a_map_beside_its_block_takes_its_bytes_by_its_rate():
    run = simulation(job(maps=2))
    assert ended_s(run) == pytest.approx(2.0)
    assert run.summary()["locality"] == {"node": 2, "rack": 0, "remote": 0}
    assert run.summary()["bytes"]["local"] == 200 * MB


def test_a_map_elsewhere_reads_before_it_computes():
    # Both blocks are in r0, which has one slot: the other map runs in r1.
    run = simulation(job(maps=2, shares=(1.0, 0.0)), place=topology(racks=2, nodes=1))
    assert ended_s(run) == pytest.approx(1.0 + 2.0)  # 100 MB at 100 MB/s, then at 50 MB/s
    summary = run.summary()
    assert summary["locality"] == {"node": 1, "rack": 0, "remote": 1}
    assert summary["bytes"]["cross_rack"] == summary["bytes"]["eps"] == 100 * MB


def test_shares_place_the_first_replica_only():
    place = topology(racks=3, storage=Storage(block=100 * MB, replication=3))
    run = simulation(job(maps=8, shares=(0.75, 0.0, 0.25)), place=place)
    run.run()
    [submitted] = run.core.state.records.values()
    assert submitted.ok
    blocks = [(b, run.store.locate(b)) for b in run.store.namenode.blocks.blocks]
    first = ["r0"] * 6 + ["r2"] * 2
    for (_, nodes), rack in zip(blocks, first, strict=True):
        racks = Counter(map(rack_of, nodes))
        assert racks[rack] == 1, "its own rack has the first"
        assert len(racks) == 2, "the others are in one other rack, as HDFS places them"


def test_a_reduce_fetches_computes_and_writes():
    # The maps end at 2 s.  The reduce has half of its 100 MB beside it and gets the other half at
    # 100 MB/s; it computes at 50 MB/s and writes its output to its own node.
    run = simulation(job(maps=2, reduces=1, shuffle=100 * MB, output=30 * MB))
    assert ended_s(run) == pytest.approx(2.0 + 0.5 + 2.0)
    summary = run.summary()
    assert summary["cct_s"]["max"] == pytest.approx(0.5)
    assert summary["jobs"][0]["output_bytes"] == 30 * MB


def test_output_in_larger_blocks_is_as_much_in_fewer_flows():
    place = topology(storage=Storage(block=100 * MB, replication=2))
    jobs = job(maps=1, output=250 * MB, files=False)
    blocks, one = (simulation(jobs, place=place, output_block=size) for size in (0, 300 * MB))
    assert ended_s(blocks) == pytest.approx(ended_s(one)) == pytest.approx(1.0 + 2.5)
    assert (blocks.network.opened, one.network.opened) == (3, 1)
    written = [run.summary()["jobs"][0]["output_bytes"] for run in (blocks, one)]
    assert written == [250 * MB, 250 * MB]


def test_output_goes_through_a_pipeline_of_replicas():
    # 150 MB are two blocks, one after the other; each goes from the writer's node to another.
    place = topology(storage=Storage(block=100 * MB, replication=2))
    run = simulation(job(maps=1, output=150 * MB, files=False), place=place)
    assert ended_s(run) == pytest.approx(1.0 + 1.5)
    assert run.summary()["bytes"]["rack"] == 150 * MB


def test_latencies_are_where_they_belong():
    latencies = {"launch_s": 0.1, "fetch_s": 0.01, "end_s": 0.001}
    run = simulation(job(maps=2, reduces=1, shuffle=100 * MB), **latencies)
    maps_s = 0.1 + 0.01 + 2.0 + 0.001  # a local read ends in a fetch's latency as well
    # The flow begins with the order to launch the reduce, which takes less than the flow.
    assert ended_s(run) == pytest.approx(maps_s + 0.5 + 0.01 + 2.0 + 0.001)


def test_jobs_come_when_they_come():
    run = simulation(job(name="a"), job(name="b", submit_s=10.0))
    run.run()
    times = [(row["submitted_s"], row["finished_s"]) for row in run.summary()["jobs"]]
    assert times == [(0.0, pytest.approx(2.0)), (10.0, pytest.approx(12.0))]
    assert run.summary()["makespan_s"] == pytest.approx(12.0)


def test_sizes_that_do_not_divide_are_kept_to_the_byte():
    run = simulation(job(maps=3, reduces=7, shuffle=100 * MB + 3, output=10**6 + 1))
    run.run()
    (row,) = run.summary()["jobs"]
    assert (row["shuffle_bytes"], row["output_bytes"]) == (100 * MB + 3, 10**6 + 1)


# Chance ------------------------------------------------------------------------------------------
def test_computing_times_vary_around_the_same_mean():
    behaviour = Behaviour(variance=0.5)
    stretches = [draw_deviation(f"j1.m{i}.0", behaviour, seed=1).stretch for i in range(4000)]
    assert sum(stretches) / len(stretches) == pytest.approx(1.0, abs=0.03)
    assert min(stretches) < 0.4
    assert max(stretches) > 3


def test_shares_of_stragglers_and_failures_are_as_asked():
    behaviour = Behaviour(stragglers=0.2, straggler_factor=4.0, failures=0.1)
    deviations = [draw_deviation(f"j1.m{i}.0", behaviour, seed=1) for i in range(4000)]
    assert sum(one.stretch == 4.0 for one in deviations) / 4000 == pytest.approx(0.2, abs=0.02)
    assert sum(one.fails_at is not None for one in deviations) / 4000 == pytest.approx(
        0.1, abs=0.02
    )


def test_attempts_that_fail_are_tried_again():
    run = simulation(*(job(name=f"job-{n}", maps=4) for n in range(4)), failures=0.2)
    run.run()
    tasks = run.summary()["tasks"]
    assert tasks["failed"] > 0
    assert tasks["succeeded"] == 16


def test_an_attempts_deviation_does_not_depend_on_the_scheduler():
    times = []
    for scheduler in ("fair", "capacity"):
        config = ClusterConfig(topology=topology(), scheduler=scheduler)
        jobs = workload(job(maps=4, files=False))
        run = Simulation(config, jobs, Behaviour(variance=1.0, launch_s=0.5))
        run.run()
        times.append(run.summary()["makespan_s"])
    assert times[0] == times[1]


@pytest.mark.parametrize(
    ("setting", "right"),
    [
        ({"variance": -1.0}, "behaviour.variance = -1.0: need a number >= 0"),
        ({"failures": 1.5}, "behaviour.failures = 1.5: need a share"),
        ({"straggler_factor": 0.5}, "behaviour.straggler_factor = 0.5: need a number >= 1"),
    ],
)
def test_impossible_behaviour_is_refused(setting: dict[str, float], right: str):
    with pytest.raises(UsageError, match=right):
        Behaviour(**setting)


# Logs --------------------------------------------------------------------------------------------
def write_run(path: Path) -> Simulation:
    """A run with variance, failures and a lost node; its events are in ``path``."""
    config = ClusterConfig(topology=topology(racks=3, nodes=2, slots=2), seed=5)
    jobs = [
        job(name=f"job-{n}", maps=4, reduces=2, shuffle=90 * MB, output=MB, submit_s=n)
        for n in range(4)
    ]
    log = EventLog(path, config, buffered=True)
    faults = (Fault(kind="node", target="r1n0", at_s=3.0, lasts_s=4.0),)
    behaviour = Behaviour(variance=0.4, failures=0.05, launch_s=0.1)
    run = Simulation(config, workload(*jobs), behaviour, faults, log)
    run.run()
    log.close()
    return run


def test_a_fresh_core_gives_the_same_commands(tmp_path: Path):
    run = write_run(tmp_path / "events.jsonl")
    steps = list(replay(tmp_path / "events.jsonl"))
    assert len(steps) > 100
    assert steps[-1].at_s <= run.heap.now_s


def test_a_replay_notices_other_commands(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    write_run(path)
    lines = path.read_text().splitlines(keepends=True)
    dropped = next(n for n, line in enumerate(lines) if "attempt-succeeded" in line)
    path.write_text("".join(lines[:dropped] + lines[dropped + 1 :]))
    with pytest.raises(Diverged, match=r"events.jsonl:\d+: .* led to other commands than now"):
        list(replay(path))


def test_the_same_events_whatever_the_hash_seed(tmp_path: Path):
    program = (
        "import sys; from pathlib import Path; "
        "from tests.simulator.test_simulation import write_run; write_run(Path(sys.argv[1]))"
    )
    logs = []
    for hash_seed in ("1", "2"):
        path = tmp_path / f"{hash_seed}.jsonl"
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", program, str(path)]
        subprocess.run(command, check=True, env=environment, cwd=ROOT)
        logs.append(path.read_text())
    assert logs[0].count("\n") > 100
    assert logs[0] == logs[1]


# Jobs that cannot end ----------------------------------------------------------------------------
def test_jobs_that_will_never_end_are_reported():
    class Never(TaskPolicy):
        def offer(self, job, slot, now_s):
            return Pass("never")

    never = Recipe(name="never", source="a test", order=FairOrder, tasks=Never)
    run = Simulation(ClusterConfig(topology=topology()), workload(job()), recipe=never)
    with pytest.raises(InvariantError, match=r"nothing will happen: j1\.m0 pending .* never"):
        run.run()


def test_jobs_fail_when_all_nodes_are_lost_for_good():
    nodes = ("r0n0", "r0n1")
    faults = tuple(Fault(kind="node", target=node, at_s=1.0, lasts_s=math.inf) for node in nodes)
    run = simulation(job(maps=2), job(name="b", submit_s=30.0), faults=faults)
    run.run()
    ends = [(row["finished_s"], row["ok"]) for row in run.summary()["jobs"]]
    noticed_s = 1.0 + run.config.topology.liveness.heartbeat
    assert ends == [(noticed_s + 60.0, False), (90.0, False)]
    assert "no node has been alive for 60 s" in run.core.records["j1"].reason


def test_the_samples_are_as_large_as_the_real_ones():
    terasort = sample_workload("terasort", 10**10, 256 * MB, 16)
    assert (terasort.jobs[0].stages[0].tasks, terasort.jobs[0].shuffle_bytes) == (40, 10**10)
    with pytest.raises(UsageError, match='did you mean "terasort"'):
        sample_workload("terasrot", 10**10, 256 * MB, 16)


# A job whose graph has a diamond of single tasks, under every scheduler, in virtual time.


PLACE = topology(racks=2, nodes=3, scale=1000)


class Log:
    """When attempts got slots and ended, and the fetches of each that ended before it had one."""

    def __init__(self) -> None:
        self.begun_s: dict[str, float] = {}
        self.ended_s: dict[str, float] = {}  #: of each stage, the last
        self.ahead: dict[str, list[float]] = {}

    def write(self, at_s: float, event: Event, commands: tuple[object, ...] = ()) -> None:
        for command in commands:
            match command:
                case LaunchAttempt(begins=True) | BeginAttempt():
                    self.begun_s[command.attempt] = at_s
        if isinstance(event, AttemptSucceeded):
            self.ended_s[task_name(event.attempt)[:-1]] = at_s
        elif isinstance(event, FlowFinished):
            reader = event.flow.split(":")[0]
            if reader not in self.begun_s:
                self.ahead.setdefault(task_name(reader), []).append(at_s)


def task_name(attempt: str) -> str:
    """Stage and number of a task."""
    return attempt.split(".")[1]


@cache
def diamond() -> Workload:
    mix = read_mix(["correlation"], Defaults(size_bytes=400 * MB), seed=1)
    return measured_workload(mix, PLACE, seed=1)


def simulate(scheduler: str) -> tuple[Simulation, Log]:
    log, config = Log(), ClusterConfig(topology=PLACE, scheduler=scheduler, seed=1)
    run = Simulation(config, diamond(), log=log)
    run.run(lambda run: check_core(run.core))
    return run, log


@pytest.mark.parametrize("scheduler", [name for name in all_recipes() if name.isalpha()])
def test_it_ends_under_every_scheduler_each_stage_after_those_that_it_reads(scheduler: str):
    run, log = simulate(scheduler)
    [job] = run.summary()["jobs"]
    assert job["ok"]
    middle = log.ended_s["first"], log.ended_s["second"]
    assert log.ended_s["m"] < log.ended_s["rows"] < min(middle)
    assert max(middle) < log.ended_s["joined"]


def test_under_joint_data_is_sent_to_tasks_that_have_no_slot_yet():
    _, log = simulate("joint")
    assert {"rows0", "joined0"} <= log.ahead.keys()


# Jobs of several steps in virtual time: each after the last, and one job in the summary.


def steps(count, **of_each):
    """The steps of a job called "a"."""
    names = ["a", *(f"a.{number}" for number in range(2, count + 1))]
    return [
        msgspec.structs.replace(job(name=name, **of_each), after=before)
        for name, before in zip(names, ["", *names], strict=False)
    ]


def test_a_job_of_steps_takes_from_the_first_one_s_submission_to_the_last_one_s_end():
    # A map takes 2 s beside its block; each step has one, and there are slots for all.
    run = simulation(*steps(3, submit_s=1.0), job(name="b"), place=topology(nodes=1, slots=4))
    run.run()
    rows = {row["name"]: row for row in run.summary()["jobs"]}
    assert [*rows] == ["b", "a"], "in the order of their submission"
    (submitted_s, ended_s) = (rows["a"][key] for key in ("submitted_s", "finished_s"))
    assert (submitted_s, ended_s) == pytest.approx((1.0, 7.0))
    assert rows["a"]["jct_s"] == pytest.approx(6.0)
    assert rows["a"]["steps"] == ["j1", "j2", "j3"]
    assert "steps" not in rows["b"]
    begun_s = [run.core.records[step].submitted_s for step in rows["a"]["steps"]]
    assert begun_s == pytest.approx([1.0, 3.0, 5.0])
    assert run.summary()["jct_s"]["mean"] == pytest.approx((6.0 + 2.0) / 2)


def test_the_numbers_of_steps_are_added_up():
    alike = {"maps": 3, "reduces": 2, "shuffle": 60 * MB, "output": 30 * MB}
    run = simulation(*steps(2, **alike), place=topology(racks=2))
    run.run()
    summary = run.summary()
    [row] = summary["jobs"]
    records = list(run.core.records.values())
    assert (row["maps"], row["reduces"], row["ok"]) == (6, 4, True)
    assert row["shuffle_bytes"] == 2 * 60 * MB
    assert row["output_bytes"] == 2 * 30 * MB
    assert row["cct_s"] == max(cct_s for record in records for cct_s in record.cct_s)
    assert row["cross_rack_shuffle_bytes"] == sum(record.fetched.remote for record in records)
    assert row["reduce_s"] == pytest.approx(sum(record.reduce_s for record in records) / 4)
    assert summary["tasks"]["succeeded"] == 10
    links = [*records[0].sent_bytes.items(), *records[1].sent_bytes.items()]
    sent = {rack: sum(count for at, count in links if at == rack) for rack, _ in links}
    received = sum(sum(record.received_bytes.values()) for record in records)
    assert sum(sent.values()) == received
    assert row["shuffle_skew"] >= max(sent.values()) / min(sent.values())


def test_steps_after_one_that_failed_are_never_submitted():
    faults = tuple(
        Fault(kind="node", target=f"r0n{n}", at_s=1.0, lasts_s=math.inf) for n in range(2)
    )
    run = simulation(*steps(3), job(name="b", submit_s=500.0), faults=faults)
    run.run()
    assert [*run.core.records] == ["j1", "j4"]
    rows = {row["name"]: row for row in run.summary()["jobs"]}
    assert (rows["a"]["ok"], rows["a"]["jct_s"]) == (False, rows["a"]["finished_s"])


def test_a_step_comes_after_an_earlier_job():
    first, second = steps(2)
    check_workload([first, second])
    with pytest.raises(UsageError, match=r'job a.2: after = "a": need the name of an earlier job'):
        check_workload([second, first])
