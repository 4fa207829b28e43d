"""How requests are answered: JSON, or XML where the client prefers it; errors likewise."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from railyard.gateway.http.errors import RemoteError, remote_error
from railyard.gateway.yarn.xml import as_xml, wants_xml

#: What a handler gives: the answer, and its status if that is not 200.
Handler = Callable[[web.Request], Awaitable[dict[str, Any] | web.Response]]


def answering(handler: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """A handler of requests whose answers are JSON or XML."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
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


def bad(why: str) -> RemoteError:
    """The request is wrong."""
    return RemoteError(400, "BadRequestException", why)


def not_found(why: str) -> RemoteError:
    """There is no such thing."""
    return RemoteError(404, "NotFoundException", why)
