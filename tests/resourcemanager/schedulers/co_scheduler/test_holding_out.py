"""Co-scheduler: for how long a job lets slots pass that are off its guideline."""

from __future__ import annotations

from functools import partial

import pytest

from railyard.cluster.messages.execution import AttemptProgressed
from railyard.cluster.topologies.tables import Ocs
from tests.harness import tiny_cluster
from tests.resourcemanager.schedulers.co_scheduler.hybridjobs import (
    ALWAYS,
    GB,
    hybrid,
    racks_of,
    terasort,
)


def input_on_r0(hold_out_s):
    """Two racks with a node each; both blocks of the file "in" are on the first."""
    ocs = Ocs(port_bytes_per_s=1e9, elephant_bytes=1000)
    options = ALWAYS | {"co-scheduler.hold_out_s": hold_out_s}
    c = tiny_cluster(racks=2, nodes=1, scheduler="co-scheduler", ocs=ocs, options=options)
    c.store("in", blocks=[["r0n0"], ["r0n0"]], block_bytes=1000)
    return c


def test_maps_hold_out_for_their_racks_and_then_take_any():
    c = input_on_r0(hold_out_s=7.0)
    c.occupy("r0n0")
    c.submit("j0", input="in", reduces=1, partition_bytes=1000)
    assert c.run(until_s=6.9).placements == []
    assert c.why_waiting("j0.m0") == "r1 is off its guideline"
    assert c.run(until_s=7.0).placements == [("j0.m0", "r1n0", 7.0)]


def test_to_the_letter_of_algorithm_2_no_slot_is_let_pass():
    c = input_on_r0(hold_out_s=0.0)
    c.submit("j0", input="in", reduces=1, partition_bytes=1000)
    assert {node for _, node, _ in c.run(until_s=0.5).placements} == {"r0n0", "r1n0"}


def test_a_job_holds_out_while_its_racks_slots_are_known_to_come_free():
    """Its rack's only slot runs a map of its own that has reported to need 100 s."""
    c = input_on_r0(hold_out_s=5.0)
    c.submit("j0", input="in", reduces=1, partition_bytes=1000, map_s=100)
    c.at(1.0, lambda: c.feed(AttemptProgressed(attempt="j0.m0.0", progress=0.01)))
    run = c.run(until_s=150.0)
    assert run.placements == [("j0.m0", "r0n0", 0.0), ("j0.m1", "r0n0", 100.0)]


def test_a_job_is_asked_again_if_an_older_wait_ended_while_no_slot_was_free():
    """Its maps would let r1's slot pass until 7 s, when others hold all slots; its reduce waits on.

    Rack r0, which its reduce is to run on, is taken for good at 2 s.
    """
    c = tiny_cluster(
        racks=2,
        nodes=1,
        scheduler="co-scheduler",
        ocs=Ocs(port_bytes_per_s=1e9, elephant_bytes=1000),
        options=ALWAYS | {"co-scheduler.min_slots.hog": 1000, "co-scheduler.hold_out_s": 7.0},
    )
    c.store("in", blocks=[["r0n0"], ["r0n0"]], block_bytes=1000)
    c.submit("j0", input="in", reduces=1, partition_bytes=1000, map_s=1)
    for at_s, job, map_s in ((1.5, "j1", 1), (1.5, "j2", 1000), (3.0, "j3", 5)):
        hog = partial(c.submit, job, maps=1, map_s=map_s, queue="hog")
        c.at(at_s, hog)
    run = c.run(until_s=100.0)
    assert run.placements == [
        ("j0.m0", "r0n0", 0.0),
        ("j0.m1", "r0n0", 1.0),
        ("j1.m0", "r1n0", 1.5),
        ("j2.m0", "r0n0", 2.0),
        ("j3.m0", "r1n0", 3.0),
        ("j0.r0", "r1n0", 9.5),
    ]


def test_alone_a_job_that_circuits_would_not_save_time_runs_anywhere_at_once():
    """10 GB take 1 s by packets and 0.4 s by two circuits, but two racks have 8 of the 32 slots.

    Its maps would run in five waves instead of two.
    """
    c = hybrid(options={"co-scheduler.only_if_faster": True})
    terasort(c, map_s=2.0)
    run = c.run()
    assert len([task for task, when in run.launches("j0.m") if when == 0.0]) == 32
    assert len(racks_of(run.nodes_of("j0.m"))) == 8
    assert run.unfinished == []


def test_among_many_jobs_the_same_job_keeps_to_its_racks():
    """By packets it would have a twentieth of the links, and of all slots a twentieth."""
    c = hybrid(options={"co-scheduler.only_if_faster": True})
    for number in range(1, 20):
        c.submit(f"j{number}", maps=1, map_s=100.0)
    terasort(c, map_s=2.0)
    assert len(racks_of(c.run(until_s=90.0).nodes_of("j0.m"))) == 2


def test_a_job_refuses_slots_no_longer_than_circuits_save():
    """Its shuffle of 2 GB takes 1 s by packets, over two links of 1 GB/s, and 2 ms by circuit."""
    ocs = Ocs(port_bytes_per_s=1e12, elephant_bytes=1000)
    c = tiny_cluster(racks=2, nodes=1, scheduler="co-scheduler", ocs=ocs)
    c.store("in", blocks=[["r0n0"]], block_bytes=2 * GB)
    c.occupy("r0n0")
    c.submit("j0", input="in", reduces=1, partition_bytes=2 * GB)
    assert c.run(until_s=1.1).placements == [("j0.m0", "r1n0", pytest.approx(0.998))]
