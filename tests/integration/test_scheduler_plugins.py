"""A scheduler that proposes by dice, on real clusters: the output is the same byte for byte."""

from __future__ import annotations

import json
import os
import random
import signal
import textwrap
import time
from collections import Counter
from contextlib import suppress
from textwrap import dedent

import pytest

from railyard.cluster.ids import task_of
from railyard.cluster.runfolder import RunFolder
from railyard.nodemanager.permits import permits_of_machine
from tests.command_line import SMALL, command_line
from tests.integration.processes import attempts_of
from tests.integration.tutorials import schedulers
from tests.waiting import wait_for

JOB = ("run", "topwords", "--size", "1GB", "--reduces", "3", "--topology", SMALL, "--seed", "5")


@pytest.fixture(name="dice")
def installed_toys(tmp_path, railyard):
    """The toys as another package's scheduler."""
    folder = tmp_path / "package"
    schedulers(folder, "dice", "", dice="railyard.oracles.faults.toys:RECIPE")
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


# Another package's scheduler on both clocks: its own figures, and its flow scheduler.


MODULE = """
from railyard import Recipe
from railyard.resourcemanager.interface.defaults import ClosestTasks
from railyard.resourcemanager.schedulers.fair import FairOrder


class Counting(ClosestTasks):
    section = ""

    def __init__(self, config, cluster):
        super().__init__(config, cluster)
        self.launched = 0

    def attempt_launched(self, attempt):
        self.launched += 1

    def figures(self):
        return {"launched": self.launched}


class Broken(Counting):
    def figures(self):
        return {"mean": self.launched / 0}


RECIPES = tuple(
    Recipe(name=name, source="a test", order=FairOrder, tasks=tasks, flow_scheduler="sjf")
    for name, tasks in (("counting", Counting), ("broken", Broken))
)
"""


@pytest.fixture(name="package", autouse=True)
def installed(tmp_path, railyard):
    """Both schedulers, as another package has them."""
    folder = tmp_path / "package"
    schedulers(folder, "counting", MODULE, all="counting:RECIPES")
    railyard.environment["PYTHONPATH"] = str(folder)


def test_figures_and_flow_scheduler_on_both_clocks(railyard, tmp_path):
    assert "goes with the flow scheduler sjf" in railyard.ok("schedulers")
    railyard.ok(
        *("compare", "terasort,size=300MB", "--schedulers", "counting, counting + maxmin"),
        *("--topology", SMALL, "--seeds", "1", "--json", tmp_path / "c.json"),
    )
    rows = json.loads((tmp_path / "c.json").read_text())
    assert [(row["flow_scheduler"], row["clock"]) for row in rows] == [
        ("sjf", "wall"),
        ("maxmin", "wall"),
        ("sjf", "virtual"),
        ("maxmin", "virtual"),
    ]
    for row in rows:
        [run] = row["runs"]
        launched = run["figures"]["Counting"]["launched"]
        if row["clock"] == "virtual":
            assert launched == run["tasks"]["launched"]
        else:  # with the jobs that made the input and checked the output
            assert launched > run["tasks"]["launched"]
        assert row["own_figures"]["Counting.launched"]["mean"] == launched


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("run", "topwords", "--size", "1GB", "--scheduler", "broken"), id="run"),
        pytest.param(
            ("simulate", "--workload", "terasort", "--size", "1GB", "--scheduler", "broken + fifo"),
            id="simulate",
        ),
    ],
)
def test_broken_figures_cost_no_results(railyard, tmp_path, words):
    file = tmp_path / "s.json"
    done = railyard.run(*words, "--topology", SMALL, "--json", file)
    assert done.returncode == 70
    said = "broken/Broken.figures failed"
    assert done.stderr.splitlines()[-1].startswith(f"railyard: {said}")
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "job time" in done.stdout
    summary = json.loads(file.read_text())
    assert summary["figures"] == {}
    assert summary["figures_error"].startswith(said)
    assert all(job["ok"] for job in summary["jobs"])
    assert summary["flow_scheduler"] == ("sjf" if words[0] == "run" else "fifo")
    assert railyard.nothing_left()


# A task that is stuck is copied on a real cluster, and the job ends without it.


STUCK_S = 80

STUCK_JOB = """
import os, time

def stall_once():
    try:
        os.close(os.open({marker!r}, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    time.sleep({stuck_s})

def map(line):
    if line.startswith("stuck"):
        stall_once()
    yield line.split()[0], 1

def reduce(key, values):
    yield key, sum(values)
"""


@pytest.mark.parametrize("after_s", [2, 8])  # 8: nothing has happened for seconds by then
def test_a_stuck_task_is_copied_and_its_copy_counts(railyard, tmp_path, after_s):
    job = STUCK_JOB.format(marker=str(tmp_path / "marker"), stuck_s=STUCK_S)
    (tmp_path / "stalling.py").write_text(textwrap.dedent(job))
    lines = [f"word{number % 7} and more of a line\n" for number in range(40_000)]
    (tmp_path / "text").write_text("".join(lines) + "stuck here\n")
    railyard.ok(
        *("run", "./stalling.py", "--input", "text", "--topology", SMALL, "--get", "out"),
        *("--reduces", "2", "--json", "summary.json"),
        *("--set", "speculation.on=true", "--set", f"speculation.after_s={after_s}"),
        *("--set", "shuffle.slowstart=1"),  # no reduce is launched, nor reports
        cwd=tmp_path,
    )
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["tasks"]["copies"], summary["tasks"]["copies_chosen"]) == (1, 1)
    assert summary["makespan_s"] < STUCK_S
    counts = "".join(part.read_text() for part in (tmp_path / "out").glob("part-*"))
    assert sum(int(line.split()[1]) for line in counts.splitlines()) == 40_001
    assert "stuck\t1" in counts


# Two clusters at once share the machine: no more attempts compute than one of them could have.


#: Its map waits until both jobs run.  Then each reduce computes without a pause, and notes from
#: when to when, and as which process.
COMPUTES = """
    import json, os, time
    from pathlib import Path
    from railyard import Job
    class Computes(Job):
        notes: str
        def map(self, line):
            (Path(self.notes) / str(os.getpid())).touch()
            while len(list(Path(self.notes).parent.glob("*/*"))) < 2:
                time.sleep(0.02)
            for key in range(10):
                yield key, line
        def partition(self, key, partitions):
            return key % partitions
        def reduce(self, key, lines):
            begun_s, until_s = time.monotonic(), time.process_time() + 0.15
            while time.process_time() < until_s:
                sum(range(1000))
            note = [begun_s, time.monotonic(), os.getpid()]
            (Path(self.notes) / f"{key}.json").write_text(json.dumps(note))
            yield key, 1
"""
REDUCES = 10  # with the map on 12 slots: each cluster could run all of its own at once


def most_at_once(notes):
    """The most of these intervals, (begin, end, process), that overlap."""
    changes = sorted(change for begin, end, _ in notes for change in ((begin, 1), (end, -1)))
    at_once, most = 0, 0
    for _, change in changes:
        at_once += change
        most = max(most, at_once)
    return most


def test_two_clusters_share_the_permits_to_compute(railyard, tmp_path):
    (tmp_path / "computes.py").write_text(dedent(COMPUTES))
    (tmp_path / "in").write_text("a line\n")
    folders = [tmp_path / "notes" / name for name in ("first", "second")]
    runs = []
    for folder in folders:
        folder.mkdir(parents=True)
        runs.append(
            railyard.start(
                *("run", tmp_path / "computes.py", "--input", tmp_path / "in"),
                *("--topology", SMALL, "--reduces", str(REDUCES), "--param", f"notes={folder}"),
            )
        )
    for run in runs:
        said = run.communicate(timeout=110)
        assert run.returncode == 0, said
    notes = [[json.loads(note.read_text()) for note in folder.glob("*.json")] for folder in folders]
    together = notes[0] + notes[1]
    assert len({pid for _, _, pid in together}) == 2 * REDUCES, "a process each"
    spans = [(min(b for b, _, _ in one), max(e for _, e, _ in one)) for one in notes]
    assert max(begin for begin, _ in spans) < min(end for _, end in spans), "not at the same time"
    assert most_at_once(together) <= permits_of_machine()
    assert railyard.nothing_left()
