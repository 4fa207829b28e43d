"""Text of others on its way to a person's terminal: nothing in it can do more than be read."""

from __future__ import annotations


def printable(text: str, letters_max: int | None = None) -> str:
    """``text`` with what is not for reading escaped, all but tabs; cut if too long.

    Bytes that were no UTF-8 (surrogates of Python's) are escaped as well.
    """
    shown = "".join(c if c.isprintable() or c == "\t" else _escaped(c) for c in text[:letters_max])
    if letters_max is not None and len(text) > letters_max:
        return f"{shown}... ({len(text)} letters)"
    return shown


def _escaped(letter: str) -> str:
    if "\udc80" <= letter <= "\udcff":  # as "surrogateescape" decodes a byte
        return f"\\x{ord(letter) - 0xDC00:02x}"
    return letter.encode("unicode_escape").decode("ascii")
