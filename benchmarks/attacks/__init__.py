"""Attacks on whole clusters: how many of each kind were tried, and how many held.

    scripts/bench attacks [--quick]           all kinds
    scripts/bench attacks.kills               one kind
    python -m railyard.benchmarks.attacks kills --seed 2 --trial NodeManager-3

Not here: anything outside a private folder in /tmp, which a guard removes however this process
ends (``_grounds.guard``).  Nothing leaves this machine: all sockets are in that folder.
Open ``kills`` first.
"""

from __future__ import annotations

import importlib

from railyard.benchmarks._common.rows import Row

#: A module each, in the order in which they are made: those that find most come first.
KINDS = (
    "homes",
    "corruption",
    "kills",
    "duplicates",
    "stops",
    "signals",
    "fulldisk",
    "descriptors",
    "frames",
    "http",
)


def run(quick: bool = False) -> list[Row]:
    """Make the attacks of all kinds; ``quick`` makes a few of each."""
    rows = []
    for kind in KINDS:
        rows += importlib.import_module(f"railyard.benchmarks.attacks.{kind}").run(quick=quick)
    return rows
