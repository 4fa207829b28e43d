"""The block store on a full disk, for a moment or for good."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest

from railyard.dfs.writing import NoRoom
from tests.dfs.conftest import Dfs, small_topology
from tests.fulldisk import small_disk


@pytest.fixture
def short_folder():
    """A temporary folder with a path short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="ry-") as folder:
        yield Path(folder)


def test_a_disk_that_is_full_for_a_moment_costs_time_only(short_folder):
    with (
        small_disk(short_folder, 4 * 2**20) as disk,
        Dfs(disk.path, small_topology(), "fast") as dfs,
    ):
        client, data = dfs.client(), bytes(range(256)) * 1000
        client.mkdir("/in")
        disk.fill()
        later = threading.Timer(0.7, disk.free)
        later.start()
        client.write("/in/a", [data])
        later.join()
        assert b"".join(client.read("/in/a")) == data


def test_a_disk_that_stays_full_is_named_and_nothing_stays_of_the_file(short_folder, monkeypatch):
    monkeypatch.setattr("railyard.dfs.writing.PAUSES_S", (0.0,) * 5)
    with (
        small_disk(short_folder, 4 * 2**20) as disk,
        Dfs(disk.path, small_topology(), "fast") as dfs,
    ):
        client = dfs.client()
        disk.fill()
        with pytest.raises(NoRoom, match=f"no space left on {disk.path}"):
            client.write("/a", [bytes(500_000)])
        disk.free()
        assert not client.exists("/a")
        client.write("/a", [bytes(500_000)])
