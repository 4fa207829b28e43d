"""Tetris packs tasks by fixed demands: what a task demands, how it aligns, and what fits."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.netemu.messages import LinksObserved
from railyard.netemu.model.network import LinkState
from railyard.resourcemanager.schedulers.tetris import Demand, alignment, demand_at
from tests.harness import tiny_cluster
from tests.resourcemanager.test_rules_under_faults import random_scenario

MB = 10**6
UP, DOWN = np.array([100.0, 50.0, 200.0]), np.array([100.0, 100.0, 25.0])


def held(*at):
    return np.array(at, float)


# Demands and alignment, by hand ------------------------------------------------------------------
def test_a_map_beside_its_input_demands_nothing_of_links():
    # 100 bytes would come in 1 s, and take 1 s to compute: 50 bytes/s on average.
    demand = demand_at(0, held(100, 0, 0), UP, DOWN, 1.0)
    assert (demand.up.tolist(), demand.down, demand.reads, demand.remote) == ([0, 0, 0], 0, 50, 0)


def test_a_map_from_afar_demands_the_average_of_its_narrowest_link():
    # 100 bytes over 50 bytes/s: 2 s, and 2 s to compute; 25 bytes/s on average.
    demand = demand_at(0, held(0, 100, 0), UP, DOWN, 2.0)
    assert (demand.up.tolist(), demand.down, demand.remote) == ([0, 25, 0], 25, 1.0)
    # into r2 it takes 4 s
    assert demand_at(2, held(0, 100, 0), UP, DOWN, 1.0).down == 20


def test_a_reduce_demands_a_part_of_each_uplink():
    # 40 bytes of 100 are there; 60 come over 100 bytes/s: .6 s; 50 leave r1 in 1 s.
    demand = demand_at(0, held(40, 50, 10), UP, DOWN, 1.0)
    assert demand.up.tolist() == [0, 25, 5]
    assert (demand.down, demand.reads, demand.remote) == (30, 50, 0.6)


def test_a_task_that_computes_for_no_time_demands_a_whole_link_and_one_without_bytes_nothing():
    assert demand_at(0, held(0, 100, 0), UP, DOWN, 0.0).down == 50
    nothing = demand_at(0, held(0, 0, 0), UP, DOWN, 0.0)
    assert (nothing.down, nothing.reads, nothing.remote) == (0, 0, 0)


def test_alignment_is_the_dot_product_less_a_tenth_for_what_is_remote():
    near, far = (Demand(UP * 0, down, 50, remote) for down, remote in ((0, 0), (50, 1)))
    assert alignment(near, 0.5, 100, 100, 0.1) == pytest.approx(0.5 + 0.5)
    assert alignment(far, 0.5, 100, 100, 0.1) == pytest.approx((0.5 + 0.5) * 0.9)
    assert alignment(far, 0.5, 100, 50, 0.1) == pytest.approx((0.5 + 0.5 * 0.5) * 0.9)
    assert alignment(near, 0.5, 100, 0, 0.1) == pytest.approx(1.0), "no link is in its way"


rates = st.floats(1, 1000)
three = st.tuples(rates, rates, rates).map(np.array)
amounts = st.just(0.0) | st.floats(1e-6, 1000)  # bytes, seconds
sizes = st.tuples(amounts, amounts, amounts).map(np.array)


@given(up=three, down=three, held=sizes, computed_s=amounts, site=st.integers(0, 2))
def test_each_task_fits_on_empty_links(up, down, held, computed_s, site):
    demand = demand_at(site, held, up, down, computed_s)
    assert (demand.up <= up * (1 + 1e-9)).all()
    assert demand.down <= down[site] * (1 + 1e-9)
    assert demand.up.sum() == pytest.approx(demand.down)
    assert demand.up[site] == 0
    assert 0 <= demand.remote <= 1


# On a cluster ------------------------------------------------------------------------------------
def sites(slots=2, **settings):
    """Three sites of one node, with links of 125 MB/s."""
    c = tiny_cluster(racks=3, nodes=1, slots=slots, scheduler="tetris", flow_s=0.1, **settings)
    links = {f"r{site}.{way}": link(125 * MB) for site in range(3) for way in WAYS}
    c.feed(LinksObserved(links=links))
    return c


WAYS = ("up", "down")


def link(bytes_per_s):
    """A link that is free."""
    return LinkState(capacity_bytes_per_s=bytes_per_s, free_bytes_per_s=bytes_per_s)


def places(run, prefix):
    return Counter(run.nodes_of(prefix))


def test_only_as_many_maps_leave_their_site_as_fit_its_uplink():
    # 100 MB at 200 MB/s: .5 s to compute, .8 s over the link, 76.9 MB/s: one map at a time.
    c = sites()
    c.store("in", blocks=[["r0n0"]] * 12, block_bytes=100 * MB)
    c.submit("j0", input="in", map_s=2.0)
    assert places(c.run(until_s=1.9), "j0") == {"r0n0": 2, "r1n0": 1}
    assert c.why_waiting("j0.m11") == "no task fits: links have too little left"
    run = c.run()
    assert run.unfinished == []
    assert sum(places(run, "j0").values()) == 12


def test_a_map_goes_on_as_soon_as_a_link_has_room_again():
    c = sites()
    c.store("in", blocks=[["r0n0"]] * 4, block_bytes=100 * MB)
    c.submit("j0", input="in", map_s=2.0)
    c.at(0.5, lambda: c.feed(LinksObserved(links={"r0.up": link(500 * MB)})))
    run = c.run(until_s=0.6)
    assert [when for _, when in run.launches("j0")] == [0.0, 0.0, 0.0, 0.5]


def test_maps_run_where_their_input_is_if_there_is_room():
    c = sites()
    c.store("in", blocks=[["r0n0"]] * 2 + [["r1n0"]] * 2 + [["r2n0"]] * 2, block_bytes=100 * MB)
    c.submit("j0", input="in")
    assert places(c.run(), "j0") == {"r0n0": 2, "r1n0": 2, "r2n0": 2}


def short_and_long(**settings):
    c = sites(slots=1, **settings)
    for name, blocks in (("long", 30), ("short", 2)):
        c.store(name, blocks=[[f"r{at % 3}n0"] for at in range(blocks)], block_bytes=100 * MB)
        c.submit(name, input=name, map_s=2.0)
    run = c.run()
    assert run.unfinished == []
    return run.ended_s["short"]


def test_jobs_with_little_work_left_go_first():
    assert short_and_long(fairness=0.0) <= short_and_long(fairness=0.0, work_weight=0.0)


def test_a_job_with_more_slots_than_others_comes_last():
    c = sites(fairness=0.5)
    for name, blocks in (("long", 30), ("short", 30)):
        c.store(name, blocks=[[f"r{at % 3}n0"] for at in range(blocks)], block_bytes=100 * MB)
        c.submit(name, input=name, map_s=2.0)
    run = c.run(until_s=20.0)
    launched = [len(run.launches(name)) for name in ("long", "short")]
    assert abs(launched[0] - launched[1]) <= 3


def test_reduces_start_as_links_have_room_for_what_they_fetch():
    c = sites()
    c.store("in", blocks=[["r0n0"], ["r1n0"], ["r2n0"]], block_bytes=100 * MB)
    c.submit("j0", input="in", reduces=6, map_s=2.0, partition_bytes=100 * MB, reduce_s=5.0)
    run = c.run()
    assert run.unfinished == []
    assert len({when for _, when in run.launches("j0.r")}) > 1
    assert min(when for _, when in run.launches("j0.r")) >= 2.0


def test_a_link_without_capacity_is_waited_for():
    c = sites()
    c.feed(LinksObserved(links={"r0.up": link(0)}))
    c.store("in", blocks=[["r0n0"]] * 2, block_bytes=100 * MB)
    c.set_slots("r0n0", 0)
    c.submit("j0", input="in")
    c.at(9.0, lambda: c.feed(LinksObserved(links={"r0.up": link(125 * MB)})))
    run = c.run()
    assert min(when for _, when in run.launches("j0")) == 9.0
    assert run.ended == {"j0": ""}


@pytest.mark.parametrize("seed", range(20))
def test_what_tasks_demand_is_counted_until_they_end(seed):
    c = random_scenario("tetris", seed)
    policy = c.core.state.policies.tasks
    dice = random.Random(seed)
    for _ in range(20):
        c.at(dice.uniform(0, 60), lambda: agrees(c, policy))
    c.run(until_s=2000.0)
    agrees(c, policy)
    assert not policy._running
    assert not policy._taken_up.any()
    assert not policy._taken_down.any()


def agrees(c, policy):
    assert set(policy._running) == set(c.core.state.attempts)
    up = sum((demand.up for _, demand in policy._running.values()), np.zeros(len(policy._sites)))
    assert np.allclose(policy._taken_up, up, atol=1.0)


@pytest.mark.parametrize(
    ("setting", "value", "right"),
    [
        ("remote_penalty", 1.0, "a share in [0, 1)"),
        ("fairness", -0.1, "a share in [0, 1)"),
        ("work_weight", -1.0, "a number in [0, 1000]"),
    ],
)
def test_settings_are_checked(setting, value, right):
    with pytest.raises(UsageError) as error:
        sites(**{setting: value})
    assert f"tetris.{setting} = {value}: need {right}" in str(error.value)
