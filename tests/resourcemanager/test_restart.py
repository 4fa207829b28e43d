"""A ResourceManager in place of one that died: what it asks of whom, and what it does not."""

from __future__ import annotations

import errno
import functools
import os
import signal
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError, UsageError
from railyard.cluster.messages import (
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
    NodeJoined,
    NodeManagerHolds,
    RegisterNodeManager,
)
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import Reactor, now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done, Message, to_map
from railyard.dfs.messages import FileStatus, GetStatus, MoveFiles, Remove, Status
from railyard.jobs.model import StageSpec
from railyard.netemu.messages import OpenFlow, ResumeCoflows
from railyard.oracles.invariants import check_core
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.coredriver import core_for
from railyard.resourcemanager.driving.eventlog import checksum, read_log, replay
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import (
    JobsPredicted,
    JobSubmitted,
    StagePlan,
    TimerFired,
)
from railyard.resourcemanager.process.driver import Driver, Journal, whole_mark
from railyard.resourcemanager.process.main import main
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
from railyard.resourcemanager.process.progress import cluster_status
from railyard.resourcemanager.process.recovery import Follower, Recovered
from tests.cluster_fixture import MiniCluster
from tests.fulldisk import files_of_at_most, small_disk
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.standins import PACKAGE, Office, Rack
from tests.resourcemanager.test_replay import eventful_run
from tests.waiting import wait_for

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


# A ResourceManager that is stopped, replaced by another, and continued: it acts no more.


NAME = "resourcemanager"
ORDERS = (LoadJob, LaunchAttempt, KillAttempt, DiscardJob, FactsJournaled)


class SilentRack:
    """A stand-in for the NodeManager of r0, which goes on while ResourceManagers come and go."""

    def __init__(self, transport: Transport) -> None:
        self.reactor = transport.reactor
        self.orders: list[Message] = []
        self.connections = 0
        self._link = LastingLink(transport, NAME, self._register_again)
        for kind in ORDERS:
            self._link.on(kind, lambda order, _: self.orders.append(order))
        self._link.insist(self._registration(again=False), Done, lambda *_: None)

    def send(self, message: Message) -> None:
        self._link.send(message)

    def wait_for(self, kind: type, count: int) -> list[Any]:
        def came() -> list[Any]:
            return [order for order in self.orders if isinstance(order, kind)]

        assert self.reactor.run_until(lambda: len(came()) >= count, 10), kind
        return came()

    def _registration(self, *, again: bool) -> RegisterNodeManager:
        return RegisterNodeManager(rack="r0", pid=os.getpid(), nodes={"r0n0": 2}, again=again)

    def _register_again(self) -> None:
        self.connections += 1
        self._link.insist(self._registration(again=True), Done, self._hold)

    def _hold(self, *_: object) -> None:
        held = tuple(
            HeldAttempt(attempt=f"j1.m{task}.0", node="r0n0", has_slot=True, killed=False)
            for task in range(2)
        )
        self.send(NodeManagerHolds(rack="r0", attempts=held, flows=(), jobs=("j1",)))


def exists(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_it_ends_itself_and_the_other_goes_on(tmp_path_factory: Any):
    config = ClusterConfig(topology=tiny_cluster().topology)
    with MiniCluster(tmp_path_factory.mktemp("t"), config, {NAME: main}) as cluster:
        transport = Transport(cluster.folder)
        rack, ended = SilentRack(transport), list[JobEnded]()
        client = LastingLink(transport, NAME)
        client.on(JobEnded, lambda message, _: ended.append(message))
        wanted = SubmitJob(name="j", package=PACKAGE, stages=(StageSpec(name="m", tasks=2),))
        assert client.call(wanted, JobAccepted).job == "j1"
        rack.wait_for(LaunchAttempt, 2)

        old = cluster.pids[NAME]
        os.kill(old, signal.SIGSTOP)
        rack.send(AttemptSucceeded(attempt="j1.m0.0"))  # the old one has it, and has not read it
        cluster.start(NAME)
        assert transport.reactor.run_until(lambda: rack.connections == 1, 10)
        rack.send(AttemptSucceeded(attempt="j1.m0.0"))
        os.kill(old, signal.SIGCONT)
        wait_for(lambda: not exists(old), 10, "the old one ends")

        client.insist(WatchJob(job="j1"), Done, lambda *_: None)
        rack.send(AttemptSucceeded(attempt="j1.m1.0"))
        assert transport.reactor.run_until(lambda: bool(ended), 10), cluster.logs()
        assert ended[0].ok
        launched = [order.attempt for order in rack.wait_for(LaunchAttempt, 2)]
        assert sorted(launched) == ["j1.m0.0", "j1.m1.0"]  # each once
        rack.wait_for(DiscardJob, 1)
        told = [step.event for step in replay(cluster.folder.events)]
        succeeded = [each.attempt for each in told if isinstance(each, AttemptSucceeded)]
        assert succeeded == ["j1.m0.0", "j1.m1.0"]
        transport.close()


# The ResourceManager's journal: what is in it after a crash at any byte, and the core from it.


_STARTED_S = 1000.5


@functools.cache
def run_of(scheduler: str) -> TinyCluster:
    return eventful_run(scheduler)


@functools.cache
def journal_of(scheduler: str) -> bytes:
    c = run_of(scheduler)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        config = ClusterConfig(topology=c.topology, scheduler=scheduler, durability="fast")
        journal = Journal(path, config, _STARTED_S)
        for (at_s, event), commands in zip(c.events, c.led_to, strict=True):
            journal.write(at_s, event, commands)
        journal.close()
        return path.read_bytes()


def recovered_from(journal: bytes) -> Recovered:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "events.jsonl"
        path.write_bytes(journal)
        whole_mark(path).touch()
        return Follower(path).finish()


def state_of(core: Core) -> dict[str, Any]:
    """All that can be seen of a core, and its random numbers to come."""
    state = core.state
    return {
        "status": to_map(cluster_status(core, "maxmin", state.now_s, 0, {})),
        "records": [repr(record) for record in core.records.values()],
        "fetches": [
            (f.id, f.size_bytes, [o.id for o in f.outputs]) for f in core.shuffle.fetches.values()
        ],
        "attempts": [(a.id, a.state, a.progress, a.killing) for a in state.attempts.values()],
        "tasks": [
            (task.id, task.state, task.launches)
            for job in state.jobs.values()
            for stage in job.stages.values()
            for task in stage.tasks
        ],
        "random": state.random.getstate(),
    }


@pytest.mark.parametrize("scheduler", ["fair", "delay"])
@given(share=st.floats(0, 1))
@settings(max_examples=12)
def test_the_core_is_rebuilt_from_a_journal_cut_at_any_byte(scheduler: str, share: float):
    c, journal = run_of(scheduler), journal_of(scheduler)
    first = journal.index(b"\n") + 1
    cut = first + int(share * (len(journal) - first))
    recovered = recovered_from(journal[:cut])
    core, count = recovered.core, journal[:cut].count(b"\n") - 1
    assert (recovered.events, recovered.started_s) == (count, _STARTED_S)
    assert journal[: recovered.length_bytes].endswith(b"\n")
    check_core(core)
    lived = core_for(ClusterConfig(topology=c.topology, scheduler=scheduler))
    for at_s, event in c.events[:count]:
        lived.handle(event, at_s)
    assert state_of(core) == state_of(lived)
    for (at_s, event), commands in zip(c.events[count:], c.led_to[count:], strict=True):
        assert checksum(core.handle(event, at_s)) == checksum(commands)


@pytest.mark.parametrize("piece_bytes", [1, 700, 2**20])
def test_a_standby_follows_a_journal_that_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece_bytes: int
):
    monkeypatch.setattr("railyard.resourcemanager.process.recovery.PIECE_BYTES", piece_bytes)
    journal, path = journal_of("delay"), tmp_path / "events.jsonl"
    whole_mark(path).touch()
    path.touch()
    follower, cuts = Follower(path), range(0, len(journal), 997)
    for begin in cuts:
        assert not follower.advance()
        with path.open("ab") as file:
            file.write(journal[begin : begin + 997])
        while follower.advance():
            continue
    followed, at_once = follower.finish(), recovered_from(journal)
    assert state_of(followed.core) == state_of(at_once.core)
    assert followed.length_bytes == at_once.length_bytes == len(journal)
    assert followed.timers_s == at_once.timers_s


def test_timers_that_have_not_fired_are_known_after_each_event():
    c, lines = run_of("delay"), journal_of("delay").splitlines(keepends=True)
    waiting: dict[str, float] = {}
    most = 0
    for number, ((_, event), commands) in enumerate(zip(c.events, c.led_to, strict=True)):
        if isinstance(event, TimerFired):
            waiting.pop(event.timer, None)
        waiting |= {one.timer: one.at_s for one in commands if isinstance(one, SetTimer)}
        if len(waiting) > most or number == len(c.events) - 1:
            most = max(most, len(waiting))
            assert recovered_from(b"".join(lines[: number + 2])).timers_s == waiting
    assert most
    assert recovered_from(b"".join(lines)).job_number == 3


def damaged(change: Callable[[list[bytes]], None]) -> bytes:
    lines = journal_of("fair").splitlines(keepends=True)
    change(lines)
    return b"".join(lines)


def test_a_journal_that_is_damaged_in_the_middle_is_refused():
    advice = "can't be restarted: railyard down, then run the jobs again"
    torn = damaged(lambda lines: lines.__setitem__(40, lines[40][:20] + b"\n"))
    with pytest.raises(UsageError, match=rf"events.jsonl:41: JSONDecodeError.*{advice}"):
        recovered_from(torn)
    # an event that has led to something: those after it now lead to something else
    at = next(i for i, line in enumerate(journal_of("fair").splitlines()) if b"job-sub" in line)
    missing = damaged(lambda lines: lines.__delitem__(at))
    with pytest.raises(UsageError, match=rf"events.jsonl: an event is missing: .*{advice}"):
        recovered_from(missing)
    virtual = damaged(lambda lines: lines.__setitem__(0, lines[0].replace(b"started_s", b"begun")))
    with pytest.raises(UsageError, match=rf"events.jsonl:1: need started_s.*{advice}"):
        recovered_from(virtual)


def test_it_goes_on_after_the_last_whole_line(tmp_path: Path):
    path, journal = tmp_path / "events.jsonl", journal_of("fair")
    path.write_bytes(journal[:-7])
    whole_mark(path).touch()
    recovered = Follower(path).finish()
    config, _ = read_log(path)
    again = Journal(path, config, recovered.started_s, resume_bytes=recovered.length_bytes)
    at_s = recovered.core.state.now_s + 1
    again.write(at_s, NodeJoined(node="r0n0", rack="r0", slots=3))
    again.close()
    lines = path.read_bytes().splitlines()
    assert lines[:-1] == journal.splitlines()[:-1]
    assert [logged.at_s for logged in read_log(path)[1]][-1] == at_s


def driver_on(path: Path) -> Driver:
    config = ClusterConfig(topology=tiny_cluster().topology, durability="safe")
    return Driver(core_for(config), Journal(path, config, now_s()), Reactor(), now_s())


def test_commands_go_out_once_their_events_are_journaled(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    driver, journaled = driver_on(path), list[int]()
    driver.on(LaunchAttempt, lambda _: journaled.append(path.read_bytes().count(b"job-submitted")))
    driver.feed(NodeJoined(node="r0n0", rack="r0", slots=2))
    stages = (StagePlan(name="m", tasks=2),)
    driver.feed(JobSubmitted(job="j1", name="j", user="u", queue="q", stages=stages))
    assert not journaled
    driver.settle()
    assert journaled == [1, 1]
    driver.settle()
    assert len(journaled) == 2
    driver.feed(JobsPredicted(jobs=()))
    assert b"jobs-predicted" not in path.read_bytes()  # it led to nothing: nobody waits for it
    driver.settle()
    assert b"jobs-predicted" in path.read_bytes()


def test_a_full_disk_has_room_for_the_journal(tmp_path: Path):
    with small_disk(tmp_path / "disk", 2**23) as disk:
        path = tmp_path / "disk" / "events.jsonl"
        driver = driver_on(path)
        disk.fill()
        with pytest.raises(OSError, match="No space left"):
            (tmp_path / "disk" / "other").write_bytes(bytes(10_000))
        for _ in range(1000):
            driver.feed(JobsPredicted(jobs=()))
        driver.settle()
        assert whole_mark(path).exists()
        assert Follower(path).finish().events == 1000
        disk.free()


def test_a_disk_that_fails_to_sync_ends_the_journal_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "events.jsonl"
    driver, launched = driver_on(path), list[object]()
    driver.on(LaunchAttempt, launched.append)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("railyard.resourcemanager.process.driver.sync_file", fail)
    driver.feed(NodeJoined(node="r0n0", rack="r0", slots=2))
    stages = (StagePlan(name="m", tasks=2),)
    driver.feed(JobSubmitted(job="j1", name="j", user="u", queue="q", stages=stages))
    driver.settle()
    assert len(launched) == 2
    assert any("log of events ends" in said for said in caplog.messages)
    with pytest.raises(UsageError, match="lacks events"):
        Follower(path).finish()


def test_a_journal_waits_for_a_disk_that_is_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "events.jsonl"
    driver = driver_on(path)

    def fail(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    with monkeypatch.context() as patched:
        patched.setattr("railyard.resourcemanager.driving.eventlog.os.write", fail)
        driver.feed(NodeJoined(node="r0n0", rack="r0", slots=2))
        assert not driver.journal_all()
    assert any("can't be written from" in said for said in caplog.messages)
    assert driver.journal_all()
    assert Follower(path).finish().events == 1


def test_a_journal_that_lacks_events_is_not_used(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    driver = driver_on(path)
    with files_of_at_most(path.stat().st_size + 10):
        driver.feed(NodeJoined(node="r0n0", rack="r0", slots=2))
        driver.journal_all()
    with pytest.raises(UsageError, match="lacks events, as its disk was full: the ResourceMan"):
        Follower(path).finish()
    driver.journal_all()
    assert Follower(path).finish().events == 1
