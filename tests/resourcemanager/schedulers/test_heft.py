"""HEFT: upward ranks, insertion, and when its tasks fetch."""

from __future__ import annotations

from math import inf
from random import Random

import numpy as np
import pytest

from railyard.cluster.messages import LaunchAttempt
from railyard.resourcemanager.interface.events import StagePlan
from railyard.resourcemanager.interface.forecast import Forecast, StageForecast
from railyard.resourcemanager.schedulers.heft import Heft, Timelines
from tests.harness import TinyCluster, tiny_cluster

GB = 10**9
#: The harness has one rack with links of 1 GB/s, the mean capacity of all switches.
TIMES = {"a": 3.0, "b": 4.0, "c": 3.0, "d": 1.0}
READS: dict[str, tuple[str, ...]] = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}
_DICE = Random(1)
DIAMOND = tuple(StagePlan(name=name, reads=READS[name], tasks=1) for name in TIMES)


def submit(c: TinyCluster, job: str = "j0", edge_bytes: int = GB) -> None:
    forecast = Forecast(
        name="diamond",
        stages=tuple(
            StageForecast(
                name=name,
                reads=READS[name],
                tasks=1,
                input_bytes=0,
                output_bytes=edge_bytes,
                task_s=task_s,
                rate_bytes_per_s=1e18,
            )
            for name, task_s in TIMES.items()
        ),
    )
    c.submit(job, stages=DIAMOND, durations=TIMES, forecast=forecast, partition_bytes=edge_bytes)


def policy(c: TinyCluster) -> Heft:
    found = c.core.state.policies.tasks
    assert isinstance(found, Heft)
    return found


def test_the_upward_rank_is_the_longest_path_to_the_end():
    c = tiny_cluster(nodes=2, scheduler="heft", flow_s=1.0)
    submit(c)
    stages = c.core.state.jobs["j0"].stages
    ranks = {name: policy(c).graphs.longest_s[stages[name].id] for name in "abcd"}
    assert ranks == pytest.approx({"d": 1.0, "c": 3 + 1 + 1, "b": 4 + 1 + 1, "a": 3 + 1 + 6})


def test_each_task_goes_where_it_can_start_first():
    """b beside a; c elsewhere, as it has its data there after one second, not four; d beside b."""
    c = tiny_cluster(nodes=2, scheduler="heft", flow_s=1.0)
    submit(c)
    run = c.run()
    assert run.placements == [
        ("j0.a0", "r0n0", 0.0),
        ("j0.b0", "r0n0", 3.0),
        ("j0.c0", "r0n1", 3.0),  # it fetches in its slot, and ends after 3 + 1 + 3
        ("j0.d0", "r0n0", 8.0),  # the harness lets fetches within a node take as long
    ]


@pytest.mark.parametrize("prefetch", [False, True])
def test_tasks_fetch_in_their_slots_or_before(prefetch: bool):
    c = tiny_cluster(nodes=2, scheduler="heft", flow_s=1.0, prefetch=prefetch)
    c.submit("j9", maps=1, map_s=20.0)  # on r0n0, whose plan does not know how long it takes
    submit(c)
    run = c.run()
    ahead = [order for _, order in c.commands if isinstance(order, LaunchAttempt)]
    assert [order.attempt for order in ahead if not order.begins] == (
        ["j0.b0.0", "j0.c0.0", "j0.d0.0"] if prefetch else []
    )
    assert run.ended == {"j0": "", "j9": ""}
    starts = dict(run.launches("j0"))
    sources_ended_s = [starts["j0.b0"] + 4.0, starts["j0.c0"] + 3.0]
    assert starts["j0.d0"] >= max(sources_ended_s) + (1.0 if prefetch else 0.0)


@pytest.mark.parametrize(("ties", "servers"), [("first", {0}), ("random", set(range(8)))])
def test_of_equal_times_the_first_slot_or_any(ties: str, servers: set[int]):
    found = set[int]()
    for _ in range(200):
        plan = Timelines(np.ones(8, dtype=np.int64), _DICE if ties == "random" else None)
        place = plan.earliest(np.zeros(8), 1.0, np.ones(8, dtype=bool), 0.0)
        assert place is not None
        found.add(place[0])
    assert found == servers
    c = tiny_cluster(nodes=3, scheduler="heft", ties=ties)
    for job in range(20):
        c.at(10.0 * job, lambda job=job: c.submit(f"j{job}", maps=1, map_s=1.0))
    assert len({node for _, node, _ in c.run().placements}) == (1 if ties == "first" else 3)


# Insertion ---------------------------------------------------------------------------------------
def test_a_short_task_goes_into_a_gap_that_is_long_enough():
    plan, usable = Timelines(np.array([1, 1])), np.ones(2, dtype=bool)
    ready_s = np.zeros(2)
    assert plan.earliest(ready_s, 2.0, usable, 0.0) == (0, 0.0)
    plan.add(0, 0.0, 2.0)
    plan.add(1, 6.0, 4.0)  # its data comes after 6 s
    assert plan.earliest(ready_s, 7.0, usable, 0.0) == (0, 2.0)
    assert plan.earliest(ready_s, 5.0, usable, 0.0) == (1, 0.0)
    assert plan.add(1, 0.0, 5.0) == 1
    assert plan.earliest(ready_s, 1.0, usable, 0.0) == (0, 2.0)
    plan.add(0, 2.0, 9.0)
    assert plan.earliest(ready_s, 1.0, usable, 0.0) == (1, 5.0)  # what is left of the gap
    assert plan.earliest(ready_s, 1.5, usable, 0.0) == (1, 10.0)
    assert plan.earliest(np.array([0.0, 5.5]), 1.0, usable, 0.0) == (1, 10.0)


def test_nothing_starts_before_what_is_queued_nor_on_servers_that_take_none():
    plan, usable = Timelines(np.array([1, 2])), np.ones(2, dtype=bool)
    plan.free_from(3.0, np.array([10.0, 7.0]))
    assert plan.earliest(np.zeros(2), 1.0, usable, 3.0) == (1, 7.0)
    plan.free_from(3.0, np.array([inf, 8.0]))  # the first is lost
    usable[0] = False
    assert plan.earliest(np.zeros(2), 1.0, usable, 3.0) == (1, 8.0)
    usable[1] = False
    assert plan.earliest(np.zeros(2), 1.0, usable, 3.0) is None
