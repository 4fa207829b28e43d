"""Other programs that are measured beside ours, and whether they are installed.

They run in this Python, or in the one that the environment variable RAILYARD_PEERS names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

#: Their scripts.
FOLDER = Path(__file__).parent.parent / "peers"


def peer_python() -> str:
    """The Python that they run in."""
    return os.environ.get("RAILYARD_PEERS", sys.executable)


def missing(module: str) -> str:
    """Why a peer of that module can't be run; nothing if it can."""
    command = [peer_python(), "-c", f"import {module}"]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return f"{module} is not installed: left out"
    return ""
