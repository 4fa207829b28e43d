"""The ResourceManager process: messages become events, commands become messages.

Never here: a decision about jobs, tasks or slots.  Its address is "resourcemanager".
"""

from __future__ import annotations

import logging

from railyard.cluster.config import NOT_AGAIN, Daemon
from railyard.cluster.errors import InvariantError, PeerError, UsageError
from railyard.cluster.ids import JobId, RackId
from railyard.cluster.machine import DECIDER, cause_of, take_priority
from railyard.cluster.messages import DiscardJob
from railyard.cluster.messaging.access import CLIENT, GATEWAY
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Request, Server, Transport
from railyard.cluster.messaging.wire import Done, Message, Refusal
from railyard.cluster.processes import stop_on_sigterm
from railyard.dfs.messages import FileBlocks
from railyard.resourcemanager.core.joblife import commit_order
from railyard.resourcemanager.driving.coredriver import core_for
from railyard.resourcemanager.interface.commands import EndJob
from railyard.resourcemanager.interface.events import JobKilled, JobsPredicted, StagePlan
from railyard.resourcemanager.process import messages
from railyard.resourcemanager.process.drains import Drains
from railyard.resourcemanager.process.driver import Driver, Journal
from railyard.resourcemanager.process.jobfiles import InputData, Jobs
from railyard.resourcemanager.process.network import LinkWatch, NetworkOrders, Outages
from railyard.resourcemanager.process.nodemanagers import NodeManagers
from railyard.resourcemanager.process.progress import cluster_status, job_ended, job_progress
from railyard.resourcemanager.process.recovery import Follower, JobFiles, Recovered
from railyard.resourcemanager.process.reports import MachineTime, NetworkReports
from railyard.resourcemanager.process.submission import JobIds, Submission
from railyard.resourcemanager.process.taskhistory import (
    TaskHistory,
    job_details,
    job_tasks,
    settings_of,
)

log = logging.getLogger(__name__)

#: Events that lead to nothing are journaled this often.
_JOURNAL_PERIOD_S = 0.2
_PROGRESS_PERIOD_S = 0.2


def main(daemon: Daemon) -> int:
    """Run the ResourceManager until it is asked to stop; returns its exit status."""
    take_priority(DECIDER)
    before = None
    try:
        follower = None
        if daemon.wait_until_needed is not None:
            follower = Follower(daemon.folder.events)
            daemon.wait_until_needed(follower.advance)
        transport = Transport.of(daemon)  # from here on no other process writes the journal
        if follower is not None:
            before = follower.finish()
        stop_on_sigterm(transport.reactor)
        manager = ResourceManager(daemon, transport, before)
    except (UsageError, InvariantError) as error:  # so would be each further try
        log.error("%s", error)
        return NOT_AGAIN
    except OSError as error:  # perhaps only for now: the disk is read-only, or full
        where = error.filename or daemon.folder.events
        log.error("%s: %s", where, cause_of(error, daemon.folder.events))
        return 1
    daemon.ready()
    transport.reactor.run()
    manager.close()
    transport.close()
    return 0


class ResourceManager:
    """The core, its driver, and the messages to and from everybody else."""

    def __init__(
        self, daemon: Daemon, transport: Transport, before: Recovered | None = None
    ) -> None:
        """``before``: what a standby has replayed; otherwise it is done here."""
        config, folder = daemon.config, daemon.folder
        self._config, self._folder = config, folder
        if before is None and folder.events.exists():
            before = Follower(folder.events).finish()
        elif before is None:
            core = core_for(config)
            before = Recovered(core, now_s(), TaskHistory(core.state))
        is_restarted = before.length_bytes is not None
        self._history = before.history
        self._journal = Journal(folder.events, config, before.started_s, before.length_bytes)
        driver = Driver(before.core, self._journal, transport.reactor, before.started_s)
        driver.on_handled = self._history.take
        self._driver = driver
        self._epoch = transport.epochs.own
        self._server = server = transport.server("resourcemanager")
        namenode = LastingLink(transport, "namenode")
        machine = MachineTime()
        stored = JobFiles(folder.jobs, ".job", messages.SubmitJob, safe=config.durability == "safe")
        self._jobs = Jobs(driver, namenode, stored, JobIds(before.job_number + 1))
        self._managers = NodeManagers(
            driver, server, config.topology.liveness, machine, self._jobs.submitted
        )
        self._drains = Drains(driver, server, namenode, self._managers)
        self._watchers = Watchers(driver, server)
        outages = Outages(folder.network_away)
        self._network = NetworkOrders(driver, transport, self._managers.send, outages)
        self._reports = NetworkReports(
            driver, server, self._network, folder.network_looks, machine, config
        )
        links = driver.core.state.policies.links
        if links is not None:
            LinkWatch(driver, transport, links).begin()
        self._data = InputData(driver, server, namenode, config.topology.scale)
        server.on(messages.SubmitForecasts, self._forecasts, (CLIENT,))
        server.on(
            messages.ReserveJobId, lambda _: messages.JobIdReserved(job=self._jobs.ids.reserve())
        )
        server.on(messages.SubmitJob, self._submit)
        server.on(messages.KillJob, self._kill, (CLIENT, GATEWAY))
        server.on(messages.GetClusterStatus, self._status)
        server.on(messages.GetJobDetails, self._details)
        server.on(messages.GetJobTasks, self._tasks)
        driver.on(EndJob, self._end_job)
        driver.on(DiscardJob, self._discard)
        transport.reactor.call_every(_JOURNAL_PERIOD_S, self._journal_all)
        if is_restarted:
            self._resume(before)

    def close(self) -> None:
        self._journal.close()

    def _journal_all(self) -> None:
        self._driver.journal_all()
        self._managers.confirm()

    # After a restart -----------------------------------------------------------------------------
    def _resume(self, before: Recovered) -> None:
        """Have done what the process before this one may not have done any more.

        NodeManagers say themselves what they have: see ``NodeManagers``.
        """
        core = self._driver.core
        log.info("epoch %d: %d events were replayed", self._epoch, before.events)
        self._managers.slots.update(before.slots)
        self._jobs.take_up()
        for job, wanted in list(self._jobs.submitted.items()):
            self._history.note_settings(job, settings_of(wanted))
            if job not in core.state.jobs and job not in core.state.draining:
                self._discard(DiscardJob(job=job))
        rows = self._folder.processes("NodeManager")
        self._managers.expect(
            {RackId(row["name"].removeprefix("nodemanager-")): row["pid"] for row in rows}
        )
        self._network.resume()
        for known in list(core.state.jobs.values()):
            if known.state == "committing":
                self._jobs.commit(commit_order(known))
            elif known.id not in self._jobs.submitted:
                reason = "its code was lost in a restart, as the disk had been full"
                self._driver.feed(JobKilled(job=known.id, reason=reason))
        for order in core.moves:
            self._data.move(order)
        self._driver.arm(before.timers_s)

    # Messages ------------------------------------------------------------------------------------
    def _forecasts(self, request: Request[messages.SubmitForecasts]) -> Message:
        self._driver.feed(JobsPredicted(jobs=request.message.jobs))
        self._driver.settle()
        return Done()

    def _submit(self, request: Request[messages.SubmitJob]) -> None:
        wanted = request.message

        def refuse(reason: str) -> None:
            self._server.reply(request, Refusal(reason=reason))

        def accept(stages: tuple[StagePlan, ...], files: list[FileBlocks]) -> None:
            self._data.report(files)
            job = self._jobs.tokens.get(wanted.token)  # sent again while its input was looked up
            if job is None:
                try:
                    job = self._accept(wanted, stages)
                except (PeerError, UsageError) as error:
                    refuse(str(error))
                    return
            self._server.reply(request, messages.JobAccepted(job=job))

        if wanted.token in self._jobs.tokens:
            self._server.reply(request, messages.JobAccepted(job=self._jobs.tokens[wanted.token]))
        else:
            self._data.look_up(Submission(wanted, self._config.topology.scale, accept, refuse))

    def _accept(self, wanted: messages.SubmitJob, stages: tuple[StagePlan, ...]) -> JobId:
        job = self._jobs.accept(wanted, stages)
        self._history.note_settings(job, settings_of(wanted))
        self._driver.settle()
        self._reports.job_began(job)
        return job

    def _kill(self, request: Request[messages.KillJob]) -> Message:
        job = request.message.job
        record = self._driver.core.records.get(job)
        if record is None or not record.stopped:  # otherwise it was asked for before
            self._driver.feed(JobKilled(job=job, reason=request.message.reason))
            self._driver.settle()
        return Done()

    def _status(self, _: object) -> Message:
        driver, flow_scheduler = self._driver, self._config.flow_scheduler
        return cluster_status(
            driver.core, flow_scheduler, driver.now_s, self._history.events, self._drains.replicas
        )

    def _details(self, request: Request[messages.GetJobDetails]) -> Message:
        driver = self._driver
        return job_details(driver.core, self._history, request.message.job, driver.now_s)

    def _tasks(self, request: Request[messages.GetJobTasks]) -> Message:
        driver = self._driver
        return job_tasks(driver.core, self._history, request.message, driver.now_s)

    # Commands ------------------------------------------------------------------------------------
    def _end_job(self, order: EndJob) -> None:
        self._jobs.ended(order)
        self._reports.job_ended(order.job)
        self._watchers.job_ended(order.job)

    def _discard(self, order: DiscardJob) -> None:
        self._managers.discard(order)
        self._jobs.discard(order.job)


class Watchers:
    """The clients that watch jobs, by job."""

    def __init__(self, driver: Driver, server: Server) -> None:
        self._driver = driver
        self._server = server
        self._by_job: dict[JobId, list[bytes]] = {}
        server.on(messages.WatchJob, self._watch)
        driver.reactor.call_every(_PROGRESS_PERIOD_S, self._send_progress)

    def _watch(self, request: Request[messages.WatchJob]) -> None:
        """Watch a job for a client; it may have ended already."""
        job = request.message.job
        record = self._driver.core.records.get(job)
        if record is None:
            raise PeerError(f"there is no job {job}")
        self._server.reply(request, Done())
        if record.ok is None:
            self._by_job.setdefault(job, []).append(request.peer)
        else:
            self._server.push(request.peer, job_ended(record))

    def _send_progress(self) -> None:
        for job in list(self._by_job):
            progress = job_progress(self._driver.core, job, self._driver.now_s)
            if progress is not None:
                self._send(job, progress)

    def job_ended(self, job: JobId) -> None:
        """Send those who watch a job how it ended, and forget them."""
        self._send(job, job_ended(self._driver.core.records[job]))
        self._by_job.pop(job, None)

    def _send(self, job: JobId, message: Message) -> None:
        """Send those who watch a job a message; whoever is gone is forgotten."""
        peers = self._by_job.get(job, [])
        still = [peer for peer in peers if self._server.push(peer, message)]
        if still:
            self._by_job[job] = still
        else:
            self._by_job.pop(job, None)
