"""Jobs while no node is alive: they wait for one, and fail if none comes."""

import pytest

from tests.harness import tiny_cluster

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
