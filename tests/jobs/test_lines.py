"""Lines with any of three ends, in pieces and splits of any size, and packed files."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.messages.execution import Split
from railyard.cluster.packed import NotPacked, ending_of, fault_of, unpacked
from railyard.gateway.inputs import line_cuts
from railyard.jobs.streaming import lines as lines_module
from railyard.jobs.streaming.lines import raw_lines, records_of, split_lines, whole_lines

DATA = st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n", b"\r\n"]), max_size=40).map(b"".join)
STEP = st.integers(1, 9)


def pieces(data, step):
    return [data[at : at + step] for at in range(0, len(data), step)]


@given(DATA, STEP)
def test_pieces_of_any_size_have_the_same_lines(data, step):
    raw = list(raw_lines(pieces(data, step)))
    assert b"".join(raw) == data
    assert [line for block in raw for line in block.splitlines(keepends=True)] == (
        data.splitlines(keepends=True)
    )
    made = b"".join(whole_lines(pieces(data, step)))
    assert made == b"".join(line + b"\n" for line in data.splitlines())


class File:
    """A file in memory."""

    def __init__(self, data):
        self.data = data
        self.stored_bytes = len(data)

    def read(self, offset, length):
        return self.data[offset : offset + length]


@given(DATA, STEP, st.integers(1, 5))
def test_each_line_belongs_to_the_split_in_which_it_begins(data, step, read_bytes):
    """However few bytes are read at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_module, "_BLOCK_BYTES", read_bytes)
        patch.setattr(lines_module, "_TAIL_BYTES", read_bytes)
        at = 0
        begins = []
        for line in data.splitlines(keepends=True):
            begins.append(at)
            at += len(line)
        for begin in range(0, len(data), step):
            split = Split(path="/f", stored_offset=begin, stored_length=step)
            got = b"".join(split_lines(File(data), split)).splitlines(keepends=True)
            lines = zip(begins, data.splitlines(keepends=True), strict=True)
            assert got == [line for at, line in lines if begin <= at < begin + step]


@given(DATA, st.integers(1, 3))
def test_cuts_and_offsets_are_those_of_the_file(data, each):
    class Store:
        def read(self, path):
            return iter(pieces(data, 3))

    cuts = line_cuts(Store(), "/f", each)
    ends = (*cuts[1:], len(data))[: len(cuts)]
    blocks = zip(cuts, ends, strict=True)
    made = [row for at, end in blocks for row in records_of(data[at:end], at)]
    for (offset, text), line in zip(made, data.splitlines(), strict=True):
        assert text == line
        assert data[offset:].startswith(line)


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("f.gz", gzip.compress),
        ("f.bz2", bz2.compress),
        ("f.xz", lzma.compress),
        ("f.deflate", zlib.compress),
    ],
)
def test_packed_files(name, pack):
    packed = pack(b"text" * 100_000)
    assert fault_of(name, packed[:6]) == ""
    ending = ending_of(name)
    assert b"".join(unpacked(ending, io.BytesIO(packed))) == b"text" * 100_000
    for wrong in (packed[:-9], packed[:10] + b"damaged" + packed[17:]):
        with pytest.raises(NotPacked, match="is no sound"):
            list(unpacked(ending, io.BytesIO(wrong)))
    assert "need another ending" in fault_of(name, b"plain ")
    assert fault_of("f.txt", packed[:6]) == ""
    assert ending_of("f", packed[:6]) == ("" if ending != ".gz" else ".gz")
