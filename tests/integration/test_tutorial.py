"""docs/tutorials/write-a-scheduler.md as a reader follows it: what it shows is run here."""

import json

from tests.command_line import SMALL
from tests.integration.tutorials import own_tests_pass

PAGE = "tutorials/write-a-scheduler.md"


def test_the_scheduler_is_listed_and_runs_a_job(railyard, package):
    said = railyard.ok("schedulers")
    assert "shortest\n    the tutorial\n    --set shortest.patience_s" in said
    said = railyard.ok(
        *("run", "topwords", "--size", "100MB", "--topology", SMALL),
        *("--scheduler", "shortest", "--set", "shortest.patience_s=30"),
    )
    assert "scheduler shortest" in said
    assert "as counted independently" in said


def test_the_scheduler_that_proposes_copies_tasks(railyard, package, tmp_path):
    railyard.ok(
        *("run", "topwords", "--size", "100MB", "--topology", SMALL),
        *("--scheduler", "clones", "--json", tmp_path / "summary.json"),
    )
    assert json.loads((tmp_path / "summary.json").read_text())["tasks"]["copies"] > 0


def test_its_settings_are_checked_before_anything_starts(railyard, package):
    done = railyard.run(
        "run", "terasort", "--scheduler", "shortest", "--set", "shortest.patience_s=-1"
    )
    assert done.returncode == 2
    assert "shortest.patience_s = -1" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_its_own_tests_pass(railyard, package):
    own_tests_pass(package, railyard.environment, 5)


def test_a_package_that_cannot_be_loaded_is_told_in_one_line(railyard, package):
    (package / "shortest.py").write_text("import no_such_thing\n")
    done = railyard.run("schedulers")
    assert done.returncode == 2
    assert done.stderr == (
        'railyard: scheduler "shortest" (shortest:RECIPE) cannot be loaded: '
        "ModuleNotFoundError: No module named 'no_such_thing'\n"
    )
