"""The families of errors, and the words they are told in.

* ``UsageError``: a person asked for something wrong.  One line, no traceback, exit status 2.
* ``PeerError``: a message from another process was wrong.  Refused, logged, counted, survived.
* ``InvariantError``: our own state is wrong.  Stops the process: going on could lose data.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class RailyardError(Exception):
    """Base of every error that Railyard raises on purpose."""


class UsageError(RailyardError):
    """A person's mistake: says what was wrong, where, and what would be right, in one line."""


class PeerError(RailyardError):
    """Another process sent something that cannot be done.  Answered with a refusal."""


class Refused(RailyardError):
    """The other side answered a request of ours with a refusal (its reason is the text)."""


class PeerLost(RailyardError):
    """The other side did not answer in time, or is gone."""


class InvariantError(RailyardError):
    """A rule that the code itself guarantees does not hold."""


def require(holds: bool, where: str, value: object, right: str) -> None:
    """Raise ``UsageError`` "where = value: need right" unless ``holds``."""
    if not holds:
        raise UsageError(f"{where} = {value!r}: need {right}")


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist: the nearest right one, then all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f': did you mean "{near[0]}"?' if near else "."
    return UsageError(f'unknown {kind} "{name}"{hint} There are: {", ".join(names) or "none"}')
