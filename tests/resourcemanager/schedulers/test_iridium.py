"""Iridium's reduces go where the shuffle is shortest, whatever slots there are."""

from collections import Counter

import pytest

from railyard.resourcemanager.interface.events import StagePlan, TaskInput
from railyard.resourcemanager.schedulers.placement import exact
from tests.harness import tiny_cluster

MB = 10**6


def sites(scheduler, *blocks_at, slots=2):
    """Three sites of one node each, and a job with so many blocks at each, and six reduces."""
    c = tiny_cluster(racks=3, nodes=1, slots=slots, scheduler=scheduler)
    c.flow_s = 0.1
    places = [[f"r{site}n0"] for site, count in enumerate(blocks_at) for _ in range(count)]
    c.store("in", blocks=places, block_bytes=100 * MB)
    c.submit("j0", input="in", reduces=6, map_s=2.0, partition_bytes=10 * MB, reduce_s=5.0)
    return c


def places(run, prefix):
    return Counter(run.nodes_of(prefix))


@pytest.mark.parametrize(("scheduler", "spread"), [("iridium", 1), ("tetrium", 3)])
def test_reduces_stay_with_the_data_even_if_they_wait_for_slots(scheduler, spread):
    c = sites(scheduler, 2, 0, 0)
    run = c.run()
    assert len(places(run, "j0.r")) == spread
    assert run.unfinished == []


def test_maps_run_where_their_input_is():
    assert places(sites("iridium", 2, 2, 2).run(), "j0.m") == {"r0n0": 2, "r1n0": 2, "r2n0": 2}


def test_even_data_has_even_reduces():
    assert places(sites("iridium", 2, 2, 2).run(), "j0.r") == {"r0n0": 2, "r1n0": 2, "r2n0": 2}


def test_reduces_of_a_site_that_lost_its_slots_run_elsewhere():
    c = sites("iridium", 2, 0, 0)
    c.at(3.0, lambda: c.set_slots("r0n0", 0))
    run = c.run()
    assert run.unfinished == []
    late = {node for task, node, when in run.placements if task.startswith("j0.r") and when >= 3.0}
    assert late
    assert "r0n0" not in late


def test_reduces_get_their_slots_while_maps_of_the_same_job_wait_for_theirs():
    """r2 has the maps that wait, r1 most of what the reduce reads, and slots that are free."""
    c = tiny_cluster(racks=3, nodes=1, slots=2, scheduler="iridium")
    c.flow_s = 0.1
    r0, r1, r2 = (TaskInput(input_bytes=100 * MB, nodes=(f"r{rack}n0",)) for rack in range(3))
    stages = (
        StagePlan(name="waits", tasks=8, inputs=(r2,) * 8),
        StagePlan(name="most", tasks=2, inputs=(r1,) * 2),
        StagePlan(name="late", tasks=1, inputs=(r0,)),
        StagePlan(name="next", reads=("most", "late"), tasks=1),
        StagePlan(name="last", reads=("waits", "next"), tasks=1),
    )
    durations = {"waits": 9.0, "most": 1.0, "late": 3.0, "next": 1.0, "last": 1.0}
    c.submit("j0", stages=stages, durations=durations)
    run = c.run()
    assert run.unfinished == []
    assert [(node, when) for task, node, when in run.placements if "next" in task] == [
        ("r1n0", 3.0)
    ]


@pytest.mark.parametrize("scheduler", ["iridium", "tetrium", "tetrium+iridium-tasks"])
def test_loops_are_loaded_before_the_cluster_is_ready(scheduler, monkeypatch):
    loaded = []
    monkeypatch.setattr(exact, "load_loops", lambda: loaded.append(scheduler))
    tiny_cluster(racks=2, nodes=1, slots=1, scheduler=scheduler)
    assert scheduler in loaded
