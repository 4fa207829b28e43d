"""Corral in the core: the plan, where data and tasks go, in which order, and what breaks it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.resourcemanager.interface.commands import PlaceData
from railyard.resourcemanager.interface.events import DataAnnounced, JobsPredicted
from railyard.resourcemanager.interface.forecast import Forecast, PredictedJob, StageForecast
from railyard.resourcemanager.schedulers.corral.planner import Plan, PlannedJob, save_plan
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.test_rules_under_faults import random_scenario

MB = 10**6


def plan_file(folder: Path, racks: int, jobs: dict[str, str]) -> str:
    """A plan with these jobs, each with its racks, in the order of their priorities."""
    planned = tuple(
        PlannedJob(name=name, racks=tuple(map(RackId, where.split())), priority=number)
        for number, (name, where) in enumerate(jobs.items(), start=1)
    )
    save_plan(Plan(scenario="batch", racks=racks, jobs=planned), folder / "plan.toml")
    return str(folder / "plan.toml")


def corral(
    folder: Path, jobs: dict[str, str], scheduler: str = "corral", racks: int = 3, **more
) -> TinyCluster:
    """A cluster of 3 racks of 2 nodes with a slot each, and a plan for it."""
    options = {"corral.plan": plan_file(folder, racks, jobs)} | more.pop("options", {})
    return tiny_cluster(racks=racks, scheduler=scheduler, options=options, **more)


def forecast(name: str = "nightly", submit_s: float | None = None, **sizes: int) -> Forecast:
    """A recurring MapReduce job; by default one that a rack of two slots does in two waves."""
    maps, reduces, size_bytes = sizes.get("maps", 4), sizes.get("reduces", 2), 400 * MB
    return Forecast(
        name=name,
        submit_s=submit_s,
        stages=(
            StageForecast(name="m", tasks=maps, input_bytes=size_bytes, output_bytes=size_bytes),
            StageForecast(
                name="r",
                reads=("m",),
                tasks=reduces,
                input_bytes=size_bytes,
                output_bytes=size_bytes,
            ),
        ),
    )


def predict(c: TinyCluster, *jobs: str, **sizes: int) -> None:
    """Predict that these jobs, of which each recurs by itself, come now."""
    expected = tuple(PredictedJob(job=name, forecast=forecast(name, **sizes)) for name in jobs)
    c.feed(JobsPredicted(jobs=expected))


def placed(c: TinyCluster, job: str, expected: Forecast | None = None):
    c.feed(DataAnnounced(path=f"/{job}", size_bytes=400, job=job, forecast=expected))
    [order] = c.led_to[-1]
    assert isinstance(order, PlaceData)
    return order.racks


def racks(nodes: list[str]) -> set[str]:
    return {rack_of(NodeId(node)) for node in nodes}


# Data --------------------------------------------------------------------------------------------
def test_one_replica_is_in_the_planned_racks_and_the_rest_is_the_stores_to_place(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r1 r2"})
    assert placed(c, "j0") == (("r1", "r2"),)
    assert placed(c, "adhoc") == ()


def test_a_plan_may_be_for_the_recurring_job(tmp_path: Path):
    c = corral(tmp_path, {"nightly": "r2"})
    assert placed(c, "nightly-17", forecast()) == (("r2",),)
    c.submit("j0", maps=4, forecast=forecast())
    assert racks(c.run().nodes_of("j0")) == {"r2"}


def test_local_shuffle_has_hdfss_data(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r1"}, scheduler="local-shuffle")
    assert placed(c, "j0") == ()
    c.submit("j0", maps=4, reduces=2)
    assert racks(c.run().nodes_of("j0")) == {"r1"}


def test_no_data_goes_to_racks_most_of_which_is_lost(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r1"})
    c.lose("r1n0")
    assert placed(c, "j0") == (("r1",),)
    c.lose("r1n1")
    assert placed(c, "j0") == ()


def test_jobs_that_have_not_come_are_planned_again_when_slots_change():
    """With four slots a node, twelve maps need a rack or two; what has come keeps its racks."""
    c = tiny_cluster(racks=3, scheduler="corral")
    predict(c, *"abcd", maps=12, reduces=12)
    assert placed(c, "a") == (("r0", "r1", "r2"),)
    for node in c.topology.nodes():
        c.set_slots(node.id, 4)
    assert placed(c, "a") == (("r0", "r1", "r2"),)
    assert [len(placed(c, job)[0]) for job in "bcd"] == [1, 1, 1]
    stated = tiny_cluster(racks=3, slots=4, scheduler="corral")
    predict(stated, *"abcd", maps=12, reduces=12)
    assert [len(placed(stated, job)[0]) for job in "abcd"] == [2, 1, 1, 1]


# Tasks -------------------------------------------------------------------------------------------
def test_maps_and_reduces_keep_to_the_planned_racks(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r0 r2"})
    c.submit("j0", maps=20, reduces=4)
    run = c.run()
    assert racks(run.nodes_of("j0.m")) == {"r0", "r2"}
    assert racks(run.nodes_of("j0.r")) == {"r0", "r2"}
    assert run.unfinished == []


def test_in_its_racks_a_job_holds_out_for_its_data(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r1"})
    c.store("in", blocks=[["r1n0", "r0n0"]])
    c.occupy("r1n0")
    c.submit("j0", input="in")
    assert c.run(until_s=4.9).placements == []
    assert c.why_waiting("j0.m0") == "only a rack-local slot is free"
    assert c.run(until_s=5.0).placements == [("j0.m0", "r1n1", 5.0)]


def test_a_map_whose_data_is_in_none_of_the_racks_does_not_wait_for_it(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r1"}, scheduler="local-shuffle")
    c.store("in", blocks=[["r0n0"], ["r2n0"]])
    c.submit("j0", input="in")
    assert {when for _, _, when in c.run().placements} == {0.0}


@pytest.mark.parametrize(
    ("scheduler", "share", "held"),
    [
        pytest.param("corral", 0.0, (2, 0), id="none by default"),
        pytest.param("corral", 0.5, (1, 1), id="half"),
        pytest.param("corral-fair", 0.0, (1, 1), id="as under Yarn"),
    ],
)
def test_reduces_leave_the_racks_slots_to_maps(tmp_path: Path, scheduler: str, share: float, held):
    """The cluster has 6 slots, of which SlowStart gives reduces 2; the job's rack has no more."""
    options = {"corral.reduce_share": share} if share else {}
    c = corral(tmp_path, {"j0": "r0"}, scheduler=scheduler, options=options)
    c.submit("j0", maps=8, reduces=4, map_s=10)
    c.run(until_s=25.0)
    stages = c.core.state.jobs["j0"].stages
    assert (stages["m"].held, stages["r"].held) == held
    assert c.run().unfinished == []


# Order -------------------------------------------------------------------------------------------
def test_a_slot_goes_to_the_job_with_the_highest_priority_in_that_rack(tmp_path: Path):
    c = corral(tmp_path, {"j2": "r0", "j1": "r0 r1", "j0": "r1"})
    for job in ("j0", "j1", "j2", "j9"):  # j9 is ad hoc
        c.submit(job, maps=100, map_s=5)
    run = c.run(until_s=6.0)
    later = {(task.split(".")[0], rack_of(NodeId(n))) for task, n, at in run.placements if at > 1}
    assert later == {("j2", "r0"), ("j1", "r1"), ("j9", "r2")}
    assert "2 planned jobs before it" in c.explain("j0.m99", 6.0)


def test_an_ad_hoc_job_has_its_place_in_the_line_and_planned_ones_fill_theirs_by_priority(
    tmp_path: Path,
):
    c = corral(tmp_path, {"j3": "r0", "j1": "r0"})
    for job, maps in (("j0", 12), ("j1", 4), ("j2", 100), ("j3", 4)):
        c.submit(job, maps=maps, map_s=5)
    run = c.run()
    begun = {}
    for task, node, _ in run.placements:
        if node.startswith("r0"):
            begun.setdefault(task.split(".")[0])
    assert list(begun) == ["j0", "j3", "j2", "j1"]


def test_planned_jobs_stay_within_their_queues_maximum(tmp_path: Path):
    queues = {"guaranteed.a": 0.5, "guaranteed.b": 0.5, "maximum.a": 0.5}
    options = {f"corral.{key}": value for key, value in queues.items()}
    c = corral(tmp_path, {"j0": "r0 r1 r2"}, options=options)
    c.submit("j0", maps=100, map_s=5, queue="a")
    c.run(until_s=4.0)
    assert c.core.state.jobs["j0"].held == 3


def test_ad_hoc_jobs_are_as_under_capacity(tmp_path: Path):
    placements = {}
    for scheduler in ("corral", "capacity"):
        settings = {f"{scheduler}.guaranteed.a": 0.6, f"{scheduler}.guaranteed.b": 0.4}
        plan = {"corral.plan": plan_file(tmp_path, 3, {})} if scheduler == "corral" else {}
        c = tiny_cluster(racks=3, scheduler=scheduler, options=settings | plan)
        for number in range(6):
            c.submit(f"j{number}", maps=5, reduces=1, queue="ab"[number % 2])
        placements[scheduler] = c.run().placements
    assert placements["corral"] == placements["capacity"]


# In Fair's order ---------------------------------------------------------------------------------
def test_without_jobs_that_recur_corral_fair_is_fair(tmp_path: Path):
    """Users, weights and data that no free slot is near to; with pools of any name."""
    placements = {}
    for scheduler in ("corral-fair", "fair"):
        plan = {"corral.plan": plan_file(tmp_path, 3, {})} if scheduler == "corral-fair" else {}
        options = {"fair.user_weights.ann": 2.0} | plan
        c = tiny_cluster(racks=3, scheduler=scheduler, options=options)
        c.store("in", blocks=[["r0n0"]] * 4)
        for number in range(6):
            job = {"input": "in"} if number % 2 else {"maps": 5, "reduces": 2}
            c.submit(f"j{number}", user=("ann", "bob", "cy")[number % 3], queue=f"q{number}", **job)
        placements[scheduler] = c.run().placements
    assert placements["corral-fair"] == placements["fair"]


def test_a_users_planned_jobs_have_their_shares_together_and_use_them_by_priority(tmp_path: Path):
    """Three jobs with a third of the slots each, of which one is ad hoc."""
    plan = {"j2": "r0 r1 r2", "j0": "r0 r1 r2"}
    c = corral(tmp_path, plan, scheduler="corral-fair")
    nodes = [node.id for node in c.topology.nodes()]
    for node in nodes:
        c.occupy(node)
        c.at(1.0, lambda node=node: c.vacate(node))
    for number in range(3):
        c.submit(f"j{number}", maps=4, map_s=5)
    c.run(until_s=4.0)
    held = {job.id: job.held for job in c.core.state.jobs.values()}
    assert held == {"j0": 0, "j1": 2, "j2": 4}
    assert c.run().unfinished == []


def test_corral_fair_plans_for_the_mean_even_if_jobs_come_at_once():
    """One after the other on all racks, two jobs are done before the one that ends last."""
    for scheduler, width in (("corral", 1), ("corral-fair", 3)):
        c = tiny_cluster(racks=3, scheduler=scheduler)
        predict(c, *"abc", maps=8, reduces=4)
        assert [len(placed(c, job)[0]) for job in "abc"] == [width] * 3


def test_under_corral_fair_planned_jobs_keep_to_their_racks(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r0"}, scheduler="corral-fair")
    c.submit("j0", maps=8, reduces=2)
    c.submit("j1", maps=8, reduces=2)
    run = c.run()
    assert racks(run.nodes_of("j0")) == {"r0"}
    assert racks(run.nodes_of("j1")) >= {"r1", "r2"}


# Idle racks -------------------------------------------------------------------------------------
IDLE_SLOTS_TOO = {"corral.work_conserving": True}


def test_a_job_whose_racks_are_full_takes_idle_slots_elsewhere_if_it_may(tmp_path: Path):
    for options, used in (({}, {"r0"}), (IDLE_SLOTS_TOO, {"r0", "r1", "r2"})):
        c = corral(tmp_path, {"j0": "r0"}, options=dict(options))
        c.submit("j0", maps=6, reduces=6, map_s=5)
        run = c.run()
        assert racks(run.nodes_of("j0.m")) == racks(run.nodes_of("j0.r")) == used


def test_a_slot_is_idle_only_if_no_job_of_its_rack_and_no_ad_hoc_job_wants_it(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r0", "j1": "r1"}, options=dict(IDLE_SLOTS_TOO))
    c.submit("j0", maps=100, map_s=5)  # takes them all, as it is alone
    c.at(1.0, lambda: c.submit("j1", maps=100, map_s=5))
    c.at(1.0, lambda: c.submit("j9", maps=100, map_s=5))
    run = c.run(until_s=6.0)
    later = {(task.split(".")[0], rack_of(NodeId(n))) for task, n, at in run.placements if at > 1}
    assert later == {("j0", "r0"), ("j1", "r1"), ("j9", "r2")}


def test_a_job_that_waits_for_its_data_goes_elsewhere_once_its_racks_are_full(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r0", "j1": "r0"}, options=dict(IDLE_SLOTS_TOO))
    c.store("in", blocks=[["r0n0"]])
    c.occupy("r0n0")
    c.submit("j0", input="in")
    c.at(1.0, lambda: c.submit("j1", map_s=5))
    assert c.run().placements == [("j1.m0", "r0n1", 1.0), ("j0.m0", "r1n1", 1.0)]


# Plans of what is predicted -----------------------------------------------------------------------
def test_a_batch_is_planned_at_once():
    """Each job is as fast in a rack as in more: six jobs have two racks of three to themselves."""
    c = tiny_cluster(racks=3, scheduler="corral")
    predict(c, *(f"j{number}" for number in range(6)))
    chosen = [placed(c, f"j{number}", forecast(f"j{number}")) for number in range(6)]
    used = Counter(rack for [each] in chosen for rack in each)
    assert used == {"r0": 2, "r1": 2, "r2": 2}
    for number in range(6):
        c.submit(f"j{number}", maps=4, reduces=2, forecast=forecast(f"j{number}"))
    run = c.run()
    for number, [each] in enumerate(chosen):
        assert racks(run.nodes_of(f"j{number}")) == set(each)


def test_a_job_that_nobody_predicted_is_planned_when_it_comes():
    """It goes behind those that were planned before it."""
    c = tiny_cluster(racks=3, scheduler="corral")
    c.submit("j0", maps=10, map_s=9, forecast=forecast("a"))
    c.submit("j1", maps=10, map_s=9, forecast=forecast("b"))
    c.submit("j2", maps=10, map_s=9)
    run = c.run()
    last = {job: max(when for _, when in run.launches(job)) for job in ("j0", "j1")}
    rest = [when for _, when in run.launches("j2") if when > 0]
    assert last["j0"] <= last["j1"] <= min(rest)


def test_what_is_predicted_anew_is_planned_anew_around_what_is_settled():
    c = tiny_cluster(racks=2, scheduler="corral")
    predict(c, "j0", "j1", "j2")
    [settled] = placed(c, "j0", forecast("j0"))
    predict(c, "j0", "j1", "j3", maps=400)
    assert placed(c, "j0", forecast("j0")) == (settled,)
    assert placed(c, "j2") == ()  # it is not expected any more
    [first], [second] = placed(c, "j1"), placed(c, "j3")
    assert set(first) | set(second) == {"r0", "r1"}


# Faults ------------------------------------------------------------------------------------------
def test_when_its_rack_is_lost_a_job_ends_elsewhere(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r1"})
    c.store("in", blocks=[["r1n0", "r0n0"]] * 10)
    c.submit("j0", input="in", reduces=2, map_s=2)
    c.run(until_s=3.0)
    c.lose("r1n0")
    assert racks(c.run(until_s=6.0).nodes_of("j0")) == {"r1"}  # half of it is left
    c.lose("r1n1")
    run = c.run()
    assert run.ended == {"j0": ""}
    assert racks([node for _, node, when in run.placements if when > 6.0]) == {"r0", "r2"}


def test_a_rack_that_is_back_is_kept_to_again(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r1"}, options={"corral.lost_share": 0.0})
    c.submit("j0", maps=40)
    c.run(until_s=2.5)
    c.lose("r1n0")
    assert len(racks(c.run(until_s=4.5).nodes_of("j0"))) == 3
    c.join("r1n0")
    run = c.run()
    assert racks([node for _, node, when in run.placements if when > 4.5]) == {"r1"}


def test_a_job_whose_attempts_fail_all_over_its_rack_leaves_it(tmp_path: Path):
    c = corral(tmp_path, {"j0": "r1"})
    c.failure = lambda _, node: "broken disk" if node.startswith("r1") else None
    c.submit("j0", maps=6, max_attempts=100)
    assert c.run(until_s=100.0).ended == {"j0": ""}


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("scheduler", ["corral", "local-shuffle"])
def test_rules_hold_under_faults_with_a_plan(scheduler: str, seed: int):
    c = random_scenario(scheduler, seed)
    jobs = [f"j{number}" for number in range(6)]
    predict(c, *jobs[seed % 3 :], maps=1 + seed % 7)
    c.at(10.0, lambda: predict(c, *jobs[2:]))
    run = c.run(until_s=3000.0)
    assert run.unfinished == []
    assert all(reason in ("", "killed by its user") for reason in run.ended.values())
    assert c.core.state.free == c.core.state.slots


# Settings ----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("option", "value", "error"),
    [
        ("plan", "/nowhere.toml", "/nowhere.toml: cannot be read"),
        ("lost_share", 1.0, "corral.lost_share = 1.0: need a share in"),
        ("reduce_share", 1.1, "corral.reduce_share = 1.1: need a share in"),
        ("node_wait_s", -1.0, "corral.node_wait_s = -1.0: need seconds >= 0"),
        ("guaranteed.a", 2.0, "corral.guaranteed.a = 2.0: need a share in"),
        ("scenario", "both", "corral.scenario = 'both': need \"auto\" or"),
    ],
)
def test_settings_are_checked(option: str, value: object, error: str):
    with pytest.raises(UsageError, match=error):
        tiny_cluster(scheduler="corral", options={f"corral.{option}": value})


def test_a_plan_for_another_cluster_is_refused(tmp_path: Path):
    path = plan_file(tmp_path, 7, {"j0": "r6"})
    with pytest.raises(UsageError, match="racks = 7: need a plan for the 2 there are"):
        tiny_cluster(racks=2, scheduler="corral", plan=path)
