from __future__ import annotations

import random


def test_round_trip(start_dfs):
    dfs = start_dfs()
    client = dfs.client("r0n0")
    data = random.Random(1).randbytes(350_000)
    status = client.write("/a/b", [data])
    assert status.stored_length == len(data)
    assert b"".join(client.read("/a/b")) == data
    assert b"".join(dfs.client("r1n1").read("/a/b")) == data
    print(client.locations("/a/b"), client.check())
