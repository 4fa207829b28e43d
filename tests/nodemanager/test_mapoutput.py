"""The file of a map's output, sound and damaged."""

import errno
import os
import random
from pathlib import Path

import pytest
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import PeerError
from railyard.cluster.files.runfolder import RunFolder
from railyard.nodemanager.attempt.assembly import Assembly
from railyard.nodemanager.mapoutput import (
    MapOutput,
    OutputDamaged,
    OutputUnreadable,
    PartsSource,
    output_path,
    part_seed,
    write_output,
)
from railyard.nodemanager.messages import OutputPart

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
    assert [bytes(part) for part in assembly.parts] == parts
    assert assembly.damaged() == []


def test_damaged_parts_are_named():
    parts = [b"abc", b"", b"def"]
    expected = [OutputPart(3, crc32c(b"abc")), OutputPart(0, 0), OutputPart(3, crc32c(b"def"))]
    for seeds, damaged in [((0, 0, 0), []), ((0, 1, 2), [1, 2])]:
        assembly = Assembly(expected, seeds)
        assembly.add(memoryview(b"".join(parts)))
        assert assembly.damaged() == damaged
