"""When a daemon that died is started again: after growing pauses, and not for ever.

A daemon that died once is back at once; one that dies again and again is started less and less
often, and given up after ``DEATHS_MAX`` deaths within ``WITHIN_S``.  Without a clock: times are
arguments.
"""

from __future__ import annotations

from collections import deque

#: The pause before the first new start; each further death within ``WITHIN_S`` doubles it.
PAUSE_S = 0.1
PAUSE_S_MAX = 5.0
DEATHS_MAX = 8
WITHIN_S = 60.0


class Restarts:
    """The deaths of all daemons, by name."""

    def __init__(self, deaths_max: int = DEATHS_MAX, within_s: float = WITHIN_S) -> None:
        self.deaths_max = deaths_max
        self.within_s = within_s
        self._deaths_s: dict[str, deque[float]] = {}  #: those within ``within_s``, oldest first

    def pause_s(self, name: str, now_s: float) -> float | None:
        """A daemon has died now: how long to wait before its new start; None to give it up."""
        deaths_s = self._deaths_s.setdefault(name, deque())
        deaths_s.append(now_s)
        while deaths_s[0] <= now_s - self.within_s:
            deaths_s.popleft()
        if len(deaths_s) >= self.deaths_max:
            return None
        return min(PAUSE_S * 2.0 ** (len(deaths_s) - 1), PAUSE_S_MAX)
