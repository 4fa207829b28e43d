"""The network emulator is killed and comes back: transfers go on, and nothing is done twice."""

import json
import os
import re

import pytest

from railyard.resourcemanager.driving.eventlog import replay
from tests.command_line import command_line, up
from tests.integration.processes import attempts_of, folder_of, restart
from tests.waiting import wait_for

#: With circuits for all that a reduce fetches, and a link of clients, so that a put takes its time.
SHAPE = (
    "racks.count=3,racks.nodes=2,racks.slots=2,ocs.elephant_bytes=10MB,ocs.port_bytes_per_s=4Gbps"
)
TOPOLOGY = f"hybrid-8x4,{SHAPE},client.uplink=10Gbps"


@pytest.fixture(scope="module")
def cluster():
    for line in command_line():
        yield from up(line, "--topology", TOPOLOGY, "--scheduler", "co-scheduler")


def test_a_put_goes_on(cluster, tmp_path):
    (tmp_path / "file").write_bytes(os.urandom(3_000_000))
    cluster.ok("network", "set", "r2.up", "5Gbps")
    put = cluster.start("fs", "put", tmp_path / "file", "/file")
    blocks = folder_of(cluster).path / "nodes"
    wait_for(lambda: any(blocks.glob("*/blocks/*")), why="the first bytes are there")
    restart(cluster, "network")
    _, errors = put.communicate(timeout=60)
    assert put.returncode == 0, errors
    cluster.ok("fs", "get", "/file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == (tmp_path / "file").read_bytes()
    [shown] = [row.split() for row in cluster.ok("network", "show").splitlines() if "r2.up" in row]
    assert shown[:3] == ["r2.up", "5.00", "10.0"]


def test_a_shuffle_goes_on(cluster, tmp_path):
    sort = cluster.start("run", "terasort", "--size", "2GB", "--json", tmp_path / "sort.json")
    wait_for(lambda: attempts_of(cluster, "j2.r"), 40, "the shuffle has begun")
    log, was_away = folder_of(cluster).log("resourcemanager"), "the network was away for "
    before = log.read_text().count(was_away)
    restart(cluster, "network")
    wait_for(lambda: log.read_text().count(was_away) > before, why="it is back")
    restart(cluster, "resourcemanager")  # the next one knows for how long it was away, too
    said, errors = sort.communicate(timeout=90)
    assert sort.returncode == 0, errors
    assert "20000 records in order" in said
    assert "; the network was away for " in said
    summary = json.loads((tmp_path / "sort.json").read_text())
    assert summary["bytes"]["ocs"] > 0
    assert 0 < summary["fidelity"]["network_away_s"] < summary["jobs"][0]["jct_s"]
    tasks = summary["tasks"]
    assert tasks["launched"] == tasks["succeeded"]
    names = [row["name"] for row in attempts_of(cluster, "j2.")]
    assert len(names) == len(set(names)) == tasks["launched"]
    assert re.search(r"started again; died \d times?: signal 9", cluster.ok("status"))
    assert len(list(replay(folder_of(cluster).events))) > 0
