"""What there is by events and commands alone, independent of the core's own accounts.

Not here: the laws that compare it with anything else; see ``laws.py``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import AttemptId, NodeId
from railyard.cluster.messages.execution import (
    AttemptFailed,
    AttemptKilled,
    AttemptSucceeded,
    BeginAttempt,
    LaunchAttempt,
    NodeJoined,
    NodeLost,
    NodeRestarted,
    SlotsChanged,
)
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import TimerFired

#: By how much a clock may be off by rounding.
_ROUNDING_S = 1e-6


class SlotAccount:
    """The attempts on each node by events and commands alone, whatever the core says."""

    def __init__(self) -> None:
        self._held: dict[NodeId, dict[AttemptId, None]] = {}
        self._slots: dict[NodeId, int] = {}
        self._where: dict[AttemptId, NodeId] = {}
        self._reserved: dict[AttemptId, NodeId] = {}  #: attempts launched without a slot

    def count(self, event: Event, commands: Sequence[Command]) -> None:
        """Follow an event; ``InvariantError`` if a node has more attempts than slots."""
        match event:
            case NodeJoined(node=node, slots=slots):
                self._held[node], self._slots[node] = {}, slots
            case SlotsChanged(node=node, slots=slots):
                self._slots[node] = slots
            case NodeLost(node=node) | NodeRestarted(node=node):
                self._held[node] = {}
            case AttemptSucceeded() | AttemptFailed() | AttemptKilled():
                if self._reserved.pop(event.attempt, None) is None:
                    where = self._where.pop(event.attempt, None)  # None: it is told again
                    if where is not None:
                        self._held[where].pop(event.attempt, None)
        for command in commands:
            self._count_command(command)

    def _count_command(self, command: Command) -> None:
        match command:
            case LaunchAttempt(attempt=attempt, node=node, begins=False):
                self._reserved[attempt] = node
            case LaunchAttempt(attempt=attempt, node=node):
                self._count_held(attempt, node)
            case BeginAttempt(attempt=attempt, node=node):
                if self._reserved.pop(attempt, "") != node:
                    raise InvariantError(f"{attempt} begins on {node}, where it was not")
                self._count_held(attempt, node)

    def _count_held(self, attempt: AttemptId, node: NodeId) -> None:
        self._where[attempt] = node
        held = self._held[node]
        held[attempt] = None
        if len(held) > self._slots[node]:
            raise InvariantError(f"{node} has {self._slots[node]} slots for {', '.join(held)}")


class TimerAccount:
    """The timers that the core has set and that have not fired.

    ``up_s``: since when there is a core that knows of them.
    """

    def __init__(self, up_s: float = -math.inf) -> None:
        self._up_s = up_s
        self._due_s: dict[str, float] = {}

    def count(self, event: Event, commands: Sequence[Command]) -> None:
        """Follow an event; a timer that is set anew is not due before."""
        if isinstance(event, TimerFired):
            self._due_s.pop(event.timer, None)
        for command in commands:
            if isinstance(command, SetTimer):
                self._due_s[command.timer] = command.at_s

    def check(self, now_s: float) -> None:
        """Raise ``InvariantError`` if a timer should have fired by now."""
        for timer, at_s in self._due_s.items():
            if max(at_s, self._up_s) < now_s - _ROUNDING_S:
                raise InvariantError(f"timer {timer} was set for {at_s} s: it is {now_s} s")
