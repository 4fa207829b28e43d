"""The effects of faults on simulated jobs, and that they end with the fault."""

from __future__ import annotations

import math

import msgspec
import pytest

import railyard
from railyard.cluster.errors import UsageError
from railyard.cluster.faults import Fault
from railyard.cluster.topology import load_topology
from railyard.cluster.topologyfile import Links, Storage
from railyard.resourcemanager.schedulers import all_recipes
from railyard.simulator.faults import parse_faults
from railyard.simulator.simulation import Simulation
from tests.simulator.test_simulation import ended_s, job, simulation
from tests.workloads import MB, topology


def lost_because(run: Simulation) -> dict[str, str]:
    """The nodes that were reported as lost."""
    return {node.id: node.lost_because for node in run.core.state.nodes.values()}


def test_what_a_lost_node_ran_runs_again_once_that_is_noticed():
    # r0n1 goes down at 1 s; after a heartbeat of 0.5 s its map is pending; the slot of r0n0 is free
    # at 2 s; the block has a replica there.
    place = topology(storage=Storage(block=100 * MB, replication=2))
    down = Fault(kind="node", target="r0n1", at_s=1.0, lasts_s=math.inf)
    run = simulation(job(maps=2), place=place, faults=(down,))
    assert ended_s(run) == pytest.approx(4.0)
    assert run.summary()["tasks"]["killed"] == 1
    assert lost_because(run)["r0n1"] == "it was silent for too long"


def test_a_node_that_comes_back_has_its_disk():
    down = Fault(kind="node", target="r0n1", at_s=1.0, lasts_s=0.7)
    run = simulation(job(maps=2), faults=(down,))
    assert ended_s(run) == pytest.approx(1.7 + 2.0)
    assert run.summary()["locality"]["node"] == 3


def test_output_of_a_lost_node_is_made_again():
    # r0n1 is lost while its output is being fetched: its map runs on r0n0 once that is noticed.
    down = Fault(kind="node", target="r0n1", at_s=2.25, lasts_s=math.inf)
    place = topology(slots=2, storage=Storage(block=100 * MB, replication=2))
    run = simulation(job(maps=2, reduces=1, shuffle=100 * MB), place=place, faults=(down,))
    ended_s(run)
    assert run.summary()["tasks"]["launched"] >= 4


def test_a_rack_is_missed_only_after_the_expiry():
    place = topology(racks=2, nodes=1, storage=Storage(block=100 * MB, replication=2))
    down = Fault(kind="rack", target="r1", at_s=1.0, lasts_s=math.inf)
    run = simulation(job(maps=2), place=place, faults=(down,))
    assert ended_s(run) == pytest.approx(1.0 + place.liveness.expiry_s + 2.0)


def test_a_slow_node_computes_longer_as_long_as_it_is_slow():
    slow = Fault(kind="slow", target="r0n1", amount=3.0, at_s=0.0, lasts_s=5.0)
    run = simulation(job(maps=2), job(name="b", maps=2, submit_s=7.0), faults=(slow,))
    run.run()
    assert [row["jct_s"] for row in run.summary()["jobs"]] == pytest.approx([6.0, 2.0])


def test_a_node_with_half_its_slots_runs_half_as_many_tasks_at_once():
    """4 maps of 2 s hold the slots of r0n0; of the next 4, two run there at once, then all."""
    drop = Fault(kind="slots", target="r0n0", amount=0.5, at_s=1.0, lasts_s=4.0)
    place = topology(nodes=1, slots=4, storage=Storage(block=100 * MB, replication=1))
    run = simulation(job(maps=12), place=place, faults=(drop,))
    assert ended_s(run) == pytest.approx(2.0 + 2.0 + 1.0 + 2.0 + 1.0)
    assert run.summary()["tasks"]["killed"] == 0


@pytest.mark.parametrize(
    ("shares", "slots"),
    [((0.5,), 2), ((0.3,), 1), ((0.01,), 1), ((0.0,), 0), ((2.0,), 6), ((0.5, 0.5), 1)],
)
def test_slots_are_rounded_to_the_nearest_and_at_least_one_is_left(shares, slots):
    faults = [
        Fault(kind="slots", target="r0n1", amount=s, at_s=1.0 + i) for i, s in enumerate(shares)
    ]
    forever = [msgspec.structs.replace(fault, lasts_s=math.inf) for fault in faults]
    run = simulation(job(maps=12, submit_s=5.0), place=topology(slots=3), faults=forever)
    run.run()
    assert run.core.state.nodes["r0n1"].slots == slots


def test_a_node_that_was_down_has_the_slots_that_are_left_to_it():
    down = Fault(kind="node", target="r0n1", at_s=1.0, lasts_s=3.0)
    drops = [
        Fault(kind="slots", target="r0n1", amount=s, at_s=2.0, lasts_s=t)
        for s, t in ((0.5, 9.0), (0, 1))
    ]
    run = simulation(job(maps=12), place=topology(slots=4), faults=(down, *drops))
    while run.heap.now_s < 4.5:
        run.step()
    assert run.core.state.nodes["r0n1"].slots == 2
    ended_s(run)


def test_a_link_with_half_its_capacity_carries_half_as_fast():
    drop = Fault(kind="link", target="r1.down", amount=0.5, at_s=0.0, lasts_s=0.5)
    place = topology(racks=2, nodes=1)
    run = simulation(job(maps=2, shares=(1.0, 0.0)), place=place, faults=(drop,))
    assert ended_s(run) == pytest.approx(0.5 + 0.75 + 2.0)


def test_a_block_whose_replica_is_lost_is_read_elsewhere():
    place = topology(nodes=3, storage=Storage(block=100 * MB, replication=2))
    lost = Fault(kind="blocks", target="r0n0", at_s=0.5)
    run = simulation(job(maps=3, submit_s=1.0), place=place, faults=(lost,))
    ended_s(run)
    summary = run.summary()
    assert summary["tasks"]["failed"] == 0
    assert summary["bytes"]["rack"] >= 100 * MB  # the map on r0n0 has read elsewhere


def test_blocks_that_nobody_has_fail_the_job():
    faults = tuple(Fault(kind="blocks", target=node, at_s=0.5) for node in ("r0n0", "r0n1"))
    run = simulation(job(maps=1, submit_s=1.0), faults=faults)
    run.run()
    assert "no replica of its block can be read" in run.core.records["j1"].reason


# The text of --faults ----------------------------------------------------------------------------
def test_the_text_of_faults_is_parsed():
    place = load_topology("hybrid-8x4")
    text = "node:r0n1@10s+20s,rack:r2@30s,slow:r1n0*4@5+1min,link:r3.up*0.2@1s+1s,blocks:r0n0/3@2s"
    text += ",slots:r3n0*0.5@1s+9s"
    assert parse_faults(text, place, 60.0) == [
        Fault(kind="node", target="r0n1", at_s=10.0, lasts_s=20.0),
        Fault(kind="rack", target="r2", at_s=30.0, lasts_s=math.inf),
        Fault(kind="slow", target="r1n0", amount=4.0, at_s=5.0, lasts_s=60.0),
        Fault(kind="link", target="r3.up", amount=0.2, at_s=1.0, lasts_s=1.0),
        Fault(kind="blocks", target="r0n0", amount=3, at_s=2.0),
        Fault(kind="slots", target="r3n0", amount=0.5, at_s=1.0, lasts_s=9.0),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "node:r0n1",
        "node:r0n1*2@1s",
        "blocks:r0n0@1s+2s",
        "blocks:r0n0/1.5@1s",
        "slow:r0n0*1.2.3@1s",
        "link:r0.up*.@1s",
        "slots:r0n0@1s",
        "slots:r0n0/2@1s",
        "blocks:r0n0*3@1s",
    ],
)
def test_what_is_no_fault_is_refused(text: str):
    with pytest.raises(UsageError, match=r"--faults .*: need node:r0n1@10s"):
        parse_faults(text, load_topology("hybrid-8x4"), 60.0)


@pytest.mark.parametrize(
    ("fault", "right"),
    [
        (Fault(kind="node", target="r9n9", at_s=1.0), "a node of the topology"),
        (Fault(kind="rack", target="r9", at_s=1.0), "a rack of the topology"),
        (Fault(kind="link", target="r9.up", amount=0.5, at_s=1.0), 'unknown link "r9.up"'),
        (Fault(kind="slow", target="r0n0", amount=0.5, at_s=1.0), "a number >= 1"),
        (Fault(kind="slots", target="r9n9", amount=0.5, at_s=1.0), "a node of the topology"),
        (Fault(kind="slots", target="r0n0", amount=101.0, at_s=1.0), "a number from 0 to 100"),
    ],
)
def test_faults_of_what_is_not_there_are_refused(fault: Fault, right: str):
    with pytest.raises(UsageError, match=right):
        simulation(job(), faults=(fault,))


def test_a_seed_gives_the_same_faults_all_over_in_time():
    place = load_topology("hybrid-8x4")
    faults = parse_faults("7", place, 60.0)
    assert faults == parse_faults("7", place, 60.0) != parse_faults("8", place, 60.0)
    assert all(fault.at_s + fault.lasts_s <= 60.0 for fault in faults)


def test_links_without_a_limit_stay_so():
    drop = Fault(kind="link", target="r0.up", amount=0.5, at_s=0.0, lasts_s=0.5)
    place = topology(racks=2, nodes=1, links=Links(nic=100e6, uplink=math.inf))
    assert ended_s(simulation(job(maps=2, shares=(1.0, 0.0)), place=place, faults=(drop,))) > 0


# Simulations that can't go on end: each job fails with what it waits for.


PLACE = topology(racks=2, nodes=1)
TWO_REPLICAS = topology(racks=2, nodes=1, storage=Storage(block=100 * MB, replication=2))
SHUFFLES = job(maps=2, reduces=2, shuffle=400 * MB)


def stopped(*links: str, at_s: float = 0.0, lasts_s: float = math.inf) -> tuple[Fault, ...]:
    return tuple(
        Fault(kind="link", target=link, amount=0.0, at_s=at_s, lasts_s=lasts_s) for link in links
    )


def without_slots(*nodes: str, at_s: float = 0.5, lasts_s: float = math.inf) -> tuple[Fault, ...]:
    return tuple(
        Fault(kind="slots", target=node, amount=0.0, at_s=at_s, lasts_s=lasts_s) for node in nodes
    )


def reasons(*jobs, faults: tuple[Fault, ...], place=PLACE, **behaviour: float) -> list[str]:
    """Why each job failed; all of them must have."""
    run = simulation(*jobs, place=place, faults=faults, **behaviour)
    run.run()
    rows = run.summary()["jobs"]
    assert [row["ok"] for row in rows] == [False] * len(jobs)
    return [row["reason"] for row in rows]


@pytest.mark.parametrize("progress_s", [0.0, 0.5, 3.0])
def test_a_link_that_is_taken_away_for_good(progress_s):
    [reason] = reasons(SHUFFLES, faults=stopped("r1.up"), progress_s=progress_s)
    assert reason.startswith("since ")
    assert "nothing can change any more" in reason
    assert "fetches 100 MB from r1n0 to r0n0 over r1.up" in reason
    assert "r1.up carries nothing" in reason


def test_an_input_that_is_read_over_such_a_link():
    wanted = job(maps=4, shares=(1.0, 0.0))
    [reason] = reasons(wanted, faults=stopped("r0.up"))
    assert "j1.m1.0 reads 100 MB from r0n0 to r1n0 over r0.up" in reason


def test_an_output_that_is_written_over_such_a_link():
    links = stopped("r0.up", "r1.up")
    [reason] = reasons(job(maps=1, output=300 * MB), faults=links, place=TWO_REPLICAS)
    assert "j1.m0.0 writes 100 MB from r" in reason


def test_a_link_that_comes_back_is_waited_for():
    run = simulation(SHUFFLES, place=PLACE, faults=stopped("r1.up", lasts_s=10_000.0))
    run.run()
    [row] = run.summary()["jobs"]
    assert row["ok"]
    assert row["finished_s"] > 10_000.0


def test_all_slots_are_taken_away_for_good():
    [reason] = reasons(job(maps=6), faults=without_slots("r0n0", "r1n0"))
    assert "j1.m2 pending" in reason
    assert "no node has a slot" in reason
    assert "r0n0 has 0 of 1 slots; r1n0 has 0 of 1 slots" in reason


def test_slots_that_come_back_are_waited_for():
    faults = without_slots("r0n0", "r1n0", lasts_s=1_000.0)
    run = simulation(job(maps=6), place=PLACE, faults=faults)
    run.run()
    assert run.summary()["jobs"][0]["ok"]


def test_a_rack_is_lost_and_the_others_have_no_slots():
    faults = (Fault(kind="rack", target="r1", at_s=0.5, lasts_s=math.inf), *without_slots("r0n0"))
    [reason] = reasons(job(maps=6), faults=faults)
    assert "no node has a slot" in reason
    assert "r1n0 is lost" in reason


def test_no_replica_is_left():
    # as before: the read is retried, then the attempt fails, and the job with the fourth
    fault = Fault(kind="node", target="r0n0", at_s=0.1, lasts_s=math.inf)
    [reason] = reasons(job(maps=4, shares=(1.0, 0.0)), faults=(fault,))
    assert "no replica of its block can be read" in reason


def test_a_job_that_waits_for_the_slots_of_another_fails_with_it():
    stuck = job(maps=2, reduces=2, shuffle=400 * MB, name="a")
    waits = job(maps=2, name="b", submit_s=50.0)
    first, second = reasons(stuck, waits, faults=stopped("r0.up", "r1.up"))
    assert "over r1.up" in first
    assert "j2.m0 pending" in second
    assert "no slot is free" in second


def test_a_job_that_is_to_come_still_runs():
    stuck = job(maps=1, shares=(1.0, 0.0), output=300 * MB, name="a")
    comes = job(maps=1, shares=(1.0, 0.0), name="b", submit_s=500.0)
    run = simulation(stuck, comes, place=TWO_REPLICAS, faults=stopped("r0.up", "r1.up"))
    run.run()
    assert [row["ok"] for row in run.summary()["jobs"]] == [False, True]


def test_many_reasons_are_cut_short():
    wide = job(maps=8, reduces=8, shuffle=800 * MB)
    place = topology(racks=2, nodes=8)
    [reason] = reasons(wide, faults=stopped("r1.up", "r0.up"), place=place)
    assert "flows wait in all" in reason
    assert reason.count(" fetches ") == 3


@pytest.mark.parametrize("scheduler", sorted(all_recipes()))
def test_it_ends_under_every_scheduler(scheduler):
    for faults in ("link:r1.up*0@0s,link:r2.down*0@1s", "rack:r1@1s,rack:r2@1s,slots:r0n0*0@1s"):
        for settings in ({}, {"speculation.on": True}):
            run = railyard.simulate(
                "terasort,size=2GB,times=2",
                topology="hybrid-8x4",
                network={"racks.nodes": 1, "racks.count": 3},
                scheduler=scheduler,
                faults=faults,
                settings=settings,
            )
            assert not run.ok
            for each in run.jobs:
                assert each.ok or "nothing can change any more: j" in each.reason


@pytest.mark.parametrize("flow_scheduler", ["maxmin", "fifo", "sjf", "aalo", "varys", "sunflow"])
def test_circuits_alone_are_left(flow_scheduler):
    links = (f"link:r{rack}.{way}*0@1s" for rack in range(8) for way in ("up", "down"))
    run = railyard.simulate(
        "terasort,size=20GB",
        topology="hybrid-8x4",
        flow_scheduler=flow_scheduler,
        faults=",".join(links),
    )
    assert not run.ok
    assert ".up carries nothing" in run.jobs[0].reason
