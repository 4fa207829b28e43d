"""The simulated nodes: carry out the core's commands and report the resulting events."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec
import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import (
    AttemptId,
    FlowId,
    JobId,
    NodeId,
    RackId,
    TaskId,
    job_of,
    stage_of,
    task_index,
    task_of,
)
from railyard.cluster.messages.execution import (
    AttemptKilled,
    BeginAttempt,
    CancelFlow,
    FlowFailed,
    FlowFinished,
    KillAttempt,
    LaunchAttempt,
    StartFlow,
)
from railyard.cluster.messaging.wire import Event
from railyard.netemu.model.arrays import Numbers
from railyard.netemu.model.flows import FlowSpec
from railyard.resourcemanager.core.shuffling.rowmessages import NameFetches, StartFetches
from railyard.resourcemanager.interface.commands import CloseCoflow, OpenCoflow
from railyard.simulator.heap import EventHeap
from railyard.simulator.network.network import OnEnd, SimulatedNetwork
from railyard.simulator.nodes.attempt import SimulatedAttempt
from railyard.simulator.nodes.behaviour import NO_DEVIATION, Behaviour
from railyard.simulator.nodes.blockstore import BlockStore
from railyard.simulator.nodes.jobwork import JobWork
from railyard.simulator.nodes.mapoutputs import MapOutputs
from railyard.simulator.nodes.outages import Outages
from railyard.simulator.nodes.reports import Reports


class Fetch(msgspec.Struct, eq=False):
    """Called when a fetch's flow ends.  There may be hundreds of thousands at a time."""

    workers: Workers
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


class Workers:
    """The attempts of all nodes, and their fetches.

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
        reports: Reports,
    ) -> None:
        self._reports = reports
        self.report: Callable[[Event], None] = reports.feed
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
        self.down = Outages()  #: nodes whose NodeManager is down now
        #: of these, those where only the NodeManager is gone: the next one finds their map output
        self.unserved: set[NodeId] = set()
        #: racks whose NodeManager has died, until the next one has registered
        self.unregistered: set[RackId] = set()
        self.outputs = MapOutputs()
        self._waiting: dict[FlowId, StartFlow] = {}  #: fetches that wait for a NodeManager
        #: whether orders may come again: {attempt: tasks whose output it has}, of all that were
        #: ever launched; None if none does
        self._fetched_by: dict[AttemptId, set[TaskId]] | None = None
        #: fetches that were rows, and whose flows have ended, but not for their readers so far
        self._named: dict[int, FlowId] = {}

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
        if command.node not in self.down:
            work = self.jobs[job_of(command.attempt)].stages[command.task.stage]
            name, task = command.attempt, command.task
            if self._fetched_by is not None:
                if name in self._fetched_by:
                    raise InvariantError(f"{name} is launched a second time")
                self._fetched_by[name] = set()
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

    def start_fetches(self, command: StartFetches) -> None:
        """Start the flows of fetches that are rows, in this order."""
        here = (command.src == command.dst) | (command.size_bytes == 0)
        if here.any():
            self.heap.after(0.0, self._fetched_here, command.fetches[here])
            command = command.part(~here)
        self.network.carry_rows(command.src, command.dst, command.size_bytes, command.fetches)

    def name_fetches(self, command: NameFetches) -> None:
        """Deal with each of these fetches by itself from now on."""
        specs: dict[int, FlowSpec] = {}
        for fetch, started_s, start in command.named:
            specs[fetch] = spec = flow_of(start)
            self.network.know(spec, Fetch(self, start, started_s))
        for fetch in self.network.fabric.name_rows(specs):
            self._named[fetch] = specs[fetch].flow

    def flows_ended(self, ends: Iterator[OnEnd | Numbers]) -> None:
        """Flows have sent all their bytes; see ``SimulatedNetwork.call_each``.

        Each end is reported before the next is looked at.  Only the flows that follow from ends of
        fetches start later, together, and before anything else does.
        """
        reports = self._reports
        for on_end in ends:
            if isinstance(on_end, np.ndarray):
                self._fetched(on_end)
            elif isinstance(on_end, Fetch):
                self._fetched_one(on_end)
            else:
                reports.start_waiting()
                on_end(0, "")
        reports.start_waiting()

    def cancel_flow(self, command: CancelFlow) -> None:
        """Cancel the flow of a fetch."""
        self._waiting.pop(command.flow, None)
        self.cancel(command.flow)

    def cancel(self, flow: FlowId) -> None:
        """Cancel a flow."""
        self.network.cancel(flow)

    def reader_of(self, on_end: OnEnd) -> AttemptId | None:
        """The attempt whose fetch that is the end of; None: it is no fetch's."""
        return on_end.command.reader if isinstance(on_end, Fetch) else None

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

    def forget(self, attempt: SimulatedAttempt) -> None:
        """Remove an attempt that is over."""
        attempt.over = True
        del self.running[attempt.id]

    def expect_progress(self, attempt: SimulatedAttempt) -> None:
        """Have an attempt report its progress from time to time."""
        self.heap.look_after(self.behaviour.progress_s, self._progressed, (attempt,))

    # Progress ------------------------------------------------------------------------------------
    def _progressed(self, attempts: list[SimulatedAttempt]) -> None:
        """Attempts report their progress, in this order."""
        again_s, plan = self.behaviour.progress_s, self.heap.look_after
        for number, attempt in enumerate(attempts, 1):
            if attempt.over:
                continue
            report = attempt.progressed()
            is_quiet = report is not None and self._reports.feed_progress(report)
            plan(again_s, self._progressed, (attempt,))
            if is_quiet:
                there = [each for each in attempts[number:] if not each.over]
                reports = [each.progressed() for each in there]
                self._reports.feed_all_progress([each for each in reports if each is not None])
                plan(again_s, self._progressed, there)
                return

    # Ends of fetches ------------------------------------------------------------------------------
    def _fetched_one(self, ended: Fetch) -> None:
        """A fetch's flow has sent all its bytes."""
        command, reports = ended.command, self._reports
        reader = self.running.get(command.reader)
        if reader is None:
            return  # as in ``Fetch``
        sent, size_bytes = self.news_of(command)
        if not reader.note_fetched(command.flow, sent, size_bytes, ended.began_s):
            return
        reports.feed_fetched(FlowFinished(flow=command.flow))
        if not reader.missing:
            reports.start_waiting()
            reader.go_on()

    def _fetched(self, fetches: Numbers) -> None:
        """The flows of fetches that are or were rows have sent all their bytes, in this order."""
        while len(fetches):
            first = int(fetches[0])
            if not self._named:
                fetches = fetches[self._fetched_rows(fetches) :]
                continue
            if first in self._named:
                on_end = self.network.take(self._named.pop(first))
                if isinstance(on_end, Fetch):  # otherwise an end has cancelled it
                    self._fetched_one(on_end)
                fetches = fetches[1:]
                continue
            named = (n for n, each in enumerate(fetches.tolist()) if each in self._named)
            fetches = fetches[self._fetched_rows(fetches[: next(named, len(fetches))]) :]

    def _fetched_rows(self, fetches: Numbers) -> int:
        """Report the first of these ends, up to one that something else may follow from.

        Returns how many these are.
        """
        running, now_s = self.running, self.heap.now_s
        coming = self._reports.arriving(fetches)
        complete: list[SimulatedAttempt] = []
        many = 0
        for name, outputs, size_bytes, began_s in zip(*coming, strict=True):
            many += 1
            reader = running[name]
            if not reader.take_row(outputs, size_bytes, began_s, now_s):
                continue
            complete.append(reader)
            if not reader.computes_later:
                break
        self._reports.feed_fetches(fetches[:many])
        if complete:
            self._reports.start_waiting()
            for reader in complete:
                reader.go_on()
        return many

    def _fetched_here(self, fetches: Numbers) -> None:
        """Fetches within a node, or of nothing, have ended: each is reported by itself."""
        for number in range(len(fetches)):
            self._fetched(fetches[number : number + 1])
            self._reports.start_waiting()

    # ---------------------------------------------------------------------------------------------
    def _killed(self, attempt: AttemptId) -> None:
        if self.dying.pop(attempt, None) is not None:
            self.report(AttemptKilled(attempt=attempt))


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
