"""Fetches: from the own disk, within the rack and across; damage, refusals, cancellation."""

import os

import pytest

from railyard.cluster.errors import Refused
from railyard.cluster.messages.execution import (
    AttemptKilled,
    AttemptSucceeded,
    CancelFlow,
    FlowFailed,
    FlowFinished,
    KillAttempt,
)
from railyard.netemu.messages import Chunk, ChunkTaken, TransferFailed
from railyard.nodemanager.mapoutput import output_path, write_output
from railyard.nodemanager.messages import OutputsFound, ReadOutputs

#: Adds up what it fetched and says so on stdout.
READER = """
import zlib
from railyard import Job
from railyard.jobs.model import Stage
from railyard.jobs.taskio import TaskResult

class Op:
    def run(self, task, io, counters):
        size = 0
        for stage, output in io.fetched():
            print(stage, len(output), zlib.crc32(output), flush=True)
            size += len(output)
        return TaskResult(input_bytes=size, counters=counters)

class Reader(Job):
    def stages(self):
        return (Stage("r", Op()),)
"""


@pytest.fixture
def outputs(cluster, job):
    """Map outputs on three nodes: {attempt: (node, its partition 1)}."""
    made = {}
    for number, node in enumerate(["r0n0", "r0n1", "r1n0", "r1n0", "r1n0"]):
        attempt = f"{job}.m{number}.0"
        data = bytes([number + 1]) * (number * 1_500_000)  # the first is empty, the last 6 MB
        write_output(output_path(cluster.folder, node, attempt), [[b"no"], [data], [b"not"]])
        made[attempt] = (node, data)
    return made


@pytest.fixture
def reader(cluster, job):
    def launch(inputs, name="r1"):
        cluster.load(job, READER)
        attempt = f"{job}.{name}.0"
        cluster.launch(attempt, "r0n0", reads=("m",), inputs=inputs)
        return attempt

    return launch


def fetch(cluster, reader, src, *outputs, flow=None):
    """Have the reader, on r0n0, fetch partition 1; the flow's name."""
    return cluster.fetch(reader, "r0n0", src, *outputs, flow=flow)


def printed(cluster, reader):
    """Sizes of what the reader got, sorted."""
    lines = (cluster.folder.attempt(reader) / "stdout").read_text().splitlines()
    return sorted(int(line.split()[1]) for line in lines)


def test_fetches_from_everywhere(cluster, job, outputs, reader):
    attempt = reader(inputs=5)
    names = list(outputs)
    flows = [
        fetch(cluster, attempt, "r0n0", names[0]),
        fetch(cluster, attempt, "r0n1", names[1]),
        fetch(cluster, attempt, "r1n0", *names[2:4]),
        fetch(cluster, attempt, "r1n0", names[4]),
    ]
    ending = cluster.ending(attempt)
    assert isinstance(ending, AttemptSucceeded)
    assert ending.input_bytes == sum(len(data) for _, data in outputs.values())
    assert printed(cluster, attempt) == [number * 1_500_000 for number in range(5)]
    for flow in flows:
        cluster.fact(FlowFinished, flow=flow)


def damage(path):
    """Change a byte in the middle of partition 1, which keeps its time and size."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("src", ["r0n0", "r0n1", "r1n0"])
@pytest.mark.parametrize("how", ["damaged", "missing", "cut short"])
def test_lost_output_is_named_and_fetched_from_where_its_map_ran_again(
    cluster, job, reader, src, how
):
    attempts = [f"{job}.m{number}.0" for number in range(3)]
    again = f"{job}.m1.1"
    for attempt in [*attempts, again]:
        write_output(output_path(cluster.folder, src, attempt), [[], [b"x" * 3_000_000]])
    path = output_path(cluster.folder, src, attempts[1])
    if how == "damaged":
        damage(path)
    elif how == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:1000])
    attempt = reader(inputs=3)
    failed = cluster.fact(FlowFailed, flow=fetch(cluster, attempt, src, *attempts))
    assert failed.lost == (attempts[1],)
    assert attempts[1] in failed.reason
    cluster.fact(FlowFinished, flow=fetch(cluster, attempt, src, attempts[0], again, attempts[2]))
    assert isinstance(cluster.ending(attempt), AttemptSucceeded)
    assert printed(cluster, attempt) == [3_000_000] * 3


@pytest.mark.parametrize("how", ["cut short", "overwritten", "swapped"])
def test_output_that_changes_while_it_is_sent_is_lost_and_nothing_else(cluster, job, reader, how):
    attempts = [f"{job}.m0.0", f"{job}.m1.0"]
    paths = [output_path(cluster.folder, "r1n0", attempt) for attempt in attempts]
    for path, byte in zip(paths, b"xy", strict=True):
        write_output(path, [[], [bytes([byte]) * 3_000_000]])
    served_by = cluster.nodemanager("r1").pid
    attempt = reader(inputs=2)
    with cluster.no_grants():
        flow = fetch(cluster, attempt, "r1n0", *attempts)
        cluster.until(lambda: flow in cluster.attached)
        cluster.grant(flow, some_bytes=1_000_000)
    if how == "cut short":
        os.truncate(paths[0], 1_500_000)
        os.truncate(paths[1], 2_000_000)
    elif how == "overwritten":
        for path in paths:
            with path.open("r+b") as file:
                file.write(b"z" * 2_900_000)
    else:
        paths[0].rename(paths[0].with_suffix(".kept"))
        paths[1].rename(paths[0])
        paths[0].with_suffix(".kept").rename(paths[1])
    cluster.grant(flow)
    cluster.fact(FlowFailed, flow=flow)
    again = cluster.fact(FlowFailed, flow=fetch(cluster, attempt, "r1n0", *attempts))
    assert again.lost == tuple(attempts)
    assert cluster.nodemanager("r1").pid == served_by
    for path in paths:
        write_output(path, [[], [b"x" * 3_000_000]])
    cluster.fact(FlowFinished, flow=fetch(cluster, attempt, "r1n0", *attempts))
    assert isinstance(cluster.ending(attempt), AttemptSucceeded)
    assert printed(cluster, attempt) == [3_000_000] * 2


def test_output_that_came_twice_is_handed_out_once(cluster, job, outputs, reader):
    attempt = reader(inputs=2)
    names = list(outputs)
    cluster.fact(FlowFinished, flow=fetch(cluster, attempt, "r0n1", names[1]))
    cluster.fact(FlowFinished, flow=fetch(cluster, attempt, "r0n1", names[1]))
    fetch(cluster, attempt, "r1n0", names[2])
    assert isinstance(cluster.ending(attempt), AttemptSucceeded)
    assert printed(cluster, attempt) == [1_500_000, 3_000_000]


def test_a_cancelled_fetch_is_forgotten_on_both_sides(cluster, job, outputs, reader):
    attempt = reader(inputs=1)
    names = list(outputs)
    with cluster.no_grants():
        held = fetch(cluster, attempt, "r1n0", names[2])
        cluster.until(lambda: held in cluster.attached)
        cluster.send("r0", CancelFlow(flow=held, dst="r0n0"))
        cluster.until(lambda: held in cluster.closed)
    fetch(cluster, attempt, "r1n0", names[2])
    assert isinstance(cluster.ending(attempt), AttemptSucceeded)
    assert not any(getattr(fact, "flow", "") == held for fact in cluster.facts)


def test_a_reader_that_dies_leaves_no_transfer_behind(cluster, job, outputs, reader):
    attempt = reader(inputs=1)
    with cluster.no_grants():
        held = fetch(cluster, attempt, "r1n0", list(outputs)[4])
        cluster.until(lambda: held in cluster.attached)
        order = KillAttempt(attempt=attempt, node="r0n0", reason="test")
        cluster.send("r0", order)
        assert isinstance(cluster.ending(attempt), AttemptKilled)
        cluster.grant(held, some_bytes=10)
        cluster.until(lambda: held in cluster.closed)  # the source has noticed


def test_a_refused_flow_fails_the_fetch_without_blame(cluster, job, outputs, reader):
    attempt = reader(inputs=1)
    names = list(outputs)
    with cluster.no_flows():
        failed = cluster.fact(FlowFailed, flow=fetch(cluster, attempt, "r1n0", names[2]))
    assert failed.lost == ()
    assert "no such flow" in failed.reason
    fetch(cluster, attempt, "r1n0", names[2])
    assert isinstance(cluster.ending(attempt), AttemptSucceeded)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"src": "r1n0"}, "r1n0 is no node of nodemanager-r0", id="other rack"),
        pytest.param({"partition": 3}, "partition 3: there are 3", id="no such partition"),
        pytest.param({"partition": -1}, r"\$\.partition", id="negative partition"),
        pytest.param({"outputs": ("../../../x",)}, "is no attempt", id="path"),
        pytest.param({"outputs": ()}, "asks for no output", id="nothing"),
    ],
)
def test_senseless_requests_are_refused(cluster, outputs, change, problem):
    link = cluster.transport.link("nodemanager-r0")
    usual = {"flow": "f", "src": "r0n0", "outputs": (next(iter(outputs)),), "partition": 1}
    with pytest.raises(Refused, match=problem):
        link.call(ReadOutputs(**(usual | change)), OutputsFound)
    link.close()


def test_transfer_messages_out_of_nowhere_change_nothing(cluster, job, outputs, reader):
    link = cluster.transport.link("nodemanager-r1")
    link.send(Chunk(transfer="f", stored_offset=0, stored_total=5), b"12345")
    link.send(ChunkTaken(transfer="f", stored_bytes=10**12))
    link.send(TransferFailed(transfer="f", reason="just so"))
    attempt = reader(inputs=1)
    fetch(cluster, attempt, "r1n0", list(outputs)[4])
    assert isinstance(cluster.ending(attempt), AttemptSucceeded)
    link.close()


def test_two_readers_of_one_output_at_once(cluster, job, outputs, reader):
    names = list(outputs)
    readers = [reader(inputs=1, name=f"r{number}") for number in range(2)]
    for attempt in readers:
        fetch(cluster, attempt, "r1n0", names[4])
    for attempt in readers:
        assert isinstance(cluster.ending(attempt), AttemptSucceeded)
        assert printed(cluster, attempt) == [6_000_000]


def test_attempts_and_fetches_over_tcp(start_cluster):
    cluster = start_cluster(tcp=True)
    path = output_path(cluster.folder, "r1n0", "j1.m0.0")
    write_output(path, [[], [b"x" * 3_000_000]])
    cluster.load("j1", READER)
    cluster.launch("j1.r1.0", "r0n0", reads=("m",), inputs=1)
    cluster.fact(FlowFinished, flow=fetch(cluster, "j1.r1.0", "r1n0", "j1.m0.0"))
    assert isinstance(cluster.ending("j1.r1.0"), AttemptSucceeded)
