"""Centralized on a real cluster: input really moves to one site, before the job runs there."""

import json

from railyard.cluster.files.runfolder import RunFolder

SITES = """
name = "sites"
description = "4 sites, of which r2 takes in the most"
scale = 1000
[racks]
count = 4
nodes = 1
slots = 2
[links]
nic = "unlimited"
uplink = "2Gbps"
way = "wan"
[rack]
r2 = { slots = 4, uplink = "4Gbps" }
[storage]
block = "64MB"
replication = 1
[compute]
map_rate = "400MB/s"
reduce_rate = "400MB/s"
"""


NODES = {f"r{site}n0" for site in range(4)}


def holders(railyard, path):
    """The nodes with blocks of a file, as ``fs locations`` prints them."""
    rows = railyard.ok("fs", "locations", path).splitlines()
    return [word for row in rows for word in row.split() if word.strip(",") in NODES]


def test_input_is_moved_to_one_site_and_the_output_is_right(railyard, tmp_path):
    (tmp_path / "sites.toml").write_text(SITES)
    place = tmp_path / "sites.toml"
    often = ("--set", "links.period_s=0.1")  # so that a look at the links meets the moves
    railyard.ok("up", "--topology", place, "--scheduler", "centralized", "--seed", "3", *often)
    words = "".join(f"word{number % 97} of {number % 13}\n" for number in range(50_000))
    (tmp_path / "text").write_text(words)
    railyard.ok("fs", "put", "text", "/text", cwd=tmp_path)
    before = holders(railyard, "/text")
    assert len(set(before)) > 1
    railyard.ok("slots", "set", "r0", "1")  # it holds a part of the text
    job = ("run", "wordcount", "--input", "dfs:/text", "--reduces", "2")
    said = railyard.ok(*job, "--json", "sum.json", cwd=tmp_path)
    assert "as counted independently" in said
    assert set(holders(railyard, "/text")) == {"r2n0"}
    summary = json.loads((tmp_path / "sum.json").read_text())
    figures = summary["figures"]["centralized"]
    assert figures["blocks_moved"] == sum(node != "r2n0" for node in before)
    assert summary["bytes"]["wan"] >= figures["blocks_moved_bytes"] > 0
    assert summary["locality"]["remote"] == 0
    assert railyard.run("fs", "fsck").returncode == 0
    [folder] = railyard.run_folders()
    events = RunFolder(folder).jobs / "events.jsonl"
    heard = {json.loads(row)["type"] for row in events.read_text().splitlines()}
    assert heard >= {"data-stored", "input-moved", "links-observed", "slots-changed"}
    railyard.ok("replay", events)
    railyard.ok("down")
    assert railyard.nothing_left()
