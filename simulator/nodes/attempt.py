"""A simulated attempt: the life of ``nodemanager.attempt``, in virtual time.

    launched -> started -> reads its blocks, or waits for all that it fetches -> computes
             -> writes its output -> ended

Its compute begins once all its input is here and takes as long as the stage's rate says; see
``nodemanager.pace``.  Fetches are ordered by the core and end in ``fetched``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import AttemptId, FlowId, NodeId, rack_of
from railyard.cluster.messages.execution import (
    AttemptFailed,
    AttemptProgressed,
    AttemptStarted,
    AttemptSucceeded,
    FlowFinished,
    TaskSpec,
)
from railyard.cluster.messaging.wire import Event
from railyard.simulator.heap import EventHeap
from railyard.simulator.network import SimulatedNetwork
from railyard.simulator.nodes.behaviour import Behaviour, Fate, fate_of
from railyard.simulator.nodes.blockstore import BlockStore
from railyard.simulator.nodes.filewrite import FileWrite
from railyard.simulator.nodes.jobwork import StageWork

#: What part of a reduce's progress its fetches are, as in ``jobs.operators``.
_FETCHED_SHARE = 1 / 3
#: Bytes read from the block store: from the own node, the own rack, other racks.
_Read = tuple[int, int, int]
_NOTHING: _Read = (0, 0, 0)
#: Pauses before new locations are asked for when no replica can be read; as in ``dfs.reading``.
_LOOK_AGAIN_S = (0.1, 0.5, 2.0)


class Surroundings(Protocol):
    """What an attempt needs of the simulated nodes."""

    heap: EventHeap
    network: SimulatedNetwork
    store: BlockStore
    behaviour: Behaviour
    seed: int
    fate: Fate | None  #: of all attempts, if it is one
    block_bytes: int  #: of the files that attempts write
    slowness: dict[NodeId, float]  #: by which a slow node's computing is longer
    tell: Callable[[Event], None]  #: takes facts for the core

    def about(self, time_s: float) -> float:
        """When something happens that would at that time: then, or near it, with other things."""

    def forget(self, attempt: SimulatedAttempt) -> None:
        """An attempt is over."""


class SimulatedAttempt(msgspec.Struct, eq=False):
    """One attempt, from its launch until it is over: ended, killed, or gone with its node."""

    id: AttemptId
    node: NodeId
    task: TaskSpec
    missing: int  #: outputs of other tasks that are not here yet
    _workers: Surroundings
    _work: StageWork
    over: bool = False
    _started: bool = False
    #: fetches that ended before it started
    _early: tuple[tuple[FlowId, int, int], ...] = ()
    _input_bytes: int = 0
    _read: _Read = _NOTHING
    _reading: FlowId | None = None
    _looks: int = 0  #: how often it asked again for locations
    _began_s: float | None = None  #: when it began to compute
    _computing_s: float = 0.0  #: how long that takes
    _share: float = 0.0  #: progress that was told last
    _write: FileWrite | None = None

    # What happens to it --------------------------------------------------------------------------
    def start(self) -> None:
        """It runs now."""
        if self.over:
            return
        self._started = True
        workers = self._workers
        if workers.behaviour.progress_s:
            workers.tell(AttemptStarted(attempt=self.id))
            workers.heap.after(workers.behaviour.progress_s, self._report)
        if self._work.blocks:
            self._read_rest(self._work.blocks[self.task.index][1])
        elif not self.missing:
            self._compute()
        if self._early:
            early, self._early = self._early, ()
            for fetch in early:
                self.fetched(*fetch)

    def fetched(self, flow: FlowId, outputs: int, size_bytes: int) -> None:
        """A fetch has ended well."""
        if not self._started:
            self._early += ((flow, outputs, size_bytes),)
            return
        self.missing -= outputs
        self._input_bytes += size_bytes
        if self.missing < 0:
            raise InvariantError(f"{self.id} fetched more outputs than there are")
        self._workers.tell(FlowFinished(flow=flow))
        if not self.missing and not self.over:
            self._compute()

    def stop(self) -> None:
        """End at once, without a word."""
        self.over = True
        if self._reading is not None:
            self._workers.network.cancel(self._reading)
        if self._write is not None:
            self._write.abort()

    # Its life ------------------------------------------------------------------------------------
    def _read_rest(self, rest_bytes: int) -> None:
        """Read what is left of its block from the nearest replica."""
        if self.over:
            return
        workers = self._workers
        block, _ = self._work.blocks[self.task.index]
        source = workers.store.nearest(block, self.node)
        if source is None:
            self._look_again(rest_bytes)
            return
        if source == self.node:
            workers.heap.after(workers.behaviour.fetch_s, self._read_here, rest_bytes)
            return
        self._reading = workers.store.new_name()
        ended = partial(self._read_ended, source, rest_bytes)
        workers.network.carry(self._reading, source, self.node, rest_bytes, ended)

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
            self._compute()

    def _look_again(self, rest_bytes: int) -> None:
        if self._looks == len(_LOOK_AGAIN_S):
            self._fail("no replica of its block can be read")
            return
        self._workers.heap.after(_LOOK_AGAIN_S[self._looks], self._read_rest, rest_bytes)
        self._looks += 1

    def _compute(self) -> None:
        workers, work = self._workers, self._work
        fate = workers.fate or fate_of(self.id, workers.behaviour, workers.seed)
        base_s = work.computing_s(self.task.index, self._input_bytes)
        self._began_s = workers.heap.now_s
        self._computing_s = base_s * fate.stretch * workers.slowness.get(self.node, 1.0)
        if fate.fails_at is None:
            workers.heap.at(workers.about(self._began_s + self._computing_s), self._computed)
        else:
            workers.heap.after(self._computing_s * fate.fails_at, self._fail, "it was to fail")

    def _computed(self) -> None:
        if self.over:
            return
        workers, task = self._workers, self.task
        if not task.output_path:
            self._finish("")
            return
        self._write = FileWrite(
            workers.store,
            task.output_path,
            self._work.output_bytes[task.index],
            workers.block_bytes,
            task.output_replication,
            self.node,
            self._finish,
        )
        self._write.begin()

    def _finish(self, reason: str) -> None:
        """Its output is written, or could not be."""
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
        self._workers.tell(
            AttemptSucceeded(
                attempt=self.id,
                input_bytes=self._input_bytes,
                local_bytes=local_bytes,
                rack_bytes=rack_bytes,
                remote_bytes=remote_bytes,
                output_bytes=work.output_bytes[task.index] if task.output_path else 0,
                partition_bytes=work.partition_bytes(task.index),
            )
        )

    def _fail(self, reason: str) -> None:
        if not self.over:
            self._workers.forget(self)
            self._workers.tell(AttemptFailed(attempt=self.id, reason=reason))

    # Progress ------------------------------------------------------------------------------------
    def _report(self) -> None:
        if self.over:
            return
        workers, share = self._workers, self._progress()
        if share != self._share:
            self._share = share
            workers.tell(AttemptProgressed(attempt=self.id, progress=share))
        workers.heap.after(workers.behaviour.progress_s, self._report)

    def _progress(self) -> float:
        fetching, inputs = 0.0, self.task.inputs
        if inputs:
            fetching = _FETCHED_SHARE * (inputs - self.missing) / inputs
        if self._began_s is None:
            return fetching
        passed_s = self._workers.heap.now_s - self._began_s
        done = 1.0 if passed_s >= self._computing_s else passed_s / self._computing_s
        return fetching + (1 - fetching) * done


def _and_read(read: _Read, source: NodeId, reader: NodeId, size_bytes: int) -> _Read:
    """What is read once so many bytes from ``source`` are."""
    local_bytes, rack_bytes, remote_bytes = read
    if source == reader:
        return local_bytes + size_bytes, rack_bytes, remote_bytes
    if rack_of(source) == rack_of(reader):
        return local_bytes, rack_bytes + size_bytes, remote_bytes
    return local_bytes, rack_bytes, remote_bytes + size_bytes
