"""What a scheduler's flow policy asks of the network gets there: core, emulator, rates."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.messages.execution import (
    AttemptSucceeded,
    FetchOutput,
    LaunchAttempt,
    StartFlow,
)
from railyard.cluster.messaging.wire import Done
from railyard.jobs.model import StageSpec
from railyard.netemu.messages import NetworkView, SetCapacity, WatchNetwork
from railyard.netemu.schedulers.afap import AsFastAsPossible
from railyard.resourcemanager.driving import makecore
from railyard.resourcemanager.interface.decisions import InvalidDecision
from railyard.resourcemanager.interface.policies import FlowPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers.fair import FairOrder
from tests.harness import tiny_cluster
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
    monkeypatch.setattr(makecore, "recipe_named", lambda _: LAST_FIRST)
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
