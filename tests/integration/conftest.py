"""Fixtures for tests with whole clusters."""

import pytest

from tests.command_line import SMALL, up
from tests.integration.tutorials import install


@pytest.fixture
def cluster(railyard):
    """The command line of a cluster that is up."""
    yield from up(railyard, "--topology", SMALL)


@pytest.fixture
def package(request, railyard, tmp_path):
    """The files of a tutorial, which the test names, on the Python path of the command line."""
    install(request.param, tmp_path)
    railyard.environment["PYTHONPATH"] = str(tmp_path)
    return tmp_path
