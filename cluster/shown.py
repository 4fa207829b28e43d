"""Text of others on its way to a person's terminal: nothing in it can do more than be read.

What is not for reading is escaped: control characters, marks that turn the direction of text,
letters without width, bytes that are no UTF-8.  So no name, error or output of a job can move the
cursor, hide a line, or look like another name.
"""

from __future__ import annotations

#: A value in an error message: enough to recognize it by.
_VALUE_LETTERS_MAX = 80


def printable(text: str, letters_max: int | None = None) -> str:
    """``text`` with what is not for reading escaped, all but tabs; cut if too long.

    Bytes that were no UTF-8 (surrogates of Python's) are escaped as well.
    """
    head = text[:letters_max]
    if not head.isprintable():
        head = "".join(c if c.isprintable() or c == "\t" else _escaped(c) for c in head)
    if letters_max is not None and len(text) > letters_max:
        return f"{head}... ({len(text)} letters)"
    return head


def printable_lines(text: str) -> str:
    """The same for text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def shown_value(value: object) -> str:
    """A value as an error names it: 'text' in quotes, numbers as they are; cut if too long."""
    if isinstance(value, int) and value.bit_length() > _VALUE_LETTERS_MAX * 4:
        return f"a number of {value.bit_length()} bits"  # Python may refuse to write it
    return printable(repr(value), _VALUE_LETTERS_MAX)


def words_of(error: BaseException) -> str:
    """What an error says; of a user's class of errors, that may fail as well."""
    try:
        return str(error)
    except Exception:
        return "(what it says cannot be shown)"


def shortened(text: str, letters_max: int) -> str:
    """``text``, or its beginning and how long it is: never more than a few letters above."""
    if len(text) <= letters_max:
        return text
    return f"{text[:letters_max]}... ({len(text):,} letters)"


def _escaped(letter: str) -> str:
    if "\udc80" <= letter <= "\udcff":  # as "surrogateescape" decodes a byte
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")
