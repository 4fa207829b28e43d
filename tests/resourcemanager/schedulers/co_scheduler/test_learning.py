"""Co-scheduler: what it learns from a job while that runs, and from forecasts."""

from __future__ import annotations

import pytest

from railyard.cluster.messages.execution import AttemptProgressed
from tests.resourcemanager.schedulers.co_scheduler.hybridjobs import (
    BLOCK,
    GB,
    forecast,
    hybrid,
    planned,
    racks_of,
    store,
)


def test_a_job_whose_shuffle_turns_out_small_is_let_go():
    """SIR is 1 until a map has ended; then it is a thousandth, and the job is not shuffle-heavy."""
    c = hybrid()
    store(c, "in", 40, planned(c, 40 * BLOCK))
    c.submit("j0", input="in", reduces=10, partition_bytes=BLOCK // 10_000)
    run = c.run()
    first = [node for task, node, when in run.placements if task.startswith("j0.m") and when < 1]
    later = [node for task, node, when in run.placements if task.startswith("j0.m") and when >= 1]
    assert len(racks_of(first)) == 2
    assert len(racks_of(later)) == 8
    assert len(later) == 32


def test_a_recurring_job_gets_the_racks_that_its_forecast_asks_for():
    """A large input with a small shuffle is not shuffle-heavy, and the other way round."""
    c = hybrid()
    assert planned(c, 10 * GB, forecast(1.0)) == ()
    assert {len(each) for each in planned(c, 10 * GB, forecast(10.0))} == {2}
    assert {len(each) for each in planned(c, 1 * GB, forecast(10.0, maps=4))} == {1}


def test_guidelines_are_made_for_the_slots_that_racks_have_now():
    """40 maps fit on one rack of 4 nodes with 20 slots each."""
    c, stated = hybrid(), hybrid(slots=20)
    assert {len(each) for each in planned(c, 10 * GB, forecast(10.0))} == {2}
    for node in c.topology.nodes():
        c.set_slots(node.id, 20)
    for cluster in (c, stated):
        assert {len(each) for each in planned(cluster, 10 * GB, forecast(10.0))} == {1}


def test_reduces_of_a_recurring_job_go_by_its_zone():
    expected = forecast(10.24)
    c = hybrid()
    store(c, "in", 40, planned(c, 40 * BLOCK, expected))
    c.submit("j0", input="in", reduces=10, partition_bytes=BLOCK // 10, forecast=expected)
    run = c.run(until_s=5.5)
    guides = c.core.state.policies.tasks.guidelines.jobs["j0"]
    assert guides.predicted.map_racks == 2
    assert len(racks_of(run.nodes_of("j0.r"))) in guides.predicted.reduce_racks


def test_wrong_forecasts_can_be_had():
    found = {
        bool(planned(hybrid(seed=seed, forecast_error=0.5), GB, forecast(1.2))) for seed in range(9)
    }
    assert found == {True, False}  # 0.6 GB are too small, 1.8 GB are not


def test_wrong_remaining_times_can_be_had():
    """A map that has done a quarter in 5 s needs 15 s more."""

    def left_s(**settings) -> list[float]:
        c = hybrid(**settings)
        c.submit("j0", maps=32, map_s=20)
        for order in c.launched():
            report = AttemptProgressed(attempt=order.attempt, progress=0.25)
            c.at(5.0, lambda report=report: c.feed(report))
        c.run(until_s=5.0)
        return c.core.state.policies.tasks.guidelines.releases.release_s(5.0).ravel().tolist()

    assert set(left_s()) == {15.0}
    assert sorted(set(left_s(remaining_error=0.4))) == pytest.approx([9.0, 21.0])
