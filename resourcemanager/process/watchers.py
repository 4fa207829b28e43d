"""The clients that watch jobs, and what they are sent."""

from __future__ import annotations

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import Done, Message
from railyard.resourcemanager.process.driver import Driver
from railyard.resourcemanager.process.messages import WatchJob
from railyard.resourcemanager.process.progress import job_ended, job_progress


class Watchers:
    """The clients that watch jobs, by job."""

    PERIOD_S = 0.2  #: between two reports of progress

    def __init__(self, driver: Driver, server: Server) -> None:
        self._driver = driver
        self._server = server
        self._by_job: dict[JobId, list[bytes]] = {}

    def watch(self, request: Request) -> Message | None:
        """Watch a job for a client; it may have ended already."""
        assert isinstance(request.message, WatchJob), "as the server checks"
        job = request.message.job
        record = self._driver.core.records.get(job)
        if record is None:
            raise PeerError(f"there is no job {job}")
        self._server.reply(request, Done())
        if record.ok is None:
            self._by_job.setdefault(job, []).append(request.peer)
        else:
            self._server.push(request.peer, job_ended(record))
        return None

    def send_progress(self) -> None:
        """Send all of them how far their jobs are."""
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
