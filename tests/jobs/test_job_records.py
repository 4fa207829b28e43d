"""Keys and values between stages: packing, order, combining, partitioning, and their errors."""

from __future__ import annotations

import subprocess
import sys
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.jobs import Job
from railyard.jobs.local import run_locally
from railyard.jobs.records import RunReader, RunWriter, partition_by_hash, stable_hash, text_lines
from railyard.jobs.taskio import JobError

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
    program = f"from railyard.jobs.records import stable_hash; print(stable_hash({key!r}))"
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
