"""Centralized: all input is moved to one site first, and jobs run there."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import NodeId, RackId
from railyard.cluster.messages import Split
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Compute, Links, RackFigures, RackShape, Storage
from railyard.jobs.workloads.model import InputFile, WorkStage
from railyard.resourcemanager.interface.events import StagePlan, TaskInput
from railyard.resourcemanager.schedulers.shared.blockmoves import blocks_read
from railyard.simulator.simulation import Simulation
from tests.harness import tiny_cluster
from tests.workloads import MB, job_of, workload

GB = 10**9


def sites(slots=2, nodes=1, **settings):
    """Three sites, of which r1 has the most slots; a move takes 1 s."""
    c = tiny_cluster(racks=3, nodes=nodes, slots=slots, scheduler="centralized", **settings)
    c.set_slots("r1n0", 2 * slots)
    return c


def where(c, path):
    return Counter(node for block in c.core.state.data[path] for node in block.nodes)


def test_tasks_wait_for_the_last_block_and_run_where_all_input_is():
    c = sites()
    c.store("in", [["r0n0"], ["r1n0"], ["r2n0"]] * 3)
    c.submit("j0", input="in", reduces=2, map_s=2.0)
    assert len(c.moves()) == 6
    assert c.run(until_s=0.5).placements == []
    assert c.why_waiting("j0.m0") == "6 blocks of its input are yet to come to r1"
    run = c.run()
    assert where(c, "in") == {"r1n0": 9}
    assert set(run.nodes_of("j0")) == {"r1n0"}
    assert min(when for _, when in run.launches("j0")) == 1.0
    assert run.ended == {"j0": ""}
    figures = c.core.state.policies.data.figures()
    assert figures == {"blocks_moved": 6, "blocks_moved_bytes": 600}


def test_at_most_four_blocks_leave_a_node_at_once_and_jobs_take_turns():
    c = sites()
    for name in ("a", "b"):
        c.store(name, [["r0n0"]] * 5)
        c.submit(name, input=name)
    c.run(until_s=1.0)
    assert [(move.path, move.block) for move in c.moves()] == [
        *(("a", number) for number in range(4)),
        *(("a", 4), ("b", 0), ("b", 1), ("b", 2)),
    ]
    assert c.run().ended == {"a": "", "b": ""}


def test_a_job_that_comes_while_anothers_blocks_move_has_the_next_turn():
    c = sites()
    for name in ("a", "b"):
        c.store(name, [["r0n0"]] * 12)
    c.submit("a", input="a")
    c.submit("b", input="b")
    c.run(until_s=1.0)
    assert Counter(move.path for move in c.moves()[4:8]) == {"a": 2, "b": 2}


def test_jobs_that_share_an_input_have_it_moved_once():
    c = sites()
    c.store("in", [["r0n0"], ["r2n0"]])
    c.submit("j0", input="in")
    c.submit("j1", input="in")
    run = c.run()
    assert len(c.moves()) == 2
    assert set(run.nodes_of("j")) == {"r1n0"}


def test_what_one_of_two_jobs_wants_is_moved_although_the_other_was_killed():
    c = sites()
    c.store("in", [["r0n0"]] * 6)
    c.submit("j0", input="in")
    c.submit("j1", input="in")
    c.at(0.5, lambda: c.kill("j0"))
    run = c.run()
    assert where(c, "in") == {"r1n0": 6}
    assert run.ended == {"j0": "killed by its user", "j1": ""}


def test_nothing_more_is_moved_for_a_job_that_was_killed():
    c = sites()
    c.store("in", [["r0n0"]] * 9)
    c.submit("j0", input="in")
    c.at(0.5, lambda: c.kill("j0"))
    c.run()
    assert len(c.moves()) == 4


def test_the_output_of_a_job_is_moved_as_any_other_input():
    c = sites()
    c.submit("j0", maps=2)
    c.run()
    c.store("/out/j0", [["r2n0"], ["r1n0"]])
    c.submit("j1", input="/out/j0")
    run = c.run()
    assert where(c, "/out/j0") == {"r1n0": 2}
    assert set(run.nodes_of("j")) == {"r1n0"}


def test_the_named_inputs_of_stages_are_moved_each():
    c = sites()
    for name in ("orders", "customers"):
        c.store(name, [["r0n0"], ["r2n0"]])
    stages = [
        StagePlan(name=name[0], tasks=2, inputs=tuple(c._files[name]))
        for name in ("orders", "customers")
    ]
    joined = StagePlan(name="r", reads=("o", "c"), tasks=1)
    c.submit("j0", stages=[*stages, joined], durations={"o": 1.0, "c": 1.0, "r": 1.0})
    run = c.run()
    assert where(c, "orders") == where(c, "customers") == {"r1n0": 2}
    assert set(run.nodes_of("j0")) == {"r1n0"}


def test_blocks_go_to_the_nodes_of_the_site_by_their_slots():
    c = sites(nodes=2)
    c.store("in", [["r0n0"]] * 12)
    c.submit("j0", input="in")
    c.run()
    assert where(c, "in") == {"r1n0": 8, "r1n1": 4}


def test_one_replica_at_the_site_is_enough():
    c = sites()
    c.store("in", [["r0n0", "r1n0"], ["r0n0", "r2n0"]])
    c.submit("j0", input="in")
    c.run()
    assert [(move.block, move.node) for move in c.moves()] == [(1, "r1n0")]


# The central site --------------------------------------------------------------------------------
def test_the_site_that_is_named_whatever_slots_it_has():
    c = sites(site="r2")
    c.store("in", [["r0n0"]])
    c.submit("j0", input="in")
    assert c.run().nodes_of("j0") == ["r2n0"]


@pytest.mark.parametrize("how", ["lost", "no slots"])
def test_another_site_is_chosen_when_it_is_gone_and_stays_while_jobs_run(how):
    c = sites()
    c.move_failure = lambda move: "it is lost" if move.node == "r1n0" and how == "lost" else None
    c.store("in", [["r0n0"]] * 4 + [["r2n0"]] * 2)
    c.submit("j0", input="in", map_s=2.0)
    if how == "lost":
        c.at(0.5, lambda: c.lose("r1n0"))
        c.at(2.0, lambda: c.join("r1n0"))
    else:
        c.at(0.5, lambda: c.set_slots("r1n0", 0))
        c.at(2.0, lambda: c.set_slots("r1n0", 4))
    run = c.run()
    assert where(c, "in") == {"r0n0": 6}
    assert set(run.nodes_of("j0")) == {"r0n0"}
    c.set_slots("r1n0", 4)
    c.submit("j1", input="in")
    c.move_failure = lambda move: None
    assert set(c.run().nodes_of("j1")) == {"r1n0"}, "chosen anew, as no other job runs"


def test_a_job_that_has_begun_goes_on_at_another_site():
    c = sites(slots=1)
    c.store("in", [["r0n0"]] * 4)
    c.submit("j0", input="in", map_s=2.0)
    c.at(1.5, lambda: c.lose("r1n0"))
    run = c.run(until_s=1.4)
    assert set(run.nodes_of("j0")) == {"r1n0"}
    run = c.run()
    assert run.unfinished == []
    assert set(run.nodes_of("j0")[2:]) == {"r0n0"}, "its blocks are lost with r1n0"


def test_jobs_without_input_run_at_the_site_too():
    c = sites()
    c.submit("j0", maps=6, reduces=2)
    assert set(c.run().nodes_of("j0")) == {"r1n0"}


# What can't be moved -----------------------------------------------------------------------------
def test_a_move_that_fails_is_tried_again_a_little_later():
    c = sites()
    failures = iter(["the disk is full", "the disk is full"])
    c.move_failure = lambda move: next(failures, None)
    c.store("in", [["r0n0"]])
    c.submit("j0", input="in")
    run = c.run()
    assert run.placements == [("j0.m0", "r1n0", 1.0 + 1.0 + 1.0 + 2.0 + 1.0)]
    assert where(c, "in") == {"r1n0": 1}


def test_a_block_that_cannot_be_moved_is_read_from_afar():
    c = sites()
    c.move_failure = lambda move: "the disk is full" if move.block == 0 else None
    c.store("in", [["r0n0"], ["r0n0"]])
    c.submit("j0", input="in")
    run = c.run()
    assert set(run.nodes_of("j0")) == {"r1n0"}
    assert where(c, "in") == {"r0n0": 1, "r1n0": 1}
    assert len(c.moves()) == 4 + 1


def test_a_block_whose_nodes_are_lost_is_not_waited_for_and_moved_when_they_are_back():
    c = sites(slots=1)
    c.store("in", [["r0n0"], ["r2n0"]])
    c.lose("r0n0")
    c.submit("j0", input="in", map_s=5.0)
    assert len(c.moves()) == 1
    c.at(0.5, lambda: c.join("r0n0"))
    run = c.run()
    assert where(c, "in") == {"r1n0": 2}
    assert {when for _, when in run.launches("j0")} == {1.5}


def test_a_job_that_breaks_on_all_nodes_of_the_site_runs_elsewhere():
    c = sites()
    c.failure = lambda attempt, node: "boom" if node == "r1n0" else None
    c.store("in", [["r1n0"]] * 6)
    c.submit("j0", input="in", max_attempts=100)
    run = c.run()
    assert run.ended == {"j0": ""}
    assert {"r0n0", "r2n0"} <= set(run.nodes_of("j0"))


def test_settings_are_checked():
    with pytest.raises(
        UsageError, match=r"centralized.site = 'r9': need \"\" or one of r0, r1, r2"
    ):
        sites(site="r9")


# The example of section 2.2 ----------------------------------------------------------------------
def test_the_papers_example_takes_93_s():
    gigabytes, slots = (20, 30, 50), (40, 10, 20)
    up, down = (5, 1, 2), (5, 1, 5)
    racks = {
        RackId(f"r{at}"): RackFigures(slots=slots[at], uplink=up[at] * GB, downlink=down[at] * GB)
        for at in range(3)
    }
    place = Topology(
        name="fig-4",
        racks=RackShape(count=3, nodes=1, slots=1),
        rack=racks,
        links=Links(nic=float("inf"), uplink=5 * GB, way="wan"),
        storage=Storage(block=100 * MB, replication=1),
        compute=Compute(map_rate=50 * MB, reduce_rate=100 * MB),
    )
    nodes = [(f"r{at}n0",) for at in range(3) for _ in range(10 * gigabytes[at])]
    file = InputFile(path="/in", size_bytes=100 * GB, block_bytes=100 * MB, nodes=tuple(nodes))
    job = job_of(
        WorkStage(name="m", files=("/in",), tasks=1000, output_bytes=50 * GB),
        WorkStage(name="r", reads=("m",), tasks=500, output_bytes=0),
        files=(file,),
    )
    run = Simulation(ClusterConfig(topology=place, scheduler="centralized"), workload(job))
    run.run()
    [record] = run.core.records.values()
    assert record.finished_s == pytest.approx(30 + 50 + 13, rel=1e-3)
    assert run.summary()["bytes"]["wan"] == 80 * GB
    held = run.store.namenode.blocks.load
    assert held == {"r0n0": 100 * GB, "r1n0": 0, "r2n0": 0}


# Properties --------------------------------------------------------------------------------------
@settings(max_examples=60, deadline=None)
@given(
    files=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=3),
    fails=st.lists(st.booleans(), max_size=30),
    gone=st.none() | st.tuples(st.integers(0, 2), st.floats(0.1, 4), st.floats(0.1, 3)),
)
def test_jobs_end_and_every_block_that_could_be_moved_is_at_one_site(files, fails, gone):
    c = sites()
    luck = iter(fails)
    c.move_failure = lambda move: "bad luck" if next(luck, False) else None
    for number, places in enumerate(files):
        c.store(f"in{number}", [[f"r{place}n0"] for place in places])
        c.submit(f"j{number}", input=f"in{number}")
    if gone is not None:
        site, at_s, lasts_s = gone
        c.at(at_s, lambda: c.set_slots(f"r{site}n0", 0))
        c.at(at_s + lasts_s, lambda: c.set_slots(f"r{site}n0", 2))
    run = c.run()
    assert set(run.ended.values()) == {""}
    policy = c.core.state.policies.data
    assert not policy._waits_for
    tried = Counter((move.path, move.block) for move in c.moves())
    if gone is None and max(tried.values(), default=0) < 4:
        assert all(set(where(c, f"in{number}")) == {"r1n0"} for number in range(len(files)))


@pytest.mark.parametrize(
    ("offset", "length", "numbers"),
    [(0, 100, [0]), (100, 50, [1]), (150, 50, [1]), (150, 51, [1, 2]), (0, 400, [0, 1, 2, 3])],
)
def test_the_blocks_of_splits_that_are_parts_of_blocks_or_reach_over_several(
    offset, length, numbers
):
    c = sites()
    c.store("in", [["r0n0"]] * 4)
    split = Split(path="in", stored_offset=offset, stored_length=length)
    inputs = (TaskInput(splits=(split,), input_bytes=length, nodes=(NodeId("r0n0"),)),)
    c.submit("j0", stages=[StagePlan(name="m", tasks=1, inputs=inputs)])
    stage = c.core.state.jobs["j0"].stages["m"]
    assert [number for _, number in blocks_read(c.core.state, stage)] == numbers
