"""A file descriptor that becomes readable at a given time, to a few microseconds.

ZeroMQ's poller has a resolution of a millisecond, and a process that sleeps instead receives
nothing meanwhile.  Polling this descriptor with the others gives exact timers.  It is Linux's
``timerfd``; Python has it from 3.13 on.
"""

from __future__ import annotations

import ctypes
import math
import os
import time
import weakref

_FLAGS = os.O_CLOEXEC | os.O_NONBLOCK
_ABSOLUTE = 1  #: TFD_TIMER_ABSTIME


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
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.file: int = self._libc.timerfd_create(time.CLOCK_MONOTONIC, _FLAGS)
        if self.file < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"no alarm: {os.strerror(number)}")
        #: closes the file, once
        self.close = weakref.finalize(self, os.close, self.file)
        self._when_s = math.inf

    def set(self, when_s: float) -> None:
        """Make it readable from ``when_s`` on, on the clock ``time.monotonic``; inf: never."""
        if when_s == self._when_s:
            return
        self._when_s = when_s
        times = _Times()
        if when_s < math.inf:
            times.first_s, times.first_ns = divmod(max(1, math.ceil(when_s * 1e9)), 10**9)
        self._libc.timerfd_settime(self.file, _ABSOLUTE, ctypes.byref(times), None)
