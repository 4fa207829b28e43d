"""One attack of each cheap kind, and that attacks leave nothing behind whatever ends them."""

import importlib
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from railyard.benchmarks.attacks import KINDS, frames, http
from railyard.benchmarks.attacks._grounds.guard import processes_of
from railyard.benchmarks.attacks._grounds.home import Broken, Grounds
from railyard.benchmarks.attacks._grounds.trials import Skipped, Trial, run_trials
from railyard.scripts.commands.bench import benchmark_names, parts_of
from tests.waiting import wait_for

ROOT = Path(__file__).parent.parent.parent

_MAKER = """
import random, time
from railyard.benchmarks.attacks._grounds.home import Grounds
with Grounds() as grounds:
    home = grounds.home(random.Random(1))
    home.up()
    print(grounds.folder, flush=True)
    time.sleep(60)
"""


def require_held(rows):
    broken = [f"{row['name']}: {row['note']}" for row in rows if row["ok"] is False]
    assert not broken, "\n".join(broken)


@pytest.mark.parametrize(
    ("kind", "trial"),
    [
        ("homes", "linked"),
        ("corruption", "swapped-one-before"),
        ("fulldisk", "put"),
        ("descriptors", "DataNode-0"),
        ("stops", "NameNode-1"),
        ("duplicates", "several"),
    ],
)
def test_holds(kind, trial):
    require_held(importlib.import_module(f"railyard.benchmarks.attacks.{kind}").run(only=trial))


def test_thousands_of_hostile_frames_are_borne():
    require_held(frames.run(frames=6_000))


def test_hundreds_of_malformed_requests_are_borne():
    require_held(http.run(requests=300, silent=False))


def test_every_kind_is_a_part_of_the_benchmark():
    assert "attacks" in benchmark_names()
    assert parts_of("attacks") == sorted(f"attacks.{kind}" for kind in KINDS)
    assert parts_of("startup") == []


def test_names_of_trials_are_unique_and_quick_has_some_of_each_kind():
    for kind in KINDS:
        if kind not in ("frames", "http"):
            trials = importlib.import_module(f"railyard.benchmarks.attacks.{kind}").trials()
            names = [trial.name for trial in trials]
            assert len(set(names)) == len(names)
            assert any(trial.quick for trial in trials)


def test_rows_say_how_many_were_tried_and_held_and_how_to_repeat_one():
    def fail(_):
        raise Broken("wrong bytes")

    def skip(_):
        raise Skipped("only root can")

    trials = [
        Trial(name="a", row="one sort", attack=lambda home: None, quick=True),
        Trial(name="b", row="one sort", attack=fail, quick=True),
        Trial(name="c", row="another", attack=skip, quick=True),
        Trial(name="d", row="another", attack=fail),
    ]
    rows = {row["name"]: row for row in run_trials("tries", trials, quick=True, seed=3)}
    broken = rows["one sort: of 2 tried, those that held"]
    assert (broken["value"], broken["ok"]) == (1, False)
    assert broken["note"].startswith(
        "wrong bytes; again with: python -m railyard.benchmarks.attacks tries"
    )
    assert broken["note"].endswith("--seed 3 --trial b")
    skipped = rows["another: of 0 tried, those that held"]
    assert (skipped["ok"], skipped["note"]) == (None, "skipped: only root can")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_whatever_ends_the_attacks(number):
    maker = subprocess.Popen([sys.executable, "-c", _MAKER], stdout=subprocess.PIPE, cwd=ROOT)
    folder = Path(maker.stdout.readline().decode().strip())
    assert processes_of(folder)
    maker.send_signal(number)
    maker.communicate()
    wait_for(lambda: not (folder.exists() or processes_of(folder)), why="all is gone")


def test_a_closed_place_starts_no_commands():
    with Grounds() as grounds:
        home = grounds.home(random.Random(1))
        assert grounds.folder.is_dir()
    with pytest.raises(Broken, match="were stopped"):
        home.start("status")
    assert not grounds.folder.exists()
