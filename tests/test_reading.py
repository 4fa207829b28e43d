"""docs/reading.md: each way into the code is as short as it says, and ends at files that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: {way: most files that a newcomer should have to open}
FILES_MAX = {
    "A scheduler of your own": 4,
    "A flow scheduler of your own": 2,
    "A kind of link": 5,
    "A shuffle byte": 8,
    "A grant, from the fabric to the sender": 5,
    "Which circuits there are": 3,
    "A REST endpoint": 5,
    "Corral beside its paper": 4,
}
#: what is no way but a list of places
LISTS = ("Where a paper is",)


def ways(text: str) -> dict[str, list[str]]:
    """{heading: the files listed under it}."""
    parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)[1:]
    return {
        heading: re.findall(r"^\d\. `([^`]+)`", body, flags=re.MULTILINE)
        for heading, body in zip(parts[::2], parts[1::2], strict=True)
    }


def test_the_ways_are_short_and_lead_to_files():
    found = ways((ROOT / "docs" / "reading.md").read_text(encoding="utf-8"))
    assert list(found) == [*FILES_MAX, *LISTS]
    for way in FILES_MAX:
        files = found[way]
        assert 1 <= len(files) <= FILES_MAX[way], way
        assert len(set(files)) == len(files), way
        assert [file for file in files if not (ROOT / file).is_file()] == [], way


def test_they_are_linked_from_where_newcomers_look():
    for page in ("README.md", "ARCHITECTURE.md"):
        assert "docs/reading.md" in (ROOT / page).read_text(encoding="utf-8"), page


def test_a_way_is_read_as_it_is_written():
    text = "# Title\n\n## A way\n\n1. `a/b.py`: first.\n2. `c.md`: then, not `d.py`.\n"
    assert ways(text) == {"A way": ["a/b.py", "c.md"]}
