"""What the kernel says of a process in /proc/PID/stat."""

from __future__ import annotations

from typing import NamedTuple


class ProcessStat(NamedTuple):
    """A process of this machine that exists."""

    name: str  #: its first 15 bytes
    state: str  #: a letter: R runs or waits for a CPU, T stopped, t traced, Z or X has ended
    parent: int  #: process id


def process_stat(pid: int) -> ProcessStat | None:
    """What is known of a process; None if it is gone, and where there is no /proc."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except OSError:
        return None
    begin, end = text.find("("), text.rfind(")")  # the name may contain both
    words = text[end + 1 :].split(maxsplit=2)
    if len(words) < 2:  # it ended while this was read
        return None
    return ProcessStat(text[begin + 1 : end], words[0], int(words[1]))


def is_alive(pid: int) -> bool:
    """Whether there is such a process that has not ended, stopped or not."""
    found = process_stat(pid)
    return found is not None and found.state not in "ZX"
