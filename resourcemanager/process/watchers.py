"""Who watches which job, and telling them."""

from __future__ import annotations

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import Done, Message
from railyard.resourcemanager.process.driver import Driver
from railyard.resourcemanager.process.messages import WatchJob
from railyard.resourcemanager.process.progress import job_ended, job_progress


class Watchers:
    """The clients that want to know how jobs get on."""

    PERIOD_S = 0.2  #: how often they are told

    def __init__(self, driver: Driver, server: Server) -> None:
        self._driver = driver
        self._server = server
        self._by_job: dict[JobId, list[bytes]] = {}

    def watch(self, request: Request) -> Message | None:
        """Somebody wants to know about a job, which may have ended already."""
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

    def tell_progress(self) -> None:
        """Tell all of them how far their jobs are."""
        for job in list(self._by_job):
            progress = job_progress(self._driver.core, job, self._driver.now_s)
            if progress is not None:
                self._tell(job, progress)

    def job_ended(self, job: JobId) -> None:
        """Tell those who watch a job how it ended, with a last look at it."""
        self._tell(job, job_ended(self._driver.core.records[job]))
        self._by_job.pop(job, None)

    def _tell(self, job: JobId, message: Message) -> None:
        """Tell those who watch; whoever is gone is forgotten."""
        peers = self._by_job.get(job, [])
        still = [peer for peer in peers if self._server.push(peer, message)]
        if still:
            self._by_job[job] = still
        else:
            self._by_job.pop(job, None)
