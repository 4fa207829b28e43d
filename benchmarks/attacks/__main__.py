"""``python -m railyard.benchmarks.attacks [KIND]...``: with another seed, or one trial again."""

from __future__ import annotations

import argparse
import importlib
import sys

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.attacks import KINDS
from railyard.benchmarks.attacks._grounds.trials import SEED
from railyard.cli.commands.bench import show
from railyard.terminal import interrupts


def main() -> int:
    """Make the attacks that the command line names; exit status 1 if one does not hold."""
    parser = argparse.ArgumentParser(prog="python -m railyard.benchmarks.attacks")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--trial", help="only this one; of frames and http: a number")
    parser.add_argument("--quick", action="store_true", help="a few of each kind")
    arguments = parser.parse_args()
    for kind in arguments.kinds:
        if kind not in KINDS:
            parser.error(f"unknown kind {kind!r}: there are {', '.join(KINDS)}")
    interrupts.install()
    rows: list[Row] = []
    try:
        for kind in arguments.kinds or KINDS:
            module = importlib.import_module(f"railyard.benchmarks.attacks.{kind}")
            new = module.run(quick=arguments.quick, seed=arguments.seed, only=arguments.trial)
            show(kind, new)
            rows += new
    except interrupts.Interrupted as interrupt:
        return 128 + interrupt.number
    return 1 if any(row["ok"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
