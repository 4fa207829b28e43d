"""Data that jobs read, between clients, the core and the NameNode.

Before input is written, a client asks where it should go (``PlanData``).  Once it is written, the
core hears where its blocks are if a policy uses data.

Never here: a decision about where data goes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from railyard.cluster.errors import PeerError
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.transport import Request, Server
from railyard.cluster.messaging.wire import Done, Message, Refusal
from railyard.dfs.messages.files import BlocksLocated, FileBlocks, LocateBlocks, ReplicaMoved
from railyard.resourcemanager.driving.datamoves import move_ended, move_request
from railyard.resourcemanager.driving.datastored import report_data
from railyard.resourcemanager.interface.commands import MoveBlock, PlaceData
from railyard.resourcemanager.interface.events import DataAnnounced, DataBlock
from railyard.resourcemanager.process.driver import Driver
from railyard.resourcemanager.process.messages import DataPlan, NoteInput, PlanData
from railyard.resourcemanager.process.submission import Submission, input_files


class InputData:
    """Answers questions about data, and reports data to the core."""

    def __init__(self, driver: Driver, server: Server, namenode: LastingLink, scale: int) -> None:
        self._driver = driver
        self._server = server
        self._namenode = namenode
        self._scale = scale
        self._planning: dict[str, deque[Request]] = {}  #: {path: requests for its racks that wait}
        self._coming: dict[Submission, None] = {}  #: jobs that look up their input
        driver.on(PlaceData, self._send_plan)
        driver.on(MoveBlock, self.move)

    def plan(self, request: Request) -> None:
        """Handle ``PlanData``."""
        wanted = request.message
        assert isinstance(wanted, PlanData), "as the server checks"
        asking = self._planning.setdefault(wanted.path, deque())
        asking.append(request)
        try:
            self._driver.feed(
                DataAnnounced(
                    path=wanted.path,
                    size_bytes=wanted.size_bytes,
                    job=wanted.job,
                    forecast=wanted.forecast,
                )
            )
        except PeerError:
            asking.pop()
            raise

    def note(self, request: Request) -> Message | None:
        """Handle ``NoteInput``: find the blocks, and report them to the core."""
        wanted = request.message
        assert isinstance(wanted, NoteInput), "as the server checks"
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
        asking = self._planning[order.path]
        self._server.reply(asking.popleft(), DataPlan(racks=order.racks))
        if not asking:
            del self._planning[order.path]
