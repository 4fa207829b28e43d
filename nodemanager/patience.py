"""Writing to a disk that is full just now: tried again for a while, then given up by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from railyard.cluster.files.resources import Exhausted, cause_of, is_full

T = TypeVar("T")
#: Before each try but the first.
PAUSES_S = (0.1, 0.2, 0.5, 1.0, 1.5, 3.0)


def once_there_is_room(write: Callable[[], T], where: Path, pause: Callable[[float], object]) -> T:
    """What ``write`` returns, which can be called again; ``pause`` takes seconds.

    Raises ``Exhausted``, which says what is full, if there is no room in the end.
    """
    for pause_s in PAUSES_S:
        try:
            return write()
        except OSError as error:
            if not is_full(error):
                raise
            pause(pause_s)
    try:
        return write()
    except OSError as error:
        if not is_full(error):
            raise
        raise Exhausted(cause_of(error, where)) from error
