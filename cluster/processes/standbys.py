"""Standbys: processes that follow a daemon's state while it lives, and take its place when it dies.

A daemon that has lived for long has much to replay, so one is kept that has replayed it already.
Never here: what a standby follows, and when it is worth one (``DaemonSpec.wants_standby``).
"""

from __future__ import annotations

import logging
import os
import select
from collections.abc import Callable, Collection
from contextlib import suppress

from railyard.cluster.messaging.access.roles import take_role

log = logging.getLogger(__name__)

#: Between two looks whether a daemon wants a standby.
LOOK_PERIOD_S = 5.0
#: Between two steps of a standby.
_STEP_PERIOD_S = 0.5


class Standbys:
    """The standbys of a cluster's daemons, at most one each."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}  #: {daemon: (process id, pipe to it)}
        self._failed: set[str] = set()  #: daemons whose standby has died

    @property
    def pids(self) -> Collection[int]:
        """The processes."""
        return {pid for pid, _ in self._known.values()}

    def may_have(self, name: str) -> bool:
        """Whether a daemon has none and may have one: if one has failed, the next would."""
        return name not in self._known and name not in self._failed

    def start(self, name: str, fork: Callable[[int], int]) -> None:
        """Start one; ``fork`` starts it with the pipe's end from which it hears, returns its id."""
        hears, tells = os.pipe()
        try:
            self._known[name] = fork(hears), tells
        except OSError:  # no process for it
            os.close(tells)
            raise
        finally:
            os.close(hears)

    def take(self, name: str) -> int | None:
        """Have a daemon's standby take its place; returns its process id, None if there is none."""
        pid, tells = self._known.pop(name, (None, -1))
        if pid is not None:
            with suppress(BrokenPipeError):  # it has just died, as will be noticed
                os.write(tells, b"\0")
            os.close(tells)
        return pid

    def note_death(self, pid: int) -> None:
        """A process has ended, which may have been one."""
        for name, (known, tells) in list(self._known.items()):
            if known == pid:
                log.warning("the standby of %s has died: it has none any more", name)
                del self._known[name]
                self._failed.add(name)
                os.close(tells)


def wait_until_needed(name: str, hears: int, step: Callable[[], object]) -> None:
    """In a standby: call ``step`` now and then, until it is to take the daemon's place."""
    take_role("standby")
    while not select.select([hears], [], [], _STEP_PERIOD_S)[0]:
        step()
    os.close(hears)
    take_role(name)
