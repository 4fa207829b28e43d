"""What a run waited for this machine, rather than for what the model has it wait for.

NodeManagers report it with each attempt that succeeds.  The core never hears of it: it knows no
machine, and its events are the same on both clocks.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field
from typing import Any

from railyard.cluster.ids import JobId, job_of
from railyard.cluster.messages.execution import AttemptDelayed
from railyard.resourcemanager.core.state.records import JobRecord


@dataclass(slots=True)
class _Waits:
    """One kind of waiting."""

    total_s: float = 0.0
    max_s: float = 0.0

    def add(self, wait_s: float) -> None:
        self.total_s += wait_s
        self.max_s = max(self.max_s, wait_s)


@dataclass(slots=True)
class _Job:
    attempts: int = 0
    launch: _Waits = field(default_factory=_Waits)
    permit: _Waits = field(default_factory=_Waits)


class MachineTime:
    """What the attempts of each job waited for this machine."""

    def __init__(self) -> None:
        self._jobs: dict[JobId, _Job] = {}
        #: when, on the core's clock, a daemon was silent for too long though its process ran
        self.silences_s: list[float] = []

    def note(self, delayed: AttemptDelayed) -> None:
        """Add an attempt that succeeded."""
        job = self._jobs.setdefault(job_of(delayed.attempt), _Job())
        job.attempts += 1
        job.launch.add(delayed.launch_s)
        job.permit.add(delayed.permit_s)

    def silent(self, at_s: float) -> None:
        """Add a silent daemon that was waited for."""
        self.silences_s.append(at_s)

    def keep(self, jobs: Container[JobId]) -> None:
        """Forget all other jobs."""
        for job in [job for job in self._jobs if job not in jobs]:
            del self._jobs[job]

    def of_job(self, job: JobId) -> float:
        """Seconds that a job's attempts have waited, all added up."""
        known = self._jobs.get(job)
        return 0.0 if known is None else known.launch.total_s + known.permit.total_s

    def figures(self, records: Sequence[JobRecord], now_s: float) -> dict[str, Any]:
        """Mean and maximum per attempt, and silent daemons, while these jobs (not none) ran."""
        known = [self._jobs[record.id] for record in records if record.id in self._jobs]
        attempts = sum(job.attempts for job in known)
        begin_s = min(record.submitted_s for record in records)
        ends_s = [now_s if record.finished_s is None else record.finished_s for record in records]
        silences = [at_s for at_s in self.silences_s if begin_s <= at_s <= max(ends_s)]
        return {
            "silent_daemons": len(silences),
            "launch_s": _figures([job.launch for job in known], attempts),
            "permit_s": _figures([job.permit for job in known], attempts),
        }


def _figures(waits: list[_Waits], attempts: int) -> dict[str, float]:
    total_s = sum(wait.total_s for wait in waits)
    return {
        "mean": total_s / attempts if attempts else 0.0,
        "max": max((wait.max_s for wait in waits), default=0.0),
    }
