"""Clients of the cluster for the requests: each has one to itself while it is answered.

A client waits for its answers, so its calls run in threads; a client's sockets are used
by one thread at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from typing import TypeVar

from aiohttp import StreamReader, web

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerLost
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.messaging.access.roles import GATEWAY
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Message
from railyard.dfs.client import DfsClient
from railyard.gateway.downloads import own_socket, pour
from railyard.gateway.uploads import Upload

T = TypeVar("T")
M = TypeVar("M", bound=Message)
#: Requests that use the block store at once; others wait for their turn.
STORES_MAX = 32
#: Bytes of a file that are held while it is written (one block if that is larger): with the rest
#: of the process below 100 MB.
_HELD_BYTES = 32 * 2**20


class Store:
    """A client of the block store and of the ResourceManager, with its sockets."""

    def __init__(self, folder: RunFolder, config: ClusterConfig, threads: ThreadPoolExecutor):
        self._threads = threads
        self._transport = Transport(folder, role=GATEWAY)
        self.client = DfsClient(self._transport, config.topology, held_bytes=_HELD_BYTES)
        self._manager = LastingLink(self._transport, "resourcemanager")

    async def call(self, act: Callable[[DfsClient], T]) -> T:
        """Run ``act(client)`` in a thread; once more if the NameNode's connection was lost."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, act, self.client)
        except PeerLost:
            return await loop.run_in_executor(self._threads, act, self.client)

    async def send(self, pieces: Generator[memoryview], request: web.Request) -> None:
        """Send the bytes of a file as the rest of an answer that has begun."""
        loop = asyncio.get_running_loop()

        def run() -> None:
            with closing(pieces):
                pour(pieces, connection)

        async with own_socket(request) as connection:
            await loop.run_in_executor(self._threads, run)

    async def take(
        self, body: StreamReader, write: Callable[[DfsClient, Iterator[memoryview]], T]
    ) -> T:
        """Run ``write(client, pieces of the body)`` in a thread; the body is never held whole.

        Raises what the connection raises if the sender goes away; ``write`` gets that, too, and
        leaves nothing.
        """
        loop = asyncio.get_running_loop()
        upload = Upload(body, self._transport.reactor)

        def run() -> T:
            with upload.arriving() as pieces:
                return write(self.client, pieces)

        feeding = loop.create_task(upload.feed())
        try:
            return await loop.run_in_executor(self._threads, run)
        finally:
            feeding.cancel()

    async def ask(self, message: Message, answer: type[M]) -> M:
        """Ask the ResourceManager."""
        return await self.call(lambda _: self._manager.call(message, answer))

    def close(self) -> None:
        """Close its sockets."""
        self.client.close()
        self._transport.close()


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
