"""The families of errors, and the words they are told in.

* ``UsageError``: a person asked for something wrong.  One line, no traceback, exit status 2.
* ``PeerError``: a message from another process was wrong.  Refused, logged, counted, survived.
* ``InvariantError``: our own state is wrong.  Stops the process: going on could lose data.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from railyard.cluster.shown import printable, shown_value

#: Names in errors: enough to recognize one by.
_NAME_LETTERS_MAX = 80
#: Of nothing that people ask for there can be more: jobs, users, tasks of a stage.
COUNT_MAX = 1_000_000


class RailyardError(Exception):
    """Base of every error that Railyard raises on purpose."""


class UsageError(RailyardError):
    """A person's mistake: says what was wrong, where, and what would be right, in one line."""


class PeerError(RailyardError):
    """Another process sent something that cannot be done.  Answered with a refusal."""


class PeerUnable(PeerError):
    """What was asked for is right, but cannot be done, perhaps just now: the disk is full."""


class Refused(RailyardError):
    """The other side answered a request of ours with a refusal (its reason is the text)."""


class NotDone(Refused):
    """The other side could not do what was asked, though it was asked rightly."""


class PeerLost(RailyardError):
    """The other side did not answer in time, or is gone."""


class ClusterFailed(RailyardError):
    """A cluster did not start, or one of the daemons that it needs died."""


class InvariantError(RailyardError):
    """A rule that the code itself guarantees does not hold.

    ``about``: the names of what it is about, such as a node and a job.  Whoever keeps a history
    adds the last events that touched them.
    """

    def __init__(self, text: str, about: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.about = tuple(about)

    def add_events(self, lines: Iterable[str]) -> None:
        """Add what led there to the text, a line for each event."""
        self.args = ("\n".join([str(self), *lines]),)


def require(holds: bool, where: str, value: object, right: str) -> None:
    """Raise ``UsageError`` "where = value: need right" unless ``holds``."""
    if not holds:
        raise UsageError(f"{where} = {shown_value(value)}: need {right}")


def require_count(name: str, count: int, least: int = 1, most: int = COUNT_MAX) -> None:
    """Raise ``UsageError`` unless there can be so many of something."""
    require(count >= least, name, count, f"a whole number >= {least}")
    require(count <= most, name, count, f"at most {most}")


def require_name(where: str, name: str) -> None:
    """Raise ``UsageError`` unless people and terminals can read what somebody is to be called."""
    right = f"1 to {_NAME_LETTERS_MAX} letters that can be read"
    require(0 < len(name) <= _NAME_LETTERS_MAX and name.isprintable(), where, name, right)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist: the nearest right one, then all of them."""
    names = sorted(known)
    near = difflib.get_close_matches(name[:_NAME_LETTERS_MAX], names, n=1, cutoff=0.5)
    hint = f': did you mean "{near[0]}"?' if near else "."
    asked = printable(name, _NAME_LETTERS_MAX)
    return UsageError(f'unknown {kind} "{asked}"{hint} There are: {", ".join(names) or "none"}')
