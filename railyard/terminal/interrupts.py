"""Handles Ctrl-C and other signals so that they leave nothing behind, whenever they come.

A signal raises ``Interrupted`` where the program is; within ``deferred()`` it waits for the end of
the block, so that what must happen together (start a process and note it; take a cluster down)
does.  ``check`` catches up with an interrupt that Python threw away (it came in a destructor).
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupted(BaseException):
    """A signal has asked this command to end; ``number`` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

_pending: int | None = None
_deferrals = 0


def install() -> None:
    """Turn SIGINT, SIGTERM and SIGHUP into ``Interrupted``, but for those that are ignored."""
    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _on_signal)


def ignore() -> None:
    """Ignore signals from now on: there is nothing left to clean up."""
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def check() -> None:
    """Raise ``Interrupted`` if a signal has come and is not deferred."""
    if _pending is not None and not _deferrals:
        raise Interrupted(_pending)


@contextmanager
def deferred() -> Iterator[None]:
    """Put signals off until the block has ended."""
    global _deferrals
    _deferrals += 1
    try:
        yield
    finally:
        _deferrals -= 1
    check()


def _on_signal(number: int, _frame: FrameType | None) -> None:
    global _pending
    if _pending is None:
        _pending = number
    check()
