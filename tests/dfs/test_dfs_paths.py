from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import PeerError
from railyard.dfs.paths import join_path, parse_path


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/", ()),
        ("/a", ("a",)),
        ("/a/", ("a",)),
        ("/in/part-r-00000", ("in", "part-r-00000")),
        ("/für alle/…", ("für alle", "…")),
        ("/..a/.b", ("..a", ".b")),
    ],
)
def test_good_paths(path, names):
    assert parse_path(path) == names


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("", "empty path"),
        ("a/b", "relative"),
        ("../a", "relative"),
        ("/a/../b", "no '..'"),
        ("/..", "no '..'"),
        ("/a/./b", "no '.'"),
        ("//", "empty name"),
        ("/a//b", "empty name"),
        ("/a\nb", "control character"),
        ("/a\x00", "control character"),
        ("/\x7f", "control character"),
        ("/\x85", "control character"),
        ("/\ud800", "not valid Unicode"),
        ("/" + "x" * 256, "too long a name"),
        ("/" + "ü" * 128, "too long a name"),
        ("/x" * 2049, "too long"),
    ],
)
def test_bad_paths(path, why):
    with pytest.raises(PeerError, match=why):
        parse_path(path)


@given(st.text())
def test_any_text_is_parsed_or_refused(text):
    try:
        names = parse_path(text)
    except PeerError:
        return
    assert parse_path(join_path(names)) == names
    assert not set(names) & {"", ".", ".."}
