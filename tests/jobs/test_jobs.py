"""Typed parameters: conversion from text, and checks."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.messages import Split, TaskSpec
from railyard.jobs.formats import FixedRecords, Lines
from railyard.jobs.local import LocalIO, run_locally
from railyard.jobs.model import Job, Stage, StageSpec, check_stages, run_task
from railyard.jobs.operators import Map, Reduce
from railyard.jobs.samples.wordcount import TopWords


class Sized(Job):
    input = Lines()
    shared: ClassVar[int] = 3
    letters: int = 8
    ratio: float = 0.5
    loud: bool = False
    language: str = "en"
    mark: bytes = b"x"
    cuts: list[bytes] = [b"k"]


class Strict(Job):
    language: str

    def setup(self) -> None:
        if len(self.language) != 2:
            raise ValueError(f'language = "{self.language}": need two letters')


def test_defaults_hold_where_nothing_is_given():
    job = Sized()
    assert (job.letters, job.ratio, job.loud, job.language) == (8, 0.5, False, "en")
    assert (job.mark, job.cuts) == (b"x", [b"k"])


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("letters", "10", 10),
        ("ratio", "2", 2.0),
        ("loud", "true", True),
        ("loud", "0", False),
        ("language", "10", "10"),
        ("mark", "é", "é".encode()),
        ("cuts", "a,b", [b"a", b"b"]),
    ],
)
def test_text_becomes_the_declared_type(name, text, value):
    read = getattr(Sized(**{name: text}), name)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"letters": "many"}, r"Sized: letters = 'many': need a whole number"),
        ({"letters": "1.5"}, r"Sized: letters = '1.5': need a whole number"),
        ({"letters": 1.5}, r"Sized: letters = 1.5: need a whole number"),
        ({"loud": "perhaps"}, r"Sized: loud = 'perhaps': need true or false"),
        ({"leters": 3}, r'unknown parameter of Sized "leters": did you mean "letters"\?'),
        ({"shared": 3}, r'unknown parameter of Sized "shared"'),
        ({"input": 3}, r'unknown parameter of Sized "input"'),
    ],
)
def test_wrong_parameters_are_reported_in_one_line(given, message):
    with pytest.raises(UsageError, match=message) as error:
        Sized(**given)
    assert "\n" not in str(error.value)


def test_a_parameter_without_a_default_must_be_given():
    with pytest.raises(UsageError, match="Strict: parameter language is missing: need text"):
        Strict()
    assert Strict(language="en").language == "en"


def test_a_jobs_own_check_is_reported_with_its_name():
    with pytest.raises(UsageError, match='Strict: language = "english": need two letters'):
        Strict(language="english")


def test_a_type_that_cannot_travel_is_refused():
    class Odd(Job):
        table: dict[str, int] = {}

    with pytest.raises(UsageError, match=r"Odd: parameter table is a dict.*: need str, int"):
        Odd()


def test_a_parameter_must_not_hide_a_method():
    class Odd(Job):
        count: int

    with pytest.raises(UsageError, match="Odd: parameter count has a method's name"):
        Odd()


# Jobs of one, two and more stages, run to their end.


TEXT = b"to be or not to be\nthat is the question\nto sleep to dream\n"


class Words(Job):
    def map(self, line):
        for word in line.split():
            self.count("seen")
            yield word, 1

    def reduce(self, word, counts):
        yield word, sum(counts)


class Shout(Job):
    def map(self, line):
        yield line.upper(), None


class Joined(Job):
    """Two stages of maps over the same file, read by one."""

    def stages(self):
        return (
            Stage("lengths", Map(lambda line: [(w, len(w)) for w in line.split()])),
            Stage("ones", Map(lambda line: [(w, 1) for w in line.split()])),
            Stage("join", Reduce(lambda w, n: [(w, sum(n))]), reads=("lengths", "ones")),
        )


class Bought(Job):
    """Joins two inputs, of which one has fixed records."""

    def stages(self):
        return (
            Stage(
                "o",
                Map(lambda r: [(r[:1].decode(), r[1:].decode())], FixedRecords(3)),
                inputs=("orders",),
            ),
            Stage("c", Map(lambda line: [(line[0], line[2:])]), inputs=("names",)),
            Stage("r", Reduce(lambda k, v: [(k, "+".join(sorted(v)))]), reads=("o", "c")),
        )


def test_a_stage_reads_the_inputs_that_it_names():
    files = {"/o/1": b"a12b34", "/o/2": b"a56", "/n": b"a anna\nb bert\n"}
    inputs = {"orders": ["/o/1", "/o/2"], "names": ["/n"]}
    run = run_locally(Bought(), files, split_bytes=3, inputs=inputs)
    assert run.outputs == {"r": [b"a\t12+56+anna\nb\t34+bert\n"]}
    assert Bought().input_format("orders") == FixedRecords(3)
    assert [spec.inputs for spec in Bought().stage_specs()] == [("orders",), ("names",), ()]


def test_of_two_inputs_a_stage_names_its_own():
    reads_nothing = StageSpec(name="n", tasks=1)
    check_stages((StageSpec(name="m", inputs=("x", "y")), reads_nothing))
    with pytest.raises(UsageError, match='stage "n" names no input, of x, y: need those that'):
        check_stages((StageSpec(name="m", inputs=("x", "y")), StageSpec(name="n")))


@pytest.mark.parametrize(
    ("inputs", "wrong"),
    [
        (None, 'stage "o" reads "orders": need an input "orders"'),
        ({"orders": ["/o"]}, 'stage "c" reads "names": need an input "names"'),
        ({"orders": [], "names": [], "more": []}, 'no stage reads "more": need orders, names only'),
    ],
)
def test_a_job_gets_the_inputs_that_its_stages_name(inputs, wrong):
    with pytest.raises(UsageError, match=wrong):
        run_locally(Bought(), {"/o": b"a12"}, inputs=inputs)


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (StageSpec(name="a", inputs=("x", "x")), "reads an input twice"),
        (StageSpec(name="a", inputs=("X",)), 'input "X": need a name of small letters'),
        (StageSpec(name="a", tasks=2, inputs=("x",)), "names inputs, and reads nothing"),
        (
            StageSpec(name="r", reads=("m",), tasks=2, inputs=("x",)),
            "names inputs, and reads stage",
        ),
    ],
)
def test_inputs_are_named_where_files_are_read(spec, wrong):
    with pytest.raises(UsageError, match=wrong):
        check_stages((StageSpec(name="m"), spec))


@pytest.mark.parametrize("split_bytes", [1, 7, 20, 1000])
@pytest.mark.parametrize("reduces", [1, 3])
def test_map_and_reduce_count_words(split_bytes, reduces):
    run = run_locally(Words(), {"/a": TEXT, "/b": TEXT}, reduces, split_bytes)
    lines = b"".join(run.outputs["r"]).decode().splitlines()
    assert dict(line.split("\t") for line in lines) == {
        word: str(2 * count) for word, count in Counter(TEXT.decode().split()).items()
    }
    assert len(run.outputs["r"]) == reduces
    assert run.counters["seen"] == 2 * len(TEXT.split())


def test_a_job_without_reduce_writes_what_its_maps_give():
    run = run_locally(Shout(), {"/in": b"one\ntwo\n"}, split_bytes=4)
    assert run.outputs == {"m": [b"ONE\n", b"TWO\n"]}
    assert Shout().stage_specs(reduces=5) == (StageSpec(name="m"),)


def test_a_job_may_read_fixed_records():
    class Firsts(Job):
        input = FixedRecords(3)

        def map(self, record):
            yield record[:1], 1

        def reduce(self, key, values):
            yield key, sum(values)

    run = run_locally(Firsts(), {"/in": b"a12b12a12"}, split_bytes=4)
    assert run.outputs["r"] == [b"a\t2\nb\t1\n"]


def test_a_job_may_say_which_reduce_gets_a_key():
    class Ranged(Words):
        def partition(self, key, partitions):
            return 0 if key < "n" else 1

    low, high = run_locally(Ranged(), {"/in": TEXT}, reduces=2).outputs["r"]
    assert low.split(b"\n")[0] == b"be\t2"
    assert all(line >= b"n" for line in high.splitlines())


def test_a_reduce_may_leave_values_unread():
    class First(Words):
        def reduce(self, word, counts):
            yield word, next(iter(counts))

    (out,) = run_locally(First(), {"/in": TEXT}, split_bytes=10).outputs["r"]
    assert set(out.splitlines()) == {word + b"\t1" for word in set(TEXT.split())}


def test_a_stage_may_read_several_stages():
    run = run_locally(Joined(), {"/in": b"a bb\na\n"}, reduces=2)
    lines = b"".join(run.outputs["join"]).splitlines()
    assert sorted(lines) == [b"a\t4", b"bb\t3"]


@pytest.mark.parametrize("reduces", [1, 3])
@pytest.mark.parametrize("split_bytes", [11, 1000])
def test_three_stages_find_the_most_frequent_words(reduces, split_bytes):
    run = run_locally(TopWords(most=3), {"/in": TEXT}, reduces, split_bytes)
    assert run.outputs == {"top": [b"to\t4\nbe\t2\ndream\t1\n"]}


def test_stages_tell_the_resource_manager_what_it_needs():
    assert TopWords().stage_specs(reduces=4) == (
        StageSpec(name="split"),
        StageSpec(name="count", reads=("split",), tasks=4),
        StageSpec(name="top", reads=("count",), tasks=1),
    )


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "a job has no stages"),
        ([StageSpec(name="m1")], 'stage "m1": need a name of small letters only'),
        ([StageSpec(name="m"), StageSpec(name="m")], "there are two of that name"),
        ([StageSpec(name="r", reads=("m",), tasks=1)], 'reads "m": need a stage listed before it'),
        ([StageSpec(name="r", reads=("r",), tasks=1)], 'reads "r": need a stage listed before it'),
        ([StageSpec(name="m"), StageSpec(name="r", reads=("m",))], "tasks = 0: need a whole"),
        ([StageSpec(name="m", tasks=-1)], "tasks = -1: need a whole"),
        ([StageSpec(name="m"), StageSpec(name="r", reads=("m", "m"), tasks=1)], "a stage twice"),
        (
            [
                StageSpec(name="m"),
                StageSpec(name="r", reads=("m",), tasks=1),
                StageSpec(name="s", reads=("m",), tasks=2),
            ],
            'stage "s": has 2 tasks, but "r", which reads "m" as well, has 1: need as many',
        ),
    ],
)
def test_stages_that_are_no_graph_are_refused(stages, message):
    with pytest.raises(UsageError, match=message):
        check_stages(stages)


def test_a_submission_asks_for_at_least_one_reduce():
    with pytest.raises(UsageError, match="reduces = 0: need a whole number >= 1"):
        Words().stage_specs(reduces=0)


def test_an_unknown_stage_is_refused():
    with pytest.raises(UsageError, match='unknown stage of Words "x"'):
        run_task(Words(), TaskSpec(stage="x", index=0), LocalIO({}))


def test_a_task_reports_bytes_and_progress():
    data = b"word word\n" * 20_000
    split = Split(path="/in", stored_offset=0, stored_length=len(data))
    io = LocalIO({"/in": data})
    job = Words()
    result = run_task(job, TaskSpec(stage="m", index=0, splits=(split,), partitions=2), io)
    assert io.reported[-1] == 1.0
    assert result.counters == {"seen": 40_000, "m.records_in": 20_000, "m.pairs_out": 40_000}

    fetched = [("m", b"".join(pieces)) for pieces in result.partitions if pieces]
    reader = LocalIO({}, fetched)
    task = TaskSpec(stage="r", index=0, reads=("m",), inputs=len(fetched))
    reduced = run_task(job, task, reader)
    assert b"".join(reduced.output) == b"word\t40000\n"
    counted = {"r.keys_in": 1, "r.records_in": 40_000, "r.pairs_out": 1}
    assert reduced.counters == counted  # the map's are not in it


def test_a_lazy_reduce_works_while_its_output_is_read():
    result = run_task(Words(), TaskSpec(stage="r", index=0, reads=("m",)), LocalIO({}))
    assert b"".join(result.output) == b""
