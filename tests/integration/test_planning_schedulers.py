"""Corral in real processes: it plans a mix as in virtual time, and its jobs outlive their racks."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from contextlib import suppress

from railyard.cluster.ids import job_of, rack_of, task_of
from railyard.cluster.messages import (
    AttemptFailed,
    AttemptReady,
    BeginAttempt,
    FlowFinished,
    LaunchAttempt,
    NodeLost,
)
from railyard.cluster.runfolder import RunFolder
from railyard.jobs.local import run_locally
from railyard.jobs.samples.correlation import Correlation, TableGen
from railyard.jobs.samples.query import Query, RankingsGen, UserVisitsGen
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.interface.commands import PlaceData
from railyard.resourcemanager.interface.events import DataAnnounced, JobsPredicted, JobSubmitted
from tests.command_line import SMALL
from tests.integration.processes import attempts_of, rows_of
from tests.waiting import wait_for


def test_a_mix_is_planned_ahead_as_in_virtual_time(railyard, tmp_path):
    railyard.ok(
        *("compare", "terasort,size=200MB,times=2,inputs=own", "wordcount,size=300MB"),
        *("--schedulers", "corral", "--topology", SMALL, "--out", tmp_path / "out"),
    )
    real, simulated = (
        list(replay(tmp_path / "out" / f"corral-maxmin-{clock}-1" / "events.jsonl"))
        for clock in ("wall", "virtual")
    )
    assert predicted(real) == predicted(simulated)
    planned = data_racks(real)
    assert planned == data_racks(simulated)
    assert list(planned) == ["terasort-1", "terasort-2", "wordcount"]
    for name, racks in planned.items():
        for steps in (real, simulated):
            assert {rack for rack, _ in launched(steps, name)} <= racks
            for there in racks_of_replicas(steps, name):
                assert len(there) == 2
                assert racks.intersection(there)
    assert railyard.nothing_left()


def test_a_job_outlives_the_only_rack_that_it_was_planned_for(railyard, tmp_path):
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    job = '{ name = "terasort", priority = 1, racks = ["r1"] }'
    plan.write_text(f'scenario = "batch"\nracks = 3\njobs = [{job}]\n')
    running = railyard.start(
        *("run", "terasort,size=1500MB,reduces=3", "--topology", SMALL, "--out", out),
        *("--scheduler", "corral", "--set", f"corral.plan={plan}"),
        *("--set", "corral.node_wait_s=0", "--set", "corral.rack_wait_s=0"),
        *("--restart", "never"),  # or its nodes would soon be back, with the output of their maps
    )
    try:
        wait_for(lambda: attempts_of(railyard, "j2.m4"), 40, "the first maps have ended")
        for role, name in (("NodeManager", "nodemanager-r1"), ("DataNode", "datanode-r1")):
            [killed] = rows_of(railyard, role, name)
            os.kill(killed["pid"], signal.SIGKILL)
        said, errors = running.communicate(timeout=60)
    finally:
        running.kill()
        running.communicate()
    assert running.returncode == 0, errors
    assert "verified" in said
    steps = list(replay(out / "events.jsonl"))
    for there in racks_of_replicas(steps, "terasort"):
        assert sorted(there.values()) == [1, 2]
        assert there["r1"] == 1
    lost = max(number for number, step in enumerate(steps) if isinstance(step.event, NodeLost))
    assert {rack for rack, _ in launched(steps[:lost], "terasort")} == {"r1"}
    after = launched(steps, "terasort")[len(launched(steps[:lost], "terasort")) :]
    assert {rack for rack, _ in after} <= {"r0", "r2"}
    assert {stage for _, stage in after} == {"m", "r"}
    wait_for(railyard.nothing_left, why="nothing is left")


def predicted(steps):
    """What is predicted of each job before it comes, but for when that is."""
    [predicted] = [step.event for step in steps if isinstance(step.event, JobsPredicted)]
    return {job.job: (job.forecast.name, job.forecast.stages) for job in predicted.jobs}


def data_racks(steps):
    """{job: the racks for the first replica of its input}."""
    return {
        step.event.job: set(order.racks[0])
        for step in steps
        if isinstance(step.event, DataAnnounced)
        for order in step.commands
        if isinstance(order, PlaceData)
    }


def submitted(steps, name):
    """The event of a job."""
    [job] = [
        step.event
        for step in steps
        if isinstance(step.event, JobSubmitted) and step.event.name == name
    ]
    return job


def racks_of_replicas(steps, name):
    """For each block that a job reads: {rack: replicas there}."""
    inputs = [one for stage in submitted(steps, name).stages for one in stage.inputs]
    racks = [[rack_of(node) for node in one.nodes] for one in inputs]
    return [{rack: there.count(rack) for rack in there} for there in racks]


def launched(steps, name):
    """Rack and stage of each attempt of a job, in order."""
    job = submitted(steps, name).job
    return [
        (rack_of(order.node), order.attempt.split(".")[1][0])
        for step in steps
        for order in step.commands
        if isinstance(order, LaunchAttempt) and job_of(order.attempt) == job
    ]


# Joint on a real cluster without a tree: jobs whose graphs are no chains, and kills.


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


# Centralized on a real cluster: input really moves to one site, before the job runs there.


SITES = """
name = "sites"
description = "4 sites, of which r2 takes in the most"
scale = 1000
[racks]
count = 4
nodes = 1
slots = 2
[links]
nic = "unlimited"
uplink = "2Gbps"
way = "wan"
[rack]
r2 = { slots = 4, uplink = "4Gbps" }
[storage]
block = "64MB"
replication = 1
[compute]
map_rate = "400MB/s"
reduce_rate = "400MB/s"
"""


NODES = {f"r{site}n0" for site in range(4)}


def holders(railyard, path):
    """The nodes with blocks of a file, as ``fs locations`` prints them."""
    rows = railyard.ok("fs", "locations", path).splitlines()
    return [word for row in rows for word in row.split() if word.strip(",") in NODES]


def test_input_is_moved_to_one_site_and_the_output_is_right(railyard, tmp_path):
    (tmp_path / "sites.toml").write_text(SITES)
    place = tmp_path / "sites.toml"
    often = ("--set", "links.period_s=0.1")  # so that a look at the links meets the moves
    railyard.ok("up", "--topology", place, "--scheduler", "centralized", "--seed", "3", *often)
    words = "".join(f"word{number % 97} of {number % 13}\n" for number in range(50_000))
    (tmp_path / "text").write_text(words)
    railyard.ok("fs", "put", "text", "/text", cwd=tmp_path)
    before = holders(railyard, "/text")
    assert len(set(before)) > 1
    railyard.ok("slots", "set", "r0", "1")  # it holds a part of the text
    job = ("run", "wordcount", "--input", "dfs:/text", "--reduces", "2")
    said = railyard.ok(*job, "--json", "sum.json", cwd=tmp_path)
    assert "as counted independently" in said
    assert set(holders(railyard, "/text")) == {"r2n0"}
    summary = json.loads((tmp_path / "sum.json").read_text())
    figures = summary["figures"]["centralized"]
    assert figures["blocks_moved"] == sum(node != "r2n0" for node in before)
    assert summary["bytes"]["wan"] >= figures["blocks_moved_bytes"] > 0
    assert summary["locality"]["remote"] == 0
    assert railyard.run("fs", "fsck").returncode == 0
    [folder] = railyard.run_folders()
    events = RunFolder(folder).jobs / "events.jsonl"
    heard = {json.loads(row)["type"] for row in events.read_text().splitlines()}
    assert heard >= {"data-stored", "input-moved", "links-observed", "slots-changed"}
    railyard.ok("replay", events)
    railyard.ok("down")
    assert railyard.nothing_left()
