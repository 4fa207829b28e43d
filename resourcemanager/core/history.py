"""The last events and the commands that they led to, for the text of errors."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Sequence

from railyard.cluster.errors import InvariantError
from railyard.cluster.messaging.wire import Command, Event, Message, to_map
from railyard.resourcemanager.core.shuffling.messages import (
    CancelFetch,
    FetchesEnded,
    StartFetches,
)

#: Events kept, about how many commands with them at most, and lines shown of them.
_KEPT, _COMMANDS_KEPT, _SHOWN = 1000, 2000, 8
#: Counting goes through all events: it is done once so many more may have come.
_COUNTED_AFTER = 1000
#: Commands are counted only after an event that has led to more than so many, as few do.
FEW_COMMANDS = 30


class History:
    """The last events, with the commands that they led to."""

    def __init__(self) -> None:
        self._entries: deque[tuple[float, Event, Sequence[Command]]] = deque(maxlen=_KEPT)
        self._uncounted = 0  #: commands of such events since all were counted last
        #: remember an event, its time and its commands, which may still grow
        self.add = self._entries.append

    def shorten(self) -> None:
        """Forget old events, since the last one has led to more than few commands."""
        entries = self._entries
        self._uncounted += len(entries[-1][2])
        if self._uncounted <= _COUNTED_AFTER:
            return
        self._uncounted = 0
        many = sum([len(commands) for _, _, commands in entries])
        while many > _COMMANDS_KEPT and len(entries) > 1:
            many -= len(entries.popleft()[2])

    def add_to(self, error: InvariantError) -> None:
        """Add the last events that touched what an error is about; all, if it names nothing."""
        error.add_events(self.about(error.about))

    def about(self, names: Iterable[str]) -> list[str]:
        """The last events that touched any of these nodes, jobs or tasks, a line each, in order."""
        is_about = re.compile("|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in names)).search
        lines: list[str] = []
        for now_s, event, commands in reversed(self._entries):
            led_to = [text for text in map(_in_words, commands) if is_about(text)]
            if led_to or is_about(_in_words(event)):
                arrow = f"  ->  {'; '.join(led_to[:4])}" if led_to else ""
                lines.append(f"    {now_s:.3f}  {_in_words(event)}{arrow}")
                if len(lines) == _SHOWN:
                    break
        return lines[::-1]


def _in_words(message: Message) -> str:
    """Say "AttemptSucceeded attempt=j1.m5.0 node=r0n1": the short fields only."""
    if isinstance(message, FetchesEnded | StartFetches | CancelFetch):
        return type(message).__name__
    fields = to_map(message)
    short = (f"{k}={v}" for k, v in fields.items() if k != "type" and isinstance(v, str | float))
    return " ".join([type(message).__name__, *short])
