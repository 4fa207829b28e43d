"""Same events, same commands: in a fresh core, from the log, and in another Python process."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import InvariantError, UsageError
from railyard.cluster.messages import NodeJoined
from railyard.cluster.messaging.reactor import Reactor, now_s
from railyard.netemu.record import CircuitUse
from railyard.resourcemanager.driving.coredriver import core_for
from railyard.resourcemanager.driving.eventlog import EventLog, read_log, replay
from railyard.resourcemanager.driving.trace import chrome_trace, optical_rows
from railyard.resourcemanager.process.driver import Driver, Journal
from tests.fulldisk import files_of_at_most
from tests.harness import TinyCluster, tiny_cluster

ROOT = Path(__file__).resolve().parents[2]

#: Prints the events file of a run with faults, jobs of several users and ties.
RUN = """
import sys
from pathlib import Path
from tests.resourcemanager.test_replay import eventful_run, write_log
write_log(eventful_run(sys.argv[1]), Path(sys.argv[2]))
"""


def eventful_run(scheduler: str) -> TinyCluster:
    """Jobs, failures, a lost node, a broken fetch."""
    c = tiny_cluster(racks=2, nodes=3, slots=2, scheduler=scheduler, flow_s=0.5)
    nodes = [node.id for node in c.topology.nodes()]
    c.failure = lambda attempt, node: "boom" if attempt in ("j1.m2.0", "j2.r0.0") else None
    for job in range(4):
        blocks = [[nodes[(job + b) % 6], nodes[(job + 2 * b + 3) % 6]] for b in range(9)]
        c.store(f"in{job}", blocks=blocks)
        submit = {"input": f"in{job}", "reduces": job, "user": f"u{job % 2}"}
        c.at(job * 0.5, lambda job=job, submit=submit: c.submit(f"j{job}", **submit))
    c.at(2.0, lambda: c.lose("r1n0"))
    c.at(4.0, lambda: c.join("r1n0"))
    c.run()
    return c


def write_log(c: TinyCluster, path: Path) -> None:
    config = ClusterConfig(topology=c.topology, scheduler=c.core.state.policies.name)
    log = EventLog(path, config)
    for (at_s, event), commands in zip(c.events, c.led_to, strict=True):
        log.write(at_s, event, commands)
    log.close()


@pytest.mark.parametrize("scheduler", ["fair", "capacity", "delay"])
def test_a_fresh_core_gives_the_same_commands(scheduler: str, tmp_path: Path):
    c = eventful_run(scheduler)
    write_log(c, tmp_path / "events.jsonl")
    replayed = [
        (step.at_s, command)
        for step in replay(tmp_path / "events.jsonl")
        for command in step.commands
    ]
    assert len(replayed) > 100
    assert replayed == c.commands


@pytest.mark.parametrize("scheduler", ["fair", "delay"])
def test_the_same_events_whatever_the_hash_seed(scheduler: str, tmp_path: Path):
    logs = []
    for hash_seed in ("1", "2"):
        path = tmp_path / f"{hash_seed}.jsonl"
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", RUN, scheduler, str(path)]
        subprocess.run(command, check=True, env=environment, cwd=ROOT)
        logs.append(path.read_text())
    assert logs[0].count("\n") > 100
    assert logs[0] == logs[1]


def test_a_line_cut_short_is_left_out(tmp_path: Path):
    path = tmp_path / "events.jsonl"
    write_log(eventful_run("fair"), path)
    whole = list(replay(path))
    path.write_text(path.read_text()[:-7])
    assert len(list(replay(path))) == len(whole) - 1


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        pytest.param("", ":1: need a line of type run-started", id="empty"),
        pytest.param("{}\n", ":1: need a line of type run-started", id="no header"),
        pytest.param("nonsense\n", ":1: Expecting value", id="no JSON"),
        pytest.param("\xff\n", "is no log of events: need text in UTF-8", id="no text"),
        pytest.param(None, "cannot be read: No such file", id="no file"),
        pytest.param('HEADER{"at_s": 1.0, "type": "x"}\n', ":2: PeerError: unknown", id="event"),
    ],
)
def test_what_is_no_log_is_refused(lines: str | None, error: str, tmp_path: Path):
    path = tmp_path / "events.jsonl"
    write_log(tiny_cluster(), path)
    if lines is None:
        path.unlink()
    else:
        header = path.read_text().splitlines(keepends=True)[0]
        path.write_text(lines.replace("HEADER", header), encoding="latin-1")
    with pytest.raises(UsageError, match=error):
        list(read_log(path)[1])


def test_the_event_that_broke_a_law_is_in_the_log(tmp_path: Path):
    config = ClusterConfig(topology=tiny_cluster().topology)
    log = Journal(tmp_path / "e", config, now_s())
    driver = Driver(core_for(config), log, Reactor(), now_s())
    driver.core.state.now_s = 1e9  # so that the clock goes backwards
    with pytest.raises(InvariantError, match="comes after"):
        driver.feed(NodeJoined(node="r0n0", rack="r0", slots=1))
    assert "node-joined" in (tmp_path / "e").read_text()
    log.close()


def test_the_trace_shows_each_attempt_in_a_lane_of_its_node(tmp_path: Path):
    c = eventful_run("fair")
    write_log(c, tmp_path / "events.jsonl")
    rows = chrome_trace(replay(tmp_path / "events.jsonl"))["traceEvents"]
    json.dumps(rows)
    names = {row["pid"]: row["args"]["name"] for row in rows if row["name"] == "process_name"}
    assert sorted(names.values()) == ["network", "r0n0", "r0n1", "r0n2", "r1n0", "r1n1", "r1n2"]
    slices = [row for row in rows if row.get("cat") == "attempt"]
    launched = sum(record.launched for record in c.core.records.values())
    assert len(slices) == launched
    outcomes = {row["args"]["outcome"] for row in slices}
    assert {"succeeded", "failed", "lost with its node"} <= outcomes
    for lane in {(row["pid"], row["tid"]) for row in slices}:
        spans = sorted(
            (row["ts"], row["ts"] + row["dur"])
            for row in slices
            if (row["pid"], row["tid"]) == lane
        )
        assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(spans))
    assert {row["ph"] for row in rows if row.get("cat") == "coflow"} == {"B", "E"}


def test_the_trace_of_a_node_that_started_anew_before_it_was_missed(tmp_path: Path):
    c = tiny_cluster(nodes=1, slots=1)
    c.submit("j0", maps=1, map_s=5)
    c.run(until_s=1.0)
    c._workers.clear()
    c.join("r0n0")
    c.run()
    write_log(c, tmp_path / "events.jsonl")
    rows = chrome_trace(replay(tmp_path / "events.jsonl"))["traceEvents"]
    outcomes = [row["args"]["outcome"] for row in rows if row.get("cat") == "attempt"]
    assert outcomes == ["lost with its node", "succeeded"]


def a_log(path: Path) -> EventLog:
    return EventLog(path, ClusterConfig(topology=tiny_cluster().topology))


def test_lines_wait_while_the_disk_is_full(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, event = a_log(tmp_path / "e"), NodeJoined(node="r0n0", rack="r0", slots=1)
    log.write(1.0, event)
    with files_of_at_most((tmp_path / "e").stat().st_size + 10):
        log.write(2.0, event)
        log.write(3.0, event)
    assert [line.count('"at_s"') for line in (tmp_path / "e").read_text().split("\n")][2:] == [1]
    log.write(4.0, event)
    log.close()
    [warning] = caplog.messages
    assert warning.startswith("the log of events waits for room from 2.000 s on: a file would be")
    assert [noted.at_s for noted in read_log(tmp_path / "e")[1]] == [1.0, 2.0, 3.0, 4.0]


def test_a_disk_that_stays_full_cuts_the_log_short_and_ends_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, event = a_log(tmp_path / "e"), NodeJoined(node="r0n0", rack="r0", slots=1)
    with files_of_at_most((tmp_path / "e").stat().st_size):
        log.write(1.0, event)
        log.close()
    assert caplog.messages[-1].startswith("the log of events is cut short: a file would be")
    assert list(read_log(tmp_path / "e")[1]) == []
    log = a_log(tmp_path / "e")
    monkeypatch.setattr("railyard.resourcemanager.driving.eventlog._UNWRITTEN_BYTES_MAX", 0)
    with files_of_at_most((tmp_path / "e").stat().st_size):
        log.write(1.0, event)
        log.write(2.0, event)
    log.close()
    assert "the log of events ends at 1.000 s: a file would be" in caplog.messages[-1]


# Circuits in the trace: each shows at both its ports, dark and then lit.


def test_a_circuit_is_dark_then_lit_at_both_ports():
    rows = optical_rows([CircuitUse("r0", "r10", "a", 1.0, 1.5, 3.0)], process=7)
    assert [row["args"]["name"] for row in rows[:3]] == [
        "optical ports",
        "r0.ocs.up",
        "r10.ocs.down",
    ]
    assert {row["pid"] for row in rows} == {7}
    phases = [(r["tid"], r["args"]["phase"], r["ts"], r["dur"]) for r in rows if r["ph"] == "X"]
    assert phases == [
        (0, "dark", 1.0e6, 0.5e6),
        (0, "lit", 1.5e6, 1.5e6),
        (1, "dark", 1.0e6, 0.5e6),
        (1, "lit", 1.5e6, 1.5e6),
    ]


def test_one_after_another_shares_a_lane_and_wavelengths_have_their_own():
    uses = [
        CircuitUse("r0", "r1", "a", 0.0, 0.0, 2.0),
        CircuitUse("r0", "r2", "b", 1.0, None, 3.0),
        CircuitUse("r0", "r3", "c", 2.0, 2.0, 4.0),
    ]
    rows = [row for row in optical_rows(uses, process=1) if row["ph"] == "X"]
    out = {row["args"]["coflow"]: row["tid"] for row in rows if row["tid"] < 2}
    assert out == {"a": 0, "b": 1, "c": 0}
    assert {row["args"]["phase"] for row in rows if row["args"]["coflow"] == "b"} == {"dark"}


def test_without_circuits_there_is_nothing():
    assert optical_rows([], process=1) == []
