"""The names of links: "r3.up" everywhere, and what people may write instead.

"Tokyo.up" is the link of the site of that name; letters' case and what is between words do not
count.  "rack3.uplink" and "site3.uplink" are of an earlier release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from railyard.cluster.tomlfile import warn_of_renamed

#: {word of an earlier release: the word now}
_RENAMED = {"uplink": "up", "downlink": "down"}
_WAYS = frozenset({"up", "down"})
_NUMBERED = re.compile(r"(?:rack|site)(\d+)")


def link_name(text: str, places: Mapping[str, str]) -> str:
    """The name of the link that a person means, in a topology with these places: {name: rack id}.

    Warns of spellings of an earlier release.  Whatever no place is known for stays as it is.
    """
    place, way = _split(text.strip(), places)
    parts = [_RENAMED.get(part.casefold(), _as_way(part)) for part in way]
    written = ".".join([place, *map(_as_way, way)])
    now = ".".join([_NUMBERED.sub(r"r\1", place), *parts])
    if now != written:
        warn_of_renamed(written, now)
    return now


def place_named(text: str, places: Mapping[str, str]) -> str:
    """The rack that a person means by its id, or by its site's name; else the text itself."""
    if text in places.values():
        return text
    known = {_folded(name): rack for name, rack in places.items()}
    return known.get(_folded(text), text)


def names_of_links(names: Iterable[str], places: Mapping[str, str]) -> Iterator[str]:
    """The names of links, those of places' own first: "Tokyo.up" rather than "r5.up"."""
    own = {rack: name for name, rack in places.items()}
    for name in names:
        place, dot, way = name.partition(".")
        yield own.get(place, place).replace(" ", "-") + dot + way


def _as_way(part: str) -> str:
    return part.casefold() if part.casefold() in _WAYS else part


def _split(text: str, places: Mapping[str, str]) -> tuple[str, list[str]]:
    """(rack, or the first part; the other parts).  A site's name may have dots, too."""
    parts = text.split(".")
    for count in range(1, len(parts)):
        first = ".".join(parts[:count])
        place = place_named(first, places)
        if place != first:
            return place, parts[count:]
    return parts[0], parts[1:]


def _folded(name: str) -> str:
    return "".join(letter for letter in name.casefold() if letter.isalnum())
