"""The file of a map's output, sound and damaged."""

from __future__ import annotations

import errno
import os
import random
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import PeerError, Refused
from railyard.cluster.messages import (
    AttemptKilled,
    AttemptSucceeded,
    CancelFlow,
    FlowFailed,
    FlowFinished,
    KillAttempt,
)
from railyard.cluster.runfolder import RunFolder
from railyard.netemu.messages import Chunk, ChunkTaken, TransferFailed
from railyard.nodemanager.attempt.fetches import Assembly
from railyard.nodemanager.attempt.programs import localized_folders
from railyard.nodemanager.messages import OutputPart, OutputsFound, ReadOutputs
from railyard.nodemanager.process import find_leftovers
from railyard.nodemanager.shuffle import (
    MapOutput,
    OutputDamaged,
    OutputUnreadable,
    PartsSource,
    output_path,
    part_seed,
    write_output,
)

PARTITIONS = [[b"abc", memoryview(b"def")], [], [bytearray(b"x" * 5000)], [b""]]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "shuffle" / "j1.m0.0"
    assert write_output(path, PARTITIONS) == (6, 0, 5000, 0)
    return path


def source_of(path, *numbers):
    output = MapOutput(path)
    return PartsSource([output.part(number) for number in numbers])


def test_partitions_come_back_with_their_checksums(path):
    output = MapOutput(path)
    for number, pieces in enumerate(PARTITIONS):
        data = output.read(number)
        assert bytes(data) == b"".join(pieces)
        assert output.part(number).checksum == crc32c(data, part_seed(path.name, number))
    for number in (-1, 4):
        with pytest.raises(PeerError, match=f"partition {number}: there are 4"):
            output.part(number)


def test_output_that_cannot_be_written_leaves_no_file(tmp_path):
    with pytest.raises(TypeError):
        write_output(tmp_path / "j1.m0.0", [[b"abc"], ["no bytes"]])
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=50)
@given(data=st.data())
def test_a_source_gives_the_parts_one_after_the_other(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("o")
    rng, parts, wanted = random.Random(1), [], b""
    sizes = st.lists(st.lists(st.integers(0, 3000), min_size=1, max_size=3), max_size=4)
    for number, lengths in enumerate(data.draw(sizes)):
        partitions = [rng.randbytes(length) for length in lengths]
        write_output(folder / f"j1.m{number}.0", [[partition] for partition in partitions])
        chosen = data.draw(st.integers(0, len(lengths) - 1))
        parts.append(MapOutput(folder / f"j1.m{number}.0").part(chosen))
        wanted += partitions[chosen]
    source, got = PartsSource(parts), b""
    assert source.left == len(wanted)
    while source.left:
        size = data.draw(st.integers(1, 4000))
        got += source.read(size)
        assert len(got) == len(wanted) - source.left
    source.close()
    assert got == wanted


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_source_holds_one_file_and_none_in_the_end(path):
    before = open_files()
    source = source_of(path, 0, 2)
    source.read(3)
    assert open_files() == before + 1
    source.read(1000)
    assert open_files() == before + 1
    source.close()
    assert open_files() == before


def test_a_changed_file_is_noticed(path):
    output = MapOutput(path)
    assert output.is_still(path)
    write_output(path, [[b"other"]])
    assert not output.is_still(path)
    path.unlink()
    assert not output.is_still(path)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        pytest.param(lambda data: data[:-1], "footer is damaged", id="cut by a byte"),
        pytest.param(lambda data: data[:10], "cut short at 10 bytes", id="cut to a few"),
        pytest.param(lambda data: b"", "cut short at 0", id="empty"),
        pytest.param(lambda data: data[:-30] + b"?" + data[-29:], "index is damaged", id="index"),
        pytest.param(lambda data: data[6:], "checksum is wrong", id="beginning gone"),
    ],
)
def test_damage_is_told(path, damage, problem):
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(OutputDamaged, match=problem):
        MapOutput(path).read(2)


def read_all(path):
    return [bytes(MapOutput(path).read(number)) for number in range(3)]


def test_every_flipped_byte_is_found(tmp_path):
    path = tmp_path / "j1.m0.0"
    write_output(path, [[b"abcdef"], [], [b"ghi"]])
    sound = path.read_bytes()
    for at in range(len(sound)):
        path.write_bytes(sound[:at] + bytes([sound[at] ^ 0x10]) + sound[at + 1 :])
        with pytest.raises(OutputDamaged):
            read_all(path)


def test_what_belongs_to_another_map_or_partition_is_damaged(path):
    other = path.with_name("j1.m1.0")
    write_output(other, [[b"ABC", b"DEF"], [b"x"], [bytearray(b"y" * 5000)], []])
    path.rename(path.with_name("kept"))
    other.rename(path)
    for number in range(4):  # an empty one too
        with pytest.raises(OutputDamaged, match=f"j1.m0.0: partition {number} is damaged"):
            MapOutput(path).read(number)
    assert len({part_seed(f"j1.m{m}.0", p) for m in range(100) for p in range(100)}) == 100**2


def test_a_file_that_is_cut_while_it_is_sent_is_an_error_and_never_wrong(path):
    whole = b"abcdef" + b"x" * 5000
    for size in range(0, path.stat().st_size, 97):
        source = source_of(path, 0, 2)
        got, reason = bytes(source.read(1000)), ""
        sound = path.read_bytes()
        os.truncate(path, size)
        while source.left and not reason:
            try:
                got += source.read(1000)
            except OutputDamaged as error:
                reason = str(error)
        assert size >= len(whole) or "cut short at" in reason
        assert whole.startswith(got)
        source.close()
        path.write_bytes(sound)


def test_a_file_that_was_replaced_is_not_sent(path):
    source = source_of(path, 2)
    write_output(path, [[b"other"]])
    with pytest.raises(OutputDamaged, match="changed while it was sent"):
        source.read(10)


def test_what_cannot_be_read_just_now_is_not_damaged(path, monkeypatch):
    def none_left(*_):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(OutputUnreadable, match="Too many open files") as caught:
        MapOutput(path)
    assert not isinstance(caught.value, OutputDamaged)


def test_what_is_no_file_keeps_nobody_waiting(path):
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(OutputDamaged, match="cut short at 0"):
        MapOutput(path)


def test_a_missing_file_is_told(path):
    path.unlink()
    with pytest.raises(OutputDamaged, match="No such file"):
        MapOutput(path)


@pytest.mark.parametrize("attempt", ["../../etc/passwd", "j1.m0", "", "j1.m0.0/../x"])
def test_only_attempts_have_an_output(tmp_path, attempt):
    with pytest.raises(PeerError, match="is no attempt"):
        output_path(RunFolder(tmp_path), "r0n0", attempt)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_a_stream_cut_anywhere_becomes_the_same_parts(step):
    parts = [b"", b"abc", b"", b"", b"defghij", b"k", b""]
    seeds = range(len(parts))
    sums = map(crc32c, parts, seeds)
    expected = [OutputPart(*each) for each in zip(map(len, parts), sums, strict=True)]
    assembly = Assembly(expected, seeds)
    stream = memoryview(b"".join(parts))
    for offset in range(0, len(stream), step):
        assembly.add(stream[offset : offset + step])
    found, damaged = assembly.parts()
    assert [bytes(part) for part in found] == parts
    assert damaged == []


def test_damaged_parts_are_named():
    parts = [b"abc", b"", b"def"]
    expected = [OutputPart(3, crc32c(b"abc")), OutputPart(0, 0), OutputPart(3, crc32c(b"def"))]
    for seeds, damaged in [((0, 0, 0), []), ((0, 1, 2), [1, 2])]:
        assembly = Assembly(expected, seeds)
        assembly.add(memoryview(b"".join(parts)))
        assert assembly.parts()[1] == damaged


# What is found on the disks of a NodeManager that died.


NODES = ("r0n0", "r0n1")


@pytest.fixture
def folder(tmp_path):
    return RunFolder(tmp_path)


def write(folder, attempt, node="r0n0", size=1000):
    path = output_path(folder, node, attempt)
    write_output(path, [[b"a" * size], [b"b" * size]])
    return path


def test_nothing_is_found_on_new_disks(folder):
    assert find_leftovers(folder, NODES) == ({"r0n0": (), "r0n1": ()}, set())


def test_whole_output_is_found_and_what_was_being_written_is_removed(folder):
    for attempt, node in (("j1.m0.0", "r0n0"), ("j1.m3.1", "r0n1"), ("j2.m0.0", "r0n0")):
        write(folder, attempt, node)
    half = output_path(folder, "r0n0", "j1.m4.0").with_name("j1.m4.0.new")
    half.write_bytes(b"half of it")
    strange = output_path(folder, "r0n0", "j7.m0.0")
    (strange.parent / "folder").mkdir(parents=True)
    (localized_folders(folder, "r0n1") / "j5").mkdir(parents=True)
    outputs, jobs = find_leftovers(folder, NODES)
    assert outputs == {"r0n0": ("j1.m0.0", "j2.m0.0"), "r0n1": ("j1.m3.1",)}
    assert sorted(jobs) == ["j1", "j2", "j5", "j7"]
    assert not half.exists()
    assert list(strange.parent.iterdir()) == []


def damage_output(path, at):
    with open(path, "r+b") as file:
        file.seek(at, os.SEEK_SET if at >= 0 else os.SEEK_END)
        byte = file.read(1)
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte[0] ^ 1]))


@pytest.mark.parametrize("at", [5, 1500, -30, -12, -1])
def test_damaged_output_counts_as_lost(folder, at):
    write(folder, "j1.m0.0")
    damage_output(write(folder, "j1.m1.0"), at)
    assert find_leftovers(folder, NODES)[0]["r0n0"] == ("j1.m0.0",)


@pytest.mark.parametrize("length", [0, 10, 2000, 2050])
def test_output_that_was_cut_short_counts_as_lost(folder, length):
    os.truncate(write(folder, "j1.m0.0"), length)
    assert find_leftovers(folder, NODES)[0]["r0n0"] == ()


def test_so_much_is_checked_and_the_rest_when_it_is_read(folder):
    for number in range(4):
        damage_output(write(folder, f"j1.m{number}.0"), at=5)
    found = find_leftovers(folder, NODES, checked_bytes=4500)[0]["r0n0"]
    assert found == ("j1.m2.0", "j1.m3.0")


def test_output_of_another_attempt_under_its_name_counts_as_lost(folder):
    path = write(folder, "j1.m0.0")
    path.rename(path.with_name("j1.m1.0"))
    assert find_leftovers(folder, NODES)[0]["r0n0"] == ()


# Fetches: from the own disk, within the rack and across; damage, refusals, cancellation.


#: Prints what it fetched.
READER = """
import zlib
from railyard import Job
from railyard.jobs.model import Stage
from railyard.jobs.taskio import TaskResult

class Op:
    def run(self, task, io, counters):
        for stage, output in io.fetched():
            print(stage, len(output), zlib.crc32(output), flush=True)
        return TaskResult(counters=counters)

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
