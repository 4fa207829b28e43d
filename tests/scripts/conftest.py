"""Fixtures for tests that run whole commands."""

import pytest

from tests.command_line import command_line

railyard = pytest.fixture(command_line, name="railyard")
