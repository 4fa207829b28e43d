"""Policies' own figures: who is asked, what they may give, what a broken policy costs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from railyard.cluster.config import ClusterConfig
from railyard.jobs.workloads.catalog import workload
from railyard.resourcemanager.core.state.figures import figures_of
from railyard.resourcemanager.driving.report import add_figures
from railyard.resourcemanager.interface.defaults import ClosestTasks
from railyard.resourcemanager.interface.policies import CopyPolicy, FlowPolicy, Policy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers.delay import DelayTasks
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.simulator.cluster import Simulation
from tests.harness import TinyCluster, tiny_cluster, topology


def giving(answer: Any) -> Recipe:
    """Fair shares, with a tasks policy that gives this answer, or raises it."""

    class Toy(ClosestTasks):
        section = ""

        def figures(self) -> Mapping[str, float]:
            if isinstance(answer, Exception):
                raise answer
            return answer

    return Recipe(name="toy", source="a test", order=FairOrder, tasks=Toy, flows=Steady)


class Steady(FlowPolicy):
    section = "steady"

    def weight(self, reader: object) -> float:
        return 1.0

    def figures(self) -> Mapping[str, float]:
        return {"weight": 1.0}


def summary_of(c: TinyCluster) -> dict[str, Any]:
    summary: dict[str, Any] = {}
    add_figures(summary, c.core.state.policies)
    return summary


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"tasks": 3, "waited_s": 0.5}, id="plain"),
        pytest.param(MappingProxyType({"tasks": 3, "waited_s": 0.5}), id="any mapping"),
        pytest.param({"tasks": np.int64(3), "waited_s": np.float64(0.5)}, id="of numpy"),
    ],
)
def test_figures_go_by_section_or_class(answer: Mapping[str, float]):
    summary = summary_of(tiny_cluster(scheduler=giving(answer)))
    assert summary == {
        "figures": {"Toy": {"tasks": 3.0, "waited_s": 0.5}, "steady": {"weight": 1.0}}
    }
    assert all(type(value) is float for value in summary["figures"]["Toy"].values())


def test_nothing_to_say_is_left_out():
    assert summary_of(tiny_cluster(scheduler=giving({}))) == {"figures": {"steady": {"weight": 1}}}


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
        (None, "None: need {name: number}"),
        ([("a", 1.0)], "need {name: number}"),
        ({"a": math.nan}, "a = nan: need a finite number"),
        ({"a": math.inf}, "a = inf: need a finite number"),
        ({"a": 10**400}, "need a finite number"),
        ({"a": True}, "a = True: need a finite number"),
        ({"a": "12"}, "a = '12': need a finite number"),
        ({"a": None}, "a = None: need a finite number"),
        ({1: 2.0}, "a figure's name = 1: need text"),
        ({"": 2.0}, "a figure's name = ''"),
        ({"a\x1b[2J": 2.0}, "a figure's name = 'a\\x1b[2J'"),
        ({str(n): n for n in range(101)}, "figures = 101: need at most 100"),
    ],
)
def test_a_broken_policy_costs_its_own_figures_only(answer: Any, words: str):
    c = tiny_cluster(scheduler=giving(answer))
    c.submit("j0")
    assert c.run().ended == {"j0": ""}
    summary = summary_of(c)
    assert summary["figures"] == {"steady": {"weight": 1.0}}
    assert summary["figures_error"].startswith("toy/Toy.figures ")
    assert "at 1.000 s" in summary["figures_error"]
    assert words in summary["figures_error"]
    c.submit("j1")
    assert "j1" in c.run().ended, "the core goes on"


def test_the_figures_of_parts_are_their_own():
    class Whole(CopyPolicy):
        def __init__(self, config: Any, cluster: Any) -> None:
            super().__init__(config, cluster)
            self.parts = (Part(config, cluster, 1), Part(config, cluster, 2))

    class Part(Policy):
        def __init__(self, config: Any, cluster: Any, number: int) -> None:
            super().__init__(config, cluster)
            self.number = number

        def figures(self) -> Mapping[str, float]:
            return {"number": self.number}

    c = tiny_cluster(scheduler=Recipe(name="x", source="", order=FairOrder, copies=Whole))
    assert figures_of(c.core.state.policies) == (
        {"Part": {"number": 1.0}, "Part-2": {"number": 2.0}},
        [],
    )


def test_nobody_is_asked_who_has_none():
    assert tiny_cluster().core.state.policies.overriding("figures") == ()


def test_waits_of_delay_scheduling():
    """j0 waits 2 s for the only slot beside its block; j1 gives up after 5 s."""
    c = tiny_cluster(racks=2, nodes=2, slots=1, scheduler="delay", node_wait_s=5, rack_wait_s=5)
    c.store("in", blocks=[["r0n0"]])
    c.occupy("r0n0")
    c.submit("j0", input="in")
    c.at(2.0, lambda: c.vacate("r0n0"))
    c.run()
    c.occupy("r0n0")
    c.submit("j1", input="in")
    c.run()
    assert figures_of(c.core.state.policies)[0] == {
        "delay": {"waits": 2.0, "waits_node_local": 1.0, "waited_s": 7.0}
    }


def test_a_placement_without_a_wait_is_none():
    c = tiny_cluster(scheduler="delay")
    c.submit("j0", maps=4)
    c.run()
    assert figures_of(c.core.state.policies)[0]["delay"] == {
        "waits": 0.0,
        "waits_node_local": 0.0,
        "waited_s": 0.0,
    }


def test_a_simulation_has_them_in_its_summary():
    config = ClusterConfig(topology=topology(2, 2, 2), scheduler="toy")
    for answer, expected in (({"n": 1}, {"n": 1.0}), (ValueError("oh"), None)):
        recipe = giving(answer)
        run = Simulation(config, workload("corral-w1,jobs=1,grain=64", 1), recipe=recipe)
        run.run()
        summary = run.summary()
        assert summary["figures"].get("Toy") == expected
        assert ("figures_error" in summary) == (expected is None)
        assert summary["jobs"][0]["ok"]


def test_those_of_policies_that_others_are_made_of_too():
    assert DelayTasks.figures is not Policy.figures
    c = tiny_cluster(scheduler="corral")
    assert "delay" in figures_of(c.core.state.policies)[0]
