"""Rate-limited warnings: some lines per second are logged, the others only counted."""

from __future__ import annotations

import logging

from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.shown import printable

_LINE_LETTERS_MAX = 1000


class FewLines:
    """Logs at most ``LINES_MAX`` lines per ``PERIOD_S``, then the number of those left out."""

    LINES_MAX = 10
    PERIOD_S = 1.0

    def __init__(self, log: logging.Logger, reactor: Reactor) -> None:
        self._log = log
        self._reactor = reactor
        self._lines = 0  #: lines since the period began; 0 = no period is running
        self._last = ""  #: the last line that was left out

    def warning(self, line: str, error: Exception | None = None) -> None:
        """Log a line unless over the limit; with the traceback of ``error`` if given."""
        if not self._lines:
            self._reactor.call_later(self.PERIOD_S, self._period_over)
        self._lines += 1
        if self._lines <= self.LINES_MAX:
            self._log.warning("%s", printable(line, _LINE_LETTERS_MAX), exc_info=error)
        else:
            self._last = line

    def _period_over(self) -> None:
        more, self._lines = self._lines - self.LINES_MAX, 0
        if more > 0:
            last = printable(self._last, _LINE_LETTERS_MAX)
            self._log.warning(
                "... and %s more lines within %g s, the last: %s", f"{more:,}", self.PERIOD_S, last
            )
