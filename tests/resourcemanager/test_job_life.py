"""Jobs from submission to end, in virtual time."""

from __future__ import annotations

import random

import pytest

from railyard.cluster.errors import PeerError, UsageError
from railyard.cluster.ids import JobId
from railyard.cluster.messages import (
    AttemptProgressed,
    AttemptSucceeded,
    DiscardJob,
    FlowFailed,
    KillAttempt,
    LaunchAttempt,
    NodeJoined,
    NodeLost,
    StartFlow,
)
from railyard.oracles.invariants import check_core
from railyard.resourcemanager.core.attempts import NO_ROOM_S
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.jobs import Stage
from railyard.resourcemanager.interface.commands import CloseCoflow, CommitJob, EndJob, OpenCoflow
from railyard.resourcemanager.interface.events import JobCommitFailed, JobCommitted, StagePlan
from railyard.resourcemanager.schedulers import recipe_named
from tests.harness import TinyCluster, tiny_cluster


def ordered(c: TinyCluster, kind: type) -> list:
    return [command for _, command in c.commands if isinstance(command, kind)]


def test_maps_then_reduces_then_the_commit_of_the_winners():
    c = tiny_cluster(racks=2, nodes=2, slots=2)
    c.submit("j0", maps=4, reduces=2, map_s=3, reduce_s=2)
    run = c.run()
    assert run.ended == {"j0": ""}
    assert run.ended_s["j0"] == 5.0
    assert ordered(c, CommitJob) == [
        CommitJob(job="j0", output_path="/out/j0", winners=("j0.r0.0", "j0.r1.0"))
    ]
    assert ordered(c, DiscardJob) == [DiscardJob(job="j0")]


@pytest.mark.parametrize("scheduler", ["fair", "capacity", "delay"])
def test_reduces_spread_over_free_nodes_and_do_not_fill_that_of_the_map_that_ended(scheduler: str):
    c = tiny_cluster(racks=2, nodes=2, slots=4, scheduler=scheduler)
    c.store("in", blocks=[["r1n1"]])
    c.submit("j0", input="in", reduces=4)
    assert sorted(c.run().nodes_of("j0.r")) == ["r0n0", "r0n1", "r1n0", "r1n1"]


def test_the_slot_that_was_freed_goes_by_the_order_of_the_jobs():
    c = tiny_cluster(nodes=1, slots=2, scheduler="fair")
    c.submit("j0", maps=2, reduces=1, user="ann")
    c.submit("j1", maps=1, user="bob")
    tasks = [task for task, _, _ in c.run().placements]
    assert tasks == ["j0.m0", "j0.m1", "j1.m0", "j0.r0"]  # although j0.r0 may run as soon


def test_the_orders_of_an_attempt():
    c = tiny_cluster(nodes=3)
    c.store("in", blocks={"b0": ["r0n0"], "b1": ["r0n1"]})
    c.submit("j0", input="in", reduces=3)
    c.run()
    launched = {order.attempt: order.task for order in ordered(c, LaunchAttempt)}
    assert launched["j0.m1.0"].splits[0].stored_offset == 100
    assert (launched["j0.m1.0"].partitions, launched["j0.m1.0"].output_path) == (3, "")
    reduce = launched["j0.r2.0"]
    assert (reduce.reads, reduce.inputs, reduce.index) == (("m",), 2, 2)
    assert reduce.output_path == "/out/j0/_temporary/j0.r2.0/part-r-00002"


def test_a_job_without_reduces_writes_its_maps_output():
    c = tiny_cluster()
    c.submit("j0", maps=2)
    c.run()
    assert [order.task.output_path for order in ordered(c, LaunchAttempt)] == [
        "/out/j0/_temporary/j0.m0.0/part-m-00000",
        "/out/j0/_temporary/j0.m1.0/part-m-00001",
    ]
    assert ordered(c, CommitJob)[0].winners == ("j0.m0.0", "j0.m1.0")


def test_a_dag_of_stages_runs_in_order():
    stages = (
        StagePlan(name="a", tasks=2),
        StagePlan(name="b", tasks=3),
        StagePlan(name="c", reads=("a", "b"), tasks=2),
        StagePlan(name="d", reads=("c",), tasks=1),
    )
    c = tiny_cluster(racks=2, nodes=4, slots=2)
    c.submit("j0", stages=stages, durations={"a": 1, "b": 2, "c": 3, "d": 4})
    assert c.run().ended_s == {"j0": 2 + 3 + 4}
    launched = {order.attempt: order.task for order in ordered(c, LaunchAttempt)}
    assert launched["j0.c1.0"].inputs == 5
    assert launched["j0.b0.0"].partitions == 2
    assert launched["j0.c0.0"].output_path == ""


def test_what_two_stages_read_is_fetched_twice():
    stages = (
        StagePlan(name="a", tasks=2),
        StagePlan(name="b", reads=("a",), tasks=3),
        StagePlan(name="c", reads=("a",), tasks=3),
    )
    c = tiny_cluster(racks=2, nodes=4, slots=2)
    c.submit("j0", stages=stages, durations={"a": 1, "b": 1, "c": 1}, partition_bytes=10)
    c.run()
    record = c.core.records[JobId("j0")]
    assert record.shuffle_bytes == record.shuffled_bytes == 2 * (2 * 3 * 10)


def test_no_slot_is_used_twice_and_all_are_used():
    c = tiny_cluster(racks=1, nodes=2, slots=2)
    c.submit("j0", maps=6, map_s=2)
    assert c.run().launches("j0.m") == [
        ("j0.m0", 0.0),
        ("j0.m1", 0.0),
        ("j0.m2", 0.0),
        ("j0.m3", 0.0),
        ("j0.m4", 2.0),
        ("j0.m5", 2.0),
    ]


def test_tasks_spread_over_racks_and_then_over_their_nodes():
    c = tiny_cluster(racks=2, nodes=2, slots=4)
    c.submit("j0", maps=3)
    assert c.run(until_s=0).nodes_of("j0") == ["r0n0", "r1n0", "r0n1"]
    c.submit("j1", maps=4)
    assert c.run(until_s=0).nodes_of("j1") == ["r1n1", "r0n0", "r1n0", "r0n1"]


def test_a_node_that_comes_back_keeps_its_turn():
    c = tiny_cluster(racks=2, nodes=2, slots=4)
    c.lose("r0n0")
    c.submit("j0", maps=2)
    assert c.run(until_s=0).nodes_of("j0") == ["r1n0", "r0n1"]
    c.join("r0n0")
    c.submit("j1", maps=3)
    assert c.run(until_s=0).nodes_of("j1") == ["r1n1", "r0n0", "r1n0"]


def test_reduces_wait_for_the_slow_start():
    c = tiny_cluster(racks=1, nodes=2, slots=1, options={"shuffle.slowstart": 0.5})
    c.submit("j0", maps=4, reduces=1, map_s=1)
    c.run(until_s=0.5)
    assert c.why_waiting("j0.r0") == "slow start: 0 of 4 tasks of m done, needs 2"
    assert c.run().launches("j0.r")[0][1] >= 1.0


@pytest.mark.parametrize(
    ("slowstart", "expected_s"),
    [
        pytest.param(0.05, 1.0, id="as soon as one of twenty is done"),
        pytest.param(1.0, 3.0, id="after all maps"),
    ],
)
def test_when_reduces_start(slowstart: float, expected_s: float):
    c = tiny_cluster(racks=2, nodes=5, slots=1, options={"shuffle.slowstart": slowstart})
    c.submit("j0", maps=24, reduces=1, map_s=1)
    assert c.run().launches("j0.r") == [("j0.r0", expected_s)]


def test_an_attempt_that_fails_is_tried_again():
    c = tiny_cluster(nodes=1)
    c.failure = lambda attempt, node: "boom" if attempt == "j0.m0.0" else None
    c.submit("j0", maps=1)
    run = c.run()
    assert run.ended == {"j0": ""}
    assert run.launches("j0.m0") == [("j0.m0", 0.0), ("j0.m0", 1.0)]
    record = c.core.records[JobId("j0")]
    assert (record.launched, record.succeeded, record.failed) == (2, 1, 1)


def test_four_failures_of_a_task_end_its_job_and_no_other():
    c = tiny_cluster(nodes=2, slots=2)
    c.failure = lambda attempt, node: "raised KeyError" if attempt.startswith("j0.m1.") else None
    c.submit("j0", maps=4, reduces=1, map_s=1)
    c.submit("j1", maps=4, reduces=1, map_s=1)
    run = c.run()
    assert run.ended["j1"] == ""
    assert run.ended["j0"].startswith("task j0.m1 failed 4 of 4 attempts, the last on r0n")
    assert run.ended["j0"].endswith("raised KeyError")
    failure = c.core.records[JobId("j0")].failures[-1]
    assert (failure.task, failure.attempt, failure.stderr) == (
        "j0.m1",
        "j0.m1.3",
        "raised KeyError!\n",
    )
    assert len(ordered(c, DiscardJob)) == 2


def test_a_node_without_room_on_its_disk_is_avoided_for_a_time():
    c = tiny_cluster(nodes=3)
    c.failure = lambda attempt, node: (
        "no space left on /" if (node, c.now_s) == ("r0n0", 0) else None
    )
    c.submit("j0", maps=40, map_s=1)
    run = c.run()
    assert run.ended == {"j0": ""}
    there_s = [at_s for _, node, at_s in run.placements if node == "r0n0"]
    assert there_s[:2] == [0.0, 1.0 + NO_ROOM_S]
    assert len(there_s) > 2


def test_a_job_does_not_avoid_all_nodes_for_want_of_room():
    c = tiny_cluster(nodes=3)
    c.failure = lambda attempt, node: "no space left on /" if c.now_s < 2.5 else None
    c.submit("j0", maps=3, map_s=1)
    run = c.run()
    assert run.ended == {"j0": ""}


def test_max_attempts_is_the_submitters_choice():
    c = tiny_cluster()
    c.failure = lambda attempt, node: "boom"
    c.submit("j0", maps=1, max_attempts=2)
    assert "2 of 2 attempts" in c.run().ended["j0"]
    assert len(ordered(c, LaunchAttempt)) == 2


def test_a_job_that_failed_is_discarded_when_its_last_attempt_is_gone():
    c = tiny_cluster(nodes=2, kill_s=2.0)
    c.submit("j0", maps=3, map_s=50)
    c.at(3.0, lambda: c.kill("j0"))
    c.run()
    orders = [(when, type(o)) for when, o in c.commands if not isinstance(o, LaunchAttempt)]
    assert orders == [(3.0, KillAttempt), (3.0, KillAttempt), (3.0, EndJob), (5.0, DiscardJob)]


def test_a_job_can_be_killed():
    c = tiny_cluster()
    c.submit("j0", maps=5, map_s=10)
    c.at(3.0, lambda: c.kill("j0", "by its user"))
    run = c.run()
    assert (run.ended, run.ended_s) == ({"j0": "by its user"}, {"j0": 3.0})
    with pytest.raises(PeerError, match="job j0 is over"):
        c.kill("j0")
    with pytest.raises(PeerError, match="job j9 does not exist"):
        c.kill("j9")


def test_a_commit_that_fails_fails_the_job():
    c = tiny_cluster()
    c.submit("j0", maps=1)
    c.run(until_s=0.5)
    commands = c.core.handle(AttemptSucceeded(attempt="j0.m0.0"), 0.6)
    assert commands == [CommitJob(job="j0", output_path="/out/j0", winners=("j0.m0.0",))]
    commands = c.core.handle(JobCommitFailed(job="j0", reason="the disk is full"), 0.7)
    assert commands[0].reason == "its output could not be committed: the disk is full"
    with pytest.raises(PeerError, match="j0 is not being committed"):
        c.core.handle(JobCommitted(job="j0"), 0.8)


def test_the_shuffle_is_a_coflow_from_first_to_last_flow():
    c = tiny_cluster(racks=2, nodes=1, slots=2, flow_s=2.0)
    c.submit("j0", maps=2, reduces=1, map_s=1)
    c.run()
    assert ordered(c, OpenCoflow) == [OpenCoflow(coflow="j0.r", job="j0")]
    assert ordered(c, CloseCoflow) == [CloseCoflow(coflow="j0.r")]
    assert c.core.records[JobId("j0")].cct_s == [2.0]


def test_one_flow_at_a_time_from_a_node_carries_all_that_is_ready():
    # Maps end at 1 and 2 s; a flow takes 5 s: the second map's output waits for the first's.
    c = tiny_cluster(racks=2, nodes=1, slots=3, flow_s=5.0)
    c.submit("j0", maps=6, reduces=1, map_s=1)
    c.run()
    flows = [(when, o) for when, o in c.commands if isinstance(o, StartFlow)]
    by_source = {
        src: [(w, o.outputs) for w, o in flows if o.src == src] for src in ("r0n0", "r1n0")
    }
    assert [when for when, _ in by_source["r0n0"]] == [1.0, 6.0]
    fetched = [a for fetches in by_source.values() for _, outputs in fetches for a in outputs]
    assert sorted(fetched) == [f"j0.m{i}.0" for i in range(6)]
    assert all(o.size_bytes == 10 * len(o.outputs) for _, o in flows)


def test_progress_counts_running_attempts():
    c = tiny_cluster(nodes=2)
    c.submit("j0", maps=4, map_s=2)
    c.run(until_s=1.0)
    c.feed(AttemptProgressed(attempt="j0.m0.0", progress=0.5))
    assert c.core.state.jobs[JobId("j0")].stages["m"].progress == 0.125


def test_stale_facts_do_not_matter_and_nonsense_is_refused():
    c = tiny_cluster()
    c.submit("j0", maps=1)
    c.run()
    assert c.core.handle(AttemptSucceeded(attempt="j0.m0.0"), 9.0) == []
    with pytest.raises(PeerError, match="there is no attempt"):
        c.core.handle(AttemptSucceeded(attempt="j7.m0.0"), 9.0)
    with pytest.raises(PeerError, match="no node r9n9"):
        c.core.handle(NodeLost(node="r9n9", reason="silent"), 9.0)


def test_the_wrong_number_of_partitions_is_a_failed_attempt():
    c = tiny_cluster(nodes=1)
    c.submit("j0", maps=1, reduces=3)
    c.core.handle(AttemptSucceeded(attempt="j0.m0.0", partition_bytes=(1, 2)), 0.5)
    failure = c.core.records[JobId("j0")].failures[0]
    assert failure.reason == "reported 2 partitions, has 3"


@pytest.mark.parametrize(
    ("stages", "error"),
    [
        pytest.param((), "at least one", id="no stages"),
        pytest.param((StagePlan(name="m", tasks=0),), "tasks = 0", id="no tasks"),
        pytest.param((StagePlan(name="m1", tasks=1),), "letters", id="bad name"),
        pytest.param(
            (StagePlan(name="r", reads=("m",), tasks=1), StagePlan(name="m", tasks=1)),
            "listed before",
            id="reads a later stage",
        ),
        pytest.param(
            (
                StagePlan(name="m", tasks=1),
                StagePlan(name="a", reads=("m",), tasks=1),
                StagePlan(name="b", reads=("m",), tasks=2),
            ),
            "need as many",
            id="readers with different numbers of partitions",
        ),
    ],
)
def test_jobs_that_make_no_sense_are_refused(stages: tuple[StagePlan, ...], error: str):
    c = tiny_cluster()
    from railyard.resourcemanager.interface.events import JobSubmitted

    event = JobSubmitted(job="j0", name="j", user="u", queue="default", stages=stages)
    with pytest.raises(UsageError, match=error):
        c.core.handle(event, 0.0)
    assert not c.core.records
    check_core(c.core)


def test_a_job_without_weight_is_refused():
    c = tiny_cluster()
    with pytest.raises(UsageError, match=r"job j0: weight = 0.0: need a number above 0"):
        c.submit("j0", weight=0.0)
    assert not c.core.records


def test_records_of_jobs_that_ended_long_ago_are_forgotten():
    c = tiny_cluster()
    core = Core(c.topology, recipe_named("fair"), records_kept=2)
    core.handle(NodeJoined(node="r0n0", rack="r0", slots=1), 0.0)
    c.core = core
    c.submit("j0", maps=1, map_s=9)
    c.kill("j0")  # its attempt still holds the slot
    for job in ("j1", "j2", "j3"):
        c.submit(job, maps=1)
    assert c.run().ended["j3"] == ""
    assert list(core.records) == ["j2", "j3"]
    assert not core.state.draining


# Jobs while no node is alive: they wait for one, and fail if none comes.


WORDS = "no node has been alive for 60 s (liveness.without_nodes of the topology)"


def test_job_fails_when_no_node_comes_back():
    c = tiny_cluster(nodes=2)
    c.submit("j0", maps=4, map_s=10.0)
    c.at(1.0, lambda: c.lose("r0n0", "its rack burns"))
    c.at(3.0, lambda: c.lose("r0n1", "its rack burns"))
    run = c.run()
    assert run.ended == {"j0": f"{WORDS}; the last was r0n1: its rack burns"}
    assert run.ended_s == {"j0": 63.0}


def test_job_goes_on_when_a_node_comes_back_in_time():
    c = tiny_cluster(nodes=2)
    c.submit("j0", maps=4, map_s=10.0)
    for node in ("r0n0", "r0n1"):
        c.at(1.0, lambda node=node: c.lose(node))
    c.at(60.9, lambda: c.join("r0n1"))
    run = c.run()
    assert (run.ended, run.ended_s) == ({"j0": ""}, {"j0": 100.9})


def test_a_second_outage_has_its_own_time():
    c = tiny_cluster(nodes=1)
    c.submit("j0", maps=1, map_s=100.0)
    c.at(1.0, lambda: c.lose("r0n0"))
    c.at(41.0, lambda: c.join("r0n0"))
    c.at(50.0, lambda: c.lose("r0n0"))
    assert c.run().ended_s == {"j0": 110.0}


def test_jobs_wait_from_when_they_came():
    c = tiny_cluster(nodes=1)
    c.lose("r0n0")
    c.at(20.0, lambda: c.submit("j0"))
    c.at(30.0, lambda: c.submit("j1"))
    c.at(100.0, lambda: c.submit("j2"))
    c.at(159.0, lambda: c.join("r0n0"))
    run = c.run()
    assert run.ended_s == {"j0": 80.0, "j1": 90.0, "j2": 160.0}
    assert [reason != "" for reason in run.ended.values()] == [True, True, False]


def test_a_job_that_waits_says_that_there_is_no_node():
    c = tiny_cluster(nodes=1)
    c.lose("r0n0")
    c.submit("j0")
    assert c.why_waiting("j0.m0") == "no node is alive"


def test_a_job_that_is_being_committed_is_not_failed():
    c = tiny_cluster(nodes=1)
    c.submit("j0", map_s=1.0)
    c.at(1.0, lambda: c.lose("r0n0"))  # at the very time of its end, and after it
    assert c.run().ended == {"j0": ""}


@pytest.mark.parametrize("scheduler", ["fair", "corral", "co-scheduler"])
def test_it_holds_for_every_scheduler(scheduler):
    c = tiny_cluster(racks=2, nodes=1, scheduler=scheduler)
    c.submit("j0", maps=4, reduces=2, map_s=5.0)
    c.at(7.0, lambda: c.lose("r0n0"))
    c.at(7.0, lambda: c.lose("r1n0"))
    run = c.run()
    assert run.ended["j0"].startswith(WORDS)
    assert run.ended_s == {"j0": 67.0}


# A stage that needs any K of its M tasks.


def stages(tasks: int, needed: int, reduces: int = 1) -> list[StagePlan]:
    maps = StagePlan(name="m", tasks=tasks, needed=needed)
    return [maps, StagePlan(name="r", reads=("m",), tasks=reduces)]


def slow_last(c: TinyCluster) -> None:
    """Each attempt takes a second longer than the one before."""
    numbers = iter(range(1, 1000))
    c.stretch = lambda: next(numbers)


def stage(c: TinyCluster, name: str = "m") -> Stage:
    return c.core.state.jobs[JobId("j0")].stages[name]


def test_what_still_runs_is_killed_once_enough_tasks_are_done():
    c = tiny_cluster(nodes=4, slots=1, options={"shuffle.slowstart": 1.0})
    slow_last(c)
    c.submit("j0", stages=stages(4, needed=2))
    c.run(until_s=2.1)
    assert [task.state for task in stage(c).tasks] == ["done", "done", "left", "left"]
    assert c.run().ended == {"j0": ""}
    record = c.core.records[JobId("j0")]
    assert (record.launched, record.succeeded, record.killed) == (5, 3, 2)


def test_pending_tasks_are_left_and_readers_fetch_what_is_needed():
    c = tiny_cluster(nodes=2, slots=1, kill_s=0.25, options={"shuffle.slowstart": 1.0})
    c.submit("j0", stages=stages(9, needed=3, reduces=2), durations={"m": 1.0, "r": 1.0})
    c.run(until_s=1.5)
    assert (stage(c).done, stage(c).running, stage(c).pending.count) == (2, 2, 5)
    assert not stage(c).complete
    c.run(until_s=2.1)
    assert (stage(c).done, stage(c).left, stage(c).pending.count) == (3, 6, 0)
    assert stage(c).complete
    assert [task.state for task in stage(c).tasks] == ["done"] * 3 + ["left"] * 6
    assert stage(c, "r").inputs == 3
    run = c.run()
    assert run.ended == {"j0": ""}
    readers = [launch for launch in c.launched() if launch.task.stage == "r"]
    assert [launch.task.inputs for launch in readers] == [3, 3]
    assert c.core.records[JobId("j0")].shuffled_bytes == 2 * 3 * 10


def test_all_readers_read_the_same_outputs_even_if_one_is_lost():
    """Its task is done again, although others of the stage would be done before."""
    c = tiny_cluster(nodes=5, slots=1, options={"shuffle.slowstart": 1.0})
    slow_last(c)
    c.submit("j0", stages=stages(4, needed=2, reduces=1))
    c.at(1.5, lambda: c.lose("r0n0"))  # the first is done, and needed by all readers
    c.run(until_s=2.5)
    assert [task.state for task in stage(c).tasks] == ["running", "done", "left", "left"]
    run = c.run()
    assert run.ended == {"j0": ""}
    fetched = {output for _, flow in c.flows() for output in flow.outputs}
    assert {name.split(".")[1] for name in fetched} == {"m0", "m1"}


@pytest.mark.parametrize("seed", range(30))
def test_the_same_outputs_for_all_whatever_fails(seed: int):
    dice = random.Random(seed)
    c = tiny_cluster(racks=2, nodes=3, slots=2, flow_s=0.3, kill_s=dice.choice([0.0, 0.4]))
    c.stretch = lambda: dice.uniform(0.5, 3.0)
    c.failure = lambda attempt, node: "boom" if c.now_s < 20 and dice.random() < 0.2 else None

    def flow_failure(flow: StartFlow) -> FlowFailed | None:
        lost = flow.outputs[: dice.randint(0, 1)]
        failed = FlowFailed(flow=flow.flow, reason="broke off", lost=lost)
        return failed if c.now_s < 20 and dice.random() < 0.2 else None

    c.flow_failure = flow_failure
    plan = [
        StagePlan(name="a", tasks=6, needed=dice.randint(1, 6)),
        StagePlan(name="b", reads=("a",), tasks=5, needed=dice.randint(1, 5)),
        StagePlan(name="c", reads=("b",), tasks=4),
    ]
    c.submit("j0", stages=plan, durations=dict.fromkeys("abc", 1.0), max_attempts=1000)
    for node in ("r0n0", "r1n1"):
        lost_s = dice.uniform(0, 10)
        c.at(lost_s, lambda node=node: c.lose(node))
        c.at(lost_s + dice.uniform(0, 5), lambda node=node: c.join(node))
    assert c.run(until_s=2000.0).ended == {"j0": ""}
    for name, (plan_of, reader) in {"a": plan[:2], "b": plan[1:]}.items():
        read: dict[str, set[str]] = {}
        for _, flow in c.flows():
            if flow.reader.split(".")[1][0] == reader.name:
                read.setdefault(flow.reader, set()).update(o.split(".")[1] for o in flow.outputs)
        assert len(set.union(*read.values())) <= plan_of.needed, name


def test_no_more_can_be_needed_than_there_are():
    c = tiny_cluster()
    with pytest.raises(UsageError, match=r'j0: stage "m": needed = 3: need at most its 2 tasks'):
        c.submit("j0", stages=stages(2, needed=3))


def test_a_last_stage_needs_all_of_its_tasks():
    c = tiny_cluster()
    plan = [StagePlan(name="m", tasks=1), StagePlan(name="r", reads=("m",), tasks=3, needed=2)]
    with pytest.raises(UsageError, match=r'stage "r": needed = 2: need all of its 3 tasks, since'):
        c.submit("j0", stages=plan)
    plan[1] = StagePlan(name="r", reads=("m",), tasks=3, needed=3)
    c.submit("j0", stages=plan)
    assert c.run().ended == {"j0": ""}
