"""Waiting for what no message reports."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil


def wait_for(what: Callable[[], object], timeout_s: float = 20.0, why: str = "") -> None:
    """Wait until ``what()`` is true; fail if that takes too long."""
    deadline_s = time.monotonic() + timeout_s
    while not what():
        assert time.monotonic() < deadline_s, f"not within {timeout_s:g} s: {why}"
        time.sleep(0.01)


def gone(process: int | psutil.Process) -> bool:
    """Whether a process has ended, reaped or not."""
    try:
        found = psutil.Process(process) if isinstance(process, int) else process
        return found.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
