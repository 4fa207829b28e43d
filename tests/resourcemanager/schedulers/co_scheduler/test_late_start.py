"""Shuffles that start late: fetches wait for all reduces to have slots, but not for ever."""

from __future__ import annotations

import pytest

from railyard.cluster.errors import UsageError
from railyard.resourcemanager.interface.forecast import Forecast, StageForecast
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers.co_scheduler.latestart import LateStart
from railyard.resourcemanager.schedulers.fair import FairOrder
from tests.harness import TinyCluster, tiny_cluster

LATE = Recipe(name="late", source="a test", order=FairOrder, shuffle=LateStart)


def fetch_times(c: TinyCluster, job: str) -> set[float]:
    return {when for when, flow in c.flows() if flow.flow.startswith(f"{job}.")}


def test_nothing_overlaps():
    c = tiny_cluster(nodes=4, scheduler=LATE, flow_s=2.0)
    c.submit("j0", maps=5, reduces=4, map_s=3)
    run = c.run()
    assert {when for _, when in run.launches("j0.r")} == {6.0}
    assert fetch_times(c, "j0") == {6.0}
    assert run.ended_s == {"j0": 6 + 2 + 1}


def test_a_stage_with_more_reduces_than_the_cluster_has_slots_begins_with_what_it_has():
    c = tiny_cluster(nodes=3, scheduler=LATE)
    c.submit("j0", maps=3, reduces=7)
    assert c.run().ended_s == {"j0": 1 + 3}


def test_stages_that_hold_each_others_slots_do_not_wait_for_ever():
    """Two jobs of 4 reduces on 4 slots: the one that lacks fewer begins at once."""
    c = tiny_cluster(nodes=4, scheduler=LATE, flow_s=1.0)
    for job in ("j0", "j1"):
        c.submit(job, maps=2, reduces=4, reduce_s=5)
    c.run(until_s=1.0)
    assert {job.id: job.held for job in c.core.state.jobs.values()} == {"j0": 3, "j1": 1}
    assert (fetch_times(c, "j0"), fetch_times(c, "j1")) == ({1.0}, set())
    run = c.run()
    assert run.unfinished == []
    assert max(run.ended_s.values()) < 20


def predicted(reduces: int, reduce_s: float) -> Forecast:
    maps = StageForecast(name="m", tasks=2, input_bytes=0, output_bytes=0)
    long = StageForecast(
        name="r", reads=("m",), tasks=reduces, input_bytes=0, output_bytes=0, task_s=reduce_s
    )
    return Forecast(name="daily", stages=(maps, long))


def test_a_stage_that_gets_no_more_slots_begins_after_a_while():
    """The other slot is taken for long."""
    c = tiny_cluster(nodes=3, scheduler=LATE, options={"shuffle.stall_s": 7.0})
    c.submit("j9", maps=1, map_s=1000)
    c.submit("j0", maps=2, reduces=3, reduce_s=5, forecast=predicted(3, reduce_s=100))
    c.run(until_s=100.0)
    assert fetch_times(c, "j0") == {1.0 + 7.0, 1.0 + 7.0 + 5.0}


@pytest.mark.parametrize("factor", [0.0, 1.0, 3.0])
def test_a_stage_waits_no_longer_than_a_reduce_should_run(factor):
    """The other slot is taken for long."""
    c = tiny_cluster(nodes=3, scheduler=LATE, options={"shuffle.stall_factor": factor})
    c.submit("j9", maps=1, map_s=1000)
    c.submit("j0", maps=2, reduces=3, reduce_s=5, forecast=predicted(3, reduce_s=5))
    c.run(until_s=100.0)
    assert min(fetch_times(c, "j0")) == pytest.approx(1.0 + factor * 5.0, abs=1e-3)


def test_settings_are_checked():
    with pytest.raises(UsageError, match=r"shuffle.stall_factor = -1.0: need a number >= 0"):
        tiny_cluster(scheduler=LATE, options={"shuffle.stall_factor": -1.0})
    with pytest.raises(UsageError, match=r"shuffle.stall_s = 0.0: need seconds > 0"):
        tiny_cluster(scheduler=LATE, options={"shuffle.stall_s": 0.0})
