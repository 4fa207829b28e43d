"""Typed parameters: conversion from text, and checks."""

from __future__ import annotations

from typing import ClassVar

import pytest

from railyard.cluster.errors import UsageError
from railyard.jobs import Job, Lines


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
