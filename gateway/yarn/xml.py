"""XML: an answer's JSON names become elements, and a list becomes repeated elements.

{"apps": {"app": [{"id": "a"}, {"id": "b"}]}}   <apps><app><id>a</id></app><app>...</app></apps>
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import Any

from railyard.gateway.http.errors import RemoteError

#: What XML 1.0 has no way to write.
_NO_LETTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_IN_NAMES = re.compile(r"[^\w.-]", re.ASCII)
_DECLARATION = b'<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'


def as_xml(answer: Mapping[str, Any]) -> bytes:
    """A document; ``answer`` has one name, that of the root."""
    ((name, value),) = answer.items()
    root = ET.Element(_name(name))
    _fill(root, value)
    written: bytes = ET.tostring(root, encoding="utf-8")
    return _DECLARATION + written


def texts_of(body: bytes) -> dict[str, str]:
    """What is in the elements of a document's root; ``RemoteError`` for what is no XML."""
    try:
        root = ET.fromstring(body)
    except (ET.ParseError, ValueError) as error:
        raise RemoteError(400, "BadRequestException", f"the body: need XML: {error}") from None
    if any(len(each) for each in root):
        raise RemoteError(400, "BadRequestException", "the body: need elements with text only")
    return {each.tag: (each.text or "").strip() for each in root}


def wants_xml(accept: str) -> bool:
    """Whether the header ``Accept`` prefers XML to JSON; JSON where it does not say."""
    best, xml = 0.0, False
    for part in accept.split(","):
        kind, *parameters = (each.strip().lower() for each in part.split(";"))
        quality = _quality(parameters)
        if kind in ("application/xml", "text/xml"):
            if quality > best:
                best, xml = quality, True
        elif kind in ("application/json", "*/*", "application/*") and quality >= best:
            best, xml = quality, False
    return xml


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def _fill(element: ET.Element, value: object) -> None:
    if isinstance(value, Mapping):
        for name, each in value.items():
            for one in each if isinstance(each, list | tuple) else [each]:
                if one is not None:
                    _fill(ET.SubElement(element, _name(str(name))), one)
    elif isinstance(value, bool):
        element.text = str(value).lower()
    elif value is not None:
        element.text = _NO_LETTER.sub("\ufffd", str(value))


def _name(text: str) -> str:
    name = _NOT_IN_NAMES.sub("_", text)
    return name if name[:1].isalpha() or name[:1] == "_" else f"_{name}"
