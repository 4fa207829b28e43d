"""A task attempt's own process, from its first instruction to its exit status.

Forked of its job's helper, it makes a ZeroMQ context of its own and links as they are needed: to
its NodeManager at once, to the block store for the first byte, to other racks' shuffle services
for what is to be fetched there.  Launched without a slot, it gets all that its task reads and then
waits for one: no code of the job runs before.

All that user code may do ends here in an ``AttemptFailed``: the exception in one line; the
traceback is on stderr.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property

from railyard.cluster.config import Daemon
from railyard.cluster.errors import Refused
from railyard.cluster.ids import job_of
from railyard.cluster.machine import Exhausted, fall_back, is_full
from railyard.cluster.messages import AttemptFailed, AttemptSucceeded, LaunchAttempt, Split
from railyard.cluster.messaging.access import ATTEMPT
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.dfs.client import DfsClient
from railyard.dfs.messages import CreateFile, FileCreated, PlacementHint
from railyard.dfs.reader import DfsFile
from railyard.dfs.writer import NoRoom
from railyard.jobs.model import Job, run_task
from railyard.jobs.taskio import Buffer, FileReader, TaskResult, check_counters
from railyard.netemu.client import NetworkClient
from railyard.nodemanager.attempt.fetches import Fetches
from railyard.nodemanager.attempt.programs import WORK, Localizer, ProgramRunner, localized_folders
from railyard.nodemanager.attempt.umbilical import ENDING_S, ComputeClock, Umbilical, paced_s
from railyard.nodemanager.limits import (
    in_words,
    lift_limit,
    once_there_is_room,
    reason_of,
    user_traceback,
)
from railyard.nodemanager.shuffle import output_path, write_output


@dataclass(eq=False)
class BlockFile:
    """A file of the block store as a task reads it: its split at once, a few bytes around it.

    Reads are served from the split that they lie in, which is read as a whole, as one stream.

    A ``jobs.taskio.FileReader``.
    """

    _file: DfsFile
    _splits: Sequence[Split]
    _clock: ComputeClock
    _before_read: Callable[[], None]  #: called whenever a split is about to be read
    _after_read: Callable[[], None]  #: and when it was

    def __post_init__(self) -> None:
        self.stored_bytes = self._file.stored_bytes
        self._ranges = [(split.stored_offset, split.stored_length) for split in self._splits]
        self._start = 0  #: where in the file ``_data``, the split that was read last, begins
        self._data = memoryview(b"")

    def read(self, offset: int, length: int) -> Buffer:
        """Bytes from ``offset``; fewer than ``length`` only at the file's end."""
        pieces: list[memoryview] = []
        end = min(offset + length, self.stored_bytes)
        while offset < end:
            pieces.append(self._piece(offset, end))
            offset += len(pieces[-1])
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _piece(self, offset: int, end: int) -> memoryview:
        for start, length in self._ranges:
            if start <= offset < start + length:
                if start != self._start or not self._data:
                    self._start, self._data = start, self._load(start, length)
                return self._data[offset - start : end - start]
        next_split = min((start for start, _ in self._ranges if start > offset), default=end)
        return self._load(offset, min(end, next_split) - offset)

    def _load(self, offset: int, length: int) -> memoryview:
        self._before_read()
        waited_s = self._file.waited_s
        data = self._file.read(offset, length)
        self._clock.leave_out(self._file.waited_s - waited_s)
        self._after_read()
        return data


def run_attempt(daemon: Daemon, job: Job, order: LaunchAttempt) -> int:
    """Do the task of ``order``, and leave ZeroMQ as it is; returns the process's exit status."""
    transport = Transport(daemon.folder, role=ATTEMPT)
    umbilical = Umbilical(transport, order)
    outcome: AttemptSucceeded | AttemptFailed
    try:
        outcome = _Attempt(daemon, job, order, transport, umbilical).run()
    except BaseException as error:  # user code may raise anything, SystemExit included
        lift_limit()
        if traceback := user_traceback(error):
            with suppress(OSError):  # the disk that it goes to may be full
                print(traceback, file=sys.stderr, flush=True)
        reason = reason_of(error)
        if isinstance(error, MemoryError):
            reason += f" ({in_words(daemon.config.topology.compute.memory)})"
        no_room = isinstance(error, Exhausted | NoRoom) or is_full(error)
        outcome = AttemptFailed(attempt=order.attempt, reason=reason, no_room=no_room)
    try:
        umbilical.claim(outcome)
    except Refused as refused:  # a counter beyond all bounds, say
        outcome = AttemptFailed(attempt=order.attempt, reason=f"its outcome is none: {refused}")
        umbilical.claim(outcome)
    return 0 if isinstance(outcome, AttemptSucceeded) else 1


@dataclass(eq=False)
class _Attempt:
    """The task's input and output (a ``jobs.taskio.TaskIO``), and the phases of its work."""

    _daemon: Daemon
    _job: Job
    _order: LaunchAttempt
    _transport: Transport
    _umbilical: Umbilical

    def __post_init__(self) -> None:
        config, order = self._daemon.config, self._order
        self._topology = config.topology
        self._task = order.task
        self._straggle = self._topology.compute.straggle(order.attempt, config.seed)
        self._paced = self._topology.compute.mode == "paced"
        # What the machine needs to start a process is made up for by the pace, if there is one.
        self._clock = ComputeClock(order.received_s if self._paced else None)
        self._computed_s = 0.0  #: by that clock, once it has computed
        self._files: list[DfsFile] = []  #: those that it reads
        self._share = 0.0  #: of the task that is really done
        self._fetched_share = 0.0  #: ``_share`` when all was fetched
        self._input_bytes = sum(split.stored_length for split in order.task.splits)
        umbilical, folder = self._umbilical, self._daemon.folder
        self._fetches = Fetches(self._transport, umbilical.link, folder, order)
        self._ahead: dict[str, BlockFile] = {}  #: files of which the split was read without a slot
        self._reads_ahead = False
        #: when it was ordered to begin, if it is paced and had all that it reads by then
        self._begun_s: float | None = None
        umbilical.share = self._paced_share

    def run(self) -> AttemptSucceeded:
        if not self._order.begins:
            self._wait_for_slot()
        elif not self._task.splits and not self._task.reads:
            fall_back()
        result = run_task(self._job, self._task, self)
        output = result.output
        owed_s = paced_s(self._topology, self._task, self._input_bytes, self._straggle)
        if owed_s > 0:
            output = list(output)  # making it is part of the compute that is paced
        partition_bytes = self._hand_on(result)  # which takes no time in the model
        file = self._begin_file() if self._task.output_path else None  # nor does this
        if owed_s > 0:
            self._computed_s = self._wait_until_computed(owed_s)
        else:
            output = self._timed(output)
        output_bytes = 0
        if file is not None:
            output_bytes = self._dfs.fill(self._task.output_path, file, output).stored_length
        else:
            deque(output, maxlen=0)  # a lazy output is computed while it is read
        return self._succeeded(result, partition_bytes, output_bytes)

    def _wait_for_slot(self) -> None:
        """Get what the task reads, and wait for a slot; returns once it has one."""
        fall_back()
        self._umbilical.wait()
        self._reads_ahead = True
        for split in self._task.splits:
            file = self._ahead[split.path] = self._block_file(split.path)
            file.read(split.stored_offset, split.stored_length)
        self._reads_ahead = False
        had_all = self._umbilical.wait_for_slot(lambda: self._fetches.arrived)
        if had_all and self._paced:  # and makes up for the time that the order took
            self._begun_s = self._umbilical.begun_s
        self._clock.restart(self._begun_s)
        if not self._task.reads:
            self._await_permit()

    def _hand_on(self, result: TaskResult) -> tuple[int, ...]:
        """Write what others will fetch; returns the stored bytes of each partition."""
        if not self._task.partitions:
            return ()
        path = output_path(self._daemon.folder, self._order.node, self._order.attempt)
        return once_there_is_room(lambda: write_output(path, result.partitions), path, self._pause)

    def _pause(self, seconds: float) -> None:
        self._transport.reactor.run_until(lambda: False, seconds)

    def _succeeded(
        self, result: TaskResult, partition_bytes: tuple[int, ...], output_bytes: int
    ) -> AttemptSucceeded:
        """The report that the task is done; ``JobError`` for a counter that is none."""
        check_counters(result.counters)
        scale = self._topology.scale
        read = self._dfs.read_bytes if "_dfs" in vars(self) else {}
        return AttemptSucceeded(
            attempt=self._order.attempt,
            input_bytes=self._input_bytes * scale,
            local_bytes=read.get("local", 0) * scale,
            rack_bytes=read.get("rack", 0) * scale,
            remote_bytes=read.get("remote", 0) * scale,
            output_bytes=output_bytes * scale,
            partition_bytes=tuple(length * scale for length in partition_bytes),
            counters=result.counters,
            read_s=sum(file.waited_s for file in self._files) + self._fetches.read_s,
            computed_s=max(0.0, self._computed_s),
        )

    def _timed(self, output: Iterable[Buffer]) -> Iterator[Buffer]:
        """The pieces of the output, which may be made as they are read; writing is no computing."""
        for piece in output:
            begin_s = now_s()
            yield piece
            self._clock.leave_out(now_s() - begin_s)
        self._computed_s = self._clock.elapsed_s

    def _begin_file(self) -> FileCreated:
        task = self._task
        how = CreateFile(
            path=task.output_path,
            replication=task.output_replication,
            hint=PlacementHint(racks=task.output_racks),
            owner=task.output_owner,
            unless=task.success_path,
        )
        return self._dfs.create(how)

    # A jobs.taskio.TaskIO ----------------------------------------------------------------------
    @cached_property
    def programs(self) -> ProgramRunner:
        order, folder = self._order, self._daemon.folder
        files = Localizer(
            localized_folders(folder, order.node) / job_of(order.attempt),
            self._new_client,  # what it reads is no input
            self._pause,
        )
        given = {"HADOOP_CONF_DIR": str(folder.client_files)}  # so that they may call hadoop fs
        report = self._umbilical.report
        work = folder.attempt(order.attempt) / WORK
        return ProgramRunner(order.attempt, work, given, files, report)

    def open(self, path: str) -> FileReader:
        return self._ahead.pop(path, None) or self._block_file(path)

    def fetched(self) -> Iterator[tuple[str, memoryview]]:
        """The outputs that this task fetches from the stages it reads, as they arrive."""
        fall_back()
        self._umbilical.wait()
        while not self._fetches.complete:
            stage, output = self._fetches.next()
            self._input_bytes += len(output)
            yield stage, output
        self._fetched_share = self._share
        self._clock.restart(self._begun_s)
        self._await_permit()

    def _block_file(self, path: str) -> BlockFile:
        splits = [split for split in self._task.splits if split.path == path]
        file = self._dfs.open(path)
        self._files.append(file)
        return BlockFile(file, splits, self._clock, self._umbilical.wait, self._begin_to_compute)

    def _begin_to_compute(self) -> None:
        fall_back()
        if not self._reads_ahead:
            self._await_permit()

    def _await_permit(self) -> None:
        """Wait until it may compute; no part of its computing, unless the pace makes up for it."""
        begin_s = now_s()
        self._umbilical.compute()
        if not self._paced:
            self._clock.leave_out(now_s() - begin_s)

    def progress(self, share: float) -> None:
        self._share = share
        self._umbilical.report()

    # Pacing ------------------------------------------------------------------------------------
    def _paced_share(self) -> float:
        """The share that is done, no further than the configured rate would have got by now."""
        owed_s = paced_s(self._topology, self._task, self._input_bytes, self._straggle)
        if owed_s <= 0 or not self._fetches.complete:
            return self._share
        timed = min(1.0, self._clock.elapsed_s / owed_s)
        return min(self._share, self._fetched_share + (1 - self._fetched_share) * timed)

    def _wait_until_computed(self, owed_s: float) -> float:
        """Wait for the pace; returns for how long the task has computed once its end is known."""
        self._umbilical.wait()
        self._share = 1.0
        elapsed_s = self._clock.elapsed_s
        left_s = owed_s - elapsed_s
        if left_s > 0 and not self._task.output_path:
            self._umbilical.end_at(now_s() + left_s)
            left_s -= ENDING_S
        if left_s > 0:
            self._pause(left_s)
        return max(owed_s, elapsed_s)

    # Links, made when they are needed ----------------------------------------------------------
    def _new_client(self) -> DfsClient:
        network = NetworkClient(self._transport, self._topology)
        return DfsClient(self._transport, self._topology, self._order.node, network)

    _dfs = cached_property(_new_client)
