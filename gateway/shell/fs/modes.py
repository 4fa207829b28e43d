"""Permissions as people write them, 640, u+x,g=r or a-w, and as listings show them: rw-r-----."""

from __future__ import annotations

import re

_CLAUSE = r"[ugoa]*[-+=][rwxXt]+"
#: What ``new_mode`` understands.
MODE = re.compile(rf"[01]?[0-7]{{1,3}}|{_CLAUSE}(?:,{_CLAUSE})*", re.ASCII)
_SHIFTS = {"u": 6, "g": 3, "o": 0}
_BITS = {"r": 4, "w": 2, "x": 1}
_STICKY = 0o1000


def new_mode(text: str, now: int, is_folder: bool) -> int:
    """The bits that a text makes of the bits now; the text must match ``MODE``.

    ``X`` is ``x`` of a folder, or of a file that somebody may execute already.
    """
    if text.isdigit():
        return int(text, 8)
    for clause in text.split(","):
        at = next(i for i, letter in enumerate(clause) if letter in "+-=")
        who, sign, what = clause[:at], clause[at], clause[at + 1 :]
        bits = sum(_BITS[letter] for letter in set(what) if letter in _BITS)
        if "X" in what and (is_folder or now & 0o111):
            bits |= 1
        shifts = [_SHIFTS[letter] for letter in _SHIFTS if letter in who or not who or "a" in who]
        given = sum(bits << shift for shift in shifts)
        if "t" in what:
            given |= _STICKY
        if sign == "=":
            now &= ~sum(7 << shift for shift in shifts)
        now = now & ~given if sign == "-" else now | given
    return now


def letters(bits: int) -> str:
    """The nine letters of a listing; the last one is t or T if the sticky bit is set."""
    shown = ["-" if not bits >> at & 1 else "xwr"[at % 3] for at in range(8, -1, -1)]
    if bits & _STICKY:
        shown[-1] = "t" if bits & 1 else "T"
    return "".join(shown)
