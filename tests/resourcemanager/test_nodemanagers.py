"""NodeManagers as the ResourceManager sees them: alive, silent, gone, back."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from railyard.cluster.errors import Refused
from railyard.cluster.messages import (
    AttemptKilled,
    AttemptReady,
    AttemptSucceeded,
    BeginAttempt,
    DiscardJob,
    FetchOutput,
    FlowFailed,
    FlowFinished,
    KillAttempt,
    LaunchAttempt,
    LoadJob,
    NodeManagerHeartbeat,
)
from railyard.cluster.messaging.wire import Done
from railyard.cluster.runfolder import RunFolder
from railyard.jobs.model import StageSpec
from railyard.netemu.messages import CloseFlow
from railyard.resourcemanager.driving import coredriver
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    GetClusterStatus,
    KillJob,
    SetSlots,
)
from tests.resourcemanager.standins import Office, Rack
from tests.resourcemanager.toys import ReservesReduces
from tests.resourcemanager.toys import reserving as reserving_recipe


def hang_up(office: Office, rack: Rack) -> None:
    """The rack's NodeManager dies, and the ResourceManager's socket has noticed."""
    rack.link.close()
    peer = office.manager._managers._by_rack[rack.rack].peer
    office.wait(lambda: not office.manager._server.push(peer, Done()))


def test_a_node_manager_that_is_gone_is_waited_for_and_what_it_ran_is_run_again(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.store("/in", [(70, "r0n0"), (70, "r1n0")])
    office.submit()
    racks[0].wait_for(LaunchAttempt)
    hang_up(office, racks[0])
    office.submit(output_path="/out2")  # one of its maps is for r0n0, which can't be reached
    racks[1].wait_for(LaunchAttempt, 2)
    nodes = office.client.call(GetClusterStatus(), ClusterStatus).nodes
    assert [(n.node, n.alive, len(n.attempts)) for n in nodes] == [
        ("r0n0", True, 2),
        ("r1n0", True, 2),
    ]
    back = Rack(office, "r0")
    launched = [launch.attempt for launch in back.wait_for(LaunchAttempt, 2)]
    assert sorted(launched) == ["j1.m0.1", "j2.m0.1"]
    assert len(back.ordered(LoadJob)) == 2


def test_output_that_a_node_manager_has_found_again_is_fetched_from_it(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.store("/in", [(70, "r0n0"), (70, "r0n0"), (70, "r1n0")])
    job = office.submit()
    for rack, count in ((racks[0], 2), (racks[1], 1)):
        for launch in rack.wait_for(LaunchAttempt, count):
            rack.say(AttemptSucceeded(attempt=launch.attempt, partition_bytes=(90,)))
    office.wait(lambda: sum(len(rack.ordered(FetchOutput)) for rack in racks) == 2)
    reader = next(rack for rack in racks if rack.ordered(FetchOutput))
    source = racks[1 - racks.index(reader)]
    asked = next(o for o in reader.ordered(FetchOutput) if o.src == source.node)
    hang_up(office, source)
    gone = FlowFailed(flow=asked.flow, reason=f"nodemanager-{source.rack} is gone", gone=True)
    reader.say(gone)
    reader.wait_for(FetchOutput, 3)
    found = asked.outputs[:1]
    back = Rack(office, source.rack, outputs=[*found, "j9.m0.0"], jobs=[job, "j9"])
    assert reader.wait_for(FetchOutput, 4)[3].outputs == found
    assert back.wait_for(DiscardJob)[0].job == "j9"
    closed = {each.flow for each in office.network_said if isinstance(each, CloseFlow)}
    assert closed == {order.flow for order in reader.ordered(FetchOutput)[:3]} - {
        order.flow for order in reader.ordered(FetchOutput) if order.src == reader.node
    }
    lost = len(asked.outputs) - 1
    launched = [o for rack in (reader, back) for o in rack.ordered(LaunchAttempt)]
    assert sum(launch.attempt.endswith(".1") for launch in launched) == lost
    office.client.call(KillJob(job=job), Done)
    (kill,) = reader.wait_for(KillAttempt)
    reader.say(AttemptKilled(attempt=kill.attempt))
    for launch in back.ordered(LaunchAttempt):
        back.say(AttemptKilled(attempt=launch.attempt))
    assert back.wait_for(DiscardJob, 2)[1].job == job  # though it has nothing but files of it


def test_orders_that_could_not_be_sent_are_made_good_when_the_connection_holds(office: Office):
    rack = Rack(office, "r0")
    office.store("/in", [(70, "r0n0")])
    office.submit(stages=(StageSpec(name="m"),))
    rack.wait_for(LaunchAttempt)
    office.manager._managers._by_rack["r0"].is_unreachable = True
    rack.say(NodeManagerHeartbeat(rack="r0", nodes=("r0n0",)))
    assert rack.wait_for(KillAttempt)[0].attempt == "j1.m0.0"
    assert rack.wait_for(LaunchAttempt, 2)[1].attempt == "j1.m0.1"


def test_a_silent_node_manager_is_given_up_and_may_come_back(folder: RunFolder):
    office = Office(folder, heartbeat=0.05, expiry_s=0.3)
    try:
        rack = Rack(office, "r0")
        office.store("/in", [(70, "r0n0")])
        office.submit()
        (launch,) = rack.wait_for(LaunchAttempt)
        world = office.manager._driver.core.state
        office.wait(lambda: not world.nodes["r0n0"].alive)
        assert "was silent for" in world.nodes["r0n0"].lost_because
        rack.say(NodeManagerHeartbeat(rack="r0", nodes=("r0n0",)))
        assert rack.wait_for(KillAttempt)[0].attempt == launch.attempt
        assert rack.wait_for(LaunchAttempt, 2)[1].attempt.endswith(".m0.1")
    finally:
        office.close()


def test_a_silent_node_manager_whose_process_runs_is_given_more_time(folder: RunFolder):
    office = Office(folder, heartbeat=0.05, expiry_s=0.11)
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        Rack(office, "r0", pid=sleeper.pid)
        Rack(office, "r1")
        nodes = office.manager._driver.core.state.nodes
        office.wait(lambda: not nodes["r1n0"].alive)
        office.wait(lambda: len(office.manager._managers._machine.silences_s) == 1)
        assert nodes["r0n0"].alive
        sleeper.send_signal(signal.SIGSTOP)
        office.wait(lambda: not nodes["r0n0"].alive)
    finally:
        sleeper.kill()
        sleeper.wait()
        office.close()


def test_time_in_which_the_resourcemanager_is_held_up_is_no_silence(folder: RunFolder):
    office = Office(folder, heartbeat=0.05, expiry_s=0.3)
    try:
        rack = Rack(office, "r0")
        time.sleep(0.5)  # as a long computation of its own holds it up
        office.manager._managers._expire()
        assert office.manager._driver.core.state.nodes["r0n0"].alive
        rack.say(NodeManagerHeartbeat(rack="r0", nodes=("r0n0",)))
        time.sleep(0.5)
        office.wait(lambda: not office.manager._driver.core.state.nodes["r0n0"].alive)
    finally:
        office.close()


@pytest.fixture
def reserving(folder: RunFolder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Office]:
    """A scheduler that reserves r1n0 for the reduce, and two racks."""

    class Reduces(ReservesReduces):
        nodes = ("r1n0",)

    recipe = reserving_recipe(Reduces)
    monkeypatch.setattr(coredriver, "recipe_named", lambda _: recipe)
    office = Office(folder, recipe.name, heartbeat=0.05, expiry_s=0.3)
    yield office
    office.close()


def test_an_attempt_without_a_slot_is_heard_and_told_to_begin(reserving: Office):
    racks = [Rack(reserving, "r0"), Rack(reserving, "r1")]
    reserving.store("/in", [(70, "r0n0")])
    reserving.submit()
    (launch,) = racks[1].wait_for(LaunchAttempt)
    assert (launch.attempt, launch.begins) == ("j1.r0.0", False)
    (read,) = racks[0].wait_for(LaunchAttempt)
    assert read.begins
    racks[0].say(AttemptSucceeded(attempt=read.attempt, partition_bytes=(90,)))
    (fetch,) = racks[1].wait_for(FetchOutput)
    with pytest.raises(Refused, match="did not come from its NodeManager"):
        racks[0].link.call(AttemptReady(attempt=launch.attempt), Done)
    node = reserving.client.call(GetClusterStatus(), ClusterStatus).nodes[1]
    assert (node.attempts, node.reserved) == ((), (launch.attempt,))
    racks[1].say(FlowFinished(flow=fetch.flow))
    racks[1].say(AttemptReady(attempt=launch.attempt))
    assert racks[1].wait_for(BeginAttempt)[0].attempt == launch.attempt
    node = reserving.client.call(GetClusterStatus(), ClusterStatus).nodes[1]
    assert (node.attempts, node.reserved) == ((launch.attempt,), ())


def test_an_attempt_without_a_slot_is_ended_when_its_silent_node_is_back(reserving: Office):
    rack = Rack(reserving, "r1")
    reserving.store("/in", [(70, "r1n0")])
    reserving.submit()
    launched = {launch.attempt for launch in rack.wait_for(LaunchAttempt, 2)}
    world = reserving.manager._driver.core.state
    reserving.wait(lambda: not world.nodes["r1n0"].alive)
    rack.say(NodeManagerHeartbeat(rack="r1", nodes=("r1n0",)))
    assert {kill.attempt for kill in rack.wait_for(KillAttempt, 2)} == launched


def test_a_dead_rack_is_given_up_though_its_work_first_goes_to_its_other_node(folder: RunFolder):
    """The order to run it there is held until the other node is given up, too."""
    office = Office(folder, heartbeat=0.05, expiry_s=0.3)
    try:
        rack = Rack(office, "r0", nodes=2)
        office.store("/in", [(70, "r0n0")])
        office.submit(stages=(StageSpec(name="m"),))
        rack.wait_for(LaunchAttempt)
        rack.link.close()
        world = office.manager._driver.core.state
        office.wait(lambda: not any(node.alive for node in world.nodes.values()))
        silent = "its NodeManager was silent for"
        assert all(node.lost_because.startswith(silent) for node in world.nodes.values())
        (launch,) = Rack(office, "r1").wait_for(LaunchAttempt)
        assert launch.attempt == "j1.m0.2"
    finally:
        office.close()


def test_a_node_that_its_manager_no_longer_uses_is_lost(office: Office):
    rack = Rack(office, "r0")
    rack.say(NodeManagerHeartbeat(rack="r0", nodes=()))
    world = office.manager._driver.core.state
    office.wait(lambda: not world.nodes["r0n0"].alive)
    assert world.nodes["r0n0"].lost_because == "its NodeManager can't use it any more"


def test_slots_that_are_set_stay_so_when_the_nodemanager_starts_anew(office: Office):
    def slots() -> dict[str, tuple[int, bool]]:
        nodes = office.client.call(GetClusterStatus(), ClusterStatus).nodes
        return {node.node: (node.slots, node.alive) for node in nodes}

    office.client.call(SetSlots(node="r0n0", slots=3), Done)  # before it has joined
    Rack(office, "r0")
    Rack(office, "r1")
    assert slots() == {"r0n0": (3, True), "r1n0": (2, True)}
    office.client.call(SetSlots(node="r1n0", slots=0), Done)
    Rack(office, "r1")
    assert slots() == {"r0n0": (3, True), "r1n0": (0, True)}
    office.store("/in", [(70, "r1n0")])
    office.submit()
    office.client.call(SetSlots(node="r0n0", slots=0), Done)
    assert len(list(replay(office.folder.jobs / "events.jsonl"))) == 6
    with pytest.raises(Refused, match="r7n7 is no node of this topology"):
        office.client.call(SetSlots(node="r7n7", slots=1), Done)
