"""docs/tutorials/write-a-circuit-policy.md as a reader follows it: what it shows is run here."""

from tests.integration.tutorials import own_tests_pass

PAGE = "tutorials/write-a-circuit-policy.md"


def test_the_circuit_policy_runs_jobs_in_both_clocks(railyard, package):
    flows = ("--flow-scheduler", "largest")
    said = railyard.ok("simulate", "--workload", "mix,jobs=3", *flows)
    assert "flows largest" in said
    said = railyard.ok("run", "terasort", "--size", "3GB", *flows)
    assert "flows largest" in said


def test_its_own_tests_pass(railyard, package):
    own_tests_pass(package, railyard.environment, 2)
