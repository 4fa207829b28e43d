"""docs/write-a-circuit-policy.md as a reader follows it: what it shows is what is run here."""

import pytest

from tests.integration.tutorials import install, own_tests_pass


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
    own_tests_pass(package, railyard.environment, 2)
