"""Clients of others, unmodified, against a cluster that is up.

    scripts/bench clients [--quick]
    scripts/bench clients.mrjob_examples

Not here: how fast the gateway is.
Open ``mrjob_examples`` first.
"""

from __future__ import annotations

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks.clients import mrjob_examples


def run(quick: bool = False) -> list[Row]:
    """Run all of them; ``quick`` runs a few."""
    return mrjob_examples.run(quick=quick)
