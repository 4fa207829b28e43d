"""The classes of errors, the wording of their messages, and untrusted text made safe to print.

* ``UsageError``: a user's mistake.  One line, no traceback, exit status 2.
* ``PeerError``: a message from another process was wrong.  Refused, logged, counted, survived.
* ``InvariantError``: our own state is wrong.  Stops the process: going on could lose data.

``printable`` escapes control characters, marks that change the direction of text, letters without
width, and bytes that are not UTF-8: no name, error or output of a job can move the cursor, hide a
line, or look like another name.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable

_LETTERS_MAX = 80  #: of a value or a name that an error shows
_NAMES_MAX = 60  #: that an error lists
COUNT_MAX = 1_000_000  #: of anything that users give: jobs, users, tasks of a stage


def printable(text: str, letters_max: int | None = None) -> str:
    """Escape all unprintable letters of ``text`` except tabs; cut it if too long.

    Bytes that were not UTF-8 (Python's surrogates) are escaped as well.
    """
    head = text[:letters_max]
    if not head.isprintable():
        head = "".join(c if c.isprintable() or c == "\t" else _escaped(c) for c in head)
    if letters_max is not None and len(text) > letters_max:
        return f"{head}... ({len(text)} letters)"
    return head


def printable_lines(text: str) -> str:
    """As ``printable``, but keeps line breaks."""
    return "\n".join(map(printable, text.split("\n")))


def shown_value(value: object) -> str:
    """Format a value for an error: 'text' in quotes, numbers as they are; cut if too long."""
    if isinstance(value, int) and value.bit_length() > _LETTERS_MAX * 4:
        return f"a number of {value.bit_length()} bits"  # Python may refuse to format it
    return printable(repr(value), _LETTERS_MAX)


def words_of(error: BaseException) -> str:
    """The text of an exception; that of a user's class may raise another one."""
    try:
        return str(error)
    except Exception:
        return "(what it says cannot be shown)"


def shortened(text: str, letters_max: int) -> str:
    """Cut ``text`` to ``letters_max`` letters and append its length, if it is longer."""
    if len(text) <= letters_max:
        return text
    return f"{text[:letters_max]}... ({len(text):,} letters)"


def _escaped(letter: str) -> str:
    if "\udc80" <= letter <= "\udcff":  # as "surrogateescape" decodes a byte
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")


class RailyardError(Exception):
    """Base of every error that Railyard raises on purpose."""


class UsageError(RailyardError):
    """A user's mistake: one line that says what was wrong, where, and what would be right."""


class _OfKind(RailyardError):
    """``kind`` is for programs that tell refusals apart, such as "missing"; "" for most."""

    def __init__(self, text: str, kind: str = "") -> None:
        super().__init__(text)
        self.kind = kind


class PeerError(_OfKind):
    """Another process sent a wrong message.  Answered with a refusal."""


class PeerUnable(PeerError):
    """The request is valid but cannot be carried out, perhaps only for now: the disk is full."""


class Refused(_OfKind):
    """The other side refused our request; the text is its reason."""


class NotDone(Refused):
    """The other side could not carry out our request, though the request was valid."""


class PeerLost(RailyardError):
    """The other side did not answer in time, or is gone."""


class ClusterFailed(RailyardError):
    """A cluster did not start, or a critical daemon died."""


class InvariantError(RailyardError):
    """A rule that the code itself guarantees does not hold.

    ``about`` has the ids of the node, job and so on that it concerns.  Whoever keeps a history adds
    the last events that concerned them.
    """

    def __init__(self, text: str, about: Iterable[str] = ()) -> None:
        super().__init__(text)
        self.about = tuple(about)

    def add_events(self, lines: Iterable[str]) -> None:
        """Append the events that led to the error to its text, a line each."""
        self.args = ("\n".join([str(self), *lines]),)


def require(holds: bool, where: str, value: object, right: str) -> None:
    """Raise ``UsageError`` "where = value: need right" unless ``holds``."""
    if not holds:
        raise UsageError(f"{where} = {shown_value(value)}: need {right}")


def require_count(name: str, count: int, least: int = 1, most: int = COUNT_MAX) -> None:
    """Raise ``UsageError`` unless ``least <= count <= most``."""
    require(count >= least, name, count, f"a whole number >= {least}")
    require(count <= most, name, count, f"at most {most}")


def require_part(where: str, share: float, count: int, of: str = "jobs") -> int:
    """How many of ``count`` a share is, rounded; 0 and 1 are exact.

    Raises ``UsageError`` for a share between them that would be none or all of so few.
    """
    part = round(share * count)
    if count and 0 < share < 1 and part in (0, count):
        enough = (n for n in range(count, COUNT_MAX + 1) if 0 < round(share * n) < n)
        plain, word = (1, "all") if part else (0, "none")
        right = [str(plain), *(f"at least {n} {of}" for n in itertools.islice(enough, 1))]
        require(False, where, share, f"{' or '.join(right)}: of {count} it is {word}")
    return part


def require_once(names: Iterable[str], where: str = "") -> None:
    """Raise ``UsageError`` for a name that is given twice: neither silently wins."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            shown = printable(f"{where} {name}" if where else name, _LETTERS_MAX)
            raise UsageError(f"{shown}: is given twice: need it once")
        seen.add(name)


def require_name(where: str, name: str) -> None:
    """Raise ``UsageError`` unless a name is printable and of a sensible length."""
    right = f"1 to {_LETTERS_MAX} letters that can be read"
    require(0 < len(name) <= _LETTERS_MAX and name.isprintable(), where, name, right)


def unknown_name(kind: str, name: str, known: Iterable[str]) -> UsageError:
    """The error for a name that does not exist: suggests the most similar one, then lists all."""
    names = sorted(known)
    near = difflib.get_close_matches(name[:_LETTERS_MAX], names, n=1, cutoff=0.5)
    hint = f': did you mean "{near[0]}"?' if near else "."
    asked = printable(name, _LETTERS_MAX)
    more = len(names) - _NAMES_MAX
    listed = [*names[:_NAMES_MAX], *([f"and {more} more"] if more > 0 else [])]
    return UsageError(f'unknown {kind} "{asked}"{hint} There are: {", ".join(listed) or "none"}')
