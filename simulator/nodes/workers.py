"""The simulated nodes: carry out the core's commands and report the resulting events.

Not here: fetches, reported in batches (``idealworkers``) or one by one (``nodemanagers``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from railyard.cluster.ids import AttemptId, JobId, NodeId, job_of
from railyard.cluster.messages.execution import (
    AttemptKilled,
    AttemptProgressed,
    BeginAttempt,
    KillAttempt,
    LaunchAttempt,
)
from railyard.cluster.messaging.wire import Event
from railyard.resourcemanager.interface.commands import CloseCoflow, OpenCoflow
from railyard.simulator.heap import EventHeap
from railyard.simulator.network.network import SimulatedNetwork
from railyard.simulator.nodes.attempt import SimulatedAttempt
from railyard.simulator.nodes.behaviour import NO_DEVIATION, Behaviour
from railyard.simulator.nodes.blockstore import BlockStore
from railyard.simulator.nodes.jobwork import JobWork
from railyard.simulator.nodes.mapoutputs import MapOutputs


class Workers:
    """The attempts of all nodes.  ``report`` gives the core an event.

    ``seed`` draws the topology's stragglers, as in an emulation; ``chance`` the behaviour's.
    """

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
        self.jobs: dict[JobId, JobWork] = {}
        self.slowness: dict[NodeId, float] = {}  #: {slow node: factor of its computing times}
        self.running: dict[AttemptId, SimulatedAttempt] = {}  #: attempts that are not over
        #: {attempt that was asked to end, and has not reported it: its node}
        self.dying: dict[AttemptId, NodeId] = {}
        self.outputs = MapOutputs()

    # The core's commands -------------------------------------------------------------------------
    def launch(self, command: LaunchAttempt) -> None:
        """Launch an attempt."""
        work = self.jobs[job_of(command.attempt)].stages[command.task.stage]
        name, task = command.attempt, command.task
        attempt = SimulatedAttempt(
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
        """Register a coflow, before its flows start."""
        self.network.open_coflow(command.coflow)

    def close_coflow(self, command: CloseCoflow) -> None:
        """Cancel a coflow's open flows and close it."""
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
        self.heap.look_after(self.behaviour.progress_s, self._progressed, (attempt,))

    # Inside --------------------------------------------------------------------------------------
    def _progressed(self, attempts: list[SimulatedAttempt]) -> None:
        """Attempts report their progress, in this order."""
        going = [attempt for attempt in attempts if not attempt.over]
        self.report_progress(going)
        going = [attempt for attempt in going if not attempt.over]
        if going:
            self.heap.look_after(self.behaviour.progress_s, self._progressed, going)

    def _killed(self, attempt: AttemptId) -> None:
        if self.dying.pop(attempt, None) is not None:
            self.report(AttemptKilled(attempt=attempt))
