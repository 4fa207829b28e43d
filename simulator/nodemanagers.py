"""Fetches of simulated nodes: in batches if no node is down or late, else one by one.

Not here: NodeManagers that die or are stopped (``railyard.oracles.faults``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import (
    AttemptId,
    NodeId,
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
        """Drop a node's attempts, without a report."""
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
        self.network.cancel_fetch(command)

    def _flows_ended(self, ends: Iterator[OnEnd | Numbers]) -> None:
        """Flows have sent all their bytes; see ``SimulatedNetwork.call_each``.

        Each end is reported before the next is read, and those of fetches together.
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
