"""A ResourceManager in place of one that died: what it asks of whom, and what it does not."""

from __future__ import annotations

from typing import Any

from railyard.cluster.errors import PeerError
from railyard.cluster.messages.execution import (
    AttemptKilled,
    AttemptStarted,
    AttemptSucceeded,
    CancelFlow,
    DiscardJob,
    FactsJournaled,
    FetchOutput,
    FlowFinished,
    HeldAttempt,
    KillAttempt,
    LaunchAttempt,
    LoadJob,
)
from railyard.cluster.messaging.wire import Done
from railyard.dfs.messages.files import FileStatus, GetStatus, MoveFiles, Remove, Status
from railyard.jobs.model import StageSpec
from railyard.netemu.messages import OpenFlow, ResumeCoflows
from railyard.resourcemanager.process.messages import (
    ClusterStatus,
    GetClusterStatus,
    JobAccepted,
    JobEnded,
    KillJob,
    SetSlots,
    SubmitJob,
    WatchJob,
)
from tests.resourcemanager.standins import PACKAGE, Office, Rack

MAPS = (StageSpec(name="m"),)


def held(attempt: str, node: str, *, has_slot: bool = True, killed: bool = False) -> HeldAttempt:
    return HeldAttempt(attempt=attempt, node=node, has_slot=has_slot, killed=killed)


def running(office: Office) -> list[str]:
    nodes = office.client.call(GetClusterStatus(), ClusterStatus).nodes
    return sorted(attempt for node in nodes for attempt in node.attempts)


def two_maps(office: Office, **job: Any) -> tuple[Rack, str]:
    """A job whose two maps are launched on one rack."""
    rack = Rack(office, "r0")
    office.store("/in", [(70, "r0n0"), (70, "r0n0")])
    job_id = office.submit(**{"stages": MAPS, **job})
    rack.wait_for(LaunchAttempt, 2)
    return rack, job_id


def settled(office: Office, rack: Rack) -> None:
    """Wait until all that the rack has sent was handled, and all that follows has come."""
    office.client.call(GetClusterStatus(), ClusterStatus)
    rack.link.call(SetSlots(node=rack.node, slots=2), Done)


def test_attempts_run_on_and_their_ends_are_heard(office: Office):
    rack, job = two_maps(office)
    office.restart()
    assert running(office) == ["j1.m0.0", "j1.m1.0"]
    rack.go_on([held("j1.m0.0", "r0n0"), held("j1.m1.0", "r0n0")], jobs=[job])
    office.client.call(WatchJob(job=job), Done)
    for attempt in ("j1.m0.0", "j1.m1.0"):
        rack.say(AttemptSucceeded(attempt=attempt, output_bytes=10))
    office.wait(lambda: any(isinstance(message, JobEnded) for message in office.received))
    assert office.received[-1].ok
    assert not rack.ordered(LaunchAttempt)
    rack.wait_for(DiscardJob)
    office.wait(lambda: not list(office.folder.jobs.glob("*.job")))


def test_what_ended_meanwhile_is_told_again_and_nothing_runs_twice(office: Office):
    rack, job = two_maps(office)
    ended = AttemptSucceeded(attempt="j1.m0.0", output_bytes=10)
    office.restart()
    facts = [AttemptStarted(attempt="j1.m0.0", pid=7), ended, ended]
    rack.go_on([held("j1.m1.0", "r0n0")], jobs=[job], facts=facts)
    office.wait(lambda: running(office) == ["j1.m1.0"])
    office.wait(lambda: sum(order.count for order in rack.ordered(FactsJournaled)) == 3)
    assert not rack.ordered(LaunchAttempt)
    assert not rack.ordered(KillAttempt)


def test_orders_that_were_lost_are_told_again(office: Office):
    rack, job = two_maps(office)
    office.restart()
    rack.go_on()
    launches = rack.wait_for(LaunchAttempt, 2)
    assert [type(order) for order in rack.orders][:3] == [LoadJob, LaunchAttempt, LaunchAttempt]
    assert sorted(launch.attempt for launch in launches) == ["j1.m0.0", "j1.m1.0"]
    assert rack.ordered(LoadJob)[0].package == PACKAGE
    assert all(launch.task.splits and launch.begins for launch in launches)
    assert job == "j1"


def test_what_the_journal_does_not_know_is_ended(office: Office):
    rack, job = two_maps(office)
    office.client.call(KillJob(job=job), Done)
    office.restart()
    attempts = [held("j1.m0.0", "r0n0"), held("j9.m0.0", "r0n0")]
    rack.go_on(attempts, flows=["j9.m0.0:r1n0:0"], jobs=[job, "j9"])
    killed = {kill.attempt: kill.reason for kill in rack.wait_for(KillAttempt, 2)}
    assert killed["j1.m0.0"] == "the job failed"
    assert "does not know it" in killed["j9.m0.0"]
    assert [cancel.flow for cancel in rack.wait_for(CancelFlow)] == ["j9.m0.0:r1n0:0"]
    assert rack.wait_for(DiscardJob)[0].job == "j9"
    assert running(office) == ["j1.m0.0"]  # the other was killed before it was launched
    rack.say(AttemptKilled(attempt="j1.m0.0"))
    rack.wait_for(DiscardJob, 2)
    office.wait(lambda: any(isinstance(said, Remove) for said in office.namenode_said))
    office.wait(lambda: not list(office.folder.jobs.glob("*.job")))


def test_flows_are_told_to_the_network_and_to_readers_that_lack_them(office: Office):
    racks = [Rack(office, "r0"), Rack(office, "r1")]
    office.store("/in", [(70, "r0n0"), (70, "r1n0")])
    job = office.submit()
    for rack in racks:
        (launch,) = rack.wait_for(LaunchAttempt)
        rack.say(AttemptSucceeded(attempt=launch.attempt, partition_bytes=(90,)))
    office.wait(lambda: sum(len(rack.ordered(FetchOutput)) for rack in racks) == 2)
    reader = next(rack for rack in racks if rack.ordered(FetchOutput))
    other = next(rack for rack in racks if rack is not reader)
    fetches = {fetch.src: fetch for fetch in reader.ordered(FetchOutput)}
    reduce = reader.ordered(LaunchAttempt)[-1]
    near, far = fetches[reader.node], fetches[other.node]
    office.wait(lambda: any(isinstance(said, OpenFlow) for said in office.network_said))
    office.network_said.clear()
    office.restart()
    other.go_on(jobs=[job])
    reader.go_on([held(reduce.attempt, reader.node)], flows=[far.flow], jobs=[job])
    assert [fetch.flow for fetch in reader.wait_for(FetchOutput)] == [near.flow]
    office.wait(lambda: office.network_said)
    (resumed,) = [said for said in office.network_said if isinstance(said, ResumeCoflows)]
    assert resumed.coflows == ("j1.r",)
    (flow,) = resumed.flows
    assert (flow.flow, flow.src, flow.dst, flow.size_bytes) == (
        far.flow, other.node, reader.node, 90,
    )  # fmt: skip
    for fetch in (near, far):
        reader.say(FlowFinished(flow=fetch.flow))
    reader.say(AttemptSucceeded(attempt=reduce.attempt, output_bytes=33))
    office.wait(lambda: any(isinstance(said, MoveFiles) for said in office.namenode_said))
    assert not [said for said in office.network_said if isinstance(said, OpenFlow)]


def test_a_commit_that_was_done_is_found_done(office: Office):
    rack, job = two_maps(office)
    server = office._namenode_server

    def refuse(_: Any) -> None:
        raise PeerError("/out/_temporary: nothing is there")

    server.on(MoveFiles, lambda request: office.namenode_said.append(request.message))
    for attempt in ("j1.m0.0", "j1.m1.0"):
        rack.say(AttemptSucceeded(attempt=attempt, output_bytes=10))
    office.wait(lambda: office.namenode_said)  # it was done, and the answer did not come
    server.on(MoveFiles, refuse)
    done = FileStatus(path="/out/_SUCCESS", folder=False)
    server.on(GetStatus, lambda request: Status(status=done))
    office.restart()
    office.client.call(WatchJob(job=job), Done)
    office.wait(lambda: any(isinstance(message, JobEnded) for message in office.received))
    assert office.received[-1].ok


def test_a_submission_that_comes_again_is_the_same_job(office: Office):
    rack, _ = two_maps(office, token="t1")
    wanted = SubmitJob(name="w", package=PACKAGE, stages=MAPS, input_paths=("/in",), token="t1")
    assert office.client.call(wanted, JobAccepted).job == "j1"
    office.restart()
    assert office.client.call(wanted, JobAccepted).job == "j1"
    rack.go_on([held("j1.m0.0", "r0n0"), held("j1.m1.0", "r0n0")], jobs=["j1"])
    settled(office, rack)
    assert office.submit(stages=MAPS, output_path="/other") == "j2"


def test_a_nodemanager_that_does_not_come_back_is_lost(folder: Any):
    office = Office(folder, heartbeat=0.05, expiry_s=0.3)
    try:
        two_maps(office)
        office.restart()
        office.wait(lambda: not running(office))
        other = Rack(office, "r1")
        assert {launch.attempt for launch in other.wait_for(LaunchAttempt, 2)} == {
            "j1.m0.1", "j1.m1.1",
        }  # fmt: skip
    finally:
        office.close()
