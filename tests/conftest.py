"""Settings of all tests: nothing is left behind, compiled loops check, hypothesis has time."""

import os

import pytest
from hypothesis import settings

from tests.command_line import command_line

pytest_plugins = ("tests.leaks", "tests.examples")

# Compiled loops check their indices in all tests, also in processes that tests start.
os.environ["NUMBA_BOUNDSCHECK"] = "1"

# No deadline: how long an example takes depends on what else the machine does.
settings.register_profile("railyard", deadline=None)
settings.load_profile("railyard")

#: The command ``railyard``, with a home of its own.
railyard = pytest.fixture(command_line, name="railyard")


def pytest_xdist_auto_num_workers(config) -> int:
    """How many workers ``-n auto`` starts: half of a worker's time is waiting for daemons."""
    return 2 * (os.cpu_count() or 1)
