"""docs/write-a-circuit-policy.md as a reader follows it: what it shows is what is run here."""

import subprocess
import sys

import pytest

from tests.command_line import ROOT
from tests.integration.tutorials import install


@pytest.fixture(name="package")
def installed_package(tmp_path, railyard):
    """The tutorial's package, on Python's path."""
    install("write-a-circuit-policy.md", tmp_path)
    railyard.environment["PYTHONPATH"] = str(tmp_path)
    return tmp_path


def test_the_circuit_policy_runs_jobs_in_both_clocks(railyard, package):
    flows = ("--flow-scheduler", "largest")
    said = railyard.ok("simulate", "--workload", "mix,jobs=3", *flows)
    assert "flows largest" in said
    said = railyard.ok("run", "terasort", "--size", "10GB", *flows)
    assert "flows largest" in said


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
    assert "2 passed" in done.stdout
