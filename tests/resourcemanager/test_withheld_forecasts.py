"""A scheduler that says that it uses no forecasts gets none, whoever sends them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.topology import load_topology
from railyard.jobs.mixes.measured import measured_workload
from railyard.jobs.mixes.mixes import Defaults, read_mix
from railyard.resourcemanager.interface.forecast import forecast_of
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers import all_recipes
from railyard.simulator.cluster import Simulation

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
