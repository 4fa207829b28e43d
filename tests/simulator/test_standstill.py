"""Simulations that can't go on end: each job fails with what it waits for."""

from __future__ import annotations

import math

import pytest

import railyard
from railyard.cluster.topologies.tables import Storage
from railyard.resourcemanager.schedulers import all_recipes
from railyard.simulator.faults.faults import CapacityDrop, NodeDown, RackDown, SlotsChange
from railyard.simulator.silence.daemons import Fault
from tests.simulator.test_simulation import MB, job, simulation, topology

PLACE = topology(racks=2, nodes=1)
TWO_REPLICAS = topology(racks=2, nodes=1, storage=Storage(block=100 * MB, replication=2))
SHUFFLES = job(maps=2, reduces=2, shuffle=400 * MB)


def stopped(*links: str, at_s: float = 0.0, lasts_s: float = math.inf) -> tuple[Fault, ...]:
    return tuple(CapacityDrop(link=link, share=0.0, at_s=at_s, lasts_s=lasts_s) for link in links)


def without_slots(*nodes: str, at_s: float = 0.5, lasts_s: float = math.inf) -> tuple[Fault, ...]:
    return tuple(SlotsChange(node=node, share=0.0, at_s=at_s, lasts_s=lasts_s) for node in nodes)


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
    faults = (RackDown(rack="r1", at_s=0.5, lasts_s=math.inf), *without_slots("r0n0"))
    [reason] = reasons(job(maps=6), faults=faults)
    assert "no node has a slot" in reason
    assert "r1n0 is lost" in reason


def test_no_replica_is_left():
    # as before: the read is retried, then the attempt fails, and the job with the fourth
    fault = NodeDown(node="r0n0", at_s=0.1, lasts_s=math.inf)
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
