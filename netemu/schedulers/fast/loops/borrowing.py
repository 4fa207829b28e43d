"""How loops are compiled that make no arrays, but only borrow those that they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])
#: How numba is asked to count none; it does the same where it compiles its own text functions.
_SETTINGS: dict[str, Any] = {"cache": True, "_nrt": False}


def borrows(function: F) -> F:
    """Compile a function without counting references to arrays.

    By default, one is counted for each array that a function is given, and for each part that it
    takes of one, and counted down again: a quarter of the time of ``sunflow``, of which most
    functions do little and are called often.  Whoever calls a function that borrows has its arrays
    anyway.  It can make no array (nor copy one to another), return none, get none from a list nor
    put it there, and call no function that does.
    """
    compiled: F = njit(**_SETTINGS)(function)
    return compiled
