"""Keys and values between stages: packing, order, combining, partitioning, and their errors."""

from __future__ import annotations

import subprocess
import sys
from codecs import BOM_UTF8
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.cluster.messages import Split
from railyard.jobs.formats import FixedRecords, InputFormat, Lines
from railyard.jobs.local import BytesReader, cut_into_splits, run_locally
from railyard.jobs.model import Job
from railyard.jobs.operators import RunReader, RunWriter, partition_by_hash, stable_hash, text_lines
from railyard.jobs.taskio import BadInput, JobError
from tests.streaming import run

SURROGATES = st.binary(max_size=4).map(lambda data: data.decode("utf-8", "surrogateescape"))
INTS = st.integers(-(2**63), 2**64 - 1)
FLOATS = st.floats(allow_nan=False)
VALUES = st.recursive(
    SURROGATES | st.binary(max_size=4) | INTS | FLOATS | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
KEYS = (
    SURROGATES,
    st.binary(max_size=3),
    st.integers(-5, 5) | st.sampled_from([0.5, 1.0, 2.5, True]),
    st.tuples(st.integers(0, 3), st.text("ab", max_size=2)),
)
PAIRS = st.sampled_from(KEYS).flatmap(lambda keys: st.lists(st.tuples(keys, VALUES), max_size=40))


def shuffle(pairs, partitions=3, combine=None, spill=250_000, outputs=2):
    """The groups of each partition, of pairs that several tasks wrote."""
    fetched = [[] for _ in range(partitions)]
    for task in range(outputs):
        writer = RunWriter(partitions, partition_by_hash, combine)
        writer.PAIRS_MAX = spill
        for key, value in pairs[task::outputs]:
            writer.add(key, value)
        for pieces, whole in zip(writer.finish(), fetched, strict=True):
            whole.append(b"".join(pieces))
    groups = []
    for outputs_of_one in fetched:
        reader = RunReader()
        for output in outputs_of_one:
            reader.add(memoryview(output))
        groups.append([(key, list(values)) for key, values in reader.merged(lambda: None)])
    return groups


@given(pairs=PAIRS, partitions=st.integers(1, 4), spill=st.integers(1, 20))
def test_every_pair_arrives_once_grouped_and_in_order(pairs, partitions, spill):
    expected = defaultdict(list)
    for key, value in pairs:
        expected[key].append(value)
    found = {}
    for groups in shuffle(pairs, partitions, spill=spill):
        keys = [key for key, _ in groups]
        assert keys == sorted(set(keys))
        for key, values in groups:
            assert key not in found  # equal keys meet in one partition, 1 and 1.0 too
            found[key] = sorted(map(repr, values))
    assert found == {key: sorted(map(repr, values)) for key, values in expected.items()}


@given(words=st.lists(st.sampled_from("abc"), max_size=60), spill=st.integers(1, 20))
def test_combining_changes_nothing_but_the_number_of_pairs(words, spill):
    def combine(key, values):
        yield key, sum(values)

    counts = {}
    for groups in shuffle([(word, 1) for word in words], combine=combine, spill=spill):
        counts.update({key: sum(values) for key, values in groups})
    assert counts == {word: words.count(word) for word in set(words)}


@given(pairs=PAIRS, spill=st.integers(1, 20))
def test_bytes_before_combining_are_those_without_a_combiner(pairs, spill):
    def none(key, values):
        return None

    runs = []
    for combine in (None, none):
        writer = RunWriter(1, partition_by_hash, combine)
        writer.PAIRS_MAX = spill
        for key, value in pairs:
            writer.add(key, value)
        runs.append((writer, writer.finish()))
    (_, [whole]), (combined, [nothing]) = runs
    assert nothing == []
    assert combined.uncombined_bytes == sum(map(len, whole[1::2]))  # every other is a header


def test_values_that_only_a_combiner_can_read_have_no_bytes():
    writer = RunWriter(1, partition_by_hash, lambda key, values: [(key, len(set().union(*values)))])
    writer.add("k", {1, 2})
    assert len(writer.finish()[0]) == 2
    assert writer.uncombined_bytes is None


def test_a_hash_is_the_same_in_every_process():
    key = ("語", b"\xff", 3, 2.5, None)
    program = f"from railyard.jobs.operators import stable_hash; print(stable_hash({key!r}))"
    for seed in ("1", "2"):
        said = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert int(said.stdout) == stable_hash(key)


@pytest.mark.parametrize(
    ("left", "right"), [(1, 1.0), (1, True), (0.0, -0.0), (2**62, float(2**62)), ((1,), (1.0,))]
)
def test_equal_keys_have_equal_hashes(left, right):
    assert left == right
    assert stable_hash(left) == stable_hash(right)


def test_text_lines_hold_keys_and_values_as_they_are():
    pairs = [("caf\udce9", 1), (b"\xff", b"\x00"), (("a", 1), None), (2.5, "x")]
    assert b"".join(text_lines(pairs)) == b"caf\xe9\t1\n\xff\t\x00\n('a', 1)\n2.5\tx\n"


def test_large_text_comes_in_pieces():
    pieces = list(text_lines((i, "x" * 1000) for i in range(1000)))
    assert len(pieces) > 2
    assert b"".join(pieces).count(b"\n") == 1000


@pytest.mark.parametrize(
    "output", [b"x", bytes(16), b"\x01" + bytes(7) + b"\x09" + bytes(7) + b"abc"]
)
def test_damaged_output_is_refused(output):
    with pytest.raises(JobError, match="a fetched output is damaged"):
        RunReader().add(output)


def job_with(**functions) -> Job:
    defaults = {
        "map": lambda self, line: [(line, 1)],
        "reduce": lambda self, key, values: [(key, sum(values))],
    }
    return type("Wrong", (Job,), defaults | functions)()


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"map": lambda self, line: 3}, r"gave 3: need it to yield \(key, value\) pairs"),
        ({"map": lambda self, line: line}, r"gave 'b': need it to yield \(key, value\) pairs"),
        ({"map": lambda self, line: [line]}, r"gave 'b': need a \(key, value\) pair"),
        ({"map": lambda self, line: [([line], 1)]}, r"\['b'\] cannot be a key"),
        ({"map": lambda self, line: [(line, {1})]}, r"cannot ship .*need str, bytes"),
        ({"map": lambda self, line: [(line, 2**64)]}, r"cannot ship .*int of 64 bits"),
        (
            {"map": lambda self, line: [(line, 1), (1, 1)]},
            r"keys of one stage must compare with one another.*'str' and 'int'|'int' and 'str'",
        ),
        (
            {"partition": lambda self, key, partitions: partitions},
            r"partition\('b', 2\) gave 2: need a whole number from 0 to 1",
        ),
        ({"partition": lambda self, key, partitions: "0"}, r"gave '0': need a whole number"),
        ({"reduce": lambda self, key, values: [key]}, r"gave 'b': need a \(key, value\) pair"),
    ],
)
def test_broken_rules_of_jobs_are_reported(functions, message):
    with pytest.raises(JobError, match=message):
        run_locally(job_with(**functions), {"/in": b"b"}, reduces=2)


def test_keys_that_compare_within_each_map_but_not_across_are_reported():
    class Mixed(Job):
        def map(self, line):
            yield (line if line == "a" else 1), 1

        def reduce(self, key, values):
            yield key, sum(values)

    with pytest.raises(JobError, match="keys of one stage must compare"):
        run_locally(Mixed(), {"/in": b"a\nb\n"}, split_bytes=2)


def test_a_type_error_of_the_users_own_is_theirs():
    broken = job_with(reduce=lambda self, key, values: [(key, None + 1)])
    with pytest.raises(TypeError, match="unsupported operand"):
        run_locally(broken, {"/in": b"1"})


# Every record of a file is read once, wherever the file was cut.


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
    short = BytesReader(bytes(30))
    short.stored_bytes = 100
    split = Split(path="/in/data", stored_offset=0, stored_length=100)
    with pytest.raises(BadInput, match=r"^/in/data: ends at offset 30"):
        list(form.blocks(short, split))


def test_records_have_a_length():
    with pytest.raises(UsageError, match=r"FixedRecords.length = 0: need at least 1 byte"):
        FixedRecords(0)
