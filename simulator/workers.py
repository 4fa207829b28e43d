"""The simulated nodes: they carry out the core's commands and report the resulting events.

An attempt goes the way of ``nodemanager.attempt`` in virtual time:

    launched -> started -> reads its block, or waits for all its fetches -> computes
             -> writes its output -> ended

It computes once all its input has arrived, for as long as the stage's rate demands; see
``nodemanager.attempt.umbilical``.  The core starts the fetches, and each ends with ``fetched``.
One that was launched without a slot reads just so; then it is ready, and waits until it is to
begin.

Not here: fetches, reported in batches or one by one (``nodemanagers``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Literal

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import AttemptId, FlowId, JobId, NodeId, job_of, rack_of
from railyard.cluster.messages import (
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptReady,
    AttemptStarted,
    AttemptSucceeded,
    BeginAttempt,
    FlowFinished,
    KillAttempt,
    LaunchAttempt,
    Spans,
    TaskSpec,
    total_s,
)
from railyard.cluster.messaging.wire import Event
from railyard.resourcemanager.interface.commands import CloseCoflow, OpenCoflow
from railyard.simulator.behaviour import (
    NO_DEVIATION,
    Behaviour,
    StageWork,
    draw_deviation,
)
from railyard.simulator.blockstore import BlockStore
from railyard.simulator.clock import EventHeap
from railyard.simulator.filewrite import FileWrite
from railyard.simulator.network import SimulatedNetwork

#: Share of the fetches in a reduce's progress, as in ``jobs.operators``.
_FETCHED_SHARE = 1 / 3
#: Bytes read from the block store: on the same node, in the same rack, from other racks.
_Read = tuple[int, int, int]
_NOTHING: _Read = (0, 0, 0)
#: Pauses before each retry when no replica can be read, as in ``dfs.reader``.
_RETRY_S = (0.1, 0.5, 2.0)


class SimulatedAttempt(msgspec.Struct, eq=False):
    """One attempt, from its launch until it is over: ended, killed, or lost with its node."""

    write_class: ClassVar[type[FileWrite]] = FileWrite

    id: AttemptId
    node: NodeId
    task: TaskSpec
    missing: int  #: outputs of other tasks that have not arrived yet
    _workers: Workers
    _work: StageWork
    _begins: bool = True  #: whether it has a slot, and so may compute
    over: bool = False
    _has_all: bool = False  #: whether all its input has arrived
    _started: bool = False
    #: (flow, outputs, bytes, begin) of fetches that ended before the attempt started
    _early: tuple[tuple[FlowId, int, int, float], ...] = ()
    _began_to_read_s: float = 0.0  #: its block
    _reads: Spans = {}  #: when it read or fetched
    _input_bytes: int = 0
    _read: _Read = _NOTHING
    _reading: FlowId | None = None
    _retries: int = 0  #: retries of a read that found no replica
    _began_s: float | None = None  #: when computing began
    _computing_s: float = 0.0  #: how long computing takes
    _share: float = 0.0  #: the progress last reported, 0 to 1
    _write: FileWrite | None = None

    # Called by the simulated node ----------------------------------------------------------------
    def start(self) -> None:
        """Begin to read; fetches that ended before count now."""
        if self.over:
            return
        self._started = True
        workers = self._workers
        if workers.behaviour.progress_s:
            workers.report(AttemptStarted(attempt=self.id))
            workers.expect_progress(self)
        if self._work.blocks:
            self._began_to_read_s = workers.heap.now_s
            self._read_rest(self._work.blocks[self.task.index][1])
        elif not self.missing:
            self._read_all()
        if self._early:
            early, self._early = self._early, ()
            for fetch in early:
                self.fetched(*fetch)

    def fetched(self, flow: FlowId, outputs: int, size_bytes: int, began_s: float) -> None:
        """A fetch that began at ``began_s`` has brought so many outputs of other tasks.

        If it has not started, it reports this later.
        """
        if not self._started:
            self._early += ((flow, outputs, size_bytes, began_s),)
            return
        self.take(outputs, size_bytes, began_s, self._workers.heap.now_s)
        self._workers.report(FlowFinished(flow=flow))
        self.go_on()

    def take(self, outputs: int, size_bytes: int, began_s: float, now_s: float) -> bool:
        """The same, to be reported by the caller, after which it is to ``go_on``.

        Returns whether nothing is missing any more.
        """
        self._reads[began_s] = now_s
        self.missing = missing = self.missing - outputs
        self._input_bytes += size_bytes
        if missing < 0 or not self._started:
            raise InvariantError(f"{self.id} fetched more outputs than there are, or too early")
        return not missing

    @property
    def computes_later(self) -> bool:
        """Whether it computes once all is fetched, and takes time for that."""
        work = self._work
        takes_time = work.task_s or (self._input_bytes and work.rate_bytes_per_s < math.inf)
        return self._begins and bool(takes_time)

    def go_on(self) -> None:
        """Compute, if all has been fetched."""
        if not self.missing and not self.over:
            self._read_all()

    def flows(self) -> list[tuple[Literal["reads", "writes"], FlowId]]:
        """The flows of blocks that it waits for, but no fetches."""
        reads = [] if self._reading is None else [self._reading]
        writes = () if self._write is None else self._write.flows
        return [*(("reads", flow) for flow in reads), *(("writes", flow) for flow in writes)]

    def begin(self) -> None:
        """It has a slot: compute, once all input has arrived."""
        self._begins = True
        if self._has_all:
            self._compute()

    def stop(self) -> None:
        """End at once, without a report."""
        self.over = True
        if self._reading is not None:
            self._workers.network.cancel(self._reading)
        if self._write is not None:
            self._write.abort()

    # Read, compute, write, end -------------------------------------------------------------------
    def _read_rest(self, rest_bytes: int) -> None:
        """Read the rest of the block from the nearest replica."""
        if self.over:
            return
        block, _ = self._work.blocks[self.task.index]
        source = self._workers.store.nearest(block, self.node)
        if source is None:
            self._retry_read(rest_bytes)
        elif source == self.node:
            self._workers.heap.after(self._workers.behaviour.fetch_s, self._read_here, rest_bytes)
        else:
            self._read_from(source, rest_bytes)

    def _read_from(self, source: NodeId, size_bytes: int) -> None:
        workers = self._workers
        self._reading = workers.store.new_name("read")
        ended = partial(self._read_ended, source, size_bytes)
        workers.network.carry(self._reading, source, self.node, size_bytes, ended)

    def _read_here(self, size_bytes: int) -> None:
        if not self.over:
            self._read_ended(self.node, size_bytes, 0, "")

    def _read_ended(self, source: NodeId, wanted_bytes: int, rest_bytes: int, _: str) -> None:
        self._reading = None
        self._read = _and_read(self._read, source, self.node, wanted_bytes - rest_bytes)
        if rest_bytes:
            self._read_rest(rest_bytes)
        else:
            self._input_bytes = self._work.blocks[self.task.index][1]
            self._reads[self._began_to_read_s] = self._workers.heap.now_s
            self._read_all()

    def _retry_read(self, rest_bytes: int) -> None:
        if self._retries == len(_RETRY_S):
            self._fail("no replica of its block can be read")
            return
        self._workers.heap.after(_RETRY_S[self._retries], self._read_rest, rest_bytes)
        self._retries += 1

    def _read_all(self) -> None:
        """All input has arrived."""
        self._has_all = True
        if self._begins:
            self._compute()
        else:
            self._workers.report(AttemptReady(attempt=self.id))

    def _compute(self) -> None:
        workers, work = self._workers, self._work
        deviation = workers.deviation or draw_deviation(self.id, workers.behaviour, workers.chance)
        base_s = work.computing_s(self.task.index, self._input_bytes)
        base_s *= work.straggle(self.id, workers.seed)
        self._began_s = workers.heap.now_s
        self._computing_s = base_s * deviation.stretch * workers.slowness.get(self.node, 1.0)
        if deviation.fails_at is None:
            workers.heap.at(workers.rounded_s(self._began_s + self._computing_s), self._computed)
        else:
            workers.heap.after(self._computing_s * deviation.fails_at, self._fail, "it was to fail")

    def _computed(self) -> None:
        if self.over:
            return
        workers, task = self._workers, self.task
        if not task.output_path:
            self._finish("")
            return
        self._write = self.write_class(
            workers.store,
            task,
            self._work.output_bytes[task.index],
            workers.block_bytes,
            self.node,
            self._finish,
        )
        self._write.begin()

    def _finish(self, reason: str) -> None:
        """The output is written, or failed with a reason."""
        self._write = None
        if reason:
            self._fail(reason)
        else:
            self._workers.heap.after(self._workers.behaviour.end_s, self._succeed)

    def _succeed(self) -> None:
        if self.over:
            return
        task, work = self.task, self._work
        local_bytes, rack_bytes, remote_bytes = self._read
        self._workers.forget(self)
        self._workers.report(
            AttemptSucceeded(
                attempt=self.id,
                input_bytes=self._input_bytes,
                local_bytes=local_bytes,
                rack_bytes=rack_bytes,
                remote_bytes=remote_bytes,
                output_bytes=work.output_bytes[task.index] if task.output_path else 0,
                partition_bytes=work.partition_bytes(task.index),
                read_s=total_s(self._reads),
                computed_s=self._computing_s,
            )
        )

    def _fail(self, reason: str) -> None:
        if not self.over:
            self._workers.forget(self)
            self._workers.report(AttemptFailed(attempt=self.id, reason=reason))

    # Progress ------------------------------------------------------------------------------------
    def progressed(self, now_s: float) -> float | None:
        """How far it is, from 0 to 1, to be reported; None if that was reported last."""
        share, inputs = 0.0, self.task.inputs
        if inputs:
            share = _FETCHED_SHARE * (inputs - self.missing) / inputs
        if self._began_s is not None:
            passed_s = now_s - self._began_s
            done = 1.0 if passed_s >= self._computing_s else passed_s / self._computing_s
            share += (1 - share) * done
        if share == self._share:
            return None
        self._share = share
        return share


def _and_read(read: _Read, source: NodeId, reader: NodeId, size_bytes: int) -> _Read:
    """The bytes read so far, plus ``size_bytes`` read from ``source``."""
    local_bytes, rack_bytes, remote_bytes = read
    if source == reader:
        return local_bytes + size_bytes, rack_bytes, remote_bytes
    if rack_of(source) == rack_of(reader):
        return local_bytes, rack_bytes + size_bytes, remote_bytes
    return local_bytes, rack_bytes, remote_bytes + size_bytes


class Workers:
    """The attempts of all nodes.  ``report`` gives the core an event.

    ``seed`` draws the topology's stragglers, as in an emulation; ``chance`` the behaviour's.
    """

    attempt_class: type[SimulatedAttempt] = SimulatedAttempt

    def __init__(
        self,
        heap: EventHeap,
        network: SimulatedNetwork,
        store: BlockStore,
        behaviour: Behaviour,
        seed: int,
        chance: int,
        block_bytes: int,
        report: Callable[[Event], None],
    ) -> None:
        self.report = report
        self.heap = heap
        self.network = network
        self.store = store
        self.behaviour = behaviour
        self.seed = seed
        self.chance = chance
        #: the same for all attempts; None = drawn for each
        self.deviation = NO_DEVIATION if behaviour.is_certain else None
        #: block size of the files that attempts write
        self.block_bytes = max(block_bytes, behaviour.output_block)
        self.jobs: dict[JobId, dict[str, StageWork]] = {}
        self.slowness: dict[NodeId, float] = {}  #: {slow node: factor of its computing times}
        self.running: dict[AttemptId, SimulatedAttempt] = {}  #: attempts that are not over
        #: {attempt that was killed, and has not reported it: its node}
        self.dying: dict[AttemptId, NodeId] = {}

    # The core's commands -------------------------------------------------------------------------
    def launch(self, command: LaunchAttempt) -> None:
        work = self.jobs[job_of(command.attempt)][command.task.stage]
        name, task = command.attempt, command.task
        attempt = self.attempt_class(
            name, command.node, task, task.inputs, self, work, command.begins
        )
        self.running[name] = attempt
        self.heap.after(self.behaviour.launch_s, attempt.start)

    def begin(self, command: BeginAttempt) -> None:
        """Let an attempt compute, unless it is over."""
        attempt = self.running.get(command.attempt)
        if attempt is not None:
            attempt.begin()

    def kill(self, command: KillAttempt) -> None:
        """Kill an attempt, unless it is over."""
        attempt = self.running.pop(command.attempt, None)
        if attempt is not None:
            attempt.stop()
            self.end(command.attempt, command.node)

    def end(self, attempt: AttemptId, node: NodeId) -> None:
        """Report that an attempt was killed, once that has taken its time."""
        self.dying[attempt] = node
        self.heap.after(self.behaviour.end_s, self._killed, attempt)

    def open_coflow(self, command: OpenCoflow) -> None:
        self.network.open_coflow(command.coflow)

    def close_coflow(self, command: CloseCoflow) -> None:
        self.network.close_coflow(command.coflow)

    def rounded_s(self, time_s: float) -> float:
        """A time rounded to a multiple of ``together_s``, so that more events share a time."""
        grid_s = self.behaviour.together_s
        return round(time_s / grid_s) * grid_s if grid_s else time_s

    def forget(self, attempt: SimulatedAttempt) -> None:
        """Remove an attempt that is over."""
        attempt.over = True
        del self.running[attempt.id]

    def report_progress(self, attempts: Sequence[SimulatedAttempt]) -> None:
        """Have attempts, as long as they are not over, report how far they are."""
        for attempt in attempts:
            share = None if attempt.over else attempt.progressed(self.heap.now_s)
            if share is not None:
                self.report(AttemptProgressed(attempt=attempt.id, progress=share))

    def expect_progress(self, attempt: SimulatedAttempt) -> None:
        """Have an attempt report its progress from time to time."""
        self.heap.poll_after(self.behaviour.progress_s, self._progressed, (attempt,))

    # Inside --------------------------------------------------------------------------------------
    def _progressed(self, attempts: list[SimulatedAttempt]) -> None:
        """Attempts report their progress, in this order."""
        going = [attempt for attempt in attempts if not attempt.over]
        self.report_progress(going)
        going = [attempt for attempt in going if not attempt.over]
        if going:
            self.heap.poll_after(self.behaviour.progress_s, self._progressed, going)

    def _killed(self, attempt: AttemptId) -> None:
        if self.dying.pop(attempt, None) is not None:
            self.report(AttemptKilled(attempt=attempt))
