"""What a scheduler's flow policy asks of the network gets there: core, emulator, rates."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.messages import AttemptSucceeded, FetchOutput, LaunchAttempt, StartFlow
from railyard.cluster.messaging.wire import Done
from railyard.cluster.runfolder import RunFolder
from railyard.jobs.model import StageSpec
from railyard.jobs.workloads.catalog import workload
from railyard.netemu.messages import NetworkView, SetCapacity, WatchNetwork
from railyard.netemu.schedulers.afap import AsFastAsPossible
from railyard.resourcemanager.core.policies import figures_of
from railyard.resourcemanager.driving import coredriver
from railyard.resourcemanager.driving.report import add_figures
from railyard.resourcemanager.interface.decisions import InvalidDecision
from railyard.resourcemanager.interface.defaults import ClosestTasks
from railyard.resourcemanager.interface.policies import CopyPolicy, FlowPolicy, Policy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers.delay import DelayTasks
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.simulator.simulation import Simulation
from tests.harness import TinyCluster, tiny_cluster, topology
from tests.resourcemanager.standins import Office, Rack

GB = 10**9


class LastReaderFirst(FlowPolicy):
    """Joint's kind of priority: two levels, here by size and then by the reader."""

    def weight(self, reader):
        return 2.0

    def priority(self, reader, size_bytes):
        return (float(size_bytes), -float(reader.task.index))


LAST_FIRST = Recipe(name="last-first", source="a test", order=FairOrder, flows=LastReaderFirst)


def test_a_policy_s_weight_and_priority_are_those_of_the_flow():
    c = tiny_cluster(racks=2, nodes=1, slots=2, scheduler=LAST_FIRST)
    c.submit("j0", maps=1, reduces=2, partition_bytes=10)
    c.run()
    flows = [order for _, order in c.commands if isinstance(order, StartFlow)]
    assert {flow.reader: (flow.weight, flow.priority) for flow in flows} == {
        "j0.r0.0": (2.0, (10.0, 0.0)),
        "j0.r1.0": (2.0, (10.0, -1.0)),
    }


def test_without_a_policy_flows_are_alike():
    c = tiny_cluster(racks=2, nodes=1, slots=2)
    c.submit("j0", maps=1, reduces=2)
    c.run()
    flows = [order for _, order in c.commands if isinstance(order, StartFlow)]
    assert {(flow.weight, flow.priority) for flow in flows} == {(1.0, ())}


@pytest.mark.parametrize(
    ("weight", "priority", "error"),
    [
        pytest.param(0.0, (), "mine/flows gave 0.0 as a weight at 1.000 s, but ", id="no weight"),
        pytest.param(1.0, (math.nan,), r"gave \(nan,\) as a priority", id="not a number"),
        pytest.param(1.0, (0.0,) * 9, "length <= 8", id="too long"),
        pytest.param(1.0, None, "gave None as a priority", id="no answer"),
    ],
)
def test_what_the_network_would_refuse_is_an_invalid_decision(weight, priority, error):
    class Mine(LastReaderFirst):
        def weight(self, reader):
            return weight

        def priority(self, reader, size_bytes):
            return priority

    mine = Recipe(name="mine", source="a test", order=FairOrder, flows=Mine)
    c = tiny_cluster(racks=2, nodes=1, slots=2, scheduler=mine)
    c.submit("j0", maps=1, reduces=1, map_s=1)
    with pytest.raises(InvalidDecision, match=error):
        c.run()


@pytest.fixture
def office(monkeypatch) -> Iterator[Office]:
    monkeypatch.setattr(coredriver, "recipe_named", lambda _: LAST_FIRST)
    home = Path(tempfile.mkdtemp(prefix="rm-"))
    made = Office(RunFolder.create(home), LAST_FIRST.name, AsFastAsPossible())
    yield made
    made.close()
    shutil.rmtree(home)


def test_fetches_of_one_link_go_in_the_order_of_the_policy(office: Office):
    """Two readers on one node fetch from another; once its link is mended, the last is first."""
    network = office.transport.link("network")
    network.call(SetCapacity(link="r0n0.up", bytes_per_s=0.0), Done)
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.store("/in", [(70, "r0n0")])
    office.submit(stages=(StageSpec(name="m"), StageSpec(name="r", reads=("m",), tasks=4)))
    (launch,) = racks[0].wait_for(LaunchAttempt)
    racks[0].say(AttemptSucceeded(attempt=launch.attempt, partition_bytes=(10 * GB,) * 4))
    first, last = racks[1].wait_for(FetchOutput, 2)
    assert first.src == last.src == "r0n0"

    def rates() -> dict[str, float]:
        view = network.call(WatchNetwork(with_rates=True), NetworkView)
        return view.rates_bytes_per_s or {}

    while len(rates()) < 2:
        pass
    network.call(SetCapacity(link="r0n0.up", bytes_per_s=1e9), Done)
    assert rates() == {first.flow: 0.0, last.flow: pytest.approx(1e9)}


# Policies' own figures: who is asked, what they may give, what a broken policy costs.


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
    assert tiny_cluster().core.state.policies.hooks["figures"] == ()


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
