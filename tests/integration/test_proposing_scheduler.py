"""A scheduler that proposes by dice, on real clusters: the output is the same byte for byte."""

import json
import os
import random
import signal
import time
from collections import Counter
from contextlib import suppress

import pytest

from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import task_of
from tests.command_line import SMALL, command_line
from tests.integration.processes import attempts_of
from tests.integration.tutorials import schedulers
from tests.waiting import wait_for

JOB = ("run", "topwords", "--size", "1GB", "--reduces", "3", "--topology", SMALL, "--seed", "5")


@pytest.fixture(name="dice")
def installed_toys(tmp_path, railyard):
    """The toys as another package's scheduler."""
    folder = tmp_path / "package"
    schedulers(folder, "dice", "", dice="railyard.benchmarks._faults.toys:RECIPE")
    railyard.environment["PYTHONPATH"] = str(folder)


def kill_some(line, process, moments):
    """Kill random attempts until the job has ended or so many were killed; returns how many.

    At most two of a task, of which the fourth failure would end the job.
    """
    dice, killed = random.Random(1), Counter()
    while process.poll() is None and killed.total() < moments:
        time.sleep(dice.uniform(0.05, 0.4))
        rows = [row for row in attempts_of(line)[-6:] if killed[task_of(row["name"])] < 2]
        if rows:
            row = dice.choice(rows)
            try:
                os.kill(row["pid"], signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed[task_of(row["name"])] += 1
    return killed.total()


def parts(folder):
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """What the job writes under a scheduler that proposes nothing."""
    folder = tmp_path_factory.mktemp("plain")
    for line in command_line():
        line.ok(*JOB, "--get", folder / "out")
    return parts(folder / "out")


@pytest.mark.parametrize("kills", [0, 8])
def test_copies_kept_outputs_and_moves_do_not_change_a_byte(railyard, dice, plain, tmp_path, kills):
    process = railyard.start(
        *(*JOB, "--scheduler", "dice", "--get", tmp_path / "diced"),
        *("--out", tmp_path / "all"),
    )
    kill_some(railyard, process, kills)
    said, errors = process.communicate(timeout=100)
    assert process.returncode == 0, said + errors
    assert "verified" in said
    assert parts(tmp_path / "diced") == plain != {}
    events = (tmp_path / "all" / "events.jsonl").read_text()
    assert '"input-moved"' in events
    tasks = json.loads((tmp_path / "all" / "summary.json").read_text())["tasks"]
    assert tasks["copies"] > 0
    assert tasks["launched"] > tasks["succeeded"]
    wait_for(railyard.nothing_left, why="nothing is left")
    railyard.ok("replay", tmp_path / "all" / "events.jsonl")


def test_blocks_that_move_while_daemons_are_killed(railyard, dice, tmp_path):
    """The store is whole afterwards: each block has its replicas, no more and no less."""
    railyard.ok("up", "--topology", SMALL, "--scheduler", "dice", "--seed", "4")
    (tmp_path / "text").write_bytes(b"to be or not to be\n" * 60_000)
    railyard.ok("fs", "put", "text", "/text", cwd=tmp_path)
    job = ("run", "wordcount", "--input", "dfs:/text", "--reduces", "2")
    processes = [railyard.start(*job, "--output", f"/counts{number}") for number in range(3)]
    chance, deadline_s, kills = random.Random(2), time.monotonic() + 100, 2
    while any(process.poll() is None for process in processes):
        assert time.monotonic() < deadline_s
        time.sleep(0.5)
        if kills:
            [folder] = railyard.run_folders()
            nodes = [row for row in RunFolder(folder).processes() if row["role"] == "DataNode"]
            with suppress(ProcessLookupError):  # it was killed before
                os.kill(chance.choice(nodes)["pid"], signal.SIGKILL)
                kills -= 1
    for process in processes:
        said, errors = process.communicate()
        assert process.returncode == 0, said + errors
        assert "as counted independently" in said
    wait_for(lambda: "healthy" in railyard.run("fs", "fsck").stdout, 60, "the store is whole")
    [folder] = railyard.run_folders()
    assert '"input-moved"' in (RunFolder(folder).jobs / "events.jsonl").read_text()
    assert railyard.run("fs", "cat", "/text").stdout == "to be or not to be\n" * 60_000
    railyard.ok("down")
    assert railyard.nothing_left()
