"""A scheduler that reserves places for all tasks, on real clusters."""

import os
import signal
import time
from collections import defaultdict
from functools import cache
from statistics import median

import pytest

from railyard.cluster.ids import task_of
from railyard.cluster.messages import (
    AttemptReady,
    AttemptStarted,
    AttemptSucceeded,
    BeginAttempt,
    FlowFinished,
    LaunchAttempt,
)
from railyard.cluster.runfolder import RunFolder
from railyard.experiments.comparison import placed_as_in
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, read_mix
from railyard.resourcemanager.driving.eventlog import EventLog, read_log, replay
from railyard.simulator.simulation import Simulation
from tests.command_line import SMALL, command_line
from tests.integration.tutorials import schedulers
from tests.waiting import wait_for

#: 6 slots, and a network that takes its time.
CLUSTER = ("--topology", SMALL, "--network", "racks.slots=1", "--network", "links.nic=2Gbps")
OPTIONS = (*CLUSTER, "--seed", "3", "--reduces", "6")
SORT = ("run", "terasort", "--size", "1GB", *OPTIONS)
TOP = ("run", "topwords", "--size", "1GB", *OPTIONS)

#: Reserves a place for each task as soon as there is one, and notes what it hears in a file.
SCHEDULER = """
import os

from railyard import Pass, Place, Recipe, TaskPolicy
from railyard.resourcemanager.interface.decisions import Reserve
from railyard.resourcemanager.schedulers.fair import FairOrder


def note(what, attempt):
    with open(os.environ["NOTES"], "a") as notes:
        print(what, attempt.id, file=notes)


class ReservingTasks(TaskPolicy):
    when_ready = True

    def propose(self):
        nodes = list(self.cluster.nodes.values())
        for job in self.cluster.jobs.values():
            for stage in job.stages.values():
                for task in [stage.tasks[index] for index in stage.pending]:
                    for number in range(len(nodes)):
                        node = nodes[(task.index + number) % len(nodes)]
                        if node.alive and node.id not in job.avoid and len(node.reserved) < 4:
                            break
                    else:
                        return
                    if task.reserved is None:
                        yield Reserve(task, node.id)
                        note("reserved", task.reserved)

    def offer(self, job, slot, now_s):
        for attempt in slot.reserved.values():
            stage = attempt.task.stage
            if stage.job is job and stage.open and (attempt.ready or not self.when_ready):
                return Place(attempt.task)
        return Pass("no reservation here is ready")

    def fetch_started(self, fetch):
        if not fetch.reader.holds_slot:
            note("fetches", fetch.reader)

    def attempt_ready(self, attempt):
        note("ready", attempt)

    def attempt_launched(self, attempt):
        note("begun", attempt)


class HastyTasks(ReservingTasks):
    when_ready = False


RESERVING = Recipe(name="reserving", source="a test", order=FairOrder, tasks=ReservingTasks)
HASTY = Recipe(name="hasty", source="a test", order=FairOrder, tasks=HastyTasks)
"""

#: Counts words, and the words of each count; notes when its code runs, and in which process.
JOB = '''
import os
import time

from railyard import Job, Lines, Map, Reduce, Stage


class Noted:
    def __init__(self, operator, folder):
        self.operator, self.folder = operator, folder

    def run(self, task, io, counters):
        begun_s = time.monotonic()
        result = self.operator.run(task, io, counters)
        result.output = list(result.output)
        with open(os.path.join(self.folder, str(os.getpid())), "w") as note:
            print(begun_s, time.monotonic(), file=note)
        return result


class Twice(Job):
    """A DAG of three stages."""

    folder: str

    def stages(self):
        noted = lambda operator: Noted(operator, self.folder)
        return (
            Stage("m", noted(Map(self.map, Lines()))),
            Stage("r", noted(Reduce(self.reduce)), reads=("m",), tasks=6),
            Stage("s", noted(Reduce(self.by_count)), reads=("r",), tasks=4),
        )

    def map(self, line):
        for word in line.split():
            yield word, 1

    def reduce(self, word, counts):
        yield sum(counts), word

    def by_count(self, count, words):
        yield count, " ".join(sorted(words))
'''


@pytest.fixture
def reserving(railyard, tmp_path, monkeypatch):
    """A command line that knows the schedulers, as this process does for replays."""
    package = tmp_path / "package"
    points = {"reserving": "reserving:RESERVING", "hasty": "reserving:HASTY"}
    schedulers(package, "reserving", SCHEDULER, **points)
    railyard.environment |= {"PYTHONPATH": str(package), "NOTES": str(tmp_path / "notes")}
    (tmp_path / "notes").touch()
    monkeypatch.syspath_prepend(package)
    monkeypatch.setenv("NOTES", os.devnull)
    return railyard


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """What a command writes without reservations; asked for again, it is not run again."""

    @cache
    def parts_of(*command):
        folder = tmp_path_factory.mktemp("plain")
        for line in command_line():
            line.ok(*command, "--get", folder / "out")
        return parts(folder / "out")

    return parts_of


def parts(folder):
    return {path.name: path.read_bytes() for path in folder.glob("part-*")}


class Log:
    """What ``events.jsonl`` says of the attempts that did their tasks: when what happened."""

    def __init__(self, file):
        self.launched, self.begun, self.ready, self.succeeded = {}, {}, {}, {}
        self.pids, self.nodes, self.computed_s = {}, {}, {}
        self.fetched = defaultdict(list)  #: {attempt: when its fetches ended}
        config, _ = read_log(file)
        self.slots = config.topology.racks.slots
        for step in replay(file):
            self._take_event(step.event, step.at_s)
            for command in step.commands:
                if isinstance(command, LaunchAttempt):
                    self.launched[command.attempt] = step.at_s, command.begins
                    self.nodes[command.attempt] = command.node
                elif isinstance(command, BeginAttempt):
                    self.begun[command.attempt] = step.at_s

    def _take_event(self, event, at_s):
        match event:
            case AttemptStarted():
                assert event.attempt not in self.pids, "it is one process"
                self.pids[event.attempt] = event.pid
            case AttemptReady():
                self.ready[event.attempt] = at_s
            case FlowFinished():
                self.fetched[event.flow.split(":")[0]].append(at_s)
            case AttemptSucceeded():
                self.succeeded[event.attempt] = at_s
                self.computed_s[event.attempt] = event.computed_s


@pytest.mark.parametrize("scheduler", ["reserving", "hasty"])
def test_a_dag_fetches_before_it_has_slots_and_computes_in_them_only(
    reserving, tmp_path, scheduler
):
    (tmp_path / "job.py").write_text(JOB)
    lines = [f"word{number % 991} and word{number % 37} of it\n" for number in range(60_000)]
    (tmp_path / "text").write_text("".join(lines))
    run = ("run", tmp_path / "job.py", "--input", tmp_path / "text", *CLUSTER)
    run = (*run, "--network", "storage.block=200MB")
    for name, more in {"plain": (), "reserved": ("--scheduler", scheduler)}.items():
        (tmp_path / f"{name}.notes").mkdir()
        notes = ("--param", f"folder={tmp_path / name}.notes")
        out = ("--get", tmp_path / name, "--out", tmp_path / f"{name}.all")
        reserving.ok(*run, *more, *notes, *out)
    assert parts(tmp_path / "reserved") == parts(tmp_path / "plain") != {}

    log = Log(tmp_path / "reserved.all" / "events.jsonl")
    assert len(log.succeeded) >= 8 + 6 + 4
    for attempt, ended_s in log.succeeded.items():
        assert not log.launched[attempt][1], "all were reservations"
        begun_s = log.begun[attempt]
        assert log.computed_s[attempt] <= ended_s - begun_s
        if scheduler == "reserving":
            assert log.ready[attempt] <= begun_s
            assert all(at_s <= begun_s for at_s in log.fetched[attempt])
            assert len(log.fetched[attempt]) > 0 or ".m" in attempt
    by_node = defaultdict(list)  #: {node: when code of the job begins (+1) and ends (-1)}
    for attempt in log.succeeded:
        note = (tmp_path / "reserved.notes" / str(log.pids[attempt])).read_text()
        begun_s, ended_s = map(float, note.split())
        by_node[log.nodes[attempt]] += [(begun_s, 1), (ended_s, -1)]
    assert len(by_node) == 6
    for node, changes in by_node.items():
        at_once = most = 0
        for _, change in sorted(changes):
            at_once += change
            most = max(most, at_once)
        assert most <= log.slots == 1, node
    assert reserving.nothing_left()


class Killer:
    """Kills attempts as soon as it is noted that something happened to them."""

    def __init__(self, line, notes, moment, most):
        self._line, self._notes, self._moment = line, notes, moment
        self._most = most
        self.killed = {}  #: {task: the attempt that was killed}

    def go_on(self, process):
        """Until the command has ended."""
        with open(self._notes) as notes:
            while process.poll() is None:
                note = notes.readline().split()
                if len(note) < 2 or note[0] != self._moment or len(self.killed) >= self._most:
                    time.sleep(0.002)
                elif task_of(note[1]) not in self.killed and self._kill(note[1]):
                    self.killed[task_of(note[1])] = note[1]

    def _kill(self, attempt):
        deadline_s = time.monotonic() + 5
        while time.monotonic() < deadline_s:
            for folder in self._line.run_folders():
                for row in RunFolder(folder).processes():
                    if row["name"] == attempt:
                        try:
                            os.kill(row["pid"], signal.SIGKILL)
                        except ProcessLookupError:
                            return False
                        return True
            time.sleep(0.002)
        return False


@pytest.mark.parametrize(
    ("job", "moment"),
    [
        pytest.param(SORT, "reserved", id="before-it-fetches"),
        pytest.param(TOP, "fetches", id="while-it-fetches"),
        pytest.param(TOP, "begun", id="just-after-it-begins"),
    ],
)
def test_reservations_that_are_killed_change_no_byte(reserving, written, tmp_path, job, moment):
    """Those that wait with all their data are killed under Joint (``test_joint_job``)."""
    process = reserving.start(
        *(*job, "--scheduler", "reserving", "--get", tmp_path / "reserved"),
        *("--out", tmp_path / "all"),
    )
    killer = Killer(reserving, tmp_path / "notes", moment, most=5)
    killer.go_on(process)
    said, errors = process.communicate(timeout=100)
    assert process.returncode == 0, said + errors
    assert "verified" in said
    assert parts(tmp_path / "reserved") == written(*job) != {}
    log = Log(tmp_path / "all" / "events.jsonl")
    lost = [attempt for attempt in killer.killed.values() if attempt not in log.succeeded]
    assert lost, "a kill that came in time"
    wait_for(reserving.nothing_left, why="nothing is left")
    reserving.ok("replay", tmp_path / "all" / "events.jsonl")


@pytest.mark.parametrize("victim", ["NodeManager", "Ctrl-C"])
def test_reservations_end_with_their_nodemanager_and_with_the_command(reserving, tmp_path, victim):
    process = reserving.start(*SORT, "--scheduler", "reserving")
    wait_for(lambda: "ready" in (tmp_path / "notes").read_text(), 60, "one waits for its slot")
    if victim == "Ctrl-C":
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        wait_for(reserving.nothing_left, why="nothing is left")
        return
    [folder] = reserving.run_folders()
    [row] = [row for row in RunFolder(folder).processes() if row["name"] == "nodemanager-r1"]
    os.kill(row["pid"], signal.SIGKILL)
    said, errors = process.communicate(timeout=100)
    assert process.returncode == 0, said + errors
    assert "records in order" in said
    wait_for(reserving.nothing_left, why="nothing is left")


def test_both_clocks_compute_the_same_in_reservations(reserving, tmp_path):
    sort = ("run", "terasort", "--size", "2GB", *OPTIONS)
    reserving.ok(*sort, "--scheduler", "reserving", "--out", tmp_path / "all")
    emulated = tmp_path / "all" / "events.jsonl"
    config, _ = read_log(emulated)
    mix = read_mix(["terasort,size=2GB,reduces=6"], Defaults(size_bytes=1), seed=3)
    workload = placed_as_in(measured_workload(mix, config.topology, seed=3), emulated)
    log = EventLog(tmp_path / "simulated.jsonl", config, buffered=True)
    Simulation(config, workload, log=log).run()
    log.close()
    model, real = Log(tmp_path / "simulated.jsonl"), Log(emulated)
    for stage in "mr":
        runs = [
            [log.computed_s[attempt] for attempt in log.ready if attempt.startswith(prefix)]
            for log, prefix in ((real, f"j2.{stage}"), (model, f"j1.{stage}"))
        ]
        assert len(runs[0]) == len(runs[1]) > 0
        # on a busy machine some compute for longer than the pace demands
        assert median(runs[0]) == pytest.approx(median(runs[1]), rel=0.02)
