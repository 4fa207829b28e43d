"""The simulated nodes: they carry out the core's commands and report the resulting events.

An attempt goes the way of ``nodemanager.attempt`` in virtual time:

    launched -> started -> reads its block, or waits for all its fetches -> computes
             -> writes its output -> ended

It computes once all its input has arrived, for as long as the stage's rate demands; see
``nodemanager.attempt.umbilical``.  The core starts the fetches, and each ends with ``fetched``.
One that was launched without a slot reads just so; then it is ready, and waits until it is to
begin.

Fetches are reported in batches if no node is down or late, else one by one.

Not here: NodeManagers that die or are stopped (``railyard.oracles.faults``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import msgspec
import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import (
    AttemptId,
    FlowId,
    JobId,
    NodeId,
    TaskId,
    job_of,
    stage_of,
    task_index,
    task_of,
)
from railyard.cluster.messages import (
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptReady,
    AttemptStarted,
    AttemptSucceeded,
    BeginAttempt,
    CancelFlow,
    FlowFailed,
    FlowFinished,
    KillAttempt,
    LaunchAttempt,
    Spans,
    StartFlow,
    TaskSpec,
    total_s,
)
from railyard.cluster.messaging.wire import Event
from railyard.dfs.placement import distance
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.flows import FlowSpec
from railyard.resourcemanager.core.shuffling.fetches import StartFetches
from railyard.simulator.behaviour import NO_DEVIATION, Behaviour, StageWork, draw_deviation
from railyard.simulator.blockstore import BlockStore, FileWrite, Outages
from railyard.simulator.clock import BatchDriver, EventHeap
from railyard.simulator.network import OnEnd, SimulatedNetwork

#: Share of the fetches in a reduce's progress, as in ``jobs.operators``.
_FETCHED_SHARE = 1 / 3
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
    #: bytes read from the block store, by distance: of its node, of its rack, of other racks
    _read: tuple[int, ...] = (0, 0, 0)
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
        self.over = True
        if self._reading is not None:
            self._workers.network.cancel(self._reading)
        if self._write is not None:
            self._write.abort()

    # Read, compute, write, end -------------------------------------------------------------------
    def _read_rest(self, rest_bytes: int) -> None:
        if self.over:
            return
        block, _ = self._work.blocks[self.task.index]
        source = self._workers.store.nearest(block, self.node)
        if source == self.node:
            self._workers.heap.after(self._workers.behaviour.fetch_s, self._read_here, rest_bytes)
        elif source is not None:
            self._read_from(source, rest_bytes)
        elif self._retries < len(_RETRY_S):
            self._workers.heap.after(_RETRY_S[self._retries], self._read_rest, rest_bytes)
            self._retries += 1
        else:
            self._fail("no replica of its block can be read")

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
        read = list(self._read)
        read[distance(self.node, source)] += wanted_bytes - rest_bytes
        self._read = tuple(read)
        if rest_bytes:
            self._read_rest(rest_bytes)
        else:
            self._input_bytes = self._work.blocks[self.task.index][1]
            self._reads[self._began_to_read_s] = self._workers.heap.now_s
            self._read_all()

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
            ends_s, grid_s = self._began_s + self._computing_s, workers.behaviour.together_s
            if grid_s:  # so that more events share a time
                ends_s = round(ends_s / grid_s) * grid_s
            workers.heap.at(ends_s, self._computed)
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


@dataclass(eq=False)
class Workers:
    """The attempts of all nodes."""

    attempt_class: ClassVar[type[SimulatedAttempt]] = SimulatedAttempt

    heap: EventHeap
    network: SimulatedNetwork
    store: BlockStore
    behaviour: Behaviour
    seed: int  #: draws the topology's stragglers, as in an emulation
    chance: int  #: draws what the behaviour leaves to chance
    block_bytes: int  #: of the files that attempts write
    report: Callable[[Event], None]  #: gives the core an event

    def __post_init__(self) -> None:
        #: the same for all attempts; None = drawn for each
        self.deviation = NO_DEVIATION if self.behaviour.is_certain else None
        self.block_bytes = max(self.block_bytes, self.behaviour.output_block)
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
        if (attempt := self.running.get(command.attempt)) is not None:
            attempt.begin()

    def kill(self, command: KillAttempt) -> None:
        if (attempt := self.running.pop(command.attempt, None)) is not None:
            attempt.stop()
            self.end(command.attempt, command.node)

    def end(self, attempt: AttemptId, node: NodeId) -> None:
        """Report that an attempt was killed, once that has taken its time."""
        self.dying[attempt] = node
        self.heap.after(self.behaviour.end_s, self._killed, attempt)

    def forget(self, attempt: SimulatedAttempt) -> None:
        attempt.over = True
        del self.running[attempt.id]

    def expect_progress(self, attempt: SimulatedAttempt) -> None:
        self.heap.poll_after(self.behaviour.progress_s, self._progressed, (attempt,))

    # Inside --------------------------------------------------------------------------------------
    def _progressed(self, attempts: list[SimulatedAttempt]) -> None:
        """Have attempts, as long as they are not over, report how far they are."""
        for attempt in attempts:
            share = None if attempt.over else attempt.progressed(self.heap.now_s)
            if share is not None:
                self.report(AttemptProgressed(attempt=attempt.id, progress=share))
        going = [attempt for attempt in attempts if not attempt.over]
        if going:
            self.heap.poll_after(self.behaviour.progress_s, self._progressed, going)

    def _killed(self, attempt: AttemptId) -> None:
        if self.dying.pop(attempt, None) is not None:
            self.report(AttemptKilled(attempt=attempt))


class Fetch(msgspec.Struct, eq=False):
    """Called when a fetch's flow ends.  There may be hundreds of thousands at a time."""

    workers: NodeManagers
    command: StartFlow
    began_s: float

    def __call__(self, _: int, reason: str) -> None:
        command = self.command
        reader = self.workers.running.get(command.reader)
        if reader is None:
            return  # the reader's node is down, or it is being killed
        if reason:
            self.workers.report_failure(command, reason)
        else:
            outputs, size_bytes = self.workers.news_of(command)
            reader.fetched(command.flow, outputs, size_bytes, self.began_s)


class NodeManagers(Workers):
    """Nodes that may be down, late or refuse: each fetch is reported by itself, as on a cluster."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.down = Outages()  #: nodes whose NodeManager is down now
        #: whether orders may come again: {attempt: tasks whose output it has}, of all that were
        #: ever launched; None if none does
        self._fetched_by: dict[AttemptId, set[TaskId]] | None = None

    def expect_repeats(self) -> None:
        """Something fails: commands may come again, and so may the output of a task.

        A reader that has not started may have the output of a node that is lost, before that
        task runs again.
        """
        self._fetched_by = {}

    # The core's commands -------------------------------------------------------------------------
    def launch(self, command: LaunchAttempt) -> None:
        """Launch an attempt; does nothing on a node that is down.

        Raises ``InvariantError`` if it was launched before.
        """
        if command.node in self.down:
            return
        if self._fetched_by is not None:
            if command.attempt in self._fetched_by:
                raise InvariantError(f"{command.attempt} is launched a second time")
            self._fetched_by[command.attempt] = set()
        super().launch(command)

    def start_flow(self, command: StartFlow) -> None:
        self.start_flows((command,))

    def start_flows(self, commands: Sequence[StartFlow]) -> None:
        down = self.down
        if not down:
            self.carry(commands)
            return
        for command in commands:
            if command.dst in down:
                continue  # its reader is lost
            if command.src in down:
                ended = Fetch(self, command, self.heap.now_s)
                self.heap.after(0.0, ended, command.size_bytes, f"{command.src} is down")
            else:
                self.carry((command,))

    def carry(self, commands: Sequence[StartFlow]) -> None:
        """Start the flows of fetches between nodes that are up."""
        now_s = self.heap.now_s
        self.network.carry_all([(flow_of(each), Fetch(self, each, now_s)) for each in commands])

    def cancel_flow(self, command: CancelFlow) -> None:
        self.network.cancel(command.flow)

    def report_failure(self, command: StartFlow, reason: str) -> None:
        """Report that a fetch has failed, and so its source's output is lost."""
        self.report(FlowFailed(flow=command.flow, reason=reason, lost=command.outputs))

    def news_of(self, command: StartFlow) -> tuple[int, int]:
        """How many outputs a fetch has brought that its reader lacked, and their bytes.

        As in ``nodemanager.attempt.fetches``, a reader takes the output of each task once.
        """
        if self._fetched_by is None:
            return len(command.outputs), command.size_bytes
        have = self._fetched_by[command.reader]
        tasks = {task_of(output): output for output in command.outputs}
        new = [output for task, output in tasks.items() if task not in have]
        have.update(tasks)
        if len(new) == len(command.outputs):
            return len(new), command.size_bytes
        stages = self.jobs[job_of(command.reader)]
        parts = [
            stages[stage_of(output).split(".")[1]].partition_bytes(task_index(output))
            for output in new
        ]
        return len(new), sum(part[command.partition] for part in parts)

    # Nodes ---------------------------------------------------------------------------------------
    def go_down(self, node: NodeId) -> None:
        """Drop a node's attempts and flows, without a report."""
        self.end_attempts(node)
        self.network.end_flows_of(node, f"{node} is down")

    def end_attempts(self, node: NodeId) -> None:
        for attempt in [a for a in self.running.values() if a.node == node]:
            self.forget(attempt)
            attempt.stop()
        for name in [name for name, at in self.dying.items() if at == node]:
            del self.dying[name]


def flow_of(command: StartFlow) -> FlowSpec:
    """The flow of a fetch."""
    src, dst = command.src, command.dst
    return FlowSpec(
        flow=command.flow,
        src=src,
        dst=dst,
        size_bytes=command.size_bytes,
        coflow=command.coflow if src != dst else None,
        weight=command.weight,
        priority=command.priority,
    )


class IdealWorkers(Workers):
    """Nodes of which none is down or late: their fetches have numbers."""

    def __init__(self, *args: Any, driver: BatchDriver) -> None:
        super().__init__(*args)
        self._driver = driver
        self.network.call_each = self._flows_ended

    def start_fetches(self, command: StartFetches) -> None:
        here = command.fetches[(command.src == command.dst) | (command.size_bytes == 0)]
        if len(here):
            self.heap.after(0.0, self._fetched_here, here)
        self.network.carry_fetches(command)

    def _flows_ended(self, ends: Iterator[OnEnd | Numbers]) -> None:
        """Flows have sent all their bytes: each end is reported before the next is read."""
        for on_end in ends:
            if isinstance(on_end, np.ndarray):
                self._fetched(on_end)
            else:
                on_end(0, "")

    # Inside --------------------------------------------------------------------------------------
    def _fetched(self, fetches: Numbers) -> None:
        while len(fetches):
            fetches = fetches[self._some_fetched(fetches) :]

    def _some_fetched(self, fetches: Numbers) -> int:
        """Report the first of these ends, up to one that something else may follow from.

        Returns how many these are.
        """
        running, now_s = self.running, self.heap.now_s
        complete: list[SimulatedAttempt] = []
        many = 0
        for name, outputs, size_bytes, began_s in self._driver.core.shuffle.arriving(fetches):
            many += 1
            reader = running.get(name)
            if reader is None or not outputs:
                continue  # it is being killed, and its fetches are cancelled
            if not reader.take(outputs, size_bytes, began_s, now_s):
                continue
            complete.append(reader)
            if not reader.computes_later:
                break
        self._driver.feed_fetches(fetches[:many])
        for reader in complete:
            reader.go_on()
        return many

    def _fetched_here(self, fetches: Numbers) -> None:
        """Fetches within a node, or of nothing, have ended: each is reported by itself."""
        for number in range(len(fetches)):
            self._fetched(fetches[number : number + 1])
