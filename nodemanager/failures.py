"""How user code failed, in words, and what it wrote before."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

from railyard.cluster.errors import RailyardError
from railyard.cluster.shown import printable, words_of

_OWN_CODE = Path(__file__).parent.parent
_OWN_FOLDERS = tuple(f"{_OWN_CODE / name}{os.sep}" for name in ("nodemanager", "jobs", "dfs"))
_TAIL_BYTES = 8192
_REASON_LETTERS_MAX = 300


def reason_of(error: BaseException) -> str:
    """An exception in one line, such as "ValueError: invalid literal for int()"."""
    lines = words_of(error).strip().splitlines()
    # NumPy's MemoryError has a private name of its own
    name = "MemoryError" if isinstance(error, MemoryError) else type(error).__name__
    return printable(f"{name}: {lines[0]}" if lines else name, _REASON_LETTERS_MAX)


def user_traceback(error: BaseException) -> str:
    """The traceback as Python prints it, from the first frame on that is not Railyard's.

    Empty for what Railyard raises on purpose, unless it came of some of the user's lines: it says
    all.
    """
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_OWN_FOLDERS):
        frames = frames.tb_next
    if frames is None:  # it is all ours
        if isinstance(error, RailyardError) and error.__cause__ is None:
            return ""
        frames = error.__traceback__
    return "".join(traceback.format_exception(type(error), error, frames)).rstrip()


def tail_of(path: Path) -> str:
    """The end of a text file, whole lines if it has any; "" if it cannot be read."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL_BYTES))
            data = file.read()
    except OSError:
        return ""
    if size > _TAIL_BYTES:
        data = data.split(b"\n", 1)[-1] or data  # one line that is longer than this: its end
    return data.decode(errors="replace")
