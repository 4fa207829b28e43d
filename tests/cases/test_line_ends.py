"""Kind IV: ends of lines, byte order marks and packed bytes, as programs write them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib

import pytest

from tests.streamed import failing, streamed, submitted

N_LINE = ["-inputformat", "org.apache.hadoop.mapred.lib.NLineInputFormat"]
OFFSETS = ["-D", "stream.map.input.ignoreKey=false"]
MARK = b"\xef\xbb\xbf"


def test_case_20_a_lone_cr_ends_a_line(hadoop):
    assert streamed(hadoop, b"one\rtwo\rthree", "-mapper", "cat") == b"one\ntwo\nthree\n"
    out = streamed(hadoop, b"one\rtwo\rthree", *OFFSETS, "-mapper", "cat")
    assert out == b"0\tone\n4\ttwo\n8\tthree\n"


def test_case_21_offsets_count_both_bytes_of_cr_lf(hadoop):
    two = ["-D", "mapreduce.input.lineinputformat.linespermap=2"]
    out = streamed(hadoop, b"ab\r\ncd\r\nef\r\n", *two, *N_LINE, "-mapper", "cat")
    assert out == b"0\tab\n4\tcd\n8\tef\n"


@pytest.mark.parametrize("reducer", ["NONE", "cat"])
def test_case_22_a_mapper_may_end_lines_with_cr_lf(hadoop, reducer):
    mapper = "awk '{ printf \"%s\\t1\\r\\n\", $0 }'"
    assert streamed(hadoop, b"a\nb\n", "-mapper", mapper, "-reducer", reducer) == b"a\t1\nb\t1\n"


def test_case_23_a_mark_at_the_beginning_is_not_read(hadoop):
    data = MARK + b"a\n" + MARK + b"b\n"
    assert streamed(hadoop, data, "-mapper", "cat") == b"a\n" + MARK + b"b\n"
    out = streamed(hadoop, data, *OFFSETS, "-mapper", "cat")
    assert out == b"0\ta\n5\t" + MARK + b"b\n"
    packed = gzip.compress(data)
    assert streamed(hadoop, packed, "-mapper", "cat", name="f.gz") == b"a\n" + MARK + b"b\n"


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("x.bz2", bz2.compress),
        ("x.gz", gzip.compress),
        ("x.deflate", zlib.compress),
        ("x.xz", lzma.compress),
    ],
)
def test_case_24_packed_input_is_read_as_its_text(hadoop, name, pack):
    packed = pack(b"one\n") + pack(b"two\n") if name != "x.deflate" else pack(b"one\ntwo\n")
    assert streamed(hadoop, packed, "-mapper", "cat", name=name) == b"one\ntwo\n"


@pytest.mark.parametrize("name", ["x.zst", "x.lz4", "x.snappy", "x.lzo"])
def test_case_24_what_cannot_be_unpacked_is_refused_at_submission(hadoop, name):
    errors = failing(hadoop, b"anything", "-mapper", "cat", name=name)
    assert name in errors
    assert "Running job" not in errors


def test_case_24_a_suffix_without_the_bytes_of_it_is_refused(hadoop):
    for name in ("plain.gz", "plain.bz2", "plain.xz", "plain.deflate"):
        errors = failing(hadoop, b"plain text\n", "-mapper", "cat", name=name)
        assert name in errors
        assert "Running job" not in errors
    packed = gzip.compress(b"text\n")
    assert streamed(hadoop, packed, "-mapper", "cat", name="without").startswith(packed[:2])


def test_case_25_cr_ends_lines_of_standard_error(hadoop):
    mapper = "sh -c 'printf \"\\r 50%%\\rreporter:counter:g,c,1\\n\" >&2'"
    _, status, errors = submitted(hadoop, b"x\n", "-mapper", mapper)
    assert status == 0, errors
    assert "\tg\n\t\tc=1\n" in errors
