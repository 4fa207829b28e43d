"""Streaming jobs: what programs get and what their lines mean; the programs are functions here."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import zlib
from collections import Counter
from fractions import Fraction
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.cluster.fileheads import NotPacked, ending_of, fault_of, unpacked
from railyard.cluster.ids import AttemptId
from railyard.cluster.messages import Split
from railyard.gateway.yarn.submission import line_cuts
from railyard.jobs import formats
from railyard.jobs.formats import raw_lines, records_of, split_lines, whole_lines
from railyard.jobs.streaming.job import hadoop_attempt_id, note_report
from railyard.jobs.streaming.keys import pairs_of, partitioner, parts_of
from railyard.jobs.streaming.request import (
    StreamingRequest,
    job_name,
    queue_name,
    streaming_of,
    tags,
)
from railyard.jobs.taskio import JobError
from tests.streaming import BEGUN_MS, run

TEXT = b"".join(b"w%d w%d a\n" % (at % 7, at % 3) for at in range(400))


@pytest.mark.parametrize("combiner", ["", "total"])
def test_words_are_counted(combiner):
    ran = run(TEXT, mapper="words", combiner=combiner, reducer="total", reduces="3")
    want = Counter(TEXT.split())
    assert len(ran.files) == 3
    assert Counter({w: int(n) for w, n in (line.split(b"\t") for line in ran.lines)}) == want
    for file in ran.files:
        assert file.splitlines() == sorted(file.splitlines())
    counters = ran.counters
    assert counters["m.records_in"] == 400
    assert counters["m.pairs_out"] == counters["text,words"] == 1200
    assert counters["m.bytes_out"] == sum(len(word) + 3 for word in TEXT.split())
    assert counters["r.keys_in"] == counters["r.pairs_out"] == len(want)
    combined = counters["m.combine_out"] if combiner else 1200
    assert counters["r.records_in"] == combined
    assert counters["m.combine_in"] == (1200 if combiner else 0)


LINES = st.lists(st.binary(max_size=6).map(lambda line: line.replace(b"\n", b"")), max_size=30)


@given(LINES, st.integers(1, 40))
def test_every_byte_goes_through_in_order(lines, split_bytes):
    """Without a program that changes anything: the output is the input, sorted by key."""
    data = b"".join(line + b"\n" for line in lines)
    kept = data.removeprefix(b"\xef\xbb\xbf").splitlines()
    ran = run(data, split_bytes, mapper="cat")
    got = b"".join(ran.files).split(b"\n")[:-1]
    assert sorted(got) == sorted(kept)
    keys = [line.partition(b"\t")[0] for line in got]
    assert keys == sorted(keys)
    mapped = run(data, split_bytes, mapper="cat", reducer="NONE")
    assert b"".join(mapped.files) == b"".join(line + b"\n" for line in kept)


def test_the_last_line_gets_its_end():
    assert run(b"b\na", mapper="cat").files == [b"a\nb\n"]
    assert list(whole_lines([b"a", b"b\nc", b"d"])) == [b"ab\n", b"cd\n"]


def test_a_packed_file_is_one_split():
    ran = run(gzip.compress(TEXT), 50, "/in/f.gz", mapper="words", reducer="total")
    assert ran.counters["m.pairs_out"] == 1200


def test_two_fields_sort_and_one_chooses_the_reduce():
    """What mrjob asks for with SORT_VALUES."""
    rows = [(b"k%d" % (at % 5), b"v%02d" % (at * 7 % 50)) for at in range(50)]
    random.Random(3).shuffle(rows)
    settings = {
        "stream.num.map.output.key.fields": "2",
        "mapreduce.partition.keypartitioner.options": "-k1,1",
    }
    ran = run(
        b"".join(b"%b\t%b\tx\n" % row for row in rows),
        mapper="cat",
        reducer="cat",
        reduces="3",
        partitioner="org.apache.hadoop.mapred.lib.KeyFieldBasedPartitioner",
        settings=settings,
    )
    of_key = Counter()
    for file in ran.files:
        lines = [tuple(line.split(b"\t")[:2]) for line in file.splitlines()]
        assert lines == sorted(lines)
        of_key.update({key for key, _ in lines})
    assert set(of_key.values()) == {1}


def test_numbers_sort_downwards():
    settings = {
        "mapred.output.key.comparator.class": "mapred.lib.KeyFieldBasedComparator",
        "mapred.text.key.comparator.options": "-k2,2nr",
        "map.output.key.field.separator": ".",
        "stream.map.output.field.separator": ".",
        "stream.num.map.output.key.fields": "2",
    }
    data = b"a.5.x\nb.10.y\nc.-1.z\nd.7.w\n"
    ran = run(data, mapper="cat", settings=settings)
    assert ran.lines == [b"b.10\ty", b"d.7\tw", b"a.5\tx", b"c.-1\tz"]


def test_parts_of_keys():
    (part,) = parts_of("-k 2.2,2.3r", "x")
    assert part.of(b"aa\tbcde\tf", b"\t") == b"cd"
    assert part.of(b"aa", b"\t") is part.of(b"aa\tb", b"\t") is None
    (part,) = parts_of("-k2.2r", "x")
    a, b, c = (part.order(key, b"\t") for key in (b"\tabc", b"\tabcd", b"\tazz"))
    assert a > b > c
    number = partitioner(parts_of("-k1,1", "x"), b"\t")
    assert number(b"a\tb", 1000) == number(b"a\tc", 1000) != number(b"b\tb", 1000)
    for wrong in ("-k0", "1,2", "-kx", "-k1,0"):
        with pytest.raises(UsageError, match="need parts such as -k1,1"):
            parts_of(wrong, "x")


def in_order(keys, options):
    parts = parts_of(options, "x")
    return sorted(keys, key=lambda key: (*(part.order(key, b"\t") for part in parts), key))


@pytest.mark.parametrize("options", ["-nr -k2,2", "-k2,2 -nr", "-n -k2,2 -r", "-k2,2nr", "-k2nr"])
def test_letters_alone_hold_for_each_part_without_its_own(options):
    keys = [b"a\t9", b"b\t10", b"c\t-1", b"d\t100"]
    assert in_order(keys, options) == [b"d\t100", b"b\t10", b"a\t9", b"c\t-1"]
    assert parts_of(f"{options} -k1,1r", "x")[-1] == parts_of("-k1,1r", "x")[0]


def test_a_key_without_the_field_comes_first_or_last_if_descending():
    keys = [b"a\t-5", b"b", b"c\t3", b"d\t"]
    assert in_order(keys, "-k2,2n") == [b"b", b"d\t", b"a\t-5", b"c\t3"]
    assert in_order(keys, "-k2,2nr") == [b"c\t3", b"a\t-5", b"b", b"d\t"]
    assert in_order(keys, "-k2,2r") == [b"c\t3", b"a\t-5", b"b", b"d\t"]


DECIMALS = st.builds(
    lambda sign, whole, point, fraction: sign + whole + point + (point and fraction),
    st.sampled_from(["", "-"]),
    st.from_regex(r"0{0,2}[0-9]{0,25}", fullmatch=True),
    st.sampled_from(["", "."]),
    st.from_regex(r"[0-9]{0,25}0{0,2}", fullmatch=True),
)


@given(DECIMALS, DECIMALS)
def test_numbers_of_any_length_compare_exactly(one, other):
    def exact(text):
        return Fraction(text if text.strip("-.") else "0")

    for letters, sign in (("n", 1), ("nr", -1)):
        (part,) = parts_of(f"-k1,1{letters}", "x")
        ranks = [part.order(text.encode() or b"x", b"\t") for text in (one, other)]
        left, right = sign * exact(one), sign * exact(other)
        assert (ranks[0] < ranks[1], ranks[0] == ranks[1]) == (left < right, left == right)


def test_values_are_aggregated():
    data = b"".join(
        b"LongValueSum:s\t%d\nLongValueMax:m\t%d\nUniqValueCount:u\t%d\nDoubleValueSum:d\t.5\n"
        b"StringValueMin:t\t%d\nValueHistogram:h\t%d\n" % (at, at, at % 4, at, at % 4)
        for at in range(10)
    )
    ran = run(data, 60, mapper="cat", reducer="aggregate")
    assert dict(line.split(b"\t", 1) for line in ran.lines) == {
        b"s": b"45",
        b"m": b"9",
        b"u": b"4",
        b"d": b"5.0",
        b"t": b"0",
        b"h": b"4\t2\t3\t3\t2.5\t0.5",
    }
    with pytest.raises(JobError, match="need TYPE:KEY"):
        run(b"x\t1\n", mapper="cat", reducer="aggregate")


def test_lines_without_a_separator_stay_as_they_are_unless_asked():
    assert run(b"b\na\t\n", mapper="cat", reducer="cat").files == [b"a\t\nb\n"]
    settings = {"railyard.streaming.add.separator": "true"}
    ran = run(b"b\na\t\n", mapper="cat", reducer="cat", settings=settings)
    assert ran.files == [b"a\t\nb\t\n"]


def test_keys_of_the_output_end_with_its_separator():
    """Of a reducer's lines, of a mapper's without a reduce, and of pairs that no program wrote."""
    out = {"mapreduce.output.textoutputformat.separator": ","}
    assert run(b"x\t3\n", mapper="cat", reducer="cat", settings=out).files == [b"x,3\n"]
    assert run(b"x\t3\ny\n", mapper="cat", settings=out).files == [b"x,3\ny\n"]
    assert run(b"x\t3\n", mapper="cat", reducer="NONE", settings=out).files == [b"x,3\n"]
    values = {"mapper": "cat", "reducer": "aggregate", "settings": out}
    assert run(b"LongValueSum:s\t3\n", **values).files == [b"s,3\n"]
    read = {"stream.reduce.output.field.separator": ":"}
    assert run(b"x:3:4\n", mapper="cat", reducer="cat", settings=read).files == [b"x\t3:4\n"]
    two = {**read, "stream.num.reduce.output.key.fields": "2"}
    ran = run(b"x:3:4\ny:5\n", mapper="cat", reducer="cat", settings=two)
    assert ran.files == [b"x:3\t4\ny:5\n"]
    add = {**read, "railyard.streaming.add.separator": "true"}
    assert run(b"x:3\ny\n", mapper="cat", reducer="NONE", settings=add).files == [b"x:3\t\ny\t\n"]


def test_a_combiner_writes_as_a_mapper_unless_a_reducer_writes_otherwise():
    lines = {"mapper": "cat", "combiner": "cat", "reducer": "cat"}
    dots = {"stream.map.output.field.separator": ".", "stream.reduce.input.field.separator": "."}
    assert run(b"x.3\n", **lines, settings=dots).files == [b"x.3\n"]
    other = dots | {"stream.reduce.output.field.separator": ":"}
    assert run(b"x.3:4\n", **lines, settings=other).files == [b"x.3.4\n"]


def test_lines_with_keys():
    options = {"mapper": "cat", "reducer": "NONE", "input_format": "KeyValueTextInputFormat"}
    comma = {"key.value.separator.in.input.line": ","}
    assert run(b"1,x,y\nz\n", **options, settings=comma).files == [b"1\tx,y\nz\n"]
    values = comma | {"stream.map.input.ignoreKey": "true"}
    assert run(b"1,x,y\nz\n", **options, settings=values).files == [b"x,y\n\n"]
    bars = comma | {"stream.map.input.field.separator": "|"}
    assert run(b"1,x,y\n", **options, settings=bars).files == [b"1|x,y\n"]


def test_records_that_end_otherwise():
    bar = {"textinputformat.record.delimiter": "||"}
    options = {"mapper": "cat", "reducer": "NONE"}
    ran = run(b"a||b|c\r\n||d", **options, settings=bar)
    assert ran.files == [b"a\nb|c\n\nd\n"]  # a line that a program writes may end with CR LF
    assert ran.counters["m.records_in"] == 3
    offsets = bar | {"stream.map.input.ignoreKey": "false"}
    assert run(b"a||b||", **options, settings=offsets).files == [b"0\ta\n3\tb\n"]
    assert run(gzip.compress(b"a||b"), 50, "/in/f.gz", **options, settings=bar).files == [b"a\nb\n"]


def test_long_lines_are_left_out():
    limit = {"mapreduce.input.linerecordreader.line.maxlength": "3"}
    ran = run(b"abc\nabcd\nx\n", mapper="cat", reducer="NONE", settings=limit)
    assert (ran.files, ran.counters["m.records_in"]) == ([b"abc\nx\n"], 2)
    offsets = limit | {"stream.map.input.ignoreKey": "false"}
    assert run(b"abcd\nx\n", mapper="cat", reducer="NONE", settings=offsets).files == [b"5\tx\n"]


def test_the_environment():
    ran = run(
        b"a\nb\n",
        mapper="cat",
        reducer="cat",
        environment={"MINE": "1"},
        settings={"mapred.job.name": "n", "my.own-thing": "x y"},
    )
    of_map, of_reduce = ran.environments
    assert of_map["MINE"] == of_reduce["MINE"] == "1"
    assert of_map["my_own_thing"] == "x y"
    assert of_map["mapreduce_job_name"] == of_map["mapred_job_name"] == "n"
    assert of_map["mapreduce_job_id"] == f"job_{BEGUN_MS}_0007"
    assert of_map["mapreduce_task_id"] == f"task_{BEGUN_MS}_0007_m_000000"
    assert of_map["mapreduce_task_attempt_id"] == f"attempt_{BEGUN_MS}_0007_m_000000_0"
    assert of_map["mapreduce_map_input_file"] == of_map["map_input_file"] == "webhdfs://h:1/in/f"
    assert (of_map["mapreduce_task_ismap"], of_reduce["mapreduce_task_ismap"]) == ("true", "false")
    assert of_reduce["mapreduce_task_partition"] == "0"
    assert "mapreduce_map_input_file" not in of_reduce
    assert hadoop_attempt_id(5, AttemptId("j12.r34.2")) == "attempt_5_0012_r_000034_2"


def test_variables_of_maps_and_of_reduces():
    """Those of their own replace those of both; settings and -cmdenv win."""
    settings = {
        "mapred.child.env": "A=child,B=child",
        "mapreduce.map.env": "A=map,my_own=env,C=map",
        "mapreduce.map.env.D": "x,y",
        "my.own": "setting",
        "stream.jobconf.truncate.limit": "4",
    }
    ran = run(b"a\n", mapper="cat", reducer="cat", settings=settings, environment={"C": "cmdenv"})
    of_map, of_reduce = ran.environments
    assert [of_map.get(name) for name in "ABCD"] == ["map", None, "cmdenv", "x,y"]
    assert [of_reduce.get(name) for name in "ABCD"] == ["child", "child", "cmdenv", None]
    assert of_map["my_own"] == "sett"


def test_tags_are_those_that_yarn_takes():
    def of(text):
        request = StreamingRequest(
            input=("/i",), output="/o", mapper="cat", settings={"mapreduce.job.tags": text}
        )
        return tags(request)

    assert of("Airflow, run-17,,airflow") == ("airflow", "run-17")
    for wrong in (",".join("abcdefghijk"), "x" * 101, "\u00e4"):
        with pytest.raises(UsageError, match=r"^-D mapreduce\.job\.tags: .*need at most 10"):
            of(wrong)


def test_lines_for_the_framework():
    counters: dict[str, int] = {}
    note = partial(note_report, counters, b"reporter:")
    assert note(b"reporter:counter:g,a b,3")
    assert note(b"reporter:counter:g,a b,-1")
    assert note(b"reporter:status:halfway")
    others = (b"hello", b"reporter:counter:g,a", b"reporter:counter:g,a,x", b"reporter:x")
    for other in (*others, b"reporter:counter:g,a,1_0", "reporter:counter:g,a,\u0663".encode()):
        assert not note(other)
    assert counters == {"g,a b": 2}


def test_names_of_counters_are_whole_or_refused():
    counters: dict[str, int] = {}
    note = partial(note_report, counters, b"reporter:")
    group, name = "g" * 127, "n" * 126
    for ending in "ab":
        note(f"reporter:counter:{group},{name}{ending},1".encode())
    assert counters == {f"{group},{name}a": 1, f"{group},{name}b": 1}
    with pytest.raises(JobError, match=r"^counter 'ggg.*: need a name of at most 255 letters"):
        note(f"reporter:counter:{group},{name}ab,1".encode())


def test_names_of_jobs_and_queues_are_whole_or_refused():
    def named(setting, letters):
        given = {setting: "x" * letters}
        return StreamingRequest(input=("/i",), output="/o", mapper="cat", settings=given)

    assert job_name(named("mapred.job.name", 255)) == "x" * 255
    assert queue_name(named("mapreduce.job.queuename", 255)) == "x" * 255
    with pytest.raises(UsageError, match=r"^-D mapreduce\.job\.name=xx.*need at most 255 letters"):
        job_name(named("mapred.job.name", 256))
    with pytest.raises(UsageError, match=r"^-D mapreduce\.job\.queuename=xx.*need at most 255"):
        queue_name(named("mapreduce.job.queuename", 256))


@pytest.mark.parametrize("sign", ["", "-"])
def test_counters_are_exact_up_to_64_bits_and_wrong_beyond(sign):
    most = 2**63 - 1 + bool(sign)
    counters: dict[str, int] = {}
    note = partial(note_report, counters, b"reporter:")
    note(f"reporter:counter:g,c,{sign}{most}".encode())
    assert abs(counters["g,c"]) == most
    with pytest.raises(JobError, match=r"^counter g,c is .*: need -2\^63 to 2\^63 - 1"):
        note(f"reporter:counter:g,c,{sign}1".encode())
    with pytest.raises(JobError, match=r"^counter g,d.*has 5000 digits: too many"):
        note(f"reporter:counter:g,d,{'9' * 5000}".encode())


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"mapper": "  "}, "-mapper: need a command"),
        ({"mapper": "'x"}, "No closing quotation"),
        ({"mapper": "org.apache.hadoop.mapred.lib.IdentityMapper"}, "Java classes are not run"),
        ({"mapper": "cat", "partitioner": "a.TotalOrderPartitioner"}, "need one of HashPart"),
        ({"mapper": "cat", "input_format": "a.SequenceFileInputFormat"}, "need one of TextInput"),
        ({"mapper": "cat", "output_format": "nick.nack"}, "need one of TextOutputFormat"),
        ({"mapper": "cat", "reduces": "-1"}, "need a whole number, 0 or more"),
        ({"mapper": "cat", "settings": {"mapred.map.max.attempts": "0"}}, "1 or more"),
        ({"mapper": "cat", "settings": {"mapred.output.compress": "true"}}, "plain text"),
        ({"mapper": "cat", "files": ({"path": "/a", "name": "a/b"},)}, "need a plain name"),
    ],
)
def test_what_is_not_there_is_refused_in_a_line(options, why):
    request = msgspec.convert({"input": ["/in"], "output": "/o"} | options, StreamingRequest)
    with pytest.raises(UsageError) as raised:
        streaming_of(request, 0, "")
    assert why in str(raised.value)
    assert "\n" not in str(raised.value)


def test_fields_of_lines():
    data = [b"a\tb\tc\n", b"\td\ne\n"]
    assert list(pairs_of(data, b"\t", 1)) == [(b"a", b"b\tc"), (b"", b"d"), (b"e", None)]
    assert list(pairs_of(data, b"\t", 2)) == [(b"a\tb", b"c"), (b"\td", None), (b"e", None)]


# Lines with any of three ends, in pieces and splits of any size, and packed files.


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
        patch.setattr(formats, "_TAIL_BYTES", read_bytes)
        at = 0
        begins = []
        for line in data.splitlines(keepends=True):
            begins.append(at)
            at += len(line)
        for begin in range(0, len(data), step):
            split = Split(path="/f", stored_offset=begin, stored_length=step)
            got = b"".join(split_lines(File(data), split, read_bytes)).splitlines(keepends=True)
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
