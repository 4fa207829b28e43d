"""Inputs that people report of tools like ours, with the right values: one cluster for all.

``scripts/run-tests tests/cases`` runs them; its last line says how many give the right value.
A test is named after its case, ``test_case_07_...``; several tests may belong to one case.
"""

from __future__ import annotations

import re

import pytest

from tests.command_line import SMALL, command_line
from tests.hadoop import Hadoop

_CASE = re.compile(r"test_case_(\d\d)")


@pytest.fixture(scope="session", name="railyard")
def _railyard():
    yield from command_line()


@pytest.fixture(scope="session")
def hadoop(railyard):
    """Hadoop's commands, with a cluster that is up."""
    railyard.ok("up", "--topology", SMALL)
    yield Hadoop(railyard)
    railyard.ok("down")
    assert railyard.nothing_left()


def pytest_terminal_summary(terminalreporter):
    """How many cases there are, and of how many all tests passed."""
    wrong: dict[str, bool] = {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, ()):
            if case := _CASE.search(report.nodeid):
                wrong[case[1]] = wrong.get(case[1], False) or outcome != "passed"
    if wrong:
        right = sum(not each for each in wrong.values())
        terminalreporter.write_line(f"cases: {right} of {len(wrong)} give the right value")
