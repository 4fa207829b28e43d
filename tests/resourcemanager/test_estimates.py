"""Estimates of a stage's times and bytes: where from, worked examples, and as the tasks say."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random
from statistics import fmean, median
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.config import ClusterConfig
from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.topologyfile import Compute, Links, RackShape
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, read_mix
from railyard.resourcemanager.interface.estimates import (
    Estimates,
    Figure,
    predicted_task_s,
    slot_bytes_per_s,
)
from railyard.resourcemanager.interface.estimates import median as median_of_sorted
from railyard.resourcemanager.interface.events import StagePlan
from railyard.resourcemanager.interface.forecast import (
    Forecast,
    StageForecast,
    forecast_of,
    predicted_jobs,
)
from railyard.resourcemanager.interface.policies import OrderPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import ClusterView, JobView, StageView, TaskView
from railyard.resourcemanager.schedulers import all_recipes
from railyard.resourcemanager.schedulers.fair import FairConfig, FairOrder
from railyard.simulator.simulation import Simulation
from tests.command_line import ROOT
from tests.harness import TinyCluster, tiny_cluster


class Asking(FairOrder):
    """A fair order that has estimates as a part, and keeps what it hears of."""

    Config = FairConfig
    section = "fair"
    uses_forecasts = True

    def __init__(self, config: FairConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self.estimates = Estimates(cluster)
        self.parts = (self.estimates,)
        self.checked = 0  #: tasks after which all was as it should be

    def task_done(self, task: TaskView) -> None:
        assert_as_brute_force(self.estimates, task.stage)
        self.checked += 1

    def job_ended(self, job: JobView) -> None:
        super().job_ended(job)
        assert not any(self.estimates.durations_s(stage) for stage in job.stages.values())


def assert_as_brute_force(estimates: Estimates, stage: StageView) -> None:
    """The figures are those of the stage's winners."""
    winners = [task.winner for task in stage.tasks if task.winner is not None]
    held_s = [each.ended_s - each.launched_s for each in winners if each.ended_s is not None]
    assert estimates.durations_s(stage) == sorted(held_s)
    assert estimates.duration_s(stage) == Figure(pytest.approx(median(held_s)), "done")
    computed_s = median(each.computed_s for each in winners)
    assert estimates.computed_s(stage) == Figure(pytest.approx(computed_s), "done")
    out_bytes = fmean(each.shuffle_bytes for each in winners) * stage.needed  # of equal tasks
    assert estimates.output_bytes(stage) == Figure(pytest.approx(out_bytes), "done")


ASKING = Recipe(name="asking", source="a test", order=Asking)


def asking() -> TinyCluster:
    return tiny_cluster(nodes=2, slots=1, scheduler=ASKING)


def policy_of(c: TinyCluster) -> Asking:
    order: OrderPolicy = c.core.state.policies.order
    assert isinstance(order, Asking)
    return order


def stage_of(c: TinyCluster, name: str) -> StageView:
    [job] = c.core.state.jobs.values()
    return job.stages[name]


def forecast(**of_maps: float) -> Forecast:
    maps = {"tasks": 4, "input_bytes": 4000, "output_bytes": 2000, "task_s": 3.0} | of_maps
    return Forecast(
        name="daily",
        stages=(
            StageForecast(name="m", **maps),
            StageForecast(name="r", reads=("m",), tasks=2, input_bytes=2000, output_bytes=500),
        ),
    )


# Where figures are from --------------------------------------------------------------------------
def test_before_anything_is_known_the_topologys_rates_are_assumed():
    """Four maps of 100 bytes at 200 MB/s; two nodes whose rack has a downlink of 1 GB/s."""
    c = asking()
    c.store("in", blocks=[["r0n0"]] * 4)
    c.submit("j0", input="in", reduces=2)
    maps, reduces, estimates = stage_of(c, "m"), stage_of(c, "r"), policy_of(c).estimates
    assert estimates.read_s(maps) == (0.0, "assumed")
    assert estimates.computed_s(maps) == (100 / 200e6, "assumed")
    assert estimates.duration_s(maps) == (100 / 200e6, "assumed")
    assert estimates.input_bytes(maps) == (400, "done")
    assert estimates.output_bytes(maps) == (400, "assumed")
    assert estimates.input_bytes(reduces) == (400, "assumed")
    assert estimates.read_s(reduces) == (200 / 0.5e9, "assumed")
    assert estimates.computed_s(reduces) == (200 / 200e6, "assumed")
    assert estimates.duration_s(reduces).value == pytest.approx(200 / 0.5e9 + 200 / 200e6)
    assert estimates.output_bytes(reduces) == (0, "assumed")  # nobody reads it


def test_a_forecast_is_better_than_that():
    c = asking()
    c.submit("j0", maps=4, reduces=2, forecast=forecast(rate_bytes_per_s=100.0))
    maps, reduces, estimates = stage_of(c, "m"), stage_of(c, "r"), policy_of(c).estimates
    assert estimates.computed_s(maps) == (3.0 + 1000 / 100.0, "forecast")
    assert estimates.duration_s(maps) == (13.0, "forecast")
    assert estimates.output_bytes(maps) == (2000, "forecast")
    assert estimates.input_bytes(reduces) == (2000, "forecast")
    assert estimates.computed_s(reduces) == (1000 / 200e6, "forecast")


def test_the_input_that_has_come_counts_rather_than_the_predicted_one():
    c = asking()
    c.store("in", blocks=[["r0n0"]] * 4)
    c.submit("j0", input="in", forecast=forecast(rate_bytes_per_s=100.0))
    assert policy_of(c).estimates.computed_s(stage_of(c, "m")) == (3.0 + 1.0, "forecast")


def test_done_tasks_are_better_than_a_forecast():
    c = asking()
    c.store("in", blocks=[["r0n0"]] * 4)
    c.submit("j0", input="in", reduces=2, map_s=5, partition_bytes=30, forecast=forecast())
    c.run(until_s=5.5)
    maps, reduces, estimates = stage_of(c, "m"), stage_of(c, "r"), policy_of(c).estimates
    assert maps.done == 2
    assert estimates.duration_s(maps) == (5.0, "done")
    assert estimates.computed_s(maps) == (5.0, "done")
    assert estimates.output_bytes(maps) == (pytest.approx(4 * 2 * 30), "done")
    assert estimates.input_bytes(reduces) == (pytest.approx(4 * 2 * 30), "done")
    assert estimates.computed_s(reduces).source == "forecast"


def test_one_straggler_of_three_does_not_move_it():
    c = tiny_cluster(nodes=5, slots=1, scheduler=ASKING)
    factors = iter([1.0, 1.1, 8.0])
    c.stretch = lambda: next(factors, 20.0)
    c.submit("j0", maps=5, map_s=10)
    c.run(until_s=90)
    estimates, maps = policy_of(c).estimates, stage_of(c, "m")
    assert list(estimates.durations_s(maps)) == [10.0, pytest.approx(11.0), 80.0]
    assert estimates.duration_s(maps).value == pytest.approx(11.0)  # their mean is 33.7


def test_of_tasks_that_are_not_needed_nothing_is_handed_on():
    c = asking()
    plans = (
        StagePlan(name="m", tasks=4, needed=3),
        StagePlan(name="r", reads=("m",), tasks=2),
    )
    c.submit("j0", stages=plans, partition_bytes=30, map_s=5, forecast=forecast())
    estimates = policy_of(c).estimates
    assert estimates.output_bytes(stage_of(c, "m")) == (1500, "forecast")
    c.run(until_s=6)
    assert estimates.output_bytes(stage_of(c, "m")) == (pytest.approx(3 * 2 * 30), "done")


# Properties --------------------------------------------------------------------------------------
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(0, 4))
def test_after_every_task_the_figures_are_those_of_all_that_are_done(
    seed: int, maps: int, reduces: int
):
    c, dice = asking(), Random(seed)
    c.stretch = lambda: dice.lognormvariate(0, 1)
    c.store("in", blocks=[["r0n0"]] * maps)
    c.submit("j0", input="in", reduces=reduces, map_s=10)
    assert c.run().ended == {"j0": ""}
    assert policy_of(c).checked == maps + reduces


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_the_median_is_that_of_statistics(values: list[float]):
    assert median_of_sorted(sorted(values)) == pytest.approx(median(values))


@given(st.integers(1, 10**12), st.integers(1, 1000), st.floats(0, 100), st.floats(1e3, 1e10))
def test_a_prediction_is_corrals_formula(input_bytes: int, tasks: int, task_s: float, rate: float):
    """(D^I / N^M) / B_M, plus the seconds that do not depend on bytes."""
    stage = StageForecast(
        name="m",
        tasks=tasks,
        input_bytes=input_bytes,
        output_bytes=0,
        task_s=task_s,
        rate_bytes_per_s=rate,
    )
    own = task_s + input_bytes / tasks / rate
    assert predicted_task_s(stage, Compute()) == pytest.approx(own)


@pytest.mark.parametrize(
    ("links", "share"),
    [
        pytest.param(Links(nic=10e9, uplink=10e9), 10e9 / 8, id="downlink"),
        pytest.param(Links(nic=1e9, uplink=10e9), 4e9 / 8, id="nics"),
        pytest.param(Links(nic=float("inf"), uplink=float("inf")), float("inf"), id="unlimited"),
    ],
)
def test_a_slots_share_of_the_network(links: Links, share: float):
    place = Topology(name="t", racks=RackShape(count=3, nodes=4, slots=2), links=links)
    assert slot_bytes_per_s(place) == share


# Who pays ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("scheduler", ["fair", "capacity", "delay", "corral", "shufflewatcher"])
def test_who_does_not_ask_hears_of_no_task(scheduler: str):
    hooks = tiny_cluster(scheduler=scheduler).core.state.policies.hooks["task_done"]
    assert not any(isinstance(getattr(hook, "__self__", None), Estimates) for hook in hooks)


def test_the_tutorials_example_adds_up_what_is_left():
    page = (ROOT / "docs" / "tutorials" / "write-a-scheduler.md").read_text()
    [code] = re.findall(r"^```python\n(from railyard import Estimates.*?)^```$", page, re.M | re.S)
    names: dict[str, Any] = {}
    exec(compile(code, "write-a-scheduler.md", "exec"), names)
    c = asking()
    c.submit("j0", maps=4, reduces=2, forecast=forecast(rate_bytes_per_s=100.0))
    policy = names["LeastWork"](FairConfig(), c.core.state)
    [job] = c.core.state.jobs.values()
    assert policy._left_s(job) == 2 * 13.0 + 2 * 1000 / 200e6  # two maps run already


# Forecasts of a workload's jobs, as both clocks have them.


def jobs(*words):
    mix = read_mix(words, Defaults(size_bytes=10**9), 1)
    return measured_workload(mix, load_topology("flat-4x4"), 1).jobs


def test_a_forecast_has_the_sizes_of_all_stages_and_the_time_by_the_cores_clock():
    [sort] = jobs("terasort,submit=5s,reduces=3")
    forecast = forecast_of(sort, begin_s=100.0)
    assert forecast is not None
    assert (forecast.name, forecast.submit_s) == ("terasort", 105.0)
    maps, reduces = forecast.stages
    assert (maps.name, maps.tasks, maps.input_bytes, maps.output_bytes) == ("m", 4, 10**9, 10**9)
    assert (reduces.tasks, reduces.input_bytes, reduces.reads) == (3, 10**9, ("m",))
    assert forecast_of(sort) != forecast


def test_ad_hoc_jobs_are_not_predicted():
    sent = predicted_jobs(jobs("terasort,recurring=0", "wordcount"))
    assert [job.job for job in sent] == ["wordcount"]


# A scheduler that says that it uses no forecasts gets none, whoever sends them.


PLACE = load_topology("hybrid-8x4")
MIX = read_mix(("terasort,times=2,inputs=own",), Defaults(size_bytes=10**9), 1)


@pytest.fixture(scope="module", name="workload")
def _workload():
    made = measured_workload(MIX, PLACE, 1)
    assert all(forecast_of(job) is not None for job in made.jobs)
    return made


def that_looks(recipe: Recipe, seen: list[Any]) -> Recipe:
    """The same scheduler, whose policies note the forecasts that they are shown."""
    names = ("data", "order", "tasks", "shuffle", "copies", "flows")
    roles = {role: getattr(recipe, role) for role in names}

    def looking(kind: type) -> type:
        def job_submitted(self, job):
            seen.append(job.forecast)
            return kind.job_submitted(self, job)

        looks: dict[str, Any] = {"job_submitted": job_submitted}
        if kind is recipe.data:

            def replica_racks(self, data):
                seen.append(data.forecast)
                return kind.replica_racks(self, data)

            looks["replica_racks"] = replica_racks
        return type(kind.__name__, (kind,), looks)

    made = {kind: looking(kind) for kind in dict.fromkeys(roles.values())}
    return replace(recipe, **{role: made[kind] for role, kind in roles.items()})


@pytest.mark.parametrize("scheduler", sorted(all_recipes()))
def test_a_policy_that_looks_sees_forecasts_only_if_the_recipe_says_so(scheduler, workload):
    recipe, seen = all_recipes()[scheduler], list[Any]()
    looking = that_looks(recipe, seen)
    assert looking.uses_forecasts == recipe.uses_forecasts
    config = ClusterConfig(topology=PLACE, flow_scheduler=recipe.flow_scheduler)
    run = Simulation(config, workload, recipe=looking)
    run.run()
    assert len(seen) >= 4  # of each of two jobs: its data, and itself
    assert [forecast is not None for forecast in seen] == [recipe.uses_forecasts] * len(seen)
