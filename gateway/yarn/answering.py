"""How requests are answered: JSON, or XML where the client prefers it; errors likewise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web

from railyard.cluster.errors import UsageError
from railyard.gateway.http.errors import RemoteError, remote_error
from railyard.gateway.yarn.accepted import FIELDS, FILTERS, PLAIN
from railyard.gateway.yarn.xml import as_xml, wants_xml

#: What a handler gives: the answer, and its status if that is not 200.
Handler = Callable[[web.Request], Awaitable[dict[str, Any] | web.Response]]


def answering(
    handler: Handler, of: str = PLAIN
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler of requests whose answers are JSON or XML; ``of``: whose filters they have."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            try:
                FILTERS.check_request(of, request.query)
            except UsageError as error:
                raise bad(str(error)) from None
            answer = await handler(request)
        except Exception as error:
            told = remote_error(error)
            if told is None:
                raise
            return respond(request, told.told(), told.status)
        return answer if isinstance(answer, web.Response) else respond(request, answer)

    return handle


def respond(request: web.Request, answer: dict[str, Any], status: int = 200) -> web.Response:
    """An answer as the client wants it."""
    if wants_xml(request.headers.get("Accept", "")):
        return web.Response(body=as_xml(answer), content_type="application/xml", status=status)
    return web.json_response(answer, status=status)


def fields(of: str, body: object) -> Mapping[str, Any]:
    """The fields of a body; ``RemoteError`` for one that such a body has not got."""
    if not isinstance(body, Mapping):
        raise bad("the body: need an object with fields")
    try:
        FIELDS.check_request(of, body)
    except UsageError as error:
        raise bad(str(error)) from None
    return body


def bad(why: str) -> RemoteError:
    """The request is wrong."""
    return RemoteError(400, "BadRequestException", why)


def not_found(why: str) -> RemoteError:
    """There is no such thing."""
    return RemoteError(404, "NotFoundException", why)
