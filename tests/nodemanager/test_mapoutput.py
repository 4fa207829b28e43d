"""The file of a map's output, sound and damaged."""

import pytest
from crc32c import crc32c

from cluster.errors import PeerError
from cluster.runfolder import RunFolder
from nodemanager.assembly import Assembly
from nodemanager.mapoutput import MapOutput, OutputUnreadable, output_path, write_output
from nodemanager.messages import OutputPart

PARTITIONS = [[b"abc", memoryview(b"def")], [], [bytearray(b"x" * 5000)], [b""]]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "shuffle" / "j1.m0.0"
    assert write_output(path, PARTITIONS) == (6, 0, 5000, 0)
    return path


def test_partitions_come_back_with_their_checksums(path):
    output = MapOutput(path)
    for number, pieces in enumerate(PARTITIONS):
        data, checksum = output.partition(number)
        assert bytes(data) == b"".join(pieces)
        assert checksum == crc32c(data)
    for number in (-1, 4):
        with pytest.raises(PeerError, match=f"partition {number}: there are 4"):
            output.partition(number)


def test_output_that_cannot_be_written_leaves_no_file(tmp_path):
    with pytest.raises(TypeError):
        write_output(tmp_path / "j1.m0.0", [[b"abc"], ["no bytes"]])
    assert list(tmp_path.iterdir()) == []


def test_views_outlive_the_file(path):
    data, _ = MapOutput(path).partition(0)
    path.unlink()
    assert bytes(data) == b"abcdef"


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
        pytest.param(lambda data: b"", "empty", id="empty"),
        pytest.param(lambda data: data[:-30] + b"?" + data[-29:], "index is damaged", id="index"),
        pytest.param(lambda data: data[100:], "", id="beginning gone"),
    ],
)
def test_damage_is_told(path, damage, problem):
    path.write_bytes(damage(path.read_bytes()))
    if problem:
        with pytest.raises(OutputUnreadable, match=problem):
            MapOutput(path)
    else:  # the index does not tell, the checksum does
        data, checksum = MapOutput(path).partition(2)
        assert crc32c(data) != checksum


def test_a_missing_file_is_told(path):
    path.unlink()
    with pytest.raises(OutputUnreadable, match="No such file"):
        MapOutput(path)


@pytest.mark.parametrize("attempt", ["../../etc/passwd", "j1.m0", "", "j1.m0.0/../x"])
def test_only_attempts_have_an_output(tmp_path, attempt):
    with pytest.raises(PeerError, match="is no attempt"):
        output_path(RunFolder(tmp_path), "r0n0", attempt)


@pytest.mark.parametrize("step", [1, 2, 3, 7, 100])
def test_a_stream_cut_anywhere_becomes_the_same_parts(step):
    parts = [b"", b"abc", b"", b"", b"defghij", b"k", b""]
    expected = [OutputPart(len(part), crc32c(part)) for part in parts]
    assembly = Assembly(expected)
    stream = memoryview(b"".join(parts))
    for offset in range(0, len(stream), step):
        assembly.add(stream[offset : offset + step])
    assert [bytes(part) for part in assembly.parts] == parts
    assert assembly.damaged() == []


def test_damaged_parts_are_named():
    parts = [b"abc", b"", b"def"]
    assembly = Assembly([OutputPart(3, crc32c(b"abc")), OutputPart(0, 0), OutputPart(3, 1)])
    assembly.add(memoryview(b"".join(parts)))
    assert assembly.damaged() == [2]
