"""Summaries of the ResourceManager process: the core's report and the network's counters.

There are snapshots of these when a job begins and when it ends, so that a summary of some jobs
covers the network's traffic from the first one's beginning to the last one's end.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId, job_of
from railyard.cluster.messages import AttemptDelayed
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import Refusal
from railyard.netemu.emulator.statistics import cpu_saturated, grant_lag_ms_p99, since
from railyard.netemu.messages import GetNetworkStats, NetworkStats
from railyard.netemu.model.network import Network
from railyard.resourcemanager.core.records import JobRecord, one_after_another
from railyard.resourcemanager.driving.report import add_figures, add_network, report
from railyard.resourcemanager.process.driver import Driver
from railyard.resourcemanager.process.messages import GetReport, Report
from railyard.resourcemanager.process.network import NetworkOrders
from railyard.resourcemanager.process.recovery import JobFiles

_Answer = NetworkStats | Refusal


@dataclass(eq=False)
class NetworkReports:
    """Takes snapshots of the network's counters, and answers ``GetReport``."""

    _driver: Driver
    _server: Server
    _network: NetworkOrders
    _folder: Path  #: for the snapshots, of which there are many, and few are asked for
    _machine: MachineTime
    _config: ClusterConfig

    def __post_init__(self) -> None:
        self._at_begin = JobFiles(self._folder, ".begin", NetworkStats)
        self._at_end = JobFiles(self._folder, ".end", NetworkStats)
        self._links = Network(self._config.topology)
        self._server.on(GetReport, self._ask)

    def job_began(self, job: JobId) -> None:
        self._take_snapshot(job, self._at_begin)

    def job_ended(self, job: JobId) -> None:
        """Take a snapshot for a job that has ended, and forget those of forgotten jobs."""
        self._take_snapshot(job, self._at_end)
        for snapshots in (self._at_begin, self._at_end):
            for known in snapshots.jobs():
                if known not in self._driver.core.records:
                    snapshots.forget(known)
        self._machine.keep_only(self._driver.core.records)

    def _ask(self, request: Request[GetReport]) -> None:
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
                self._server.reply(request, Report(summary=self._summary(steps, stats)))
            except PeerError as error:
                self._server.reply(request, Refusal(reason=str(error)))

        self._network.link.insist(GetNetworkStats(), NetworkStats, answer)

    def _take_snapshot(self, job: JobId, snapshots: JobFiles[NetworkStats]) -> None:
        def answer(stats: _Answer, _: object) -> None:
            if isinstance(stats, NetworkStats):
                snapshots.keep(job, stats)

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
            first = min(records, key=lambda record: record.submitted_s)
            last = max(records, key=lambda record: record.finished_s or driver.now_s)
            span = first.submitted_s, last.finished_s or driver.now_s
            stats = self._between(first, last, now)
            add_network(summary, stats, self._links)
            summary["fidelity"] = {
                "grant_lag_ms_p99": grant_lag_ms_p99(stats),
                "cpu_saturated": cpu_saturated(stats),
                "network_away_s": self._network.outages.between_s(*span),
                **self._machine.figures(records, *span),
            }
        return summary

    def _between(self, first: JobRecord, last: JobRecord, now: NetworkStats) -> NetworkStats:
        """What the network did from the beginning of a job to the end of another, if that is over.

        As far as there are snapshots of then.
        """
        begin = self._at_begin.get(first.id)
        end = None if last.finished_s is None else self._at_end.get(last.id)
        return end or now if begin is None else since(end or now, begin)


class _Waits(msgspec.Struct):
    """What attempts have waited for, added up and at most: to be launched, and for a permit."""

    attempts: int = 0
    launch_s: float = 0.0
    launch_max_s: float = 0.0
    permit_s: float = 0.0
    permit_max_s: float = 0.0


class MachineTime:
    """What the attempts of each job waited for this machine, not for what the model has them wait.

    NodeManagers report it with each attempt that succeeds.  The core gets none of it: it knows no
    machine, and its events are the same on both clocks.
    """

    def __init__(self) -> None:
        self._jobs: dict[JobId, _Waits] = {}
        #: when, on the core's clock, a daemon was silent for too long though its process ran
        self.silences_s: list[float] = []

    def note(self, delayed: AttemptDelayed) -> None:
        waits = self._jobs.setdefault(job_of(delayed.attempt), _Waits())
        waits.attempts += 1
        waits.launch_s += delayed.launch_s
        waits.launch_max_s = max(waits.launch_max_s, delayed.launch_s)
        waits.permit_s += delayed.permit_s
        waits.permit_max_s = max(waits.permit_max_s, delayed.permit_s)

    def keep_only(self, jobs: Container[JobId]) -> None:
        for job in [job for job in self._jobs if job not in jobs]:
            del self._jobs[job]

    def of_job(self, job: JobId) -> float:
        """Seconds that a job's attempts have waited, all added up."""
        waits = self._jobs.get(job)
        return 0.0 if waits is None else waits.launch_s + waits.permit_s

    def figures(self, records: Sequence[JobRecord], begin_s: float, end_s: float) -> dict[str, Any]:
        """Mean and maximum per attempt of these jobs, and silent daemons in this time."""
        known = [self._jobs[record.id] for record in records if record.id in self._jobs]
        attempts = sum(waits.attempts for waits in known) or 1
        return {
            "silent_daemons": sum(begin_s <= at_s <= end_s for at_s in self.silences_s),
            "launch_s": {
                "mean": sum(waits.launch_s for waits in known) / attempts,
                "max": max((waits.launch_max_s for waits in known), default=0.0),
            },
            "permit_s": {
                "mean": sum(waits.permit_s for waits in known) / attempts,
                "max": max((waits.permit_max_s for waits in known), default=0.0),
            },
        }
