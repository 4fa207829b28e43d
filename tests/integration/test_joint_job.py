"""Joint on a real cluster without a tree: jobs whose graphs are no chains, and kills."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from contextlib import suppress

from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import task_of
from railyard.cluster.messages.execution import (
    AttemptFailed,
    AttemptReady,
    BeginAttempt,
    FlowFinished,
    LaunchAttempt,
)
from railyard.jobs.local import run_locally
from railyard.jobs.samples.correlation.generate import TableGen
from railyard.jobs.samples.correlation.job import Correlation
from railyard.jobs.samples.query.generate import RankingsGen, UserVisitsGen
from railyard.jobs.samples.query.job import Query
from railyard.resourcemanager.driving.eventlog import replay
from tests.command_line import SMALL
from tests.waiting import wait_for

#: 6 slots, whose links are the limits; about 40 maps, of a second or less.
CLUSTER = (
    *("--topology", SMALL, "--scheduler", "joint", "--seed", "3"),
    *("--network", "racks.slots=1", "--network", "links.nic=2Gbps"),
    *("--network", "compute.map_rate=50MB/s", "--network", "compute.reduce_rate=150MB/s"),
    *("--network", "storage.block=32MB"),
)
#: At least so many reservations are killed, which had all that they read.
KILLS = 3


def made(job):
    [data] = run_locally(job, {}).outputs["m"]
    return data


def kill(row):
    with suppress(ProcessLookupError):
        os.kill(row["pid"], signal.SIGKILL)


def test_graphs_that_are_no_chains_with_reservations_and_a_nodes_daemon_killed(railyard, tmp_path):
    table = made(TableGen(rows=13_000, seed=2))
    tables = {
        "rankings": made(RankingsGen(pages=500, seed=2)),
        "uservisits": made(UserVisitsGen(rows=4_000, pages=500, seed=2)),
    }
    for name, data in {"table": table, **tables}.items():
        (tmp_path / name).write_bytes(data)
    named = [word for name in tables for word in ("--input", f"{name}={tmp_path / name}")]
    commands = {
        "/c1": ("correlation", "--input", tmp_path / "table"),
        "/c2": ("correlation", "--input", tmp_path / "table"),
        "/q": ("query", *named, "--reduces", "4"),
    }
    railyard.ok("up", *CLUSTER)
    processes = [
        railyard.start("run", *command, "--output", output, "--get", tmp_path / output[1:])
        for output, command in commands.items()
    ]
    [folder] = map(RunFolder, railyard.run_folders())
    killed = kill_some(folder, processes, tmp_path)
    for process in processes:
        said, errors = process.communicate(timeout=100)
        assert process.returncode == 0, said + errors
        assert "as computed independently" in said

    [ranks] = run_locally(Correlation(), {"/in": table}).outputs["joined"]
    [rows] = run_locally(Query(), tables, 4, inputs={name: [name] for name in tables}).outputs[
        "top"
    ]
    for output, expected in {"c1": ranks, "c2": ranks, "q": rows}.items():
        [part] = (tmp_path / output).glob("part-*")
        assert part.read_bytes() == expected
    shutil.copy(folder.jobs / "events.jsonl", tmp_path)
    railyard.ok("down")
    wait_for(railyard.nothing_left, why="nothing is left")

    railyard.ok("replay", tmp_path / "events.jsonl", "--trace", tmp_path / "trace.json")
    rows = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert killed <= {row["id"] for row in rows if row.get("cat") == "reservation"}
    ahead, lost = reservations(tmp_path / "events.jsonl")
    assert lost & killed
    assert {".joined0.", ".rows0."} <= {f".{name.split('.')[1]}." for name in ahead}


def kill_some(folder, processes, tmp_path):
    """Kill attempts as they become ready, then a NodeManager; returns these attempts.

    Some begin before the signal comes, so it goes on until one was lost that waited for its slot.
    """
    killed, manager = set(), False
    log = folder.jobs / "events.jsonl"
    wait_for(log.exists, why="there is a log")
    with log.open() as lines:
        while any(process.poll() is None for process in processes) and not manager:
            line = lines.readline()
            if f'"{AttemptReady.tag()}"' not in line:
                time.sleep(0 if line else 0.002)
                continue
            by_name = {row["name"]: row for row in folder.processes()}
            [row] = [row for name, row in by_name.items() if f'"{name}"' in line] or [None]
            tasks = {task_of(attempt) for attempt in killed}
            if len(killed) >= KILLS and reservations(whole_lines(log, tmp_path))[1] & killed:
                kill(by_name["nodemanager-r1"])
                manager = True
            elif row is not None and task_of(row["name"]) not in tasks:
                killed.add(row["name"])
                kill(row)
    assert manager
    return killed


def whole_lines(log, tmp_path):
    """A copy of a log that is being written."""
    copy = tmp_path / "so-far.jsonl"
    copy.write_bytes(log.read_bytes().rpartition(b"\n")[0] + b"\n")
    return copy


def reservations(events):
    """Attempts that fetched data, and those that failed, while they waited for a slot."""
    waiting, ahead, lost = set(), set(), set()
    for step in replay(events):
        match step.event:
            case FlowFinished(flow=flow):
                ahead |= {flow.split(":")[0]} & waiting
            case AttemptFailed(attempt=attempt):
                lost |= {attempt} & waiting
        for command in step.commands:
            match command:
                case LaunchAttempt(begins=False):
                    waiting.add(command.attempt)
                case BeginAttempt():
                    waiting.discard(command.attempt)
    return ahead, lost
