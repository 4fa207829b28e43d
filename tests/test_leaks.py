"""A session fails if its tests leave a process, a socket, a file or a folder behind."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

ROOT = Path(__file__).parent.parent
STARTED = """
import subprocess, sys

def test_process():
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    subprocess.Popen(command, start_new_session=True).returncode = 0
"""
FORKED = """
import os, time

def test_fork():
    if os.fork() == 0:
        time.sleep(60)
"""
SOCKET = """
import socket

def test_socket(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind("s")
"""
FOLDER = """
import tempfile

def test_folder():
    tempfile.mkdtemp(prefix="mine")
"""
CHECKOUT = """
import pathlib

def test_checkout():
    pathlib.Path("made.txt").touch()
    pathlib.Path("empty").mkdir()
"""
NOTHING = """
import subprocess, tempfile

def test_nothing(tmp_path):
    subprocess.Popen(["sleep", "0.5"], start_new_session=True).returncode = 0
    with tempfile.TemporaryDirectory():
        (tmp_path / "kept").touch()
"""


def test_what_is_left_behind_fails_the_session_and_is_named(session):
    result = session(FORKED, CHECKOUT, FOLDER)
    result.assert_outcomes(passed=3)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        [
            "LEFT BEHIND: process *",
            "LEFT BEHIND: folder */mine*",
            "LEFT BEHIND: folder */empty",
            "LEFT BEHIND: file */made.txt",
        ]
    )


def test_what_a_worker_leaves_behind_fails_the_session(session):
    result = session(STARTED, SOCKET, options=("-n", "1"))
    result.assert_outcomes(passed=2)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines_random(  # who finds a process is open
        ["LEFT BEHIND: process *time.sleep(60)*", "LEFT BEHIND: socket *test_socket*/s"]
    )


def test_a_session_that_cleans_up_passes(session):
    result = session(NOTHING)
    result.assert_outcomes(passed=1)
    assert result.ret == pytest.ExitCode.OK


@pytest.fixture
def session(pytester, monkeypatch):
    """Runs these tests in a pytest process of its own."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    def run(*tests: str, options: tuple[str, ...] = ()) -> pytest.RunResult:
        pytester.makepyfile("".join(tests))
        # The checkout is this folder, also where one above it has a setup.py.
        here = f"--rootdir={pytester.path}"
        return pytester.runpytest_subprocess("-p", "tests.leaks", here, *options)

    yield run
    for path in pytester.path.rglob("s"):
        path.unlink()  # it is not to be found in this session, too
