"""A file's bytes on their way from a thread to a client: straight to its socket.

The event loop has no part in it: handing over each piece cost more than sending it.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress

from aiohttp import web

from railyard.gateway.http.bodies import SILENT_S


@asynccontextmanager
async def own_socket(request: web.Request) -> AsyncIterator[socket.socket]:
    """The connection of a request whose answer has begun, once all written so far is sent.

    It is shut down if whoever uses it is cancelled, so that a thread that sends comes to an end.
    """
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client has gone")
    await _sent(request, transport)
    connection = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
    try:
        yield connection
    except BaseException:
        with suppress(OSError):  # it is closed already
            connection.shutdown(socket.SHUT_RDWR)
        raise
    finally:
        connection.close()


async def _sent(request: web.Request, transport: asyncio.Transport) -> None:
    transport.set_write_buffer_limits(high=0)  # to drain is to wait until nothing is left
    try:
        async with asyncio.timeout(SILENT_S):
            await request.writer.drain()
    except TimeoutError:
        raise _took_nothing() from None
    transport.set_write_buffer_limits()


def pour(pieces: Iterator[memoryview], connection: socket.socket) -> int:
    """Send all pieces, as fast as the client takes them; runs in a thread.  Returns their bytes.

    Raises ``ConnectionError`` if the client has gone, or takes nothing for too long.
    """
    room = select.poll()
    room.register(connection, select.POLLOUT)
    sent = 0
    for piece in pieces:
        sent += len(piece)
        while len(piece):
            try:
                piece = piece[connection.send(piece) :]
            except BlockingIOError:
                if not room.poll(SILENT_S * 1000):
                    raise _took_nothing() from None
    return sent


def _took_nothing() -> ConnectionError:
    return ConnectionAbortedError(f"the client took nothing for {SILENT_S:g} s")
