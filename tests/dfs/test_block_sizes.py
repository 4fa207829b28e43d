"""Files with blocks of their own size, and folders that take the place of empty ones."""

from __future__ import annotations

import pytest

from railyard.cluster.errors import Refused


@pytest.fixture
def dfs(start_dfs):
    return start_dfs()


def lengths(client, path):
    return [block.stored_length for block in client.locations(path)]


def test_a_file_keeps_its_block_size_across_a_rename_an_append_and_a_restart(dfs):
    client = dfs.client()
    client.fill("/f", client.create("/f", stored_block_bytes=1000), [b"x" * 2500])
    client.rename("/f", "/g")
    dfs.kill("namenode")
    dfs.start("namenode")
    client.append("/g", [b"y" * 700])
    assert lengths(client, "/g") == [1000, 1000, 1000, 200]
    assert client.status("/g").stored_block_bytes == 1000
    assert b"".join(map(bytes, client.read("/g"))) == b"x" * 2500 + b"y" * 700


def test_blocks_longer_than_the_topologys_are_refused(dfs):
    with pytest.raises(Refused, match="blocks of 100001 bytes: need at most 100000"):
        dfs.client().create("/f", stored_block_bytes=100_001)


def test_a_folder_takes_the_place_of_an_empty_one(dfs):
    client = dfs.client()
    client.write("/a/f", [b"x"])
    client.mkdir("/empty")
    client.write("/full/f", [b"y"])
    for target in ("/full", "/empty/../x"):
        with pytest.raises(Refused):
            client.rename("/a", target, overwrite=True)
    client.rename("/a", "/empty", overwrite=True)
    assert [each.path for each in client.list("/")] == ["/empty", "/full"]
    assert client.exists("/empty/f")
