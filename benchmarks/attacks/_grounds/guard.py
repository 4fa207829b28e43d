"""Removes what attacks have made, once whoever made it is gone: however that ended.

``python -m railyard.benchmarks.attacks._grounds.guard FOLDER`` is a process of its own that waits
for the end of its standard input.  It removes FOLDER and kills the processes with a RAILYARD_HOME
in it, nothing else.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_PATIENCE_S = 10.0


def processes_of(folder: Path) -> list[int]:
    """The processes that were started with a RAILYARD_HOME in ``folder``, this one excluded."""
    mark = b"RAILYARD_HOME=" + os.fsencode(folder)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            values = (entry / "environ").read_bytes().split(b"\0")
        except OSError:  # gone, or another user's
            continue
        if any(value == mark or value.startswith(mark + b"/") for value in values):
            found.append(int(entry.name))
    return found


def kill_all(folder: Path) -> None:
    """Kill every process of ``folder``, and those that they start meanwhile."""
    deadline_s = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline_s and (pids := processes_of(folder)):
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


def unmount_all(folder: Path) -> None:
    """Unmount every file system in ``folder``."""
    mounted = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted(mounted, reverse=True):  # the inner ones first
        if Path(place).is_relative_to(folder):
            subprocess.run(["umount", "--lazy", place], check=False)


def main() -> None:
    """Wait, then remove everything."""
    folder = Path(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    sys.stdin.buffer.read()
    kill_all(folder)
    unmount_all(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
