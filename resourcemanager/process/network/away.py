"""For how long the network was away: in a file, too, for the ResourceManager after this one."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from pathlib import Path

log = logging.getLogger(__name__)


class Away:
    """When the network was lost, and when it was there again, on the core's clock."""

    def __init__(self, path: Path) -> None:
        """``path``: the file with a line for each time, by the ResourceManagers before this one."""
        self._path = path
        self._spans: list[tuple[float, float]] = []
        with suppress(FileNotFoundError):
            for line in path.read_text().splitlines():
                with suppress(ValueError):  # cut short, as the disk was full
                    lost_s, back_s = map(float, json.loads(line))
                    self._spans.append((lost_s, back_s))

    def add(self, lost_s: float, back_s: float) -> None:
        """It was away from one time to the other."""
        self._spans.append((lost_s, back_s))
        try:
            with open(self._path, "a") as file:
                file.write(f"{json.dumps((lost_s, back_s))}\n")
        except OSError as error:
            log.warning("%s: %s: a restart would forget it", self._path, error.strerror)

    def between_s(self, begin_s: float, end_s: float) -> float:
        """Seconds between these two times for which it was away."""
        each = (min(back_s, end_s) - max(lost_s, begin_s) for lost_s, back_s in self._spans)
        return sum(max(seconds, 0.0) for seconds in each)
