"""The command that makes the same numbers of a paper again."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from railyard.scripts.terminal.options import TextPairs


def command_line(
    paper: str,
    figures: Iterable[str],
    *,
    quick: bool,
    seeds: str | None,
    cases: Iterable[str],
    changed: TextPairs,
) -> str:
    """The command that makes the same numbers again; ``seeds`` if all figures have the same."""
    words = ["railyard", "reproduce", paper, *figures, *(["--quick"] if quick else [])]
    words += [] if seeds is None else ["--seeds", seeds]
    words += [word for case in cases for word in ("--case", case)]
    for key, value in changed:
        words += ["--set", f"{key}={value}"]
    return shlex.join(words)
