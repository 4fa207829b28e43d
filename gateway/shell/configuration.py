"""Hadoop's configuration files: the properties that core-site.xml, or a file of -conf, sets.

Read by Python's parser of XML, so comments, CDATA and the order of elements mean what they mean to
Hadoop.  What could make a small file large, or read another one, is refused: entities that contain
others or that are elsewhere, and xi:include.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree
from xml.parsers import expat

from railyard.cluster.errors import UsageError

#: Most bytes of a file, and letters of an entity.
_BYTES_MAX = 4 * 2**20
_LETTERS_MAX = 1000
#: How often a value is looked through for variables.
_DEPTH_MAX = 20
_VARIABLE = re.compile(r"\$\{([^\s${}]+)\}")
_RIGHT = "need <configuration> with <property><name>...</name><value>...</value></property>"
_INCLUDE = "{http://www.w3.org/2001/XInclude}include"


class Property(NamedTuple):
    """A value; one that is final holds against files that are read later."""

    value: str
    final: bool


def merged(files: Iterable[Path]) -> dict[str, str]:
    """{name: value} of files that are read one after the other; a later value replaces."""
    properties: dict[str, Property] = {}
    for file in files:
        for name, new in read_properties(file):
            old = properties.get(name)
            if old is None or not old.final:
                properties[name] = new
    return {name: each.value for name, each in properties.items()}


def expanded(properties: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """The properties with ${NAME} replaced: by another one, or by what is ``known`` otherwise.

    As in Hadoop, a name that nobody knows stays as it is, and one within another's value is
    replaced, too, some times over.
    """

    def value_of(match: re.Match[str]) -> str:
        return properties.get(match[1], known.get(match[1], match[0]))

    made = {}
    for name, value in properties.items():
        for _ in range(_DEPTH_MAX):
            new = _VARIABLE.sub(value_of, value)
            if new == value or len(new) > _BYTES_MAX:
                break
            value = new
        made[name] = value
    return made


def read_properties(file: Path) -> Iterator[tuple[str, Property]]:
    """(Name, property) in the order of the file; ``UsageError`` for a file that is none."""
    try:
        if not file.is_file():
            raise UsageError(f"{file}: is no file: {_RIGHT}")
        if file.stat().st_size > _BYTES_MAX:
            raise UsageError(f"{file}: need at most {_BYTES_MAX} bytes")
        data = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror or error}") from None
    try:
        _check_entities(data)
        root = ElementTree.fromstring(data)
    except (ElementTree.ParseError, expat.ExpatError, ValueError, LookupError) as error:
        raise UsageError(f"{file}: is no XML that can be read: {error}: {_RIGHT}") from None
    if root.tag != "configuration":
        raise UsageError(f"{file}: begins with <{root.tag[:80]}>: {_RIGHT}")
    for element in root.iter():
        if element.tag == _INCLUDE:
            why = "other files are not read: put their properties into this one"
            raise UsageError(f"{file}: xi:include {element.get('href', '')[:80]}: {why}")
        if element.tag == "property":
            yield from _property(element)


def _property(element: ElementTree.Element) -> Iterator[tuple[str, Property]]:
    """What a property sets; nothing without a name or a value, as in Hadoop."""

    def text(tag: str) -> str | None:
        child = element.find(tag)
        return element.get(tag) if child is None else "".join(child.itertext())

    name, value, final = text("name"), text("value"), text("final")
    if name is not None and name.strip() and value is not None:
        yield name.strip(), Property(value, (final or "").strip() == "true")


def _check_entities(data: bytes) -> None:
    """Raise ``ValueError`` for an entity that is not plain text."""

    def declared(name: str, _: bool, value: str | None, *__: object) -> None:
        if value is None or "&" in value or "%" in value or len(value) > _LETTERS_MAX:
            raise ValueError(f"entity {name[:80]}: need one of plain text, {_LETTERS_MAX} letters")

    parser = expat.ParserCreate()
    parser.EntityDeclHandler = declared
    parser.Parse(data, True)
