"""A thread pool for work that would block the event loop, such as fsync.

Nothing else runs in threads: such work must not touch the state of the loop's handlers.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from railyard.cluster.messaging.reactor import Reactor


class Background:
    """Does work in at most ``threads`` threads and calls back in the event loop."""

    def __init__(self, reactor: Reactor, threads: int) -> None:
        self._reactor = reactor
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="background")
        #: finished work: (callback, exception or None)
        self._ended: deque[tuple[Callable[[OSError | None], None], Exception | None]] = deque()
        self._readable, self._writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        reactor.add(self._readable, self._deliver)

    def do(self, work: Callable[[], None], on_end: Callable[[OSError | None], None]) -> None:
        """Do ``work`` in a thread, then call ``on_end`` in the loop with its ``OSError`` or None.

        Any other exception is raised in the loop.
        """
        self._pool.submit(self._work, work, on_end)

    def close(self) -> None:
        """Wait for the running work and drop the rest; no callback is made any more."""
        self._reactor.remove(self._readable)
        self._pool.shutdown(cancel_futures=True)
        os.close(self._readable)
        os.close(self._writable)

    def _work(self, work: Callable[[], None], on_end: Callable[[OSError | None], None]) -> None:
        error: Exception | None = None
        try:
            work()
        except Exception as caught:
            error = caught
        self._ended.append((on_end, error))
        with contextlib.suppress(BlockingIOError):  # the pipe is full, so the loop wakes anyway
            os.write(self._writable, b"\0")

    def _deliver(self) -> None:
        os.read(self._readable, 65536)
        while self._ended:
            on_end, error = self._ended.popleft()
            if error is not None and not isinstance(error, OSError):
                raise error
            on_end(error)
