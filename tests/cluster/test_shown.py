"""What is shown of text that others wrote."""

import pytest

from cluster.shown import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("naïve 語\tb", "naïve 語\tb", id="letters"),
        pytest.param("\x1b[31mred\x00\r", "\\x1b[31mred\\x00\\r", id="control characters"),
        pytest.param(b"\xff".decode(errors="surrogateescape"), "\\xff", id="no UTF-8"),
        pytest.param("x" * 20, "x" * 20, id="just short enough"),
        pytest.param("x" * 21, "x" * 20 + "... (21 letters)", id="too long"),
    ],
)
def test_only_what_can_be_read_is_shown(text, shown):
    assert printable(text, letters_max=20) == shown
