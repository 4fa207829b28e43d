"""Running a user's module where it can do no harm: in a process of its own, before it is needed.

A module may end the process that imports it (``os._exit``, a crash of a C library).  In the command
line nobody would be left to say so.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from cluster.errors import UsageError
from cluster.processes import fork, how_it_ended

_SURVIVED = b"."


def require_survivable(run: Callable[[], object], file_name: str) -> None:
    """Raise ``UsageError`` if ``run`` ends its process; an exception does not."""
    readable, writable = os.pipe()

    def child() -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):  # what it prints will be printed by the one that counts
            os.dup2(nothing, descriptor)
        try:
            run()
        finally:
            os.write(writable, _SURVIVED)

    pid = fork(child)
    os.close(writable)
    with open(readable, "rb") as told:
        survived = told.read(1) == _SURVIVED
    _, status = os.waitpid(pid, 0)
    if not survived:
        how = how_it_ended(status)
        right = "a module that can be imported"
        raise UsageError(f"{file_name}: ends the process that imports it ({how}): need {right}")
