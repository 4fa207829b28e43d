"""tests.cluster.test_names."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster import ids
from railyard.cluster.acceptance import Accepted, Effect, idle, refused, used
from railyard.cluster.errors import UsageError
from railyard.cluster.messages import Spans, total_s
from railyard.cluster.registry import Registry


def test_names_are_built_and_taken_apart():
    job = ids.JobId("j3")
    task = ids.task_id(ids.stage_id(job, "m"), 7)
    attempt = ids.attempt_id(task, 0)
    assert (task, attempt) == ("j3.m7", "j3.m7.0")
    assert ids.job_of(attempt) == job
    assert ids.task_of(attempt) == task
    assert ids.stage_of(attempt) == "j3.m"
    assert ids.task_index(attempt) == 7
    assert ids.rack_of(ids.node_id(ids.rack_id(12), 3)) == "r12"


@pytest.mark.parametrize("wrong", ["", "r0", "n1", "r0n", "xr0n1", "r0n1x"])
def test_what_is_no_node_is_told(wrong):
    with pytest.raises(ValueError, match="is no node"):
        ids.rack_of(ids.NodeId(wrong))


@pytest.mark.parametrize("wrong", ["", "j3", "j3.m7", "j3.7.0", "m7.0"])
def test_what_is_no_attempt_is_told(wrong):
    with pytest.raises(ValueError, match="is no attempt"):
        ids.stage_of(ids.AttemptId(wrong))
    with pytest.raises(ValueError, match="is no attempt"):
        ids.task_index(ids.AttemptId(wrong))


# Tables of what an interface accepts: used, without effect, refused; and names of nobody.


TABLE = Accepted(
    "jobs: settings",
    "setting",
    {
        "job.reduces": used("how many reduces"),
        "job.maps": idle("a map for each block"),
        "job.jvm": refused("no Java runs here"),
    },
    begins=("job.", "task."),
)


def test_a_name_is_used_or_changes_nothing():
    assert TABLE.check("job.reduces") is TABLE.entries["job.reduces"]
    assert TABLE.check("job.maps").effect is Effect.IDLE


def test_a_refused_name_says_why_and_how_it_was_typed():
    with pytest.raises(UsageError, match=r"^-D job\.jvm=1: not supported: no Java runs here$"):
        TABLE.check("job.jvm", "-D job.jvm=1")


def test_an_unknown_name_of_the_interface_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match=r'unknown setting "job\.reduce": did you mean "job\.red'):
        TABLE.check("job.reduce")


def test_a_name_of_the_users_own_is_nobodys_business():
    assert TABLE.check("my.key") is None


def test_without_beginnings_every_unknown_name_is_refused():
    closed = Accepted("words", "word", {"a": used("the first")})
    with pytest.raises(UsageError, match='unknown word "b"'):
        closed.check("b")


# Lists that other packages add to by entry points.


@dataclass(frozen=True)
class Colour:
    name: str


class Point:
    """An entry point "their" that gives an object, or raises an error."""

    name, value = "their", "their_package:COLOURS"

    def __init__(self, found: object) -> None:
        self._found = found

    def load(self) -> object:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


def colours(*found: object) -> list[str]:
    own = {"red": Colour("red")}
    return list(Registry("colour", "railyard.colours", lambda: own, checked).all(map(Point, found)))


def checked(thing: object) -> Colour:
    if not isinstance(thing, Colour):
        raise TypeError(f"{thing!r}, no Colour")
    return thing


def test_ours_come_first_then_one_or_several_of_each_entry_point():
    assert colours() == ["red"]
    assert colours(Colour("blue"), (Colour("green"), Colour("grey"))) == [
        "red",
        "blue",
        "green",
        "grey",
    ]


@pytest.mark.parametrize(
    ("found", "error"),
    [
        pytest.param(
            Colour("red"),
            'colour "red" is there twice: in railyard and their_package:COLOURS',
            id="ours",
        ),
        pytest.param(
            (Colour("blue"), Colour("blue")), 'colour "blue" is there twice', id="twice in one"
        ),
        pytest.param(7, 'colour "their" of their_package:COLOURS is 7, no Colour', id="no colour"),
        pytest.param(
            ZeroDivisionError("division by zero"),
            'colour "their" (their_package:COLOURS) cannot be loaded:'
            " ZeroDivisionError: division by zero",
            id="can't be loaded",
        ),
    ],
)
def test_what_cannot_be_added_is_refused(found: object, error: str):
    with pytest.raises(UsageError) as refused:
        colours(found)
    assert str(refused.value).startswith(error)


# Time that overlapping spans cover.


def covered_s(*spans: tuple[float, float]) -> float:
    ended: Spans = {}
    for begin_s, end_s in sorted(spans, key=lambda span: span[1]):  # as they end
        ended[begin_s] = end_s
    return total_s(ended)


def test_an_instant_counts_once_and_a_gap_does_not():
    assert covered_s() == 0
    assert covered_s((1, 3)) == 2
    assert covered_s((1, 3), (2, 5)) == 4
    assert covered_s((1, 3), (4, 5)) == 3
    assert covered_s((1, 3), (3, 5)) == 4
    assert covered_s((4, 5), (6, 7), (1, 9)) == 8
    assert covered_s((1, 3), (1, 5)) == 4


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12))))
def test_as_many_seconds_as_are_in_any_span(drawn: list[tuple[int, int]]):
    spans = [(begin_s, begin_s + length_s) for begin_s, length_s in drawn]
    seconds = {second for begin_s, end_s in spans for second in range(begin_s, end_s)}
    assert covered_s(*spans) == len(seconds)
