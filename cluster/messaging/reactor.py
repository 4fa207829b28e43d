"""One thread's event loop: sockets, file descriptors and timers.

Timers are exact to about 0.1 ms: ZeroMQ's poller has a resolution of a millisecond, so the loop
polls an alarm beside the sockets (on Linux; elsewhere timers may be a millisecond late).

Never here: threads, and decisions about jobs or flows.
"""

from __future__ import annotations

import heapq
import itertools
import math
import sys
import time
from collections.abc import Callable
from typing import Any

import zmq

from railyard.cluster.bounded import finite_s
from railyard.cluster.messaging.alarm import Alarm

now_s = time.monotonic


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
        self._alarm = Alarm() if sys.platform == "linux" else None
        if self._alarm is not None:
            self._poller.register(self._alarm.file, zmq.POLLIN)
        self._handlers: dict[Any, Callable[[], None]] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._sequence = itertools.count()
        self._stopped = False
        #: called whenever the loop has waited, before anything is read
        self.on_woken: Callable[[], None] = lambda: None

    def close(self) -> None:
        """Close its own descriptor; the reactor cannot be used afterwards."""
        if self._alarm is not None:
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

        Raises ``ValueError`` for a time that is not finite: see ``cluster.bounded``.
        """
        timer = Timer(finite_s(when_s, "when_s"), call)
        heapq.heappush(self._timers, (when_s, next(self._sequence), timer))
        return timer

    def call_later(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Call once, ``delay_s`` from now."""
        return self.call_at(now_s() + delay_s, call)

    def call_every(self, period_s: float, call: Callable[[], None]) -> None:
        """Call once per period, first after one period; late calls do not shift later ones.

        Raises ``ValueError`` for a period that is not above 0.
        """
        if not period_s > 0:
            raise ValueError(f"period_s = {period_s!r}: need seconds > 0")
        self._repeat(now_s() + period_s, period_s, call)

    def _repeat(self, when_s: float, period_s: float, call: Callable[[], None]) -> None:
        def tick() -> None:
            self._repeat(max(when_s + period_s, now_s()), period_s, call)
            call()

        self.call_at(when_s, tick)

    def run(self) -> None:
        """Run the loop until ``stop`` is called."""
        self._stopped = False
        while not self._stopped:
            self._turn(math.inf)

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
        """Wait for readable sockets or due timers, and call their handlers."""
        self._drop_cancelled()
        due_s = min(deadline_s, self._timers[0][0]) if self._timers else deadline_s
        ready = self._wait(due_s)
        self.on_woken()
        for readable, _ in ready:
            handler = self._handlers.get(readable)  # None if an earlier handler removed it
            if handler is not None:
                handler()
        self._fire_timers()

    def _wait(self, due_s: float) -> list[tuple[Any, int]]:
        """Wait until a socket is readable or ``due_s``; return the readable ones."""
        left_s = due_s - now_s()
        if left_s <= 0:
            return self._poller.poll(0)
        if self._alarm is not None:
            self._alarm.set(due_s)
        elif left_s < math.inf:
            return self._poller.poll(math.ceil(left_s * 1000))
        return self._poller.poll(None)

    def _fire_timers(self) -> None:
        now = now_s()
        while self._timers and self._timers[0][0] <= now:
            _, _, timer = heapq.heappop(self._timers)
            call, timer.call = timer.call, None
            if call is not None:
                call()

    def _drop_cancelled(self) -> None:
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
