"""``--examples-factor N`` multiplies examples and limits of property tests, and of no others."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ("pytester",)

ROOT = Path(__file__).parent.parent
TESTS = """
from collections import Counter

import pytest
from hypothesis import given, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, rule

seen = Counter()


@given(strategies.integers())
def test_by_profile(number):
    seen["profile"] += 1


@pytest.mark.timeout(40)
@pytest.mark.parametrize("way", ["there", "back"])
@settings(max_examples=7)
@given(number=strategies.integers())
def test_of_its_own(way, number):
    seen[way] += 1


class Machine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        seen["machine"] += 1

    @rule(number=strategies.integers())
    def step(self, number):
        pass


Machine.TestCase.settings = settings(max_examples=5, stateful_step_count=2)
TestMachine = Machine.TestCase


def test_what_was_seen(request):
    assert seen == {"profile": 300, "there": 21, "back": 21, "machine": 15}
    limits = {item.name: item.get_closest_marker("timeout") for item in request.session.items}
    assert limits.pop("test_what_was_seen") is None
    assert {name: mark.args for name, mark in limits.items()} == {
        "test_by_profile": (180,),
        "test_of_its_own[there]": (120,),
        "test_of_its_own[back]": (120,),
        "runTest": (180,),
    }
"""


def test_examples_and_limits_are_multiplied_once_each(run):
    run("3").assert_outcomes(passed=5)


def test_no_examples_are_refused(run):
    result = run("0")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --examples-factor 0: need a whole number >= 1"])


@pytest.fixture
def run(pytester, monkeypatch):
    """Runs the tests above with this factor in a pytest process of its own."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini("[pytest]\ntimeout = 60")
    pytester.makepyfile(TESTS)

    def run(factor: str) -> pytest.RunResult:
        return pytester.runpytest_subprocess("-p", "tests.examples", "--examples-factor", factor)

    return run
