"""The output folders of jobs: one job at a time writes to each, its commit, and its removal.

Never here: when a job is committed, and which attempts' files count (``resourcemanager.core``).
"""

from __future__ import annotations

from functools import partial

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.wire import Done, Refusal
from railyard.dfs.messages.files import GetStatus, Remove, Removed, Status
from railyard.resourcemanager.core.output import commit_of, commit_refused, success_file
from railyard.resourcemanager.interface.commands import CommitJob
from railyard.resourcemanager.interface.events import JobCommitted
from railyard.resourcemanager.process.driver import Driver
from railyard.resourcemanager.process.restart.submissions import Submissions

#: Seconds before a job is committed again, for each further try.
_PAUSES_S = (0.2, 0.6, 1.5, 3.0)


class Outputs:
    """The output folders of jobs that are not discarded yet."""

    def __init__(
        self, driver: Driver, namenode: LastingLink, reactor: Reactor, submissions: Submissions
    ) -> None:
        self._driver = driver
        self._namenode = namenode
        self._reactor = reactor
        self._submissions = submissions
        self._folders: dict[JobId, str] = {}
        self._failed: set[JobId] = set()  #: of these jobs, whose output is removed
        driver.on(CommitJob, self.commit)

    def check_is_free(self, path: str) -> None:
        """Raise ``PeerError`` if another job writes to this folder."""
        for job, taken in self._folders.items():
            if taken == path:
                raise PeerError(f"output {path}: job {job} writes there: need another path")

    def add(self, job: JobId, path: str) -> None:
        """A job writes to this folder; "": to none."""
        if path:
            self._folders[job] = path

    def job_failed(self, job: JobId) -> None:
        """Have what a job has written removed once it is discarded."""
        if job in self._folders:
            self._failed.add(job)

    def discard(self, job: JobId) -> None:
        """Nothing of a job runs any more: forget it, and remove the output if it failed."""
        path = self._folders.pop(job, "")
        if job not in self._failed:
            self._submissions.forget(job)
            return
        self._failed.remove(job)
        if path in self._folders.values():  # another job has it since: it was removed then
            self._submissions.forget(job)
            return
        remove = Remove(path=path, recursive=True)
        self._namenode.insist(remove, Removed, lambda *_: self._submissions.forget(job))

    def commit(self, order: CommitJob, tries: int = 0) -> None:
        """Rename the winners' files, all or none.

        If the NameNode can't just now, since its disk is full, it is tried again for a while.
        """
        folder = order.output_path
        if not folder:
            self._driver.feed(JobCommitted(job=order.job))
            return
        self._namenode.insist(
            commit_of(folder, order.winners),
            Done,
            lambda answer, _: self._committed(order, tries, answer),
        )

    def _committed(self, order: CommitJob, tries: int, answer: Done | Refusal) -> None:
        if isinstance(answer, Done):
            self._driver.feed(JobCommitted(job=order.job))
        elif answer.unable and tries < len(_PAUSES_S):
            again = partial(self.commit, order, tries + 1)
            self._reactor.call_later(_PAUSES_S[tries], again)
        else:
            self._is_committed(order, answer)

    def _is_committed(self, order: CommitJob, refused: Refusal) -> None:
        """Look whether a commit that is refused was done: the order may have been sent before."""

        def looked(answer: Status | Refusal, _: object) -> None:
            self._driver.feed(commit_refused(order.job, refused, answer))

        path = success_file(order.output_path)
        self._namenode.insist(GetStatus(path=path), Status, looked)
