"""Streaming jobs: what programs get and what their lines mean; the programs are functions here."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import AttemptId
from railyard.cluster.messages.execution import Split, TaskSpec
from railyard.jobs.local import LocalIO
from railyard.jobs.runtime import run_task
from railyard.jobs.streaming.environment import hadoop_attempt_id
from railyard.jobs.streaming.job import StreamingJob
from railyard.jobs.streaming.keys import pairs_of, partitioner, parts_of
from railyard.jobs.streaming.lines import whole_lines
from railyard.jobs.streaming.reporter import Reporter
from railyard.jobs.streaming.request import StreamingRequest, streaming_of
from railyard.jobs.taskio import JobError

BEGUN_MS = 1795444939124


def cat(data, say):
    return data


def words(data, say):
    """A mapper."""
    found = data.split()
    say(b"reporter:counter:text,words,%d" % len(found))
    say(b"reporter:status:counting")
    return b"".join(word + b"\t1\n" for word in found)


def total(data, say):
    """A reducer or combiner."""
    pairs = [line.split(b"\t") for line in data.splitlines()]
    made = []
    for word, group in groupby(pairs, key=lambda pair: pair[0]):
        made.append(b"%b\t%d\n" % (word, sum(int(value) for _, value in group)))
    return b"".join(made)


def first_line(data, say):
    """It reads no more."""
    return data.partition(b"\n")[0]


PROGRAMS = {"cat": cat, "words": words, "total": total, "first_line": first_line}


@dataclass
class Functions:
    """Programs that are functions of bytes."""

    attempt: AttemptId
    environments: list[dict[str, str]] = field(default_factory=list)

    def run(self, program, data, on_line):
        self.environments.append(dict(program.environment))
        made = PROGRAMS[program.words[0]](b"".join(data), on_line)
        for at in range(0, len(made), 7):  # in pieces that end anywhere
            yield made[at : at + 7]


class IO(LocalIO):
    """A task's files and fetches in memory, with programs."""

    functions: Functions

    @property
    def programs(self):
        return self.functions


@dataclass
class Ran:
    """A job's files, its counters, and the environments of its programs."""

    files: list[bytes]
    counters: Counter = field(default_factory=Counter)
    environments: list[dict[str, str]] = field(default_factory=list)

    @property
    def lines(self):
        return b"".join(self.files).splitlines()


def run(data, split_bytes=1000, path="/in/f", **options):
    """Run a job over one file; ``options`` are those of ``hadoop jar``."""
    request = StreamingRequest(input=("/in",), output="/out", **options)
    streaming = streaming_of(request, BEGUN_MS, "webhdfs://h:1")
    job = StreamingJob(specification=msgspec.json.encode(streaming))
    ran = Ran([])
    reduces = streaming.reduces
    whole = path.endswith(".gz")
    step = len(data) if whole else split_bytes
    splits = [
        Split(path=path, stored_offset=at, stored_length=min(step, len(data) - at))
        for at in range(0, len(data), step)
    ]
    outputs: list[list[bytes]] = [[] for _ in range(reduces)]

    def do(task, fetched):
        io = IO({path: data}, fetched)
        io.functions = Functions(AttemptId(f"j7.{task.stage}{task.index}.0"))
        result = run_task(job, task, io)
        written = b"".join(result.output)
        ran.counters.update(result.counters)
        ran.environments += io.functions.environments
        return result, written

    for index, split in enumerate(splits):
        task = TaskSpec(stage="m", index=index, splits=(split,), partitions=reduces)
        result, written = do(task, ())
        for number, pieces in enumerate(result.partitions):
            outputs[number].append(b"".join(pieces))
        if not reduces:
            ran.files.append(written)
    for index in range(reduces):
        fetched = [("m", output) for output in outputs[index]]
        task = TaskSpec(stage="r", index=index, reads=("m",), inputs=len(splits))
        ran.files.append(do(task, fetched)[1])
    return ran


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
    assert part.of(b"aa", b"\t") == b""
    (part,) = parts_of("-k2.2r", "x")
    a, b, c = (part.order(key, b"\t") for key in (b"\tabc", b"\tabcd", b"\tazz"))
    assert a > b > c
    number = partitioner(parts_of("-k1,1", "x"), b"\t")
    assert number(b"a\tb", 1000) == number(b"a\tc", 1000) != number(b"b\tb", 1000)
    for wrong in ("-k0", "1,2", "-kx", "-k1,0"):
        with pytest.raises(UsageError, match="need parts such as -k1,1"):
            parts_of(wrong, "x")


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


def test_lines_for_the_framework():
    counters: dict[str, int] = {}
    reporter = Reporter(counters)
    assert reporter.note(b"reporter:counter:g,a b,3")
    assert reporter.note(b"reporter:counter:g,a b,-1")
    assert reporter.note(b"reporter:status:halfway")
    assert reporter.status == "halfway"
    for other in (b"hello", b"reporter:counter:g,a", b"reporter:counter:g,a,x", b"reporter:x"):
        assert not reporter.note(other)
    assert counters == {"g,a b": 2}


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
