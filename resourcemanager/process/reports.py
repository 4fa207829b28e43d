"""Summaries of the ResourceManager process: the core's report and the network's counters.

The counters are looked at when a job begins and when it ends, so that a summary of some jobs
covers the network's traffic from the first one's beginning to the last one's end.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId, job_of
from railyard.cluster.messages import AttemptDelayed
from railyard.cluster.messaging.transport import Request
from railyard.cluster.messaging.wire import Message, Refusal
from railyard.netemu.emulator.statistics import cpu_saturated, grant_lag_ms_p99, since
from railyard.netemu.messages import GetNetworkStats, NetworkStats
from railyard.netemu.model.network import Network
from railyard.resourcemanager.core.records import JobRecord, one_after_another
from railyard.resourcemanager.driving.report import add_figures, add_network, report
from railyard.resourcemanager.process.driver import Driver
from railyard.resourcemanager.process.messages import GetReport, Report
from railyard.resourcemanager.process.network import Away, NetworkOrders

_Answer = NetworkStats | Refusal


class NetworkReports:
    """Looks at the network's counters, and answers ``GetReport``."""

    def __init__(
        self,
        driver: Driver,
        network: NetworkOrders,
        away: Away,
        looks: Looks,
        machine: MachineTime,
        config: ClusterConfig,
    ) -> None:
        self._driver = driver
        self._network = network
        self._away = away
        self._looks = looks
        self._machine = machine
        self._config = config
        self._links = Network(config.topology)

    def job_began(self, job: JobId) -> None:
        """Look at the counters for a job that begins."""
        self._look(job, "begin")

    def job_ended(self, job: JobId) -> None:
        """Look at the counters for a job that has ended, and forget those of forgotten jobs."""
        self._look(job, "end")
        self._looks.keep_only(self._driver.core.records)
        self._machine.keep(self._driver.core.records)

    def ask(
        self, request: Request[GetReport], reply: Callable[[Request[GetReport], Message], bool]
    ) -> None:
        """Answer a ``GetReport`` once the network has sent its counters."""
        records = self._driver.core.records
        wanted = request.message.jobs or tuple([(job,) for job in records])
        unknown = [job for steps in wanted for job in steps if job not in records]
        if unknown:
            raise PeerError(f"there is no job {unknown[0]}")

        def answer(now: _Answer, _: object) -> None:
            stats = now if isinstance(now, NetworkStats) else None
            steps = [[records[job] for job in steps] for steps in wanted]
            try:
                reply(request, Report(summary=self._summary(steps, stats)))
            except PeerError as error:
                reply(request, Refusal(reason=str(error)))

        self._network.link.insist(GetNetworkStats(), NetworkStats, answer)

    def _look(self, job: JobId, when: When) -> None:
        def answer(stats: _Answer, _: object) -> None:
            if isinstance(stats, NetworkStats):
                self._looks.note(job, when, stats)

        self._network.link.insist(GetNetworkStats(), NetworkStats, answer)

    def _summary(
        self, jobs: Sequence[Sequence[JobRecord]], now: NetworkStats | None
    ) -> dict[str, Any]:
        """The summary of jobs, each of which has the records of its steps."""
        config, driver, topology = self._config, self._driver, self._config.topology
        records = [record for steps in jobs for record in steps]
        summary: dict[str, Any] = {
            "scheduler": config.scheduler,
            "flow_scheduler": config.flow_scheduler,
            "topology": topology.name,
            "clock": "wall",
            "seed": config.seed,
            "scale": topology.scale,
            **report(
                [one_after_another(steps) for steps in jobs],
                driver.core.state.slot_history,
                driver.now_s,
            ),
            "scheduling_s": {"total": driver.deciding_s, "max": driver.deciding_s_max},
        }
        add_figures(summary, driver.core.state.policies)
        for row, steps in zip(summary["jobs"], jobs, strict=True):
            row["machine_s"] = sum(self._machine.of_job(record.id) for record in steps)
        if now is not None and records:
            stats = self._span(records, now)
            add_network(summary, stats, self._links)
            summary["fidelity"] = {
                "grant_lag_ms_p99": grant_lag_ms_p99(stats),
                "cpu_saturated": cpu_saturated(stats),
                "network_away_s": self._away_s(records),
                **self._machine.figures(records, driver.now_s),
            }
        return summary

    def _away_s(self, records: list[JobRecord]) -> float:
        """For how long the network was away from the first job's beginning to the last's end."""
        ends_s = [record.finished_s or self._driver.now_s for record in records]
        begin_s = min(record.submitted_s for record in records)
        return self._away.between_s(begin_s, max(ends_s))

    def _span(self, records: list[JobRecord], now: NetworkStats) -> NetworkStats:
        """What the network did from the first of the jobs' beginning to the last one's end."""
        first = min(records, key=lambda record: record.submitted_s)
        begin = self._looks.at(first.id, "begin")
        ends = [record.finished_s for record in records]
        if None in ends:
            end = now
        else:
            last = max(records, key=lambda record: record.finished_s or 0.0)
            end = self._looks.at(last.id, "end") or now
        return end if begin is None else since(end, begin)


# The network's counters when a job began and when it ended.
#
# They are in files: they are seldom asked for, there are many of them, and a ResourceManager that
# is restarted needs those that others before it have noted.


log = logging.getLogger(__name__)

When = Literal["begin", "end"]


class Looks:
    """The looks at the network of the jobs that are known."""

    def __init__(self, folder: Path) -> None:
        """``folder`` is for these files alone; it need not exist."""
        self._folder = folder
        #: jobs with a file
        self._jobs = {JobId(path.stem): None for path in folder.glob("*.*")}

    def note(self, job: JobId, when: When, stats: NetworkStats) -> None:
        """Keep a look; a full disk is no reason to end."""
        path = self._path(job, when)
        self._jobs[job] = None
        try:
            self._folder.mkdir(exist_ok=True)
            path.write_bytes(msgspec.msgpack.encode(stats))
        except OSError as error:
            log.warning("%s: %s: it will not be known", path, error.strerror)

    def at(self, job: JobId, when: When) -> NetworkStats | None:
        """The counters then; None if nobody has looked, or it could not be kept."""
        with suppress(OSError, msgspec.MsgspecError):  # cut short by a full disk
            return msgspec.msgpack.decode(self._path(job, when).read_bytes(), type=NetworkStats)
        return None

    def keep_only(self, known: Container[JobId]) -> None:
        """Forget the looks of all other jobs."""
        for job in [job for job in self._jobs if job not in known]:
            del self._jobs[job]
            with suppress(OSError):  # read-only
                self._path(job, "begin").unlink(missing_ok=True)
                self._path(job, "end").unlink(missing_ok=True)

    def _path(self, job: JobId, when: When) -> Path:
        return self._folder / f"{job}.{when}"


# What a run waited for this machine, rather than for what the model has it wait for.
#
# NodeManagers report it with each attempt that succeeds.  The core never hears of it: it knows no
# machine, and its events are the same on both clocks.


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
