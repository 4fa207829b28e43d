"""The last changes of a fabric, which the error of a flow scheduler shows."""

from __future__ import annotations

import re
from collections import deque
from typing import Any

from railyard.cluster.errors import InvariantError

#: Changes kept, and lines shown of them.
_KEPT, _SHOWN = 200, 8


class RecentChanges:
    """The last changes, as (seconds, what happened, to which flow, coflow or link, details).

    For several flows that start or finish together, there is one, with a list of them.
    """

    def __init__(self) -> None:
        self._changes: deque[tuple[float, str, Any, object]] = deque(maxlen=_KEPT)
        self.add = self._changes.append

    def add_to(self, error: InvariantError) -> None:
        """Add to an error the last changes of what it is about, or of all if it names nothing."""
        about = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in error.about)
        lines = [
            f"    {at_s:.3f}  {what} {name}{'' if details is None else f' {details}'}"
            for at_s, what, names, details in self._changes
            for name in ([names] if isinstance(names, str) else names)
        ]
        error.add_events([line for line in lines if re.search(about, line)][-_SHOWN:])
