"""Saying in words how user code failed, and what it wrote before."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

_OWN_CODE = Path(__file__).resolve().parent.parent
_TAIL_BYTES = 8192


def reason_of(error: BaseException) -> str:
    """One line: "ValueError: invalid literal for int()"."""
    lines = str(error).strip().splitlines()
    name = type(error).__name__
    if isinstance(error, MemoryError):
        name = "MemoryError"  # NumPy's has a private name
    return f"{name}: {lines[0]}" if lines else name


def user_traceback(error: BaseException) -> str:
    """The traceback as Python prints it, from the first frame on that is not Railyard's."""
    frames = error.__traceback__
    while frames is not None and _is_own(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    if frames is None:  # it is all ours
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
    if size > _TAIL_BYTES and b"\n" in data:
        data = data.split(b"\n", 1)[1]
    return data.decode(errors="replace")


def _is_own(file_name: str) -> bool:
    path = Path(file_name)
    return path.is_absolute() and path.is_relative_to(_OWN_CODE / path.parent.name)
