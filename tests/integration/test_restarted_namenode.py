"""The NameNode is killed while files are put, read, written and committed: no byte is missing."""

import json
import os

from tests.integration.processes import attempts_of, folder_of, restart
from tests.waiting import wait_for


def successes(line, prefix):
    whole, _, _ = folder_of(line).events.read_text().rpartition("\n")
    events = [json.loads(each) for each in whole.splitlines()]
    ended = [each["attempt"] for each in events if each.get("type") == "attempt-succeeded"]
    return sum(each.startswith(prefix) for each in ended)


def test_nothing_is_lost_with_the_namenode(cluster, tmp_path):
    data = os.urandom(40_000_000)
    (tmp_path / "file").write_bytes(data)
    put = cluster.start("fs", "put", tmp_path / "file", "/file")
    blocks = folder_of(cluster).path.glob
    wait_for(lambda: len(list(blocks("nodes/*/blocks/b*"))) > 20, why="blocks of the file")
    assert put.poll() is None, "it is under way"
    restart(cluster, "namenode")
    _, errors = put.communicate(timeout=60)
    assert put.returncode == 0, errors

    sort = cluster.start("run", "terasort", "--size", "1500MB", "--json", tmp_path / "sort.json")
    for prefix in ("j2.m", "j2.r"):  # they read, and they write
        wait_for(lambda prefix=prefix: attempts_of(cluster, prefix), 40, f"{prefix} runs")
        restart(cluster, "namenode")
    wait_for(lambda: successes(cluster, "j2.r") == 3, 60, "all that is left is the commit")
    restart(cluster, "namenode")
    said, errors = sort.communicate(timeout=90)
    assert sort.returncode == 0, errors
    assert "15000 records in order" in said
    assert json.loads((tmp_path / "sort.json").read_text())["tasks"]["failed"] == 0

    cluster.ok("fs", "get", "/file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == data
    wait_for(lambda: "healthy" in cluster.run("fs", "fsck").stdout, why="all replicas")
    status = cluster.ok("status")
    assert "started again; died 4 times: signal 9" in status
    assert "safe mode" not in status
