"""One thread's event loop: sockets, descriptors and timers; and threads for what would block it.

Timers are exact to about 0.1 ms: ZeroMQ's poller has a resolution of a millisecond, so the loop
polls an alarm (``timerfd``, in Python from 3.13 on) beside the sockets.  Work in threads must not
touch the state of the loop's handlers.

Never here: decisions about jobs or flows.
"""

from __future__ import annotations

import contextlib
import ctypes
import heapq
import itertools
import math
import os
import time
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import zmq

from railyard.cluster.machine import c_library
from railyard.cluster.messaging.wire import SECONDS_MAX

_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
_ABSOLUTE = 1  #: TFD_TIMER_ABSTIME
now_s = time.monotonic


class _Times(ctypes.Structure):
    """``struct itimerspec``: interval and first expiry; all 0 = disarmed."""

    _fields_ = (
        ("period_s", ctypes.c_long),
        ("period_ns", ctypes.c_long),
        ("first_s", ctypes.c_long),
        ("first_ns", ctypes.c_long),
    )


class Alarm:
    """``file`` becomes readable at the set time.  Raises ``OSError`` without a free descriptor."""

    def __init__(self) -> None:
        self.file: int = c_library().timerfd_create(time.CLOCK_MONOTONIC, _FLAGS)
        if self.file < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"no alarm: {os.strerror(number)}")
        self.close = weakref.finalize(self, os.close, self.file)  #: closes the file, once
        self._when_s = math.inf

    def set(self, when_s: float) -> None:
        """Make it readable from ``when_s`` on, on the clock ``time.monotonic``; inf: never."""
        if when_s == self._when_s:
            return
        self._when_s = when_s
        times = _Times()
        if when_s < math.inf:
            times.first_s, times.first_ns = divmod(max(1, math.ceil(when_s * 1e9)), 10**9)
        c_library().timerfd_settime(self.file, _ABSOLUTE, ctypes.byref(times), None)


class Timer:
    """A call that will be made once; ``cancel`` prevents it."""

    __slots__ = ("call", "when_s")

    def __init__(self, when_s: float, call: Callable[[], None]) -> None:
        self.when_s = when_s
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Prevent the call; does nothing if it was made."""
        self.call = None


class Reactor:
    """Calls handlers when sockets are readable and when timers are due.

    All times are on the clock of ``now_s``, the machine-wide monotonic clock.
    """

    def __init__(self) -> None:
        self._poller = zmq.Poller()
        self._alarm = Alarm()
        self._poller.register(self._alarm.file, zmq.POLLIN)
        self._handlers: dict[Any, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._sequence = itertools.count()
        self._stopped = False
        #: called whenever the loop has waited, before anything is read
        self.on_woken: Callable[[], None] = lambda: None

    def close(self) -> None:
        self._alarm.close()

    def add(self, readable: zmq.Socket[bytes] | int, handler: Callable[[], None]) -> None:
        """Call ``handler()`` whenever the socket (or file descriptor) is readable.

        A handler reads at least once; it is called again while there is more.
        """
        self._poller.register(readable, zmq.POLLIN)
        self._handlers[readable] = handler

    def remove(self, readable: zmq.Socket[bytes] | int) -> None:
        """Stop watching a socket; does nothing if it is not watched."""
        if self._handlers.pop(readable, None) is not None:
            self._poller.unregister(readable)

    def call_at(self, when_s: float, call: Callable[[], None]) -> Timer:
        """Call once at ``when_s``; if that is past, as soon as this handler has returned.

        Raises ``ValueError`` for a time that is not finite: see ``cluster.messaging.wire``.
        """
        if not -SECONDS_MAX <= when_s <= SECONDS_MAX:  # so for NaN
            right = f"need seconds, finite and at most {SECONDS_MAX:g}"
            raise ValueError(f"when_s = {when_s!r}: {right}")
        timer = Timer(when_s, call)
        heapq.heappush(self._timers, (when_s, next(self._sequence), timer))
        return timer

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        return self.call_at(now_s() + delay_s, call)

    def call_every(self, period_s: float, call: Callable[[], None]) -> None:
        """Call once per period, first after one period; late calls do not shift later ones.

        Raises ``ValueError`` for a period that is not above 0.
        """
        if not period_s > 0:
            raise ValueError(f"period_s = {period_s!r}: need seconds > 0")
        when_s = now_s() + period_s

        def tick() -> None:
            nonlocal when_s
            when_s = max(when_s + period_s, now_s())
            self.call_at(when_s, tick)
            call()

        self.call_at(when_s, tick)

    def run(self) -> None:
        self.run_until(lambda: False)

    def run_until(self, done: Callable[[], bool], timeout_s: float | None = None) -> bool:
        """Run the loop until ``done()``; False if ``timeout_s`` has passed or ``stop`` was called.

        For clients that wait for an answer.  Never call it from within a handler.
        """
        self._stopped = False
        deadline_s = math.inf if timeout_s is None else now_s() + timeout_s
        while not done():
            if self._stopped or now_s() >= deadline_s:
                return False
            self._turn(deadline_s)
        return True

    def stop(self) -> None:
        """Make ``run`` or ``run_until`` return after the current handler."""
        self._stopped = True

    def _turn(self, deadline_s: float) -> None:
        while self._timers and self._timers[0][2].call is None:  # it was cancelled
            heapq.heappop(self._timers)
        due_s = min(deadline_s, self._timers[0][0]) if self._timers else deadline_s
        ready = self._wait(due_s)
        self.on_woken()
        for readable, _ in ready:
            handler = self._handlers.get(readable)  # None if an earlier handler removed it
            if handler is not None:
                handler()
        self._fire_timers()

    def _wait(self, due_s: float) -> list[tuple[Any, int]]:
        if due_s <= now_s():
            return self._poller.poll(0)
        self._alarm.set(due_s)
        return self._poller.poll(None)

    def _fire_timers(self) -> None:
        now = now_s()
        while self._timers and self._timers[0][0] <= now:
            _, _, timer = heapq.heappop(self._timers)
            call, timer.call = timer.call, None
            if call is not None:
                call()


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
