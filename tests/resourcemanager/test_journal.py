"""The ResourceManager's journal: what is in it after a crash at any byte, and the core from it."""

from __future__ import annotations

import errno
import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.messages.execution import LaunchAttempt, NodeJoined
from railyard.cluster.messaging.reactor import Reactor, now_s
from railyard.cluster.messaging.wire import to_map
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.driving.eventlog import checksum, read_log
from railyard.resourcemanager.driving.makecore import core_for
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import (
    JobsPredicted,
    JobSubmitted,
    StagePlan,
    TimerFired,
)
from railyard.resourcemanager.process.driver import Driver
from railyard.resourcemanager.process.progress import cluster_status
from railyard.resourcemanager.process.restart.following import Follower, Recovered, recover
from railyard.resourcemanager.process.restart.journal import Journal, whole_mark
from tests.fulldisk import files_of_at_most, small_disk
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.test_replay import eventful_run

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
        return recover(path)


def state_of(core: Core) -> dict[str, Any]:
    """All that can be seen of a core, and its random numbers to come."""
    state = core.state
    return {
        "status": to_map(cluster_status(core, state.topology, "maxmin", state.now_s, 0, {})),
        "records": [repr(record) for record in core.records.values()],
        "fetches": [(f.id, f.size_bytes, [o.id for o in f.outputs]) for f in core.fetches.values()],
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
    core.check_invariants()
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
    monkeypatch.setattr(
        "railyard.resourcemanager.process.restart.following.PIECE_BYTES", piece_bytes
    )
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
    recovered = recover(path)
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
        assert recover(path).events == 1000
        disk.free()


def test_a_disk_that_fails_to_sync_ends_the_journal_and_not_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    path = tmp_path / "events.jsonl"
    driver, launched = driver_on(path), list[object]()
    driver.on(LaunchAttempt, launched.append)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("railyard.resourcemanager.process.restart.journal.sync_file", fail)
    driver.feed(NodeJoined(node="r0n0", rack="r0", slots=2))
    stages = (StagePlan(name="m", tasks=2),)
    driver.feed(JobSubmitted(job="j1", name="j", user="u", queue="q", stages=stages))
    driver.settle()
    assert len(launched) == 2
    assert any("log of events ends" in said for said in caplog.messages)
    with pytest.raises(UsageError, match="lacks events"):
        recover(path)


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
    assert recover(path).events == 1


def test_a_journal_that_lacks_events_is_not_used(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    driver = driver_on(path)
    with files_of_at_most(path.stat().st_size + 10):
        driver.feed(NodeJoined(node="r0n0", rack="r0", slots=2))
        driver.journal_all()
    with pytest.raises(UsageError, match="lacks events, as its disk was full: the ResourceMan"):
        recover(path)
    driver.journal_all()
    assert recover(path).events == 1
