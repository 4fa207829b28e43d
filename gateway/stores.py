"""Clients of the cluster for the requests: each has one to itself while it is answered.

A client waits for its answers, so it has a thread, which makes its calls.  Clients that nobody has
needed for a while are closed, and freed memory is returned: what requests take lies scattered over
the arenas of many threads, so that otherwise each burst would leave some more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from contextlib import asynccontextmanager, closing
from functools import cached_property, partial
from typing import TypeVar

import zmq
from aiohttp import StreamReader, web

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerLost
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.messaging.access.roles import GATEWAY
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Message
from railyard.cluster.processes.memory import return_freed_memory
from railyard.dfs.client import DfsClient
from railyard.gateway.downloads import own_socket, pour
from railyard.gateway.uploads import Upload
from railyard.gateway.workers import Worker

T = TypeVar("T")
M = TypeVar("M", bound=Message)
#: Requests that use the block store at once; others wait for their turn.
STORES_MAX = 32
#: While requests come, and once after, it is looked so often what can be given back.  A client that
#: was not needed for so long is closed, but for these few.
_IDLE_S = 10.0
_KEPT = 2
#: Memory is given back as well when so many bytes of files have passed: blocks and windows of
#: transfers in different directions are in the arenas of different threads.
_TRIMMED_BYTES = 64 * 2**20
#: Of all clients together: 32 of them, each with links to 60 racks, and what watches these links.
_SOCKETS_MAX = 8192
#: Bytes of a file that are held while it is written (one block if that is larger): with the rest
#: of the process below 100 MB.
_HELD_BYTES = 16 * 2**20


class Store:
    """A client of the block store and of the ResourceManager, with its sockets."""

    def __init__(
        self, folder: RunFolder, config: ClusterConfig, context: zmq.Context[zmq.Socket[bytes]]
    ) -> None:
        self.idle_since_s = 0.0  #: on the loop's clock
        self.moved_bytes = 0  #: of files, since it was lent
        self._worker = Worker("store")
        self._transport = Transport(folder, role=GATEWAY, shared=context)
        self.client = DfsClient(self._transport, config.topology, held_bytes=_HELD_BYTES)

    async def call(self, act: Callable[[DfsClient], T]) -> T:
        """Run ``act(client)`` in its thread; once more if the NameNode's connection was lost."""
        try:
            return await self._worker.call(partial(act, self.client))
        except PeerLost:
            return await self._worker.call(partial(act, self.client))

    async def send(self, pieces: Generator[memoryview], request: web.Request) -> None:
        """Send the bytes of a file as the rest of an answer that has begun."""

        def run() -> int:
            with closing(pieces):
                return pour(pieces, connection)

        async with own_socket(request) as connection:
            self.moved_bytes += await self._worker.call(run)

    async def take(
        self, body: StreamReader, write: Callable[[DfsClient, Iterator[memoryview]], T]
    ) -> T:
        """Run ``write(client, pieces of the body)`` in a thread; the body is never held whole.

        Raises what the connection raises if the sender goes away; ``write`` gets that, too, and
        leaves nothing.
        """
        upload = Upload(body, self._transport.reactor)

        def run() -> T:
            with upload.arriving() as pieces:
                return write(self.client, pieces)

        feeding = asyncio.create_task(upload.feed())
        try:
            return await self._worker.call(run)
        finally:
            feeding.cancel()
            self.moved_bytes += upload.handed_bytes

    async def ask(self, message: Message, answer: type[M]) -> M:
        """Ask the ResourceManager."""
        return await self._worker.call(lambda: self._manager.ask(message, answer))

    def close(self) -> None:
        """Close its sockets, once what it was asked to do is done."""
        self._worker.call(self._close)
        self._worker.end()

    def _close(self) -> None:
        self.client.close()
        self._transport.close()

    @cached_property
    def _manager(self) -> LastingLink:
        return LastingLink(self._transport, "resourcemanager")


class Stores:
    """Lends a client to each request, and makes more as they are needed.

    The one that was used last is lent first, so that those that are not needed fall idle.
    """

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
            store = self._free.pop() if self._free else self._new()
            try:
                yield store
            except asyncio.CancelledError:
                store.close()  # its thread may be using it still
                raise
            except BaseException:
                self._take_back(store)
                raise
            self._take_back(store)

    def close(self) -> None:
        """Close all clients that are not lent."""
        for store in self._free:
            store.close()

    def _new(self) -> Store:
        return Store(self._folder, self._config, self._context)

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
