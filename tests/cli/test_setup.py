"""The shell scripts, in a checkout with a Python that only pretends to install things."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_for

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"

PYTHON = """#!/bin/bash
case "$*" in
  *"-m venv"*) mkdir -p "${@: -1}/bin"; cp "$0" "${@: -1}/bin/python" ;;
  *"-m pip install"*)
    echo installed >> "$LOG"; sleep 0.3
    [ -z "${HANGS:-}" ] || { echo $$ > "$LOG.pid"; sleep 600; }
    [ -z "${FAIL:-}" ] || { echo "no such package: numpy"; exit 1; }
    printf '#!/bin/bash\\necho "$PWD: railyard $*"\\n' > "$(dirname "$0")/railyard"
    chmod +x "$(dirname "$0")/railyard" ;;
esac
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout that has nothing installed, in a folder with a blank in its name."""
    root = tmp_path / "my checkout"
    (root / "scripts").mkdir(parents=True)
    for name in ("setup", "run-job", "start-cluster", "stop-cluster", "bench"):
        shutil.copy(SCRIPTS / name, root / "scripts")
    (root / "pyproject.toml").write_text("[project]\n")
    python = tmp_path / "python"
    python.write_text(PYTHON)
    python.chmod(0o755)
    return root


def start(checkout, *command, cwd=None, **environment):
    fake = {"PYTHON": str(checkout.parent / "python"), "LOG": str(checkout.parent / "log")}
    return subprocess.Popen(
        command,
        cwd=cwd or checkout,
        env=os.environ | fake | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(checkout, *command, cwd=None, **environment):
    process = start(checkout, *command, cwd=cwd, **environment)
    out, errors = process.communicate(timeout=30)
    return process.returncode, out, errors


def installs(checkout):
    return (checkout.parent / "log").read_text().count("installed")


def test_first_use_sets_up_and_later_uses_do_not(checkout):
    status, out, errors = run(checkout, "scripts/run-job", "terasort", "--size", "1 GB")
    assert (status, out) == (0, f"{checkout}: railyard run terasort --size 1 GB\n")
    assert errors.count("\n") == 1
    assert "setting up" in errors
    assert run(checkout, "scripts/start-cluster") == (0, f"{checkout}: railyard up\n", "")
    assert installs(checkout) == 1


def test_a_users_own_environment_is_not_emptied(checkout):
    own = checkout / ".venv" / "lib" / "thesis.txt"
    own.parent.mkdir(parents=True)
    own.write_text("years of work")
    status, _, errors = run(checkout, "scripts/run-job", "terasort")
    assert status == 1
    assert errors.startswith(f"railyard: {checkout}/.venv is not Railyard's, and has no Python")
    assert errors.endswith(": move it away\n")
    assert own.read_text() == "years of work"


def test_an_environment_of_ours_that_is_broken_is_made_anew(checkout):
    run(checkout, "scripts/bench")
    (checkout / ".venv" / "bin" / "python").unlink()
    (checkout / ".venv" / "ready").unlink()
    (checkout / ".venv" / "old").mkdir()
    assert run(checkout, "scripts/bench")[1] == f"{checkout}: railyard bench\n"
    assert not (checkout / ".venv" / "old").exists()


def test_changed_project_is_set_up_again(checkout):
    run(checkout, "scripts/bench")
    (checkout / "pyproject.toml").write_text("[project]\nname = 'other'\n")
    run(checkout, "scripts/bench")
    assert installs(checkout) == 2


def test_moved_checkout_is_set_up_again(checkout):
    run(checkout, "scripts/bench")
    moved = checkout.parent / "elsewhere"
    checkout.rename(moved)
    assert run(moved, "scripts/bench")[1] == f"{moved}: railyard bench\n"
    assert installs(moved) == 2


def test_two_first_uses_at_once_set_up_once(checkout):
    both = [start(checkout, f"scripts/{name}") for name in ("start-cluster", "stop-cluster")]
    assert [process.communicate(timeout=30)[0].split()[-1] for process in both] == ["up", "down"]
    assert installs(checkout) == 1


def test_any_working_directory_and_links(checkout, tmp_path):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "run-job").symlink_to(checkout / "scripts" / "run-job")
    status, out, _ = run(checkout, tmp_path / "bin" / "run-job", "./mine.py", cwd=tmp_path)
    assert (status, out) == (0, f"{tmp_path}: railyard run ./mine.py\n")


def test_failed_set_up_says_why_and_is_tried_again(checkout):
    status, _, errors = run(checkout, "scripts/run-job", "terasort", FAIL="yes")
    assert status == 1
    assert "no such package: numpy" in errors
    status, out, _ = run(checkout, "scripts/run-job", "terasort")
    assert (status, out.split()[-1]) == (0, "terasort")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_set_up_leaves_nothing_running_and_is_begun_anew(checkout, number):
    process = start(checkout, "scripts/run-job", "terasort", HANGS="yes")
    pip = checkout.parent / "log.pid"
    wait_for(lambda: pip.exists() and pip.read_text().endswith("\n"), why="pip to run")
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert errors.endswith("the next start sets up " + str(checkout / ".venv") + " anew\n")
    assert not psutil.pid_exists(int(pip.read_text()))
    (checkout / ".venv" / "bin" / "broken").touch()
    status, out, errors = run(checkout, "scripts/run-job", "terasort")
    assert (status, out.split()[-1]) == (0, "terasort")
    assert "waiting" not in errors
    assert not (checkout / ".venv" / "unfinished").exists()


def test_without_a_new_enough_python_it_says_so(checkout, tmp_path):
    old = tmp_path / "old"
    old.mkdir()
    for name in ("bash", "env", "dirname", "readlink", "cat", "cksum", "flock", "rm"):
        (old / name).symlink_to(shutil.which(name))
    status, _, errors = run(checkout, "scripts/run-job", PATH=str(old), PYTHON="")
    assert status == 1
    assert "no Python 3.11 or newer found" in errors
