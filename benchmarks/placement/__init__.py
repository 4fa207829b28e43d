"""Where a stage's tasks should run: solvers against each other, and few changes against the best.

Not here: what the plans are worth to jobs.
Open ``_problems`` first.
"""

from __future__ import annotations

from railyard.benchmarks._common.rows import Row


def run(quick: bool = False) -> list[Row]:
    """Run all parts."""
    from railyard.benchmarks.placement import changes, instances, solvers

    return [*solvers.run(quick), *changes.run(quick), *instances.run(quick)]
