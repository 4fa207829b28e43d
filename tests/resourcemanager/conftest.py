"""The ResourceManager under test, with stand-ins for everybody else."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from railyard.cluster.runfolder import RunFolder
from tests.resourcemanager.standins import Office


@pytest.fixture
def folder() -> Iterator[RunFolder]:
    home = Path(tempfile.mkdtemp(prefix="rm-"))
    yield RunFolder.create(home)
    shutil.rmtree(home)


@pytest.fixture
def office(folder: RunFolder) -> Iterator[Office]:
    made = Office(folder)
    yield made
    made.close()
