"""Untrusted text is made safe to print."""

import pytest

from railyard.cluster.shown import printable, printable_lines, shown_value, words_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("naïve 語\tb", "naïve 語\tb", id="letters"),
        pytest.param("\x1b[31mred\x00\r", "\\x1b[31mred\\x00\\r", id="control characters"),
        pytest.param("a\u202eb\u2066c\u200bd", "a\\u202eb\\u2066c\\u200bd", id="direction, width"),
        pytest.param("\x9b31m\u2028", "\\x9b31m\\u2028", id="controls of the second kind"),
        pytest.param(b"\xff".decode(errors="surrogateescape"), "\\xff", id="no UTF-8"),
        pytest.param("x" * 20, "x" * 20, id="just short enough"),
        pytest.param("x" * 21, "x" * 20 + "... (21 letters)", id="too long"),
    ],
)
def test_only_what_can_be_read_is_shown(text, shown):
    assert printable(text, letters_max=20) == shown


def test_lines_stay_lines():
    assert printable_lines("one\n\x1b[2Jtwo\n") == "one\n\\x1b[2Jtwo\n"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param("1GB", "'1GB'", id="text"),
        pytest.param(0.5, "0.5", id="number"),
        pytest.param(10**5000, "a number of 16610 bits", id="one that Python does not write"),
        pytest.param("9" * 5000, f"'{'9' * 79}... (5002 letters)", id="long text"),
        pytest.param("\x1b\n", "'\\x1b\\n'", id="control characters"),
    ],
)
def test_values_in_errors_are_short_and_readable(value, shown):
    assert shown_value(value) == shown


def test_an_error_whose_words_fail_has_words():
    class Broken(Exception):
        def __str__(self):
            raise RuntimeError("not even this")

    assert words_of(Broken()) == "(what it says cannot be shown)"
    assert words_of(ValueError("bad")) == "bad"
