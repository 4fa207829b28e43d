"""What is wrong with a cluster's daemons now, in words for the page.

The supervisor writes what becomes of each daemon (``cluster.processes.supervisor``).  Whether a
NameNode that was started again is in safe mode is asked by whoever has a connection to it.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from railyard.dfs.messages.files import SafeModeStatus

_NAMENODE = "namenode"


class Trouble:
    """Follows the file of the supervisor's events."""

    def __init__(self, events: Path) -> None:
        self._events = events
        self._offset = 0  #: of the next line
        self._daemons: dict[str, str] = {}  #: of those that are not well, what is the matter
        self._safe_mode: SafeModeStatus | None = None  #: the NameNode's latest answer
        #: a NameNode that was started again is; any may be put into it by hand
        self.may_be_in_safe_mode = False

    def read(self) -> None:
        """Take the events that have come."""
        with suppress(OSError), self._events.open("rb") as file:
            file.seek(self._offset)
            for line in file:
                if not line.endswith(b"\n"):
                    return  # not whole yet
                self._offset += len(line)
                with suppress(json.JSONDecodeError):  # cut short by a full disk
                    self._take(json.loads(line))

    def words(self) -> list[str]:
        """A line for each trouble; none if all is well."""
        found = [f"{name} {what}" for name, what in sorted(self._daemons.items())]
        return found if self._safe_mode is None else [*found, str(self._safe_mode)]

    def take_safe_mode(self, status: SafeModeStatus) -> None:
        """Take the answer of the NameNode that runs now."""
        self._safe_mode = status if status.on else None
        self.may_be_in_safe_mode = status.on

    def _take(self, event: dict[str, Any]) -> None:
        name = event.get("name", "")
        match event["event"]:
            case "died":
                self._daemons[name] = f"died ({event['how']}): {event['next']}"
                if name == _NAMENODE:
                    self._safe_mode, self.may_be_in_safe_mode = None, False
            case "suspended":
                self._daemons[name] = f"is stopped, until kill -CONT {event['pid']}"
            case "started-again" | "resumed":
                self._daemons.pop(name, None)
                self.may_be_in_safe_mode |= name == _NAMENODE
