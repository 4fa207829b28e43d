"""Jobs as they were submitted: output folders, one job each, commits, removals; their input.

Never here: when a job is committed, which attempts' files count, where data goes (the core).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from railyard.cluster.errors import PeerError, UsageError
from railyard.cluster.ids import JobId
from railyard.cluster.messaging.access import CLIENT
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import Done, Message, Refusal
from railyard.dfs.messages import (
    BlocksLocated,
    FileBlocks,
    GetStatus,
    LocateBlocks,
    Remove,
    Removed,
    ReplicaMoved,
    Status,
)
from railyard.resourcemanager.core.files import commit_of, commit_refused, success_file
from railyard.resourcemanager.driving.orders import move_ended, move_request, report_data
from railyard.resourcemanager.interface.commands import CommitJob, EndJob, MoveBlock, PlaceData
from railyard.resourcemanager.interface.events import (
    DataAnnounced,
    DataBlock,
    JobCommitted,
    StagePlan,
)
from railyard.resourcemanager.process.driver import Driver
from railyard.resourcemanager.process.messages import DataPlan, NoteInput, PlanData, SubmitJob
from railyard.resourcemanager.process.recovery import JobFiles
from railyard.resourcemanager.process.submission import JobIds, Submission, input_files, submitted

#: Seconds before a job is committed again, for each further try.
_PAUSES_S = (0.2, 0.6, 1.5, 3.0)


class Jobs:
    """The jobs that are not discarded yet, as their clients submitted them, and their outputs.

    Each is also in a file, for a restart.
    """

    def __init__(
        self, driver: Driver, namenode: LastingLink, files: JobFiles[SubmitJob], ids: JobIds
    ) -> None:
        self._driver = driver
        self._namenode = namenode
        self._files = files
        self.ids = ids
        self.submitted: dict[JobId, SubmitJob] = {}
        self.tokens: dict[str, JobId] = {}  #: of submissions, while there is a record of the job
        self._failed: set[JobId] = set()  #: of these jobs, whose output is removed
        driver.on(CommitJob, self.commit)

    def accept(self, wanted: SubmitJob, stages: tuple[StagePlan, ...]) -> JobId:
        """Take a job.  Raises ``PeerError`` or ``UsageError`` if it can't be taken."""
        job = self.ids.id_for(wanted.job)
        event = submitted(job, wanted, stages)
        for other, taken in self.submitted.items():
            if event.output_path and _output_of(taken) == event.output_path:
                path = event.output_path
                raise PeerError(f"output {path}: job {other} writes there: need another path")
        self._add(job, wanted)
        self._files.keep(job, wanted)
        try:
            self._driver.feed(event)
        except (PeerError, UsageError):
            del self.submitted[job]
            self.tokens.pop(wanted.token, None)
            self._files.forget(job)
            raise
        self.ids.used(job)
        return job

    def take_up(self) -> None:
        """Know the jobs that were submitted to the process before this one."""
        for job in self._files.jobs():
            record = self._driver.core.records.get(job)
            if record is None:
                self._files.forget(job)  # it was not accepted, or is forgotten
            elif (wanted := self._files.get(job)) is not None:
                self._add(job, wanted)
                if record.ok is False:
                    self._failed.add(job)

    def ended(self, order: EndJob) -> None:
        """If a job has failed, have what it has written removed once it is discarded."""
        if not order.ok:
            self._failed.add(order.job)
        records = self._driver.core.records
        self.tokens = {token: job for token, job in self.tokens.items() if job in records}

    def discard(self, job: JobId) -> None:
        """Nothing of a job runs any more: forget it, and remove the output if it failed."""
        wanted = self.submitted.pop(job, None)
        path = "" if wanted is None else _output_of(wanted)
        has_failed = job in self._failed
        self._failed.discard(job)
        # If another job has the path since, it was removed then.
        if not path or not has_failed or path in map(_output_of, self.submitted.values()):
            self._files.forget(job)
            return
        remove = Remove(path=path, recursive=True)
        self._namenode.insist(remove, Removed, lambda *_: self._files.forget(job))

    def _add(self, job: JobId, wanted: SubmitJob) -> None:
        self.submitted[job] = wanted
        if wanted.token:
            self.tokens[wanted.token] = job

    def commit(self, order: CommitJob, tries: int = 0) -> None:
        """Rename the winners' files, all or none.

        If the NameNode can't just now, since its disk is full, it is tried again for a while.
        """
        folder = order.output_path
        if not folder:
            self._driver.feed(JobCommitted(job=order.job))
            return
        answered = partial(self._committed, order, tries)
        self._namenode.insist(commit_of(folder, order.winners), Done, answered)

    def _committed(self, order: CommitJob, tries: int, answer: Done | Refusal, _: object) -> None:
        if isinstance(answer, Done):
            self._driver.feed(JobCommitted(job=order.job))
        elif answer.unable and tries < len(_PAUSES_S):
            again = partial(self.commit, order, tries + 1)
            self._driver.reactor.call_later(_PAUSES_S[tries], again)
        else:  # perhaps it was done: the order may have been sent before
            self._namenode.insist(
                GetStatus(path=success_file(order.output_path)),
                Status,
                lambda found, _: self._driver.feed(commit_refused(order.job, answer, found)),
            )


def _output_of(wanted: SubmitJob) -> str:
    """The folder that a job writes to; "": none."""
    return wanted.output_path.rstrip("/")


class InputData:
    """Data that jobs read, between clients, the core and the NameNode.

    Before input is written, a client asks where it should go (``PlanData``).  Once it is written,
    it is reported to the core if a policy uses data.
    """

    def __init__(self, driver: Driver, server: Server, namenode: LastingLink, scale: int) -> None:
        self._driver = driver
        self._server = server
        self._namenode = namenode
        self._scale = scale
        #: {path: requests for its racks that wait}
        self._planning: dict[str, deque[Request[PlanData]]] = {}
        self._coming: dict[Submission, None] = {}  #: jobs that look up their input
        server.on(PlanData, self._plan)
        server.on(NoteInput, self._note, (CLIENT,))
        driver.on(PlaceData, self._send_plan)
        driver.on(MoveBlock, self.move)

    def _plan(self, request: Request[PlanData]) -> None:
        wanted = request.message
        requests = self._planning.setdefault(wanted.path, deque())
        requests.append(request)
        try:
            self._driver.feed(msgspec.convert(wanted, DataAnnounced, from_attributes=True))
        except PeerError:
            requests.pop()
            raise

    def _note(self, request: Request[NoteInput]) -> Message | None:
        """Find the blocks, and report them to the core."""
        wanted = request.message
        if not self._driver.core.state.uses_data:
            return Done()

        def located(answer: BlocksLocated | Refusal, _: object) -> None:
            if isinstance(answer, BlocksLocated):
                self.report(input_files(answer), wanted.jobs)
                self._server.reply(request, Done())
            else:
                self._server.reply(request, answer)

        self._namenode.insist(LocateBlocks(path=wanted.path), BlocksLocated, located)
        return None

    def report(self, files: Iterable[FileBlocks], jobs: Sequence[str] = ()) -> None:
        """Report to the core where the blocks of files are, if a policy wants to know.

        ``jobs``: the names of those to come that will read them.
        """
        if not self._driver.core.state.uses_data:
            return
        for file in files:
            blocks = [
                DataBlock(block.stored_offset, block.stored_length * self._scale, block.nodes)
                for block in file.blocks
            ]
            report_data(self._driver, file.path, blocks, jobs)

    def look_up(self, submission: Submission) -> None:
        """Have a job's input looked up, which may be moved meanwhile."""
        self._coming[submission] = None
        submission.on_end = lambda: self._coming.pop(submission)
        submission.begin(self._namenode)

    def move(self, order: MoveBlock) -> None:
        """Have the NameNode move a block; it may have been asked before."""

        def ended(answer: ReplicaMoved | Refusal, _: object) -> None:
            if isinstance(answer, ReplicaMoved):
                for submission in self._coming:
                    submission.moved(order.path, order.block, answer.nodes)
            self._driver.feed(move_ended(order, answer))

        self._namenode.insist(move_request(order), ReplicaMoved, ended)

    def _send_plan(self, order: PlaceData) -> None:
        requests = self._planning[order.path]
        self._server.reply(requests.popleft(), DataPlan(racks=order.racks))
        if not requests:
            del self._planning[order.path]
