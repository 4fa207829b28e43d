"""Work that would keep an event loop waiting, such as fsync: done by a few threads beside it.

Nothing else runs in threads: what is done here must not touch what the loop's handlers touch.
"""

from __future__ import annotations

import contextlib
import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from railyard.cluster.messaging.reactor import Reactor


class Background:
    """Does work in at most ``threads`` threads, and says in the loop how it ended."""

    def __init__(self, reactor: Reactor, threads: int) -> None:
        self._reactor = reactor
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="background")
        #: what ended: whom to tell, and what went wrong
        self._ended: deque[tuple[Callable[[OSError | None], None], Exception | None]] = deque()
        self._readable, self._writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        reactor.add(self._readable, self._deliver)

    def do(self, work: Callable[[], None], on_end: Callable[[OSError | None], None]) -> None:
        """Do ``work`` soon; then ``on_end`` is called in the loop, with the error if there is one.

        Only ``OSError`` is given to it; all else is raised in the loop.
        """
        self._pool.submit(self._work, work, on_end)

    def close(self) -> None:
        """Wait for what is being done, and tell nobody any more."""
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
        with contextlib.suppress(BlockingIOError):  # the pipe is full of news already
            os.write(self._writable, b"\0")

    def _deliver(self) -> None:
        os.read(self._readable, 65536)
        while self._ended:
            on_end, error = self._ended.popleft()
            if error is not None and not isinstance(error, OSError):
                raise error
            on_end(error)
