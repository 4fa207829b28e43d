"""A thread that makes calls for the event loop, one at a time.

It does less for each call than an executor would: no second future, and no count of idle threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class Worker:
    """The thread; made, and asked, on the event loop."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: SimpleQueue[tuple[Callable[[], Any], asyncio.Future[Any]] | None]
        self._calls = SimpleQueue()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def call(self, act: Callable[[], T]) -> asyncio.Future[T]:
        """Have ``act()`` called; cancelling what is returned does not prevent it."""
        future: asyncio.Future[T] = self._loop.create_future()
        self._calls.put((act, future))
        return future

    def end(self) -> None:
        """Let the thread end, after all that it was asked to do."""
        self._calls.put(None)

    def _run(self) -> None:
        while (call := self._calls.get()) is not None:
            act, future = call
            try:
                settle = partial(_return, future, act())
            except BaseException as error:
                settle = partial(_raise, future, error)
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(settle)
            del call, act, future, settle  # not to be held until the next call


def _return(future: asyncio.Future[T], result: T) -> None:
    if not future.done():
        future.set_result(result)


def _raise(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
