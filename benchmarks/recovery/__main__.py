"""``python -m railyard.benchmarks.recovery kills|soak``: with another seed, number or length."""

from __future__ import annotations

import argparse
import sys

from railyard.benchmarks.recovery import kills, soak
from railyard.cli.commands.bench import show
from railyard.terminal import interrupts


def main() -> int:
    """Measure what the command line names; exit status 1 if a bound does not hold."""
    parser = argparse.ArgumentParser(prog="python -m railyard.benchmarks.recovery")
    parser.add_argument("part", choices=("kills", "soak"))
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--each", type=int, default=kills.EACH, help="kills of each kind")
    parser.add_argument("--kinds", default="kill", help="of faults, as railyard chaos has them")
    parser.add_argument("--minutes", type=float, default=soak.MINUTES, help="of the soak")
    arguments = parser.parse_args()
    interrupts.install()
    try:
        if arguments.part == "kills":
            rows = kills.run(each=arguments.each, seed=arguments.seed, kinds=arguments.kinds)
        else:
            rows = soak.run(minutes=arguments.minutes, seed=arguments.seed)
    except interrupts.Interrupted as interrupt:
        return 128 + interrupt.number
    show(arguments.part, rows)
    return 1 if any(row["ok"] is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
