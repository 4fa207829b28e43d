"""docs/write-a-scheduler.md as a reader follows it: what it shows is what is run here."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.command_line import ROOT

SMALL = Path(__file__).parent / "small.toml"
TUTORIAL = ROOT / "docs" / "write-a-scheduler.md"


@pytest.fixture(name="package")
def installed_package(tmp_path, railyard):
    """The tutorial's files, and what an installer would make of them, on Python's path."""
    for name, text in re.findall(
        r"^`(\S+)`\n\n```\w+\n(.*?)^```$", TUTORIAL.read_text(), re.M | re.S
    ):
        (tmp_path / name).write_text(text)
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text())["project"]
    info = tmp_path / f"{project['name']}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {project['name']}\nVersion: {project['version']}\n")
    lines = [
        line
        for group, points in project["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {where}" for name, where in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    railyard.environment["PYTHONPATH"] = str(tmp_path)
    return tmp_path


def test_the_scheduler_is_listed_and_runs_a_job(railyard, package):
    said = railyard.ok("schedulers")
    assert "shortest\n    the tutorial\n    --set shortest.patience_s" in said
    said = railyard.ok(
        *("run", "topwords", "--size", "100MB", "--topology", SMALL),
        *("--scheduler", "shortest", "--set", "shortest.patience_s=30"),
    )
    assert "scheduler shortest" in said
    assert "as counted independently" in said


def test_its_settings_are_checked_before_anything_starts(railyard, package):
    done = railyard.run(
        "run", "terasort", "--scheduler", "shortest", "--set", "shortest.patience_s=-1"
    )
    assert done.returncode == 2
    assert "shortest.patience_s = -1" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_its_own_tests_pass(railyard, package):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", package],
        cwd=ROOT,
        env=railyard.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def test_a_package_that_cannot_be_loaded_is_told_in_one_line(railyard, package):
    (package / "shortest.py").write_text("import no_such_thing\n")
    done = railyard.run("schedulers")
    assert done.returncode == 2
    assert done.stderr == (
        'railyard: scheduler "shortest" (shortest:RECIPE) cannot be loaded: '
        "ModuleNotFoundError: No module named 'no_such_thing'\n"
    )
