"""The simulated nodes: what they do at the core's orders, and what becomes of it."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from railyard.cluster.ids import AttemptId, JobId, NodeId, job_of
from railyard.cluster.messages.execution import (
    AttemptKilled,
    CancelFlow,
    FlowFailed,
    KillAttempt,
    LaunchAttempt,
    StartFlow,
)
from railyard.cluster.messaging.wire import Event
from railyard.resourcemanager.interface.commands import CloseCoflow, OpenCoflow
from railyard.simulator.heap import EventHeap
from railyard.simulator.network import SimulatedNetwork
from railyard.simulator.nodes.attempt import SimulatedAttempt
from railyard.simulator.nodes.behaviour import ORDINARY, Behaviour
from railyard.simulator.nodes.blockstore import BlockStore
from railyard.simulator.nodes.jobwork import JobWork


class _Fetch(msgspec.Struct, eq=False):
    """What becomes of a fetch when its flow ends.  Hundreds of thousands may be under way."""

    workers: Workers
    order: StartFlow

    def __call__(self, _: int, reason: str) -> None:
        """It has ended, as ``simulator.network`` has it."""
        order = self.order
        reader = self.workers.running.get(order.reader)
        if reader is None:
            return  # it went down, or is being killed
        if reason:
            failed = FlowFailed(flow=order.flow, reason=reason, lost=order.outputs)
            self.workers.tell(failed)
        else:
            reader.fetched(order.flow, len(order.outputs), order.size_bytes)


class Workers:
    """The attempts of all nodes, and their fetches.  ``tell`` takes facts for the core."""

    def __init__(
        self,
        heap: EventHeap,
        network: SimulatedNetwork,
        store: BlockStore,
        behaviour: Behaviour,
        seed: int,
        block_bytes: int,
        tell: Callable[[Event], None],
    ) -> None:
        self.heap = heap
        self.network = network
        self.store = store
        self.behaviour = behaviour
        self.seed = seed
        self.fate = ORDINARY if behaviour.is_certain else None  #: of all attempts, if it is one
        #: of the files that attempts write
        self.block_bytes = max(block_bytes, behaviour.output_block)
        self.tell = tell
        self.jobs: dict[JobId, JobWork] = {}
        self.slowness: dict[NodeId, float] = {}  #: by which a slow node's computing is longer
        self.running: dict[AttemptId, SimulatedAttempt] = {}  #: those that are not over

    # Orders --------------------------------------------------------------------------------------
    def launch(self, order: LaunchAttempt) -> None:
        """Run an attempt; on a node that is down, nothing happens."""
        if order.node not in self.store.down:
            work = self.jobs[job_of(order.attempt)].stages[order.task.stage]
            name, task = order.attempt, order.task
            attempt = SimulatedAttempt(name, order.node, task, task.inputs, self, work)
            self.running[name] = attempt
            self.heap.after(self.behaviour.launch_s, attempt.start)

    def kill(self, order: KillAttempt) -> None:
        """End an attempt; one that is over has told so, or never will."""
        attempt = self.running.pop(order.attempt, None)
        if attempt is not None:
            attempt.stop()
            killed = AttemptKilled(attempt=order.attempt)
            self.heap.after(self.behaviour.end_s, self._tell_if_up, order.node, killed)

    def start_flow(self, order: StartFlow) -> None:
        """Fetch."""
        down = self.store.down
        if order.dst in down:
            return  # nobody waits for it
        ended = _Fetch(self, order)
        if order.src in down:
            self.heap.after(0.0, ended, order.size_bytes, f"{order.src} is down")
            return
        self.network.carry(
            order.flow,
            order.src,
            order.dst,
            order.size_bytes,
            ended,
            order.coflow if order.src != order.dst else None,
            order.weight,
            order.priority,
        )

    def cancel_flow(self, order: CancelFlow) -> None:
        """Forget a fetch."""
        self.network.cancel(order.flow)

    def open_coflow(self, order: OpenCoflow) -> None:
        """Expect flows of a coflow."""
        self.network.fabric.register_coflow(order.coflow)

    def close_coflow(self, order: CloseCoflow) -> None:
        """Expect no more of them."""
        self.network.close_coflow(order.coflow)

    def about(self, time_s: float) -> float:
        """When something happens that would at that time: then, or near it, with other things."""
        grid_s = self.behaviour.together_s
        return round(time_s / grid_s) * grid_s if grid_s else time_s

    # Nodes ---------------------------------------------------------------------------------------
    def go_down(self, node: NodeId) -> None:
        """A node ends all that it does, without a word."""
        for attempt in [a for a in self.running.values() if a.node == node]:
            self.forget(attempt)
            attempt.stop()
        self.network.break_off(node, f"{node} is down")

    def forget(self, attempt: SimulatedAttempt) -> None:
        """An attempt is over."""
        attempt.over = True
        del self.running[attempt.id]

    # ---------------------------------------------------------------------------------------------
    def _tell_if_up(self, node: NodeId, fact: Event) -> None:
        if node not in self.store.down:
            self.tell(fact)
