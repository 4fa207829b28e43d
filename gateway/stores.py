"""Clients of the cluster for the requests: each has one to itself while it is answered.

A client waits for its answers, so it has a thread, which makes its calls.  Clients that nobody has
needed for a while are closed, and freed memory is returned: what requests take lies scattered over
the arenas of many threads, so that otherwise each burst would leave some more.  A file's bytes
never lie here whole: they go from a thread to the client's socket, and come in pieces, few at once.
"""

from __future__ import annotations

import asyncio
import os
import select
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from functools import cached_property, partial
from typing import TypeVar

import zmq
from aiohttp import StreamReader, web

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerLost
from railyard.cluster.machine import return_freed_memory
from railyard.cluster.messaging.access import GATEWAY
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Message
from railyard.cluster.runfolder import RunFolder
from railyard.dfs.client import DfsClient
from railyard.gateway.http.answers import SILENT_S, arriving

T = TypeVar("T")
M = TypeVar("M", bound=Message)
#: Requests that use the block store at once; others wait for their turn.
STORES_MAX = 32
#: So often, while requests come and once after, idle clients are closed and freed memory returned.
#: A client that was not needed for so long is idle; these few stay.
_IDLE_S = 10.0
_KEPT = 2
#: Memory is given back as well when so many bytes of files have passed: blocks and windows of
#: transfers in different directions are in the arenas of different threads.
_TRIMMED_BYTES = 64 * 2**20
#: Of all clients together: 32 of them, each with links to 60 racks, and what watches these links.
_SOCKETS_MAX = 8192
#: Bytes held of a file that is written, at least a block: the process stays below 100 MB.
_HELD_BYTES = 16 * 2**20
#: Bytes of a body are handed over in pieces of this size: what a transfer sends as one message.
PIECE_BYTES = 2**20
#: Pieces that have come and were not taken yet.
_PIECES_MAX = 4


class Stores:
    """Lends each request the client that was used last, or a new one, so that others fall idle."""

    def __init__(self, folder: RunFolder, config: ClusterConfig) -> None:
        self._folder = folder
        self._config = config
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context.instance()
        self._context.set(zmq.MAX_SOCKETS, _SOCKETS_MAX)
        self._free: list[Store] = []  #: the one that has been idle for longest first
        self._tidying: asyncio.TimerHandle | None = None
        self._moved_bytes = 0  #: of files, since memory was given back
        self._turns = asyncio.Semaphore(STORES_MAX)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Store]:
        """A client for the length of the block."""
        async with self._turns:
            new = partial(Store, self._folder, self._config, self._context)
            store = self._free.pop() if self._free else new()
            try:
                yield store
            except asyncio.CancelledError:
                store.close()  # its thread may be using it still
                raise
            except BaseException:
                self._take_back(store)
                raise
            self._take_back(store)

    async def ask(self, message: Message, answer: type[M]) -> M:
        """Ask the ResourceManager."""
        async with self.one() as store:
            return await store.ask(message, answer)

    async def call(self, act: Callable[[DfsClient], T]) -> T:
        """Run ``act(client)`` in the thread of one."""
        async with self.one() as store:
            return await store.call(act)

    def close(self) -> None:
        """Close all clients that are not lent."""
        for store in self._free:
            store.close()

    def _take_back(self, store: Store) -> None:
        loop = asyncio.get_running_loop()
        store.idle_since_s = loop.time()
        self._free.append(store)
        self._moved_bytes += store.moved_bytes
        store.moved_bytes = 0
        if self._moved_bytes >= _TRIMMED_BYTES:
            self._trim()
        if self._tidying is None:
            self._tidying = loop.call_later(_IDLE_S, self._tidy)

    def _tidy(self) -> None:
        """Close clients that are idle, and return memory, once more if there are others still."""
        loop = asyncio.get_running_loop()
        while len(self._free) > _KEPT and self._free[0].idle_since_s <= loop.time() - _IDLE_S:
            self._free.pop(0).close()
        again = len(self._free) > _KEPT
        self._tidying = loop.call_later(_IDLE_S, self._tidy) if again else None
        self._trim()

    def _trim(self) -> None:
        self._moved_bytes = 0
        asyncio.get_running_loop().run_in_executor(None, return_freed_memory)


class Store:
    """A client of the block store and of the ResourceManager, with its sockets."""

    def __init__(
        self, folder: RunFolder, config: ClusterConfig, context: zmq.Context[zmq.Socket[bytes]]
    ) -> None:
        self.idle_since_s = 0.0  #: on the loop's clock
        self.moved_bytes = 0  #: of files, since it was lent
        self._thread = ThreadPoolExecutor(1, "store")
        self._transport = Transport(folder, role=GATEWAY, shared=context)
        self.client = DfsClient(self._transport, config.topology, held_bytes=_HELD_BYTES)

    async def call(self, act: Callable[[DfsClient], T]) -> T:
        """Run ``act(client)`` in its thread; once more if the NameNode's connection was lost."""
        try:
            return await self._run(partial(act, self.client))
        except PeerLost:
            return await self._run(partial(act, self.client))

    async def send(self, pieces: Generator[memoryview], request: web.Request) -> None:
        """Send the bytes of a file as the rest of an answer that has begun."""

        def run() -> int:
            with closing(pieces):
                return pour(pieces, connection)

        async with own_socket(request) as connection:
            self.moved_bytes += await self._run(run)

    async def take(
        self, body: StreamReader, write: Callable[[DfsClient, Iterator[memoryview]], T]
    ) -> T:
        """Run ``write(client, pieces of the body)`` in a thread; the body is never held whole.

        Raises, as ``write`` does, what the connection raises if the sender disconnects.
        """
        upload = Upload(body, self._transport.reactor)

        def run() -> T:
            with upload.arriving() as pieces:
                return write(self.client, pieces)

        feeding = asyncio.create_task(upload.feed())
        try:
            return await self._run(run)
        finally:
            feeding.cancel()
            self.moved_bytes += upload.handed_bytes

    async def ask(self, message: Message, answer: type[M]) -> M:
        return await self._run(lambda: self._manager.ask(message, answer))

    def close(self) -> None:
        """Close its sockets, once what it was asked to do is done."""
        self._thread.submit(self._close)
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        self.client.close()
        self._transport.close()

    def _run(self, act: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._thread, act)

    @cached_property
    def _manager(self) -> LastingLink:
        return LastingLink(self._transport, "resourcemanager")


# A request's body, from the event loop to the thread that writes it -------------------------------
class Upload:
    """A body; ``feed`` runs in the event loop, all else in the thread that has the reactor."""

    def __init__(self, body: StreamReader, reactor: Reactor) -> None:
        self.handed_bytes = 0  #: so far
        self._body = body
        self._reactor = reactor
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(_PIECES_MAX)
        #: pieces, and at the end None, or why there is no more
        self._pieces: deque[memoryview | Exception | None] = deque()
        self._lock = threading.Lock()  #: against a wake-up when the thread has left
        self._event: int | None = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    # In the event loop -----------------------------------------------------------------------
    async def feed(self) -> None:
        """Read the body to its end."""
        end: Exception | None = ConnectionAbortedError("the request was cancelled")
        try:
            async for piece in self._whole_pieces():
                await self._room.acquire()
                self.handed_bytes += len(piece)
                self._hand_over(piece)
            end = None
        except Exception as error:
            end = error
        finally:
            self._hand_over(end)

    async def _whole_pieces(self) -> AsyncIterator[memoryview]:
        """The body in pieces of one size; the last is shorter."""
        parts: list[memoryview] = []
        missing = PIECE_BYTES
        while data := await arriving(self._body.readany()):
            left = memoryview(data)
            while len(left):
                parts.append(left[:missing])
                left = left[missing:]
                missing -= len(parts[-1])
                if missing == 0:
                    yield memoryview(b"".join(parts))
                    parts, missing = [], PIECE_BYTES
        if parts:
            yield memoryview(b"".join(parts))

    # In the thread ---------------------------------------------------------------------------
    @contextmanager
    def arriving(self) -> Iterator[Iterator[memoryview]]:
        """The pieces; while they are waited for, the reactor sends blocks on."""
        assert self._event is not None
        self._reactor.add(self._event, self._woken)
        try:
            yield self._taken()
        finally:
            self._reactor.remove(self._event)
            with self._lock:
                os.close(self._event)
                self._event = None

    def _taken(self) -> Iterator[memoryview]:
        while True:
            self._reactor.run_until(lambda: bool(self._pieces))
            piece = self._pieces.popleft()
            if piece is None:
                return
            if isinstance(piece, Exception):
                raise piece
            self._loop.call_soon_threadsafe(self._room.release)
            yield piece

    def _woken(self) -> None:
        assert self._event is not None
        os.eventfd_read(self._event)

    def _hand_over(self, piece: memoryview | Exception | None) -> None:
        self._pieces.append(piece)
        with self._lock:
            if self._event is not None:
                os.eventfd_write(self._event, 1)


# A file's bytes, from the thread that reads it: handing each piece to the loop cost more ----------
@asynccontextmanager
async def own_socket(request: web.Request) -> AsyncIterator[socket.socket]:
    """The connection of a request whose answer has begun, once all written so far is sent.

    It is shut down if whoever uses it is cancelled, so that a thread that sends comes to an end.
    """
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client has disconnected")
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

    Raises ``ConnectionError`` if the client has disconnected, or takes nothing for too long.
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
