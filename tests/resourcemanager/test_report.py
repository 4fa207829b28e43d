"""The summary in the format of docs/summary.md."""

from __future__ import annotations

import pytest

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId
from railyard.resourcemanager.core.records import one_after_another
from railyard.resourcemanager.driving.report import report, spread
from railyard.resourcemanager.interface.decisions import Decision, Pass, Place
from railyard.resourcemanager.interface.policies import TaskPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import JobView, SlotView
from railyard.resourcemanager.schedulers.fair import FairOrder
from tests.harness import tiny_cluster
from tests.resourcemanager.toys import CopyEach, copying


def test_the_summary_of_two_jobs():
    c = tiny_cluster(racks=2, nodes=2, slots=1, flow_s=0.5)
    c.store("in", blocks=[["r0n0"], ["r0n1"], ["r1n0"], ["r1n1"]], block_bytes=1000)
    c.submit("j0", input="in", reduces=2, map_s=1, reduce_s=1, partition_bytes=5)
    c.at(10.0, lambda: c.submit("j1", maps=2, map_s=3))
    c.run()
    summary = report(list(c.core.records.values()), c.core.state.slot_history, now_s=99.0)
    assert summary["makespan_s"] == 13.0
    assert summary["jct_s"] == {"mean": 2.75, "p50": 2.75, "p95": 2.975, "p99": 2.995, "max": 3.0}
    assert summary["cct_s"]["max"] == 0.5
    assert summary["locality"] == {"node": 4, "rack": 0, "remote": 0}
    assert summary["tasks"] == {
        "launched": 8,
        "succeeded": 8,
        "failed": 0,
        "killed": 0,
        "copies": 0,
        "copies_chosen": 0,
    }
    assert summary["slot_utilization"] == pytest.approx((4 * 1 + 2 * 1.5 + 2 * 3) / (4 * 13))
    assert summary["compute_utilization"] == pytest.approx((4 * 1 + 2 * 1 + 2 * 3) / (4 * 13))
    fetched = summary["bytes"]
    assert fetched["local"] + fetched["rack"] + fetched["cross_rack"] == 4 * 2 * 5
    assert summary["jobs"][0] == {
        "id": "j0",
        "name": "j0",
        "submitted_s": 0.0,
        "finished_s": 2.5,
        "jct_s": 2.5,
        "cct_s": 0.5,
        "input_bytes": 4000,
        "shuffle_bytes": 40,
        "output_bytes": 14,
        "maps": 4,
        "reduces": 2,
        "cross_rack_shuffle_bytes": 20,
        "shuffle_skew": 1.0,
        "slot_s": 7.0,
        "computed_s": 6.0,
        "reduce_s": 1.5,
        "ok": True,
    }
    assert summary["jobs"][1]["cct_s"] is None


def placed(places: dict[str, str]) -> Recipe:
    """Fair shares; each task has the node that it may run on."""

    class Placed(TaskPolicy):
        def offer(self, job: JobView, slot: SlotView, now_s: float) -> Decision:
            for stage in job.stages.values():
                for index in stage.pending if stage.open else ():
                    task = stage.tasks[index]
                    if places[task.id] == slot.id:
                        return Place(task)
            return Pass("its tasks run elsewhere")

    return Recipe(name="placed", source="a test", order=FairOrder, tasks=Placed)


@pytest.mark.parametrize(
    ("maps", "reduces", "skew"),
    [
        # Fig. 5 a: uplinks 1, 1, 6; downlinks 4, 4 and none.  5 b: 1, 2, 4 and 4, 3
        pytest.param((1, 1, 3), (1, 1, 0), 6.0, id="Fig. 5 a"),
        pytest.param((1, 2, 2), (1, 1, 0), 4.0, id="Fig. 5 b"),
        # Fig. 6: uplinks 8, 2, 2 and downlinks 2, 5, 5; then 6, 4, 2 and 3, 4, 5; then all 4
        pytest.param((4, 1, 1), (1, 1, 1), 4.0, id="Fig. 6 a"),
        pytest.param((3, 2, 1), (1, 1, 1), 3.0, id="Fig. 6 b"),
        pytest.param((2, 2, 2), (1, 1, 1), 1.0, id="Fig. 6 c"),
        pytest.param((2, 0, 0), (2, 0, 0), None, id="all in one rack"),
        pytest.param((2, 0, 0), (0, 1, 0), 1.0, id="one uplink, one downlink"),
    ],
)
def test_shuffle_skew_of_shadows_examples(
    maps: tuple[int, ...], reduces: tuple[int, ...], skew: float | None
):
    places = {
        f"j0.{stage}{number}": f"r{rack}n0"
        for stage, counts in (("m", maps), ("r", reduces))
        for number, rack in enumerate(r for r, count in enumerate(counts) for _ in range(count))
    }
    c = tiny_cluster(racks=3, nodes=1, slots=8, scheduler=placed(places))
    c.submit("j0", maps=sum(maps), reduces=sum(reduces), partition_bytes=7)
    assert c.run().ended == {"j0": ""}
    summary = report(list(c.core.records.values()), c.core.state.slot_history, now_s=9.0)
    assert summary["jobs"][0]["shuffle_skew"] == skew
    assert summary["shuffle_skew"]["mean"] == skew


def test_the_summary_of_a_job_that_runs():
    c = tiny_cluster()
    c.submit("j0", maps=2, map_s=100)
    c.run(until_s=5.0)
    summary = report([c.core.records[JobId("j0")]], c.core.state.slot_history, now_s=5.0)
    assert summary["makespan_s"] == 5.0
    assert summary["jobs"][0]["ok"] is None
    assert summary["jct_s"]["mean"] is None


def test_all_attempts_that_succeed_have_computed():
    """j0.m0 and a copy of it both succeed at 3 s: two slots computed, one output counts."""
    c = tiny_cluster(nodes=2, slots=1, scheduler=copying(CopyEach), flow_s=0.0)
    c.submit("j0", maps=1, map_s=3)
    c.run()
    record = c.core.records[JobId("j0")]
    assert (record.launched, record.succeeded, record.killed) == (2, 1, 1)
    summary = report([record], c.core.state.slot_history, now_s=3.0)
    assert summary["slot_utilization"] == summary["compute_utilization"] == 1.0


def test_slots_that_are_held_for_fetches_do_not_compute():
    """One map of 2 s, then a reduce that waits 3 s for its only fetch and computes 1 s."""
    c = tiny_cluster(nodes=1, slots=2, flow_s=3.0, options={"shuffle.slowstart": 1.0})
    c.submit("j0", maps=1, reduces=1, map_s=2, reduce_s=1)
    c.run()
    summary = report([c.core.records[JobId("j0")]], c.core.state.slot_history, now_s=6.0)
    assert summary["makespan_s"] == 6.0
    assert summary["slot_utilization"] == pytest.approx((2 + 4) / (2 * 6))
    assert summary["compute_utilization"] == pytest.approx((2 + 1) / (2 * 6))


def test_completion_times_are_those_of_jobs_that_were_completed():
    c = tiny_cluster(nodes=1)
    c.submit("j0", maps=1, map_s=3)
    c.submit("j1", maps=1)
    c.at(1.0, lambda: c.kill("j1"))
    c.run()
    summary = report(list(c.core.records.values()), c.core.state.slot_history, now_s=3.0)
    assert summary["jct_s"]["mean"] == 3.0
    assert [(job["ok"], job["jct_s"]) for job in summary["jobs"]] == [(True, 3.0), (False, 1.0)]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([], (None, None, None), id="nothing"),
        pytest.param([4.0], (4.0, 4.0, 4.0), id="one"),
        pytest.param([float(n) for n in range(101)], (50.0, 95.0, 100.0), id="many"),
    ],
)
def test_spread(values: list[float], expected: tuple):
    found = spread(values)
    assert (found["p50"], found["p95"], found["max"]) == expected


def test_counters_are_added_up_over_tasks_each_once():
    c = tiny_cluster(racks=2, nodes=1, slots=2)
    c.counters = {"m.records_in": 3, "odd lines": 1}
    c.submit("j0", maps=2, reduces=1, map_s=1, reduce_s=9, partition_bytes=5)
    c.submit("j1", maps=1)
    c.at(5.0, lambda: c.lose("r0n0"))  # with output of maps, which run again
    run = c.run()
    assert len([task for task, _, _ in run.placements if task == "j0.m0"]) == 2
    summary = report(list(c.core.records.values()), c.core.state.slot_history, now_s=99.0)
    assert [job["counters"] for job in summary["jobs"]] == [
        {"m.records_in": 3 * 3, "odd lines": 3},
        {"m.records_in": 3, "odd lines": 1},
    ]


def test_a_job_that_makes_up_names_of_counters_without_end_fails():
    c = tiny_cluster()
    c.counters = {f"line {number}": 1 for number in range(1001)}
    c.submit("j0", maps=1)
    assert "counted 1001 different things: a job may have 1000" in c.run().ended["j0"]


@pytest.mark.parametrize("sign", [1, -1])
def test_counters_whose_sum_passes_64_bits_fail_the_job_and_are_named(sign):
    c = tiny_cluster()
    c.counters = {"all right": 1, "huge": sign * 2**62}
    c.submit("j0", maps=3, max_attempts=1)
    why = c.run().ended["j0"]
    assert "counter huge of the job's tasks: their sum passes what 64 bits hold" in why
    record = c.core.records["j0"]
    assert abs(record.counters["huge"]) <= 2**63


def test_steps_whose_counters_pass_64_bits_together_have_no_report():
    c = tiny_cluster()
    c.counters = {"huge": 2**62}
    for job in ("j0", "j1"):
        c.submit(job, maps=1)
    c.run()
    steps = [c.core.records[job] for job in ("j0", "j1")]
    with pytest.raises(PeerError, match=r"^counter huge of j0 to j1: their sum passes"):
        one_after_another(steps)
