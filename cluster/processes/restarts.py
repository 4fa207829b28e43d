"""The restart policy of daemons: exponential backoff, up to a number of deaths.

A daemon that died once is restarted almost at once; one that keeps dying is restarted after longer
and longer pauses, and given up after ``DEATHS_MAX`` deaths within ``WITHIN_S``.  Never here: a
clock; times are arguments.
"""

from __future__ import annotations

from collections import deque

#: The pause before the first restart; each further death within ``WITHIN_S`` doubles it.
PAUSE_S = 0.1
PAUSE_S_MAX = 5.0
DEATHS_MAX = 8
WITHIN_S = 60.0
#: The exit status of a daemon that would fail in the same way if it were restarted.
NOT_AGAIN = 78


class Restarts:
    """Counts the deaths of each daemon and decides about its restart."""

    def __init__(self, deaths_max: int = DEATHS_MAX, within_s: float = WITHIN_S) -> None:
        self.deaths_max = deaths_max
        self.within_s = within_s
        #: {daemon: times of its deaths within ``within_s``, oldest first}
        self._deaths_s: dict[str, deque[float]] = {}

    def pause_s(self, name: str, now_s: float) -> float | None:
        """Record a death; return the pause before the restart, None to give the daemon up."""
        deaths_s = self._deaths_s.setdefault(name, deque())
        deaths_s.append(now_s)
        while deaths_s[0] <= now_s - self.within_s:
            deaths_s.popleft()
        if len(deaths_s) >= self.deaths_max:
            return None
        return min(PAUSE_S * 2.0 ** (len(deaths_s) - 1), PAUSE_S_MAX)
