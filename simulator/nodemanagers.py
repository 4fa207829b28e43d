"""Nodes that may be down, late or refuse: each fetch is reported by itself, as on a cluster.

Not here: NodeManagers that die or are stopped (``simulator.deaddaemons``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import (
    AttemptId,
    FlowId,
    NodeId,
    RackId,
    TaskId,
    job_of,
    stage_of,
    task_index,
    task_of,
)
from railyard.cluster.messages import CancelFlow, FlowFailed, LaunchAttempt, StartFlow
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.flows import FlowSpec
from railyard.resourcemanager.core.shuffling.fetches import CancelFetch, StartFetches
from railyard.simulator.blockstore import Outages
from railyard.simulator.clock import BatchDriver
from railyard.simulator.network import OnEnd
from railyard.simulator.workers import SimulatedAttempt, Workers


class Fetch(msgspec.Struct, eq=False):
    """Called when a fetch's flow ends.  There may be hundreds of thousands at a time."""

    workers: NodeManagers
    command: StartFlow
    began_s: float

    def __call__(self, _: int, reason: str) -> None:
        """Report the end of the flow, an ``OnEnd`` of the network."""
        command = self.command
        reader = self.workers.running.get(command.reader)
        if reader is None:
            return  # the reader's node is down, or it is being killed
        if reason:
            gone = command.src in self.workers.unserved
            lost = () if gone else command.outputs
            failed = FlowFailed(flow=command.flow, reason=reason, lost=lost, gone=gone)
            self.workers.report(failed)
        else:
            outputs, size_bytes = self.workers.news_of(command)
            reader.fetched(command.flow, outputs, size_bytes, self.began_s)


class NodeManagers(Workers):
    """The attempts of all nodes, and their fetches, which have names."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.down = Outages()  #: nodes whose NodeManager is down now
        #: of these, those where only the NodeManager is gone: the next one finds their map output
        self.unserved: set[NodeId] = set()
        #: racks whose NodeManager has died, until the next one has registered
        self.unregistered: set[RackId] = set()
        self._waiting: dict[FlowId, StartFlow] = {}  #: fetches that wait for a NodeManager
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
        """Start the flow of a fetch."""
        self.start_flows((command,))

    def start_flows(self, commands: Sequence[StartFlow]) -> None:
        """Start the flows of fetches, in this order."""
        down, now_s = self.down, self.heap.now_s
        commands = self.accepted(commands)
        if not down:
            self.carry(commands)
            return
        for command in commands:
            if command.dst in down:
                continue  # its reader is gone
            ended = Fetch(self, command, now_s)
            if command.src in self.unserved:
                self._waiting[command.flow] = command
            elif command.src in down:
                self.heap.after(0.0, ended, command.size_bytes, f"{command.src} is down")
            else:
                self.network.carry_all(((flow_of(command), ended),))

    def accepted(self, commands: Sequence[StartFlow]) -> Sequence[StartFlow]:
        """Those that the NodeManagers of the sources do not refuse."""
        if not self.outputs.any_damaged:
            return commands
        return [each for each in commands if not self._is_refused(each)]

    def carry(self, commands: Sequence[StartFlow]) -> None:
        """Start the flows of fetches between nodes that are up."""
        now_s = self.heap.now_s
        self.network.carry_all([(flow_of(each), Fetch(self, each, now_s)) for each in commands])

    def _is_refused(self, command: StartFlow) -> bool:
        """Whether the NodeManager of a fetch's source finds that output is damaged, and says so."""
        damaged = self.outputs.damaged_among(command.outputs)
        if not damaged or command.src in self.down or command.dst in self.down:
            return False
        self.cancel(command.flow)
        self.heap.after(0.0, self._refused, command, damaged)
        return True

    def _refused(self, command: StartFlow, damaged: tuple[AttemptId, ...]) -> None:
        if command.reader in self.running:
            reason = f"damaged on {command.src}"
            self.report(FlowFailed(flow=command.flow, reason=reason, lost=damaged))

    def cancel_flow(self, command: CancelFlow) -> None:
        """Cancel the flow of a fetch."""
        self._waiting.pop(command.flow, None)
        self.cancel(command.flow)

    def cancel(self, flow: FlowId) -> None:
        """Cancel a flow."""
        self.network.cancel(flow)

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
        stages = self.jobs[job_of(command.reader)].stages
        parts = [
            stages[stage_of(output).split(".")[1]].partition_bytes(task_index(output))
            for output in new
        ]
        return len(new), sum(part[command.partition] for part in parts)

    # Nodes ---------------------------------------------------------------------------------------
    def go_down(self, node: NodeId) -> None:
        """Drop a node's attempts, output and flows, without a report."""
        self.end_attempts(node)
        self.outputs.lose(node)
        self.end_flows(node, f"{node} is down")

    def end_work(self, node: NodeId) -> None:
        """Drop a node's attempts and fetches, as its NodeManager is gone.

        Flows of its blocks go on.  Readers elsewhere report that the source of a fetch is gone.
        """
        self.end_attempts(node)
        self.end_flows(node, f"the NodeManager of {node} is gone", is_fetch)

    def end_flows(
        self, node: NodeId, reason: str, which: Callable[[OnEnd], bool] = lambda _: True
    ) -> None:
        """End flows from or to a node; see ``SimulatedNetwork.end_flows_of``."""
        self.network.end_flows_of(node, reason, which)

    def end_attempts(self, node: NodeId) -> None:
        """Drop a node's attempts, without a report."""
        for attempt in [a for a in self.running.values() if a.node == node]:
            self.forget(attempt)
            attempt.stop()
        for name in [name for name, at in self.dying.items() if at == node]:
            del self.dying[name]
        for flow in [flow for flow, each in self._waiting.items() if each.dst == node]:
            del self._waiting[flow]

    def serve_again(self, nodes: Sequence[NodeId]) -> None:
        """There is a NodeManager again: fetches that have waited for it start."""
        self.unserved.difference_update(nodes)
        ready = [each for each in self._waiting.values() if each.src in nodes]
        coflows = self.network.coflows()
        for each in ready:
            del self._waiting[each.flow]
        self.start_flows([each for each in ready if each.coflow in coflows or each.src == each.dst])

    def outputs_on(self, node: NodeId) -> tuple[AttemptId, ...]:
        """The attempts whose output is on a node, of jobs that are not discarded."""
        return tuple([name for name in self.outputs.on(node) if job_of(name) in self.jobs])


def is_fetch(on_end: OnEnd) -> bool:
    """Whether that is called at the end of a fetch, and not of a flow of the block store."""
    return isinstance(on_end, Fetch)


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


# Nodes of which none is down or late, as in most simulations: fetches are reported in batches.
#
# Not here: nodes that may fail (``nodemanagers``).


class IdealWorkers(Workers):
    """The attempts of all nodes, and their fetches, which have numbers."""

    def __init__(self, *args: Any, driver: BatchDriver) -> None:
        super().__init__(*args)
        self._driver = driver
        self.network.call_each = self._flows_ended

    def start_fetches(self, command: StartFetches) -> None:
        """Start the flows of fetches, in this order."""
        here = command.fetches[(command.src == command.dst) | (command.size_bytes == 0)]
        if len(here):
            self.heap.after(0.0, self._fetched_here, here)
        self.network.carry_fetches(command)

    def report_progress(self, attempts: Sequence[SimulatedAttempt]) -> None:
        """Have attempts, none of which is over, report how far they are."""
        now_s = self.heap.now_s
        reports = [
            (attempt.id, share)
            for attempt in attempts
            if (share := attempt.progressed(now_s)) is not None
        ]
        self._driver.feed_progress(reports)

    def cancel_fetch(self, command: CancelFetch) -> None:
        """Cancel the flow of a fetch."""
        self.network.cancel_fetch(command)

    def _flows_ended(self, ends: Iterator[OnEnd | Numbers]) -> None:
        """Flows have sent all their bytes; see ``SimulatedNetwork.call_each``.

        Each end is reported before the next is looked at, and those of fetches together.
        """
        for on_end in ends:
            if isinstance(on_end, np.ndarray):
                self._fetched(on_end)
            else:
                on_end(0, "")

    # Inside --------------------------------------------------------------------------------------
    def _fetched(self, fetches: Numbers) -> None:
        """The flows of fetches have sent all their bytes, in this order."""
        while len(fetches):
            fetches = fetches[self._some_fetched(fetches) :]

    def _some_fetched(self, fetches: Numbers) -> int:
        """Report the first of these ends, up to one that something else may follow from.

        Returns how many these are.
        """
        running, now_s = self.running, self.heap.now_s
        complete: list[SimulatedAttempt] = []
        many = 0
        for name, outputs, size_bytes, began_s in self._driver.arriving(fetches):
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
