"""Reservations in Chrome's trace format: attempts that read what they need and have no slot yet.

Each is an asynchronous event of its node, from its launch until it has a slot or ends, so that
it is shown apart from the lanes of the slots.  Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from railyard.cluster.ids import AttemptId, NodeId

CATEGORY = "reservation"


@dataclass
class _Reservation:
    node: NodeId
    since_s: float
    ready_s: float | None = None  #: when it had all that it reads


class Reservations:
    """Those that are there now; each end adds rows to a trace's."""

    def __init__(self, rows: list[dict[str, Any]], numbers: dict[NodeId, int]) -> None:
        """``numbers``: that of each node's "process"."""
        self._rows = rows
        self._numbers = numbers
        self._waiting: dict[AttemptId, _Reservation] = {}

    def made(self, attempt: AttemptId, node: NodeId, at_s: float) -> None:
        """An attempt is launched without a slot."""
        self._waiting[attempt] = _Reservation(node, at_s)

    def ready(self, attempt: AttemptId, at_s: float) -> None:
        """It has all that it reads; does nothing if it has a slot or has ended."""
        known = self._waiting.get(attempt)
        if known is not None:
            known.ready_s = at_s

    def ended(self, attempt: AttemptId, how: str, at_s: float) -> None:
        """It has a slot, or was killed, or has failed; does nothing if that was said before."""
        known = self._waiting.pop(attempt, None)
        if known is None:
            return
        common = {
            "name": attempt,
            "cat": CATEGORY,
            "id": attempt,
            "pid": self._numbers[known.node],
            "tid": 0,
        }
        begins: dict[str, Any] = {"ph": "b", "ts": known.since_s * 1e6, "args": {"outcome": how}}
        self._rows.append({**common, **begins})
        if known.ready_s is not None:
            self._rows.append({**common, "name": "ready", "ph": "n", "ts": known.ready_s * 1e6})
        self._rows.append({**common, "ph": "e", "ts": at_s * 1e6})

    def lost(self, node: NodeId, at_s: float) -> None:
        """All of a node's end with it."""
        for attempt in [a for a, known in self._waiting.items() if known.node == node]:
            self.ended(attempt, "lost with its node", at_s)
