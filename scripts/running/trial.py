"""Imports users' modules in a process of its own first.

A module may end the process that imports it (``os._exit``, a crash of a C library); the command
then still reports it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from functools import partial
from typing import TypeVar

from railyard.cluster.errors import UsageError
from railyard.cluster.processes.family import fork, how_it_ended
from railyard.cluster.topology import Topology
from railyard.jobs.mixes.mixes import Mix, user_files
from railyard.jobs.mixes.mixplans import Planned, StoredFiles, plan_mix

T = TypeVar("T")
_SURVIVED = b"."


def survived(files: Iterable[str], plan: Callable[[], T]) -> T:
    """What ``plan`` returns, which imports these users' files, if there are any.

    Raises ``UsageError`` if the process ends; other exceptions are raised as they are.
    """
    if names := ", ".join(files):
        _require_survivable(plan, names)
    return plan()


def planned(
    mix: Mix,
    topology: Topology,
    seed: int,
    folder: str = "/",
    store: StoredFiles | None = None,
) -> tuple[Planned, ...]:
    """A plan for each job of a mix; raises ``UsageError`` as ``survived`` does."""
    files = user_files(job.job for job in mix.jobs)
    return survived(files, partial(plan_mix, mix, topology, seed, folder, store))


def _require_survivable(plan: Callable[[], object], names: str) -> None:
    readable, writable = os.pipe()

    def child() -> None:
        nothing = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):  # the run that counts prints the same
            os.dup2(nothing, descriptor)
        sys.stdout = sys.stderr = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
        try:
            plan()
        finally:
            os.write(writable, _SURVIVED)

    pid = fork(child)
    os.close(writable)
    with open(readable, "rb") as pipe:
        is_alive = pipe.read(1) == _SURVIVED
    _, status = os.waitpid(pid, 0)
    if not is_alive:
        how = how_it_ended(status)
        right = "a module that can be imported"
        raise UsageError(f"{names}: ends the process that imports it ({how}): need {right}")
