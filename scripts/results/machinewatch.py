"""Samples this machine's load and memory while something runs on a cluster."""

from __future__ import annotations

import os
from typing import Any

from railyard.scripts.clusters.session import Session

_PERIOD_S = 0.5


class MachineWatch:
    """Takes samples from now on, as long as the session is served."""

    def __init__(self, session: Session) -> None:
        self._load_max = 0.0
        self._free_bytes_before = self._free_bytes_min = _free_bytes()
        self._look()
        session.reactor.call_every(_PERIOD_S, self._look)

    def figures(self) -> dict[str, Any]:
        """The samples' figures; they count all processes of the machine."""
        self._look()
        return {
            "cpus": len(os.sched_getaffinity(0)),
            "load_max": self._load_max,  #: the average over a minute, as uptime says it
            "memory_bytes_max": self._free_bytes_before - self._free_bytes_min,
        }

    def _look(self) -> None:
        self._load_max = max(self._load_max, os.getloadavg()[0])
        self._free_bytes_min = min(self._free_bytes_min, _free_bytes())


def _free_bytes() -> int:
    import psutil  # the command is quicker to start without it

    return int(psutil.virtual_memory().available)
