"""Lines that a program writes to its standard error for its framework: counters and status."""

from __future__ import annotations

from railyard.cluster.shown import printable
from railyard.jobs.taskio import Counters, JobError

PREFIX = b"reporter:"
#: Longest name of a counter's group, and of a counter.
_LETTERS_MAX = 120
#: Most counters of a task.
COUNTERS_MAX = 500
_COUNT_MAX = 2**53


class Reporter:
    """Takes ``reporter:counter:GROUP,NAME,AMOUNT`` and ``reporter:status:TEXT``.

    A counter's key is "GROUP,NAME".
    """

    def __init__(self, counters: Counters) -> None:
        self.status = ""
        self._counters = counters

    def note(self, line: bytes) -> bool:
        """Whether a line is one of these; then it has been taken."""
        if not line.startswith(PREFIX):
            return False
        kind, _, text = line[len(PREFIX) :].decode(errors="replace").partition(":")
        if kind == "status":
            self.status = printable(text, _LETTERS_MAX)
            return True
        group, _, rest = text.partition(",")
        name, _, amount = rest.rpartition(",")
        if kind != "counter" or not (group and name):
            return False
        try:
            by = int(amount)
        except ValueError:
            return False
        key = f"{printable(group, _LETTERS_MAX)},{printable(name, _LETTERS_MAX)}"
        if key not in self._counters and len(self._counters) >= COUNTERS_MAX:
            raise JobError(f"a task counted {COUNTERS_MAX} different things: need fewer")
        total = self._counters.get(key, 0) + by
        self._counters[key] = max(-_COUNT_MAX, min(total, _COUNT_MAX))
        return True
