"""Lines that a program writes to its standard error for its framework: counters and status."""

from __future__ import annotations

import re

from railyard.cluster.shown import printable
from railyard.jobs.taskio import Counters, JobError, check_counters

_AMOUNT = re.compile(r"[+-]?[0-9]+")
#: Letters of a status that are kept.
_LETTERS_MAX = 120
#: Most counters of a task.
COUNTERS_MAX = 500
#: Most digits of an amount.
_DIGITS_MAX = 100


class Reporter:
    """Takes ``reporter:counter:GROUP,NAME,AMOUNT`` and ``reporter:status:TEXT``.

    A counter's key is "GROUP,NAME".  ``prefix`` stands for "reporter:".
    """

    def __init__(self, counters: Counters, prefix: bytes) -> None:
        self.status = ""
        self._counters = counters
        self._prefix = prefix

    def note(self, line: bytes) -> bool:
        """Whether a line is one of these; then it has been taken."""
        if not line.startswith(self._prefix):
            return False
        kind, _, text = line[len(self._prefix) :].decode(errors="replace").partition(":")
        if kind == "status":
            self.status = printable(text, _LETTERS_MAX)
            return True
        group, _, rest = text.partition(",")
        name, _, amount = rest.rpartition(",")
        if kind != "counter" or not (group and name):
            return False
        if not _AMOUNT.fullmatch(amount.strip()):
            return False
        key = f"{printable(group)},{printable(name)}"
        if key not in self._counters and len(self._counters) >= COUNTERS_MAX:
            raise JobError(f"a task counted {COUNTERS_MAX} different things: need fewer")
        if len(amount) > _DIGITS_MAX:
            raise JobError(f"counter {key}: {amount[:20]}... has {len(amount)} digits: too many")
        total = self._counters[key] = self._counters.get(key, 0) + int(amount)
        check_counters({key: total})
        return True
