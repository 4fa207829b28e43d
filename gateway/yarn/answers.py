"""How requests of YARN's and MapReduce's REST interfaces are read and answered.

What they accept (filters of lists, fields of bodies) stands in two tables.  Answers and errors are
JSON, or XML where the client prefers it.  Not here: what the answers say.

Source: Apache Hadoop 3.4's documentation of them, and what yarn-api-client 1.0.3 sends.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from typing import Any

from aiohttp import web

from railyard.cluster.acceptance import Accepted, Entry, idle, refused, used
from railyard.cluster.errors import UsageError
from railyard.gateway.http.answers import RemoteError, remote_error
from railyard.gateway.http.guard import READING
from railyard.gateway.yarn.numbers import Row

_STATES = used("only those in one of these states")
_DESELECTS = idle("no answer has the fields that it can leave out")
_NO_MASTER = idle("a job's master lives in the ResourceManager and takes no slot")
_OF_JOBS = {
    "user": used("only this user's"),
    "queue": used("only this queue's; root.default is default"),
    "limit": used("at most so many"),
    "startedTimeBegin": used("only those that began then or later, in ms since 1970"),
    "startedTimeEnd": used("only those that began then or before"),
    "finishedTimeBegin": used("only those that ended then or later"),
    "finishedTimeEnd": used("only those that ended then or before"),
}

#: {address below /ws/v1, of a job in the history and in its master's: its filters}
_FILTERS: dict[str, dict[str, Entry]] = {
    "/cluster/apps": {
        **dict.fromkeys(("states", "state"), _STATES),
        "finalStatus": used("only those that ended so"),
        "name": used("only those of this name"),
        "applicationTypes": used("only those of these types; all are MAPREDUCE"),
        "applicationTags": used("only those with one of these tags"),
        "deSelects": _DESELECTS,
        **_OF_JOBS,
    },
    "/cluster/apps/ID": {"deSelects": _DESELECTS},
    "/cluster/appstatistics": {
        "states": used("only these are counted"),
        "applicationTypes": used("of this type"),
    },
    "/cluster/nodes": {"states": _STATES, "healthy": refused("need states")},
    "/node/apps": {"state": _STATES, "user": used("only this user's")},
    "/history/mapreduce/jobs": {"state": _STATES, **_OF_JOBS},
    "/mapreduce/jobs/ID/tasks": {"type": used("m or r: only maps, or only reduces")},
}

#: The filters of all addresses below /ws/v1/cluster, node, history and /proxy.
FILTERS = Accepted(
    "YARN's REST interfaces: filters",
    "filter",
    {
        "delegation": used("a delegation token, where the gateway needs one"),
        "user.name": idle("Hadoop's clients say who they are; all users see and may do the same"),
        "_": idle("a number by which browsers go round their caches"),
        **{f"{of} {name}": entry for of, own in _FILTERS.items() for name, entry in own.items()},
    },
)

_NO_MOVE = refused("a job stays where it was submitted")

_FIELDS: dict[str, dict[str, Entry]] = {
    "POST apps": {
        "application-id": used("one that new-application gave"),
        "application-name": used("the job's name"),
        "application-tags": used('{"tag": ["a", "b"]}, by which applicationTags finds it'),
        "application-type": used("MAPREDUCE; any other is refused"),
        "queue": used("the job's queue; root.default is default"),
        "railyard": used("the streaming job"),
        "am-container-spec": refused(
            "no command of an ApplicationMaster can run here: need the field railyard"
        ),
        "unmanaged-AM": refused("no ApplicationMaster runs: need the field railyard"),
        "priority": refused("the scheduler orders jobs"),
        "reservation-id": refused("there are no reservations"),
        "application-timeouts": refused("jobs have no time limit"),
        "node-label-expression": refused("nodes have no labels"),
        **dict.fromkeys(("max-app-attempts", "resource", "am-black-listing-requests"), _NO_MASTER),
        "keep-containers-across-application-attempts": _NO_MASTER,
        "attempt-failures-validity-interval": _NO_MASTER,
        "log-aggregation-context": idle("logs of attempts are in the run folder"),
    },
    "PUT apps/ID/state": {"state": used("KILLED"), "diagnostics": used("why: the job's reason")},
    "PUT apps/ID/queue": {"queue": _NO_MOVE},
    "PUT apps/ID/priority": {"priority": _NO_MOVE},
    "PUT apps/ID/timeout": {"timeout": refused("jobs have no time limit")},
}

#: The fields of bodies, of JSON, or of XML for a state.
FIELDS = Accepted(
    "YARN's REST interfaces: fields of bodies",
    "field",
    {f"{of} {name}": entry for of, own in _FIELDS.items() for name, entry in own.items()},
)


# Requests and answers ----------------------------------------------------------------------------
Handler = Callable[[web.Request], Awaitable[Row | web.Response]]
_NAMED = re.compile(r"\{\w+\}")  #: a part of an address


def answering(handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler of requests whose answers are JSON or XML, and which may have filters."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            _check(FILTERS, _filtered(request), request.query)
            answer = await handler(request)
        except Exception as error:
            refusal = remote_error(error)
            if refusal is None:
                raise
            return respond(request, refusal.as_json(), refusal.status)
        return answer if isinstance(answer, web.Response) else respond(request, answer)

    return handle


def _filtered(request: web.Request) -> str:
    """The address of a list as ``_FILTERS`` has it; others have no filters of their own."""
    resource = request.match_info.route.resource
    if resource is not None and request.method in READING:
        address = _NAMED.sub("ID", resource.canonical).rpartition("/ws/v1")[2]
        for known in (address, address.removeprefix("/history")):
            if known in _FILTERS:
                return known
    return "this address"


def respond(request: web.Request, answer: Row, status: int = 200) -> web.Response:
    """An answer as the client wants it."""
    if wants_xml(request.headers.get("Accept", "")):
        return web.Response(body=as_xml(answer), content_type="application/xml", status=status)
    return web.json_response(answer, status=status)


def fields(of: str, body: object) -> Mapping[str, Any]:
    """The fields of a body; ``RemoteError`` for one that such a body has not got."""
    if not isinstance(body, Mapping):
        raise bad("the body: need an object with fields")
    _check(FIELDS, of, body)
    return body


def _check(table: Accepted, of: str, names: Iterable[str]) -> None:
    try:
        table.check_request(of, names)
    except UsageError as error:
        raise bad(str(error)) from None


bad = partial(RemoteError, 400, "BadRequestException")  #: the request is wrong: why
not_found = partial(RemoteError, 404, "NotFoundException")  #: there is no such thing: why


def listed(name: str, each: str, entries: Iterable[Row]) -> Row:
    """A list as YARN has it: ``{"apps": {"app": [...]}}``, or ``{"apps": null}``."""
    found = list(entries)
    return {name: {each: found} if found else None}


def only(name: str, request: web.Request, rows: Iterable[Row], key: str, why: str) -> Row:
    """{name: the row that a part of the address of this name stands for}, by a field of the rows.

    ``RemoteError`` if there is none: ``why``.
    """
    wanted = request.match_info[name]
    for row in rows:
        if row[key] == wanted:
            return {name: row}
    raise not_found(why.format(wanted[:80]))


# Filters of lists --------------------------------------------------------------------------------
#: {parameter: the field that it is about, and the values that there are}
Known = Mapping[str, tuple[str, tuple[str, ...]]]


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
    request: web.Request,
    rows: Iterable[Row],
    known: Known,
    fields: Iterable[str] = (),
    times: Mapping[str, str] | None = None,
) -> list[Row]:
    """The rows that pass all filters, at most ``limit``.

    ``fields``: with one of the values given.  ``times``: {prefix of Begin and End: field}.
    """
    left = list(rows)
    for name, (field, values) in known.items():
        wanted = several(request, name, values)
        left = [row for row in left if not wanted or row[field] in wanted]
    for name in fields:
        wanted = {_plain(name, value) for value in texts(request, name)}
        left = [row for row in left if not wanted or _plain(name, row[name]) in wanted]
    for prefix, field in (times or {}).items():
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


# XML: an answer's JSON names become elements, and a list becomes repeated elements ---------------
#
# {"apps": {"app": [{"id": "a"}, {"id": "b"}]}}   <apps><app><id>a</id></app><app>...</app></apps>

#: What XML 1.0 has no way to write.
_NO_LETTER = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_IN_NAMES = re.compile(r"[^\w.-]", re.ASCII)
_QUALITY = re.compile(r"\d*\.?\d+|\d+\.", re.ASCII)
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
        raise bad(f"the body: need XML: {error}") from None
    if any(len(each) for each in root):
        raise bad("the body: need elements with text only")
    return {each.tag: (each.text or "").strip() for each in root}


def wants_xml(accept: str) -> bool:
    """Whether the header ``Accept`` prefers XML to JSON; JSON where it does not say."""
    best = {True: 0.0, False: 0.0}  #: how much it is wanted: XML, JSON
    for part in accept.lower().split(","):
        kind, *parameters = (each.strip() for each in part.split(";"))
        quality = [each[2:] for each in parameters if each.startswith("q=")] or ["1"]
        if kind in ("application/xml", "text/xml", "application/json", "*/*", "application/*"):
            of = kind.endswith("/xml")
            best[of] = max(best[of], float(quality[0]) if _QUALITY.fullmatch(quality[0]) else 0.0)
    return best[True] > best[False]


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
