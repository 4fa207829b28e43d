"""In-Place: maps don't leave the sites that hold their input, unless these have no slots left."""

from collections import Counter

import pytest

from tests.harness import tiny_cluster

MB = 10**6


def sites(scheduler="in-place", *, at=("r0n0",), blocks=6):
    """Three sites of one node with two slots each, and a job whose maps take 20 s."""
    c = tiny_cluster(racks=3, nodes=1, slots=2, scheduler=scheduler)
    c.store("in", blocks=[[at[n % len(at)]] for n in range(blocks)], block_bytes=100 * MB)
    c.submit("j0", input="in", map_s=20.0)
    return c


def at_nodes(run):
    return Counter(run.nodes_of("j0.m"))


@pytest.mark.parametrize("scheduler", ["in-place", "iridium"])
def test_maps_wait_for_slots_at_their_site_however_long_others_are_free(scheduler):
    run = sites(scheduler).run()
    assert at_nodes(run) == {"r0n0": 6}
    assert [when for _, when in run.launches("j0.m")] == [0.0, 0.0, 20.0, 20.0, 40.0, 40.0]


def test_with_delay_they_leave_it_after_the_waits():
    run = sites("in-place:delay").run()
    assert at_nodes(run) == dict.fromkeys(("r0n0", "r1n0", "r2n0"), 2)
    assert {when for _, when in run.launches("j0.m")} == {0.0, 10.0}


def test_a_job_says_why_it_waits():
    c = sites()
    c.run(until_s=1.0)
    assert c.why_waiting("j0.m5") == "only slots at other sites are free"


@pytest.mark.parametrize("scheduler", ["in-place", "iridium"])
@pytest.mark.parametrize("left", [0, 1])
def test_maps_leave_a_site_only_if_it_has_no_slots_left(scheduler, left):
    c = sites(scheduler, at=("r0n0", "r1n0"))
    c.at(5.0, lambda: c.set_slots("r0n0", left))
    run = c.run()
    assert run.unfinished == []
    away = {task: when for task, node, when in run.placements if node == "r2n0"}
    assert away == ({"j0.m4": 5.0} if left == 0 else {})


def test_a_map_whose_input_is_in_two_sites_waits_for_the_one_that_has_slots():
    c = tiny_cluster(racks=3, nodes=1, slots=1, scheduler="in-place")
    c.store("in", blocks=[["r0n0", "r1n0"]] * 3)
    c.set_slots("r0n0", 0)
    c.submit("j0", input="in", map_s=2.0)
    assert at_nodes(c.run()) == {"r1n0": 3}
