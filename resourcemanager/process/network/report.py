"""Summaries of the ResourceManager process: the core's report and the network's counters.

The counters are looked at when a job begins and when it ends, so that a summary of some jobs
covers the network's traffic from the first one's beginning to the last one's end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId
from railyard.cluster.messaging.transport import Request
from railyard.cluster.messaging.wire import Message, Refusal
from railyard.netemu.emulator.statistics import (
    cpu_saturated,
    grant_lag_ms_p99,
    since,
)
from railyard.netemu.messages import GetNetworkStats, NetworkStats
from railyard.netemu.model.network import Network
from railyard.resourcemanager.core.state.records import JobRecord, one_after_another
from railyard.resourcemanager.driving.report import add_figures, add_network, report
from railyard.resourcemanager.process.driver import Driver
from railyard.resourcemanager.process.machinetime import MachineTime
from railyard.resourcemanager.process.messages import GetReport, Report
from railyard.resourcemanager.process.network.away import Away
from railyard.resourcemanager.process.network.looks import Looks, When
from railyard.resourcemanager.process.network.orders import NetworkOrders

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

    def ask(self, request: Request, reply: Callable[[Request, Message], bool]) -> None:
        """Answer a ``GetReport`` once the network has sent its counters."""
        assert isinstance(request.message, GetReport), "as the server checks"
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
