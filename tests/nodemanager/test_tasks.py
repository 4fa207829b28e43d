"""Whole map and reduce tasks through real DataNodes, NodeManagers and the network emulator."""

from __future__ import annotations

import collections
import os
import random

import psutil
import pytest

from railyard.cluster.messages import (
    AttemptFailed,
    AttemptKilled,
    AttemptSucceeded,
    DiscardJob,
    FlowFinished,
    KillAttempt,
    Split,
)
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topologyfile import Compute, Links, Storage
from railyard.dfs.client import DfsClient
from railyard.netemu.messages import OpenFlow
from tests.nodemanager.conftest import COUNT

NODES = ["r0n0", "r0n1", "r1n0", "r1n1"]
SCALE = 10


@pytest.fixture(scope="module")
def cluster(start_cluster):
    """Paced: 4 MB/s of the model's bytes for maps, 8 MB/s for reduces."""
    return start_cluster(
        whole=True,
        scale=SCALE,
        links=Links(nic=1e9, uplink=1e9),
        storage=Storage(block=1_000_000, replication=2),
        compute=Compute(mode="paced", map_rate=4e6, reduce_rate=8e6),
    )


@pytest.fixture
def dfs(cluster):
    client = DfsClient(cluster.transport, cluster.config.topology)
    yield client
    client.close()


def text(lines, seed=1):
    rng = random.Random(seed)
    words = [f"word{n}" for n in range(300)]
    return "".join(" ".join(rng.choices(words, k=12)) + "\n" for _ in range(lines)).encode()


def run_maps(cluster, dfs, job, path, reduces):
    """A map for each block, on the nodes in turn; {attempt: its node}, and their facts."""
    placed = {}
    for number, block in enumerate(dfs.locations(path)):
        split = Split(
            path=path, stored_offset=block.stored_offset, stored_length=block.stored_length
        )
        attempt, node = f"{job}.m{number}.0", NODES[number % 4]
        cluster.launch(attempt, node, splits=(split,), partitions=reduces)
        placed[attempt] = node
    return placed, [cluster.ending(attempt) for attempt in placed]


def fetch_all(cluster, reader, dst, partition, maps, facts):
    """Open a flow for each node's outputs and have the reader fetch them, as the core does."""
    network = cluster.transport.link("network")
    started = []
    for node in NODES:
        outputs = tuple(attempt for attempt, where in maps.items() if where == node)
        if not outputs:
            continue
        flow = f"{reader}-{node}"
        if node != dst:
            size_bytes = sum(facts[output].partition_bytes[partition] for output in outputs)
            network.call(OpenFlow(flow=flow, src=node, dst=dst, size_bytes=size_bytes), Done)
        started.append(cluster.fetch(reader, dst, node, *outputs, partition=partition, flow=flow))
    network.close()
    return started


def test_word_count(cluster, dfs, job):
    data = text(10_000)
    dfs.write("/in", [data])
    cluster.load(job, COUNT)
    maps, facts = run_maps(cluster, dfs, job, "/in", reduces=2)
    assert len(maps) == len(dfs.locations("/in")) > 4
    assert all(isinstance(fact, AttemptSucceeded) for fact in facts)
    assert sum(fact.input_bytes for fact in facts) == SCALE * len(data)
    by_attempt = {fact.attempt: fact for fact in facts}

    flows = []
    for partition, dst in enumerate(["r0n0", "r1n1"]):
        reader = f"{job}.r{partition}.0"
        path = f"/out/_temporary/{reader}/part"
        cluster.launch(reader, dst, reads=("m",), inputs=len(maps), output_path=path)
        flows += fetch_all(cluster, reader, dst, partition, maps, by_attempt)
    written = b""
    for partition in range(2):
        reader = f"{job}.r{partition}.0"
        ending = cluster.ending(reader)
        assert isinstance(ending, AttemptSucceeded), ending
        part = b"".join(bytes(piece) for piece in dfs.read(f"/out/_temporary/{reader}/part"))
        assert ending.output_bytes == SCALE * len(part)
        fetched_bytes = sum(fact.partition_bytes[partition] for fact in facts)
        assert ending.input_bytes == fetched_bytes
        assert ending.read_s > 0
        assert ending.computed_s >= fetched_bytes / 8e6
        written += part
    finished = {fact.flow for fact in cluster.facts if isinstance(fact, FlowFinished)}
    assert finished >= set(flows)
    counts = dict(line.split(b"\t") for line in written.splitlines())
    right = collections.Counter(data.split())
    assert {word: int(count) for word, count in counts.items()} == right


def test_locality_of_reads_is_counted(cluster, dfs, job):
    dfs.write("/near", [text(500)], replication=1)
    (block,) = dfs.locations("/near")
    (holder,) = block.nodes
    cluster.load(job, COUNT)
    split = Split(path="/near", stored_offset=0, stored_length=block.stored_length)
    in_rack = next(node for node in NODES if node[:2] == holder[:2] and node != holder)
    elsewhere = next(node for node in NODES if node[:2] != holder[:2])
    for number, node in enumerate([holder, in_rack, elsewhere]):
        cluster.launch(f"{job}.m{number}.0", node, splits=(split,), partitions=1)
    for number, kind in enumerate(["local_bytes", "rack_bytes", "remote_bytes"]):
        fact = cluster.ending(f"{job}.m{number}.0")
        assert getattr(fact, kind) == SCALE * block.stored_length
        assert fact.local_bytes + fact.rack_bytes + fact.remote_bytes == fact.input_bytes
        assert (fact.read_s > 0) == (kind != "local_bytes")
        assert fact.computed_s >= fact.input_bytes / 4e6


def test_paced_compute_takes_what_the_model_says(cluster, dfs, job):
    dfs.write("/paced", [text(1000)])
    (block,) = dfs.locations("/paced")
    cluster.load(job, COUNT)
    split = Split(path="/paced", stored_offset=0, stored_length=block.stored_length)
    begin_s = cluster.reactor_now()
    cluster.launch(f"{job}.m0.0", block.nodes[0], splits=(split,), partitions=1)
    fact = cluster.ending(f"{job}.m0.0")
    took_s = cluster.reactor_now() - begin_s
    model_s = SCALE * block.stored_length / 4e6
    assert model_s <= took_s
    reported = [
        progress.progress
        for progress in cluster.facts
        if getattr(progress, "attempt", "") == fact.attempt and hasattr(progress, "progress")
    ]
    assert reported == sorted(reported)
    assert len(reported) <= took_s / 0.25 + 1


def test_a_paced_map_ends_early_and_is_killed_until_it_is_told_of(cluster, dfs, job):
    dfs.write("/slow", [b"%01000d\n" % line for line in range(4000)])  # much to read, few words
    splits = tuple(
        Split(path="/slow", stored_offset=block.stored_offset, stored_length=block.stored_length)
        for block in dfs.locations("/slow")
    )
    cluster.load(job, COUNT)
    attempts = [f"{job}.m0.0", f"{job}.m1.0"]
    for attempt in attempts:
        cluster.launch(attempt, "r0n0", splits=splits, partitions=1)
    cluster.until(lambda: not any(psutil.pid_exists(cluster.pid(one)) for one in attempts))
    kill = KillAttempt(attempt=attempts[0], node="r0n0", reason="not wanted")
    cluster.send("r0", kill)
    assert isinstance(cluster.ending(attempts[0]), AttemptKilled)
    cluster.send("r0", DiscardJob(job=job))
    assert isinstance(cluster.ending(attempts[1]), AttemptKilled)


def test_missing_input_is_a_failure_that_names_it(cluster, job):
    cluster.load(job, COUNT)
    split = Split(path="/nowhere", stored_offset=0, stored_length=10)
    cluster.launch(f"{job}.m0.0", splits=(split,), partitions=1)
    failed = cluster.ending(f"{job}.m0.0")
    assert isinstance(failed, AttemptFailed)
    assert "/nowhere: no such file" in failed.reason


NICE = """
import os
from railyard import Job, Lines

class Nice(Job):
    input = Lines()
    def map(self, line: str):
        self.counters["niceness"] = os.nice(0)
        yield line, 1
    def reduce(self, line, counts):
        self.counters["niceness"] = os.nice(0)
        yield line, sum(counts)
"""


def test_code_of_users_runs_with_no_priority(cluster, dfs, job):
    """Maps fall back once they have read their input, reduces before they fetch theirs.

    Who forks them stays ahead, if that is permitted.
    """
    dfs.write("/nice", [b"a\n"])
    cluster.load(job, NICE)
    maps, (outcome,) = run_maps(cluster, dfs, job, "/nice", reduces=1)
    usual = os.nice(0)
    assert outcome.counters["niceness"] == usual
    reader, dst = f"{job}.r0.0", "r1n0"
    cluster.launch(reader, dst, reads=("m",), inputs=1, output_path=f"/out/{reader}")
    process = psutil.Process(cluster.pid(reader))
    while process.nice() != usual:  # it waits for the order to fetch; else the test's time is up
        cluster.idle(0.01)
    assert process.parent().nice() < usual or os.geteuid() != 0
    fetch_all(cluster, reader, dst, 0, maps, {outcome.attempt: outcome})
    assert cluster.ending(reader).counters["niceness"] == usual
