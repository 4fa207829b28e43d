"""How a task reads its files, in what order its clock runs, and what failures say."""

import pytest

from railyard.cluster.messages.execution import Split, TaskSpec
from railyard.cluster.topologies.tables import Compute, Links, RackShape
from railyard.cluster.topology import Topology
from railyard.jobs.records import checked_pairs
from railyard.jobs.taskio import JobError
from railyard.nodemanager.attempt.inputs import BlockFile
from railyard.nodemanager.attempt.pace import ComputeClock, paced_s
from railyard.nodemanager.failures import reason_of, tail_of, user_traceback

DATA = bytes(range(200))


class File:
    """A file of the block store, which notes how it is read."""

    stored_bytes = len(DATA)

    def __init__(self):
        self.reads = []
        self.waited_s = 0.0

    def read(self, offset, length):
        self.reads.append((offset, length))
        self.waited_s += 0.01
        return memoryview(DATA)[offset : offset + length]


@pytest.fixture
def file():
    return File()


def block_file(file, *splits, after_read=lambda: None):
    splits = [Split(path="/f", stored_offset=at, stored_length=length) for at, length in splits]
    return BlockFile(file, splits, ComputeClock(), lambda: None, after_read)


def test_a_split_is_read_once_as_a_whole(file):
    reader = block_file(file, (50, 100))
    for offset in range(50, 150, 10):
        assert reader.read(offset, 10) == DATA[offset : offset + 10]
    assert file.reads == [(50, 100)]


def test_it_is_told_once_when_a_split_has_been_read(file):
    read = []
    reader = block_file(file, (50, 100), after_read=lambda: read.append(list(file.reads)))
    assert read == []
    for offset in range(50, 150, 10):
        reader.read(offset, 10)
    assert read == [[(50, 100)]]  # not before it was there


def test_bytes_around_the_split_are_read_as_asked_for(file):
    reader = block_file(file, (50, 100))
    assert reader.read(49, 20) == DATA[49:69]
    assert reader.read(140, 20) == DATA[140:160]
    assert reader.read(190, 20) == DATA[190:]
    assert reader.read(200, 20) == b""
    assert file.reads == [(49, 1), (50, 100), (150, 10), (190, 10)]


def test_any_range_of_several_splits(file):
    for start in range(0, 200, 7):
        for length in (1, 20, 90, 300):
            reader = block_file(file, (10, 40), (60, 40), (150, 100))
            file.read = lambda offset, length: memoryview(DATA)[offset : offset + length]
            assert reader.read(start, length) == DATA[start : start + length]


def test_waiting_for_other_nodes_bytes_does_not_count_as_computing(file, monkeypatch):
    own_s = 0.0
    monkeypatch.setattr("railyard.nodemanager.attempt.pace.now_s", lambda: own_s + file.waited_s)
    clock = ComputeClock()
    reader = BlockFile(file, [], clock, lambda: None, lambda: None)
    for offset in range(10):
        reader.read(offset, 1)
        own_s += 0.02
    assert file.waited_s == pytest.approx(0.1)
    assert clock.elapsed_s == pytest.approx(0.2)
    clock.restart()
    assert clock.elapsed_s == 0.0


def topology(mode):
    return Topology(
        name="t",
        scale=1000,
        racks=RackShape(count=1, nodes=1),
        links=Links(nic=1.0, uplink=1.0),
        compute=Compute(mode=mode, map_rate=2e6, reduce_rate=4e6),
    )


@pytest.mark.parametrize(
    ("mode", "reads", "expected_s"),
    [
        pytest.param("paced", (), 3.0, id="map"),
        pytest.param("paced", ("m",), 1.5, id="reduce"),
        pytest.param("real", (), 0.0, id="real"),
    ],
)
def test_pace_is_the_models_bytes_over_the_rate(mode, reads, expected_s):
    task = TaskSpec(stage="m", index=0, reads=reads)
    assert paced_s(topology(mode), task, stored_bytes=6000) == expected_s


def test_tail_is_of_whole_lines(tmp_path):
    file = tmp_path / "stderr"
    assert tail_of(file) == ""
    file.write_bytes(b"\xff short\n")
    assert tail_of(file) == "\ufffd short\n"
    file.write_text("".join(f"line {number}\n" for number in range(5000)))
    tail = tail_of(file)
    assert tail.endswith("line 4999\n")
    assert tail.startswith("line ")
    assert len(tail) <= 8192
    file.write_text("x" * 20000 + "\n")
    assert tail_of(file) == "x" * 8191 + "\n"


def test_reason_is_one_line():
    assert reason_of(KeyError("a")) == "KeyError: 'a'"
    assert reason_of(ValueError("\n  first\nsecond")) == "ValueError: first"
    assert reason_of(AssertionError()) == "AssertionError"
    assert reason_of(OSError("\x1b[31mred")) == "OSError: \\x1b[31mred"
    assert len(reason_of(ValueError("y" * 10**6))) < 400


def test_reason_of_an_error_that_cannot_tell():
    class Mute(Exception):
        def __str__(self):
            raise RuntimeError

    assert reason_of(Mute()) == "Mute: (what it says cannot be shown)"


def test_an_error_of_ours_needs_a_traceback_only_if_it_came_through_the_users_lines():
    with pytest.raises(JobError) as raised:
        list(checked_pairs([1], len))
    assert "list(checked_pairs" in user_traceback(raised.value)
    raised.value.__traceback__ = raised.value.__traceback__.tb_next
    assert user_traceback(raised.value) == ""
