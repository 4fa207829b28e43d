"""Where numbers come from: the command that made them, and the state of the code."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path

from railyard.scripts.terminal.options import TextPairs

_CHECKOUT = Path(__file__).parents[2]


def code_state() -> str:
    """The commit of the checkout, "-dirty" if files differ from it; or Railyard's version."""
    try:
        asked = subprocess.run(
            ["git", "-C", str(_CHECKOUT), "describe", "--always", "--dirty", "--match="],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return f"railyard {version('railyard')}"
    return asked.stdout.strip()


def command_line(
    paper: str, figures: Iterable[str], *, quick: bool, seeds: str, changed: TextPairs
) -> str:
    """The command that makes the same numbers again."""
    words = ["railyard", "reproduce", paper, *figures, *(["--quick"] if quick else [])]
    words += ["--seeds", seeds]
    for key, value in changed:
        words += ["--set", f"{key}={value}"]
    return shlex.join(words)
