"""Words of several schedulers for why a job waits."""

from __future__ import annotations


def jobs_ahead(many: int) -> str:
    """How many jobs are before one in the order: "2 jobs ahead"."""
    return f"{many} {'job' if many == 1 else 'jobs'} ahead"
