"""Every record of a file is read once, wherever the file was cut."""

from __future__ import annotations

from codecs import BOM_UTF8

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.cluster.messages.execution import Split
from railyard.jobs import FixedRecords, Lines
from railyard.jobs.formats import InputFormat
from railyard.jobs.local import BytesReader, cut_into_splits
from railyard.jobs.taskio import BadInput
from tests.streaming import run

TEXT = st.binary(max_size=200).map(lambda data: data.replace(b"\r", b"\n"))
LINES = st.lists(
    st.sampled_from([b"", b"\n", b"a", b"bc\n", b"\xff\n", b"x" * 90, BOM_UTF8]), max_size=12
)


def read_all(form: InputFormat, data: bytes, split_bytes: int) -> list[object]:
    file, records = BytesReader(data), []
    for split in cut_into_splits({"/f": len(data)}, split_bytes):
        for block in form.blocks(file, split):
            records += form.records(block)
    return records


@given(data=TEXT | LINES.map(b"".join), split=st.integers(1, 60), block=st.integers(1, 50))
def test_any_cut_of_a_text_gives_each_line_once(data, split, block):
    expected = data.removeprefix(BOM_UTF8).decode("utf-8", "surrogateescape").split("\n")
    if not expected[-1]:
        expected.pop()
    assert read_all(Lines(block_bytes=block), data, split) == expected


@given(
    count=st.integers(1, 40),
    length=st.integers(1, 9),
    split=st.integers(1, 60),
    block=st.integers(1, 50),
)
def test_any_cut_of_fixed_records_gives_each_once(count, length, split, block):
    records = [bytes([number]) * length for number in range(count)]
    form = FixedRecords(length, block_bytes=block)
    assert read_all(form, b"".join(records), split) == records


def test_lines_longer_than_the_search_window_are_whole():
    lines = [b"a" * 200_000, b"b", b"", b"c" * 300_001]
    expected = [line.decode() for line in lines]
    for split in (50_000, 100_001, 1_000_000):
        for tail in (b"", b"\n"):
            data = b"\n".join(lines) + tail
            assert read_all(Lines(block_bytes=70_000), data, split) == expected


def test_windows_line_ends_are_no_part_of_a_line():
    assert read_all(Lines(), b"one\r\ntwo\nthree\r\n", 100) == ["one", "two", "three"]


@pytest.mark.parametrize("data", [b"", b"\n", b"one\n" + BOM_UTF8 + b"two", b"a\r\n\r\n"])
def test_a_byte_order_mark_is_no_text_of_jobs_as_of_programs(data):
    for block in (1, 2, 100):
        lines = read_all(Lines(block_bytes=block), BOM_UTF8 + data, 100)
        assert lines == read_all(Lines(), data, 100)
    ran = run(BOM_UTF8 + data, mapper="cat", reduces="0")
    assert b"".join(ran.files).decode("utf-8").split("\n") == [*lines, ""]
    assert ran.counters.get("m.records_in", 0) == len(lines)


def test_bytes_that_are_no_utf8_come_back_as_they_were():
    (line,) = read_all(Lines(), b"caf\xe9", 100)
    assert line.encode("utf-8", "surrogateescape") == b"caf\xe9"


@pytest.mark.parametrize("form", [Lines(), FixedRecords(10)], ids=["lines", "records"])
def test_empty_file_is_refused_by_name(form):
    with pytest.raises(BadInput, match=r"^/in/data: is empty: need at least one"):
        form.check("/in/data", 0)


def test_cut_record_is_refused_with_its_offset():
    form = FixedRecords(100)
    message = r"^/in/data: the record at offset 200 is cut short: 50 of 100 bytes$"
    with pytest.raises(BadInput, match=message):
        form.check("/in/data", 250)
    file = BytesReader(bytes(250))
    first = Split(path="/in/data", stored_offset=0, stored_length=200)
    assert sum(len(block) for block in form.blocks(file, first)) == 200
    last = Split(path="/in/data", stored_offset=200, stored_length=50)
    with pytest.raises(BadInput, match=message):
        list(form.blocks(file, last))


@pytest.mark.parametrize("form", [Lines(), FixedRecords(10)], ids=["lines", "records"])
def test_file_that_ends_before_its_length_is_an_error(form):
    class Short(BytesReader):
        stored_bytes = 100

    split = Split(path="/in/data", stored_offset=0, stored_length=100)
    with pytest.raises(BadInput, match=r"^/in/data: ends at offset 30"):
        list(form.blocks(Short(bytes(30)), split))


def test_records_have_a_length():
    with pytest.raises(UsageError, match=r"FixedRecords.length = 0: need at least 1 byte"):
        FixedRecords(0)
