"""Lists that other packages add to by entry points."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.plugins import with_plugins


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
    return list(with_plugins("colour", "railyard.colours", own, checked, map(Point, found)))


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
