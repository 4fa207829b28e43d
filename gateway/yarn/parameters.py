"""The parameters by which lists are filtered, as YARN's servers read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from aiohttp import web

from railyard.gateway.yarn.answering import bad

Row = dict[str, Any]


def texts(request: web.Request, name: str) -> list[str]:
    """The values of a parameter, which may come several times and have commas."""
    given = request.query.getall(name, [])
    return [each for text in given for each in text.split(",") if each]


def several(request: web.Request, name: str, known: tuple[str, ...]) -> set[str]:
    """Those of ``known`` that a parameter names, in any case; none = it is not there."""
    wanted = {each.upper() for each in texts(request, name)}
    for each in wanted:
        if each not in known:
            raise bad(f"Invalid {name} {each[:40]!r}: need one of {', '.join(known)}")
    return wanted


def passing(
    request: web.Request, rows: Iterable[Row], fields: Iterable[str], times: Mapping[str, str]
) -> list[Row]:
    """The rows that pass all filters, at most ``limit``.

    ``fields``: of which the value must be one of those given.  ``times``: {prefix of parameters
    that end in Begin and End: field}.
    """
    left = list(rows)
    for name in fields:
        values = {_plain(name, value) for value in texts(request, name)}
        left = [row for row in left if not values or _plain(name, row[name]) in values]
    for prefix, field in times.items():
        begin, end = _whole(request, f"{prefix}Begin"), _whole(request, f"{prefix}End")
        if begin is not None and end is not None and begin > end:
            raise bad(f"{prefix}End must not be before {prefix}Begin: {end} < {begin}")
        left = [row for row in left if begin is None or row[field] >= begin]
        left = [row for row in left if end is None or row[field] <= end]
    limit = _whole(request, "limit")
    if limit == 0:
        raise bad("limit value must be greater then 0")
    return left[:limit]


def _whole(request: web.Request, name: str) -> int | None:
    """A number; None if it is not given, or empty, which counts as absent in YARN."""
    given = {text for text in request.query.getall(name, []) if text}
    if not given:
        return None
    if len(given) > 1:
        raise bad(f"{name}: given twice: need one value")
    text = given.pop()
    if not (text.isascii() and text.isdecimal() and len(text) < 20):
        raise bad(f"{name} {text[:40]!r}: need a whole number, 0 or more")
    return int(text)


def _plain(name: str, value: str) -> str:
    """A value as it is compared: all queues are below root, which need not be said."""
    return value.removeprefix("root.") if name == "queue" else value
