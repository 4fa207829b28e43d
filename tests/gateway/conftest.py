from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import railyard.gateway.process
from railyard.gateway.address import known_url
from tests.dfs.conftest import Dfs, small_topology


class Web:
    """A block store with a gateway: 2 racks of 2 nodes, blocks of 100,000 bytes."""

    def __init__(self, dfs: Dfs) -> None:
        self.dfs = dfs
        url = known_url(dfs.folder)
        assert url is not None
        self.url = url

    def path(self, path: str, **parameters: object) -> str:
        """The URL of a path, with parameters."""
        query = "&".join(f"{name.replace('_', '.')}={value}" for name, value in parameters.items())
        return f"{self.url}/webhdfs/v1{path}?{query}"


@pytest.fixture(scope="module")
def web() -> Iterator[Web]:
    with tempfile.TemporaryDirectory(prefix="ry-") as parent:
        mains = {"gateway": railyard.gateway.process.main}
        with Dfs(Path(parent), small_topology(), "fast", **mains) as dfs:
            yield Web(dfs)
