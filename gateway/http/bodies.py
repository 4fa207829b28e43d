"""The bodies of requests and answers: none is waited for without end, and JSON has a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from railyard.gateway.http.errors import RemoteError

T = TypeVar("T")
#: A client that sends or takes nothing of a body for so long is given up.
SILENT_S = 300.0
JSON_BYTES_MAX = 2**20


async def arriving(coming: Awaitable[T]) -> T:
    """What comes next of a request's body; ``RemoteError`` if the client is silent for too long."""
    try:
        async with asyncio.timeout(SILENT_S):
            return await coming
    except RuntimeError:  # aiohttp's word for it
        raise ConnectionResetError("the client has gone") from None
    except TimeoutError:
        why = f"nothing of the body came for {SILENT_S:g} s"
        raise RemoteError(408, "IOException", why) from None


def cut_off(request: web.BaseRequest) -> None:
    """Close a connection at once, so that a client sees that its answer is not whole."""
    if request.transport is not None:
        request.transport.abort()


async def whole_body(request: web.Request, bytes_max: int = JSON_BYTES_MAX) -> bytes:
    """All that a request brings; ``RemoteError`` if it is too much, or does not come."""
    body = bytearray()
    while piece := await arriving(request.content.readany()):
        body += piece
        if len(body) > bytes_max:
            why = f"the body: need at most {bytes_max} bytes"
            raise RemoteError(413, "BadRequestException", why)
    return bytes(body)


async def json_body(request: web.Request) -> Any:
    """The JSON that a request brings; ``RemoteError`` for anything else, or too much.

    A half of a surrogate pair is no JSON either: no message could carry it on.
    """
    try:
        return msgspec.json.decode(await whole_body(request))
    except (ValueError, RecursionError):  # msgspec's errors are of the first kind
        raise RemoteError(400, "BadRequestException", "the body: need JSON") from None


def json_answer(told: Any) -> web.Response:
    """An answer of JSON; msgspec writes a long listing in a tenth of json's time."""
    body = msgspec.json.encode(told)
    return web.Response(body=body, content_type="application/json", charset="utf-8")
