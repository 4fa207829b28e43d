"""The public traces, where there are any."""

import os
from pathlib import Path

import pytest

_BESIDE = Path(__file__).parents[3] / "shared" / "data"


@pytest.fixture
def public_trace():
    """A public trace by its path below the folder of traces; skips if it is not there."""

    def find(name: str) -> Path:
        path = Path(os.environ.get("RAILYARD_TRACES", _BESIDE)) / name
        if not path.is_file():
            pytest.skip(f"{path} is not there: set RAILYARD_TRACES to the folder of traces")
        return path

    return find
