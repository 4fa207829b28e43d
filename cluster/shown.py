"""Makes untrusted text safe to print on a terminal.

Escapes control characters, marks that change the direction of text, letters without width, and
bytes that are not UTF-8.  So no name, error or output of a job can move the cursor, hide a line, or
look like another name.
"""

from __future__ import annotations

#: Letters of a value that an error message shows.
_VALUE_LETTERS_MAX = 80


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
    if isinstance(value, int) and value.bit_length() > _VALUE_LETTERS_MAX * 4:
        return f"a number of {value.bit_length()} bits"  # Python may refuse to format it
    return printable(repr(value), _VALUE_LETTERS_MAX)


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
