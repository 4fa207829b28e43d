"""A request's body on its way from the event loop to a thread, which writes it to the block store.

No more than a few pieces of it are held: the client waits while the block store does.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from aiohttp import StreamReader

from railyard.cluster.messaging.reactor import Reactor
from railyard.gateway.http.bodies import arriving

#: Bytes are handed over in pieces of this size: what a transfer sends as one message.
PIECE_BYTES = 2**20
#: Pieces that have come and were not taken yet.
_HELD_PIECES = 4


class Upload:
    """A body; ``feed`` runs in the event loop, all else in the thread that has the reactor."""

    def __init__(self, body: StreamReader, reactor: Reactor) -> None:
        self.handed_bytes = 0  #: so far
        self._body = body
        self._reactor = reactor
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Semaphore(_HELD_PIECES)
        self._pieces: deque[memoryview] = deque()
        self._end: Exception | None = None  #: ``StopIteration``, or why there is no more
        self._lock = threading.Lock()  #: against a wake-up when the thread has left
        self._event: int | None = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    # In the event loop -----------------------------------------------------------------------
    async def feed(self) -> None:
        """Read the body to its end."""
        try:
            async for piece in self._whole_pieces():
                await self._room.acquire()
                self._pieces.append(piece)
                self.handed_bytes += len(piece)
                self._wake()
            self._end = StopIteration()
        except Exception as error:
            self._end = error
        finally:
            if self._end is None:
                self._end = ConnectionAbortedError("the request was given up")
            self._wake()

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
            self._reactor.run_until(lambda: bool(self._pieces) or self._end is not None)
            if self._pieces:
                piece = self._pieces.popleft()
                self._loop.call_soon_threadsafe(self._room.release)
                yield piece
            elif isinstance(self._end, StopIteration):
                return
            elif self._end is not None:
                raise self._end

    def _woken(self) -> None:
        assert self._event is not None
        os.eventfd_read(self._event)

    def _wake(self) -> None:
        with self._lock:
            if self._event is not None:
                os.eventfd_write(self._event, 1)
