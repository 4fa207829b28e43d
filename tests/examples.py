"""A plugin of pytest: ``--examples-factor N`` gives each property test N times its examples.

Profiles of hypothesis change only what a test leaves open; this holds for a ``max_examples`` of its
own as well. A test's limit of time grows with its examples.
"""

from __future__ import annotations

import pytest
from hypothesis import is_hypothesis_test, settings


def pytest_addoption(parser: pytest.Parser) -> None:
    help_ = "give each property test (-m hypothesis) N times its examples"
    parser.addoption("--examples-factor", type=int, default=1, metavar="N", help=help_)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    factor = config.getoption("--examples-factor")
    if factor < 1:
        raise pytest.UsageError(f"--examples-factor {factor}: need a whole number >= 1")
    if factor == 1:
        return
    properties = [item for item in items if is_hypothesis_test(item.obj)]
    for item in properties:
        limit = item.get_closest_marker("timeout")
        limit_s = float(limit.args[0] if limit else config.getini("timeout"))
        item.add_marker(pytest.mark.timeout(factor * limit_s), append=False)
    # A state machine keeps its settings in its class, all other tests in their function. Hypothesis
    # has no public name for the latter; its own plugin sets them by this one.
    for machine in {item.cls for item in properties if hasattr(item.cls, "settings")}:
        machine.settings = _multiplied(machine.settings, factor)
    for function in {item.function for item in properties if not hasattr(item.cls, "settings")}:
        own = function._hypothesis_internal_use_settings
        function._hypothesis_internal_use_settings = _multiplied(own, factor)


def _multiplied(own: settings, factor: int) -> settings:
    return settings(own, max_examples=factor * own.max_examples)
