"""Clients of the cluster for the requests: each has one to itself while it is answered.

A client waits for its answers, so its calls run in threads; a client's sockets are used
by one thread at a time.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeVar

from aiohttp import StreamReader

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerLost
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.messaging.access.roles import GATEWAY
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Message
from railyard.dfs.client import DfsClient

T = TypeVar("T")
M = TypeVar("M", bound=Message)
#: Requests that use the block store at once; others wait for their turn.
STORES_MAX = 32


class Store:
    """A client of the block store and of the ResourceManager, with its sockets."""

    def __init__(self, folder: RunFolder, config: ClusterConfig, threads: ThreadPoolExecutor):
        self._threads = threads
        self._transport = Transport(folder, role=GATEWAY)
        self.client = DfsClient(self._transport, config.topology)
        self._manager = LastingLink(self._transport, "resourcemanager")

    async def call(self, act: Callable[[DfsClient], T]) -> T:
        """Run ``act(client)`` in a thread; once more if the NameNode's connection was lost."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, act, self.client)
        except PeerLost:
            return await loop.run_in_executor(self._threads, act, self.client)

    async def pieces(self, path: str, offset: int, length: int) -> AsyncGenerator[memoryview]:
        """The bytes of a file as they arrive."""
        loop = asyncio.get_running_loop()
        stream = await self.call(lambda client: client.open(path).stream(offset, length))
        try:
            while (
                piece := await loop.run_in_executor(self._threads, next, stream, None)
            ) is not None:
                yield piece
        finally:
            await loop.run_in_executor(self._threads, stream.close)

    async def send(self, body: StreamReader, write: Callable[[DfsClient, Iterator[bytes]], T]) -> T:
        """Run ``write(client, pieces of the body)`` in a thread; the body is never held whole.

        Raises what the connection raises if the sender goes away; ``write`` gets that, too, and
        leaves nothing.
        """
        loop = asyncio.get_running_loop()
        arriving = _Arriving(body, loop, self._transport)
        try:
            return await loop.run_in_executor(self._threads, write, self.client, iter(arriving))
        finally:
            arriving.close()

    async def ask(self, message: Message, answer: type[M]) -> M:
        """Ask the ResourceManager."""
        return await self.call(lambda _: self._manager.call(message, answer))

    def close(self) -> None:
        """Close its sockets."""
        self.client.close()
        self._transport.close()


class _Arriving:
    """A request's body, for a thread; while it waits for more, blocks are sent on."""

    def __init__(
        self, body: StreamReader, loop: asyncio.AbstractEventLoop, transport: Transport
    ) -> None:
        self._body = body
        self._loop = loop
        self._reactor = transport.reactor
        self._lock = threading.Lock()  #: against a wake-up after ``close``
        self._closed = False
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._reactor.add(self._event, self._woken)

    def __iter__(self) -> Iterator[bytes]:
        while piece := self._next():
            yield piece

    def _next(self) -> bytes:
        coming = asyncio.run_coroutine_threadsafe(self._body.readany(), self._loop)
        coming.add_done_callback(self._wake)
        self._reactor.run_until(coming.done)
        return coming.result()

    def _wake(self, _: Future[bytes]) -> None:
        with self._lock:
            if not self._closed:
                os.eventfd_write(self._event, 1)

    def _woken(self) -> None:
        os.eventfd_read(self._event)

    def close(self) -> None:
        with self._lock:
            self._closed = True
        self._reactor.remove(self._event)
        os.close(self._event)


class Stores:
    """Lends a client to each request, and makes more as they are needed."""

    def __init__(self, folder: RunFolder, config: ClusterConfig) -> None:
        self._folder = folder
        self._config = config
        self._threads = ThreadPoolExecutor(STORES_MAX, thread_name_prefix="store")
        self._free: list[Store] = []
        self._turns = asyncio.Semaphore(STORES_MAX)

    @asynccontextmanager
    async def one(self) -> AsyncIterator[Store]:
        """A client for the length of the block."""
        async with self._turns:
            store = self._free.pop() if self._free else self._new()
            try:
                yield store
            except asyncio.CancelledError:
                raise  # a thread may be using it still: it is not lent again
            except BaseException:
                self._free.append(store)
                raise
            self._free.append(store)

    def close(self) -> None:
        """Close all clients that are not lent."""
        for store in self._free:
            store.close()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _new(self) -> Store:
        return Store(self._folder, self._config, self._threads)
