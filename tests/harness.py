"""A tiny cluster in virtual time: the real core and driver; attempts take a fixed time.

    c = tiny_cluster(racks=2, nodes=2, slots=1, scheduler="delay", node_wait_s=5.0)
    c.store("in", blocks={"b0": ["r0n0"]})
    c.submit("j0", input="in", reduces=1, map_s=3)
    assert c.run().placements == [("j0.m0", "r0n0", 0.0), ("j0.r0", "r1n0", 3.0)]

The core's invariants are checked after every event.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from railyard.cluster.ids import AttemptId, FlowId, JobId, NodeId, RackId, TaskId, job_of, task_of
from railyard.cluster.messages import (
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptReady,
    AttemptStarted,
    AttemptSucceeded,
    BeginAttempt,
    CancelFlow,
    DiscardJob,
    DrainStarted,
    FlowFailed,
    FlowFinished,
    KillAttempt,
    LaunchAttempt,
    NodeActivated,
    NodeJoined,
    NodeLost,
    NodeRestarted,
    SlotsChanged,
    Split,
    StartFlow,
)
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Links, Liveness, Ocs, RackShape
from railyard.oracles.invariants import check_core
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.jobs import Task
from railyard.resourcemanager.core.offers import explain, why_waiting
from railyard.resourcemanager.driving.coredriver import CoreDriver
from railyard.resourcemanager.interface.commands import (
    CloseCoflow,
    CommitJob,
    EndJob,
    MoveBlock,
    OpenCoflow,
    PlaceData,
    SetTimer,
)
from railyard.resourcemanager.interface.events import (
    DataBlock,
    DataStored,
    InputMoved,
    InputNotMoved,
    JobCommitted,
    JobKilled,
    JobSubmitted,
    StagePlan,
    TaskInput,
    TimerFired,
)
from railyard.resourcemanager.interface.forecast import Forecast
from railyard.resourcemanager.interface.recipe import Option, Recipe
from railyard.resourcemanager.schedulers import recipe_named

AttemptFailure = Callable[
    [AttemptId, NodeId], str | None
]  #: why an attempt fails; None = it succeeds
MoveFailure = Callable[[MoveBlock], str | None]  #: why a move fails; None = it is carried out
FlowFailure = Callable[[StartFlow], FlowFailed | None]  #: how a flow fails; None = it arrives


def topology(
    racks: int,
    nodes: int,
    slots: int,
    ocs: Ocs | None = None,
    *,
    assign_multiple: bool = False,
    reduce_slots: int = 0,
) -> Topology:
    """A topology with these numbers of racks, nodes per rack and slots per node."""
    return Topology(
        name="tiny",
        racks=RackShape(count=racks, nodes=nodes, slots=slots, reduce_slots=reduce_slots),
        links=Links(nic=1e9, uplink=1e9),
        ocs=ocs,
        liveness=Liveness(assign_multiple=assign_multiple),
    )


@dataclass
class _Worker:
    """A running attempt."""

    launch: LaunchAttempt
    duration_s: float
    begins: bool = True  #: whether it has a slot
    ready: bool = False  #: whether it has said so
    fetched: set[TaskId] = field(default_factory=set)  #: a set, since an output may arrive twice
    began_s: float | None = None  #: when it began to compute
    flows: dict[FlowId, StartFlow] = field(default_factory=dict)


@dataclass
class _Durations:
    by_stage: dict[str, float]
    output_bytes: int  #: of each task for each partition


@dataclass
class Run:
    """The placements and ends of jobs so far."""

    placements: list[tuple[str, str, float]]  #: (task, node, launch time), in order
    ended: dict[str, str]  #: {job: reason of its failure, "" = it succeeded}
    ended_s: dict[str, float]
    unfinished: list[str]

    def nodes_of(self, prefix: str) -> list[str]:
        """The nodes of the tasks with this prefix."""
        return [node for task, node, _ in self.placements if task.startswith(prefix)]

    def launches(self, prefix: str) -> list[tuple[str, float]]:
        """(task, launch time) of the tasks with this prefix."""
        return [(task, when) for task, _, when in self.placements if task.startswith(prefix)]


class TinyCluster(CoreDriver):
    """The core's driver with a heap of events, and running attempts."""

    def __init__(self, core: Core, shape: Topology, *, flow_s: float, kill_s: float) -> None:
        super().__init__(core, self, None)
        self.topology = shape
        self._now_s = 0.0
        self.flow_s = flow_s
        self.kill_s = kill_s
        self.failure: AttemptFailure = lambda attempt, node: None
        self.counters: dict[str, int] = {}  #: what each attempt that succeeds has counted
        self.flow_failure: FlowFailure = lambda flow: None
        self.move_s = 1.0
        self.move_failure: MoveFailure = lambda move: None
        self.stretch: Callable[[], float] = lambda: 1.0  #: factor of the next duration
        self.events: list[tuple[float, Event]] = []  #: all events of the core
        self.commands: list[tuple[float, Command]] = []  #: all commands of the core
        self.led_to: list[list[Command]] = []  #: the commands of each event
        self._heap: list[tuple[float, float, Event | Callable[[], None]]] = []
        self._sequence: Iterator[float] = itertools.count()
        self._files: dict[str, list[TaskInput]] = {}
        self._durations: dict[str, _Durations] = {}
        self._workers: dict[AttemptId, _Worker] = {}
        self._timers: dict[str, float] = {}
        self._run = Run(placements=[], ended={}, ended_s={}, unfinished=[])
        self.on(LaunchAttempt, self._launch)
        self.on(BeginAttempt, self._begin)
        self.on(KillAttempt, lambda order: self._kill(order.attempt))
        self.on(StartFlow, self._start_flow)
        self.on(CancelFlow, self._cancel_flow)
        self.on(MoveBlock, self._move)
        self.on(CommitJob, lambda order: self._push(self.now_s, JobCommitted(job=order.job)))
        self.on(EndJob, self._end_job)
        for ignored in (PlaceData, OpenCoflow, CloseCoflow, DiscardJob):
            self.on(ignored, lambda _: None)

    @property
    def now_s(self) -> float:
        """The virtual time."""
        return self._now_s

    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        """Keep an event of the core and its commands, as the log of events does."""
        self.events.append((at_s, event))
        self.led_to.append(list(commands))
        self.commands += [(at_s, command) for command in commands]

    # Files, jobs, nodes --------------------------------------------------------------------------
    def store(
        self, name: str, blocks: dict[str, list[str]] | Sequence[list[str]], block_bytes: int = 100
    ) -> None:
        """Store a file; its blocks have replicas on the given nodes."""
        replicas = list(blocks.values()) if isinstance(blocks, dict) else list(blocks)
        self._files[name] = [
            TaskInput(
                splits=(Split(path=name, stored_offset=at * block_bytes, stored_length=100),),
                input_bytes=block_bytes,
                nodes=tuple(NodeId(node) for node in nodes),
            )
            for at, nodes in enumerate(replicas)
        ]
        if self.core.state.uses_data:
            stored = [
                DataBlock(task.splits[0].stored_offset, task.input_bytes, task.nodes)
                for task in self._files[name]
            ]
            self.feed(DataStored(path=name, blocks=tuple(stored)))

    def submit(
        self,
        job: str,
        *,
        input: str = "",  # noqa: A002 - reads as in the style guide
        maps: int = 1,
        reduces: int = 0,
        stages: Sequence[StagePlan] = (),
        map_s: float = 1.0,
        reduce_s: float = 1.0,
        durations: dict[str, float] | None = None,
        partition_bytes: int = 10,
        user: str = "user",
        queue: str = "default",
        weight: float = 1.0,
        max_attempts: int = 4,
        may_copy: bool = True,
        output_racks: tuple[tuple[RackId, ...], ...] = (),
        forecast: Forecast | None = None,
    ) -> None:
        """Submit a job: maps over a stored file, or ``maps`` without input, and reduces."""
        inputs = tuple(self._files[input]) if input else ()
        if input in self.core.state.data:  # blocks may have been moved
            inputs = tuple(
                msgspec.structs.replace(task, nodes=block.nodes)
                for task, block in zip(inputs, self.core.state.data[input], strict=True)
            )
        plans = [StagePlan(name="m", tasks=len(inputs) or maps, inputs=inputs, may_copy=may_copy)]
        if reduces:
            plans.append(StagePlan(name="r", reads=("m",), tasks=reduces, may_copy=may_copy))
        by_stage = durations or {"m": map_s, "r": reduce_s}
        self._durations[job] = _Durations(by_stage, partition_bytes)
        self.feed(
            JobSubmitted(
                job=JobId(job),
                name=job,
                user=user,
                queue=queue,
                stages=tuple(stages or plans),
                output_path=f"/out/{job}",
                weight=weight,
                max_attempts=max_attempts,
                output_racks=output_racks,
                forecast=forecast,
            )
        )

    def at(self, when_s: float, action: Callable[[], None]) -> None:
        """Call ``action`` at a virtual time."""
        self._push(when_s, action)

    def occupy(self, node: str) -> None:
        """Remove a slot of a node."""
        self._resize(node, -1)

    def vacate(self, node: str) -> None:
        """Add a slot to a node."""
        self._resize(node, +1)

    def set_slots(self, node: str, slots: int) -> None:
        """Give a living node another number of slots."""
        self.feed(SlotsChanged(node=NodeId(node), slots=slots))

    def lose(self, node: str, reason: str = "no heartbeat") -> None:
        """Lose a node with the attempts that run there."""
        for attempt, worker in list(self._workers.items()):
            if worker.launch.node == node:
                del self._workers[attempt]
        self.feed(NodeLost(node=NodeId(node), reason=reason))

    def restart(self, node: str, lost: Collection[str] = ()) -> None:
        """Kill a node's NodeManager, which is back at once, without these attempts' output."""
        for attempt, worker in list(self._workers.items()):
            if worker.launch.node == node:
                del self._workers[attempt]
        found = tuple([output for output in self.outputs_on(node) if output not in lost])
        self.feed(NodeRestarted(node=NodeId(node), outputs=found))

    def drain(self, node: str, *, kill: bool = False) -> None:
        """Begin to drain a living node."""
        self.feed(DrainStarted(node=NodeId(node), kill=kill))

    def activate(self, node: str) -> None:
        """Give a drained node its slots back."""
        self.feed(NodeActivated(node=NodeId(node), slots=self.topology.racks.slots))

    def outputs_on(self, node: str) -> list[AttemptId]:
        """The attempts whose output is on a node's disk, of jobs that have not ended."""
        stages = [s for job in self.core.state.jobs.values() for s in job.stages.values()]
        kept = [each for s in stages for task in s.tasks for each in task.kept]
        done = [each for s in stages for each in s.outputs.get(NodeId(node), ())]
        return [each.id for each in (*done, *kept) if each.node.id == node]

    def join(self, node: str) -> None:
        """Bring a lost node back."""
        rack = RackId(node.split("n", maxsplit=1)[0])
        slots = self.topology.racks.slots
        self.feed(NodeJoined(node=NodeId(node), rack=rack, slots=slots))

    def kill(self, job: str, reason: str = "killed by its user") -> None:
        """Kill a job."""
        self.feed(JobKilled(job=JobId(job), reason=reason))

    def report_progress(self, every_s: float, until_s: float) -> None:
        """From now on, let computing attempts report how far they are, while tasks run."""
        for worker in list(self._workers.values()):
            if worker.began_s is not None:
                share = (self.now_s - worker.began_s) / worker.duration_s
                self.feed(AttemptProgressed(attempt=worker.launch.attempt, progress=share))
        if self.now_s + every_s <= until_s:
            self.at(self.now_s + every_s, lambda: self.report_progress(every_s, until_s))

    def break_ties(self, dice: random.Random) -> None:
        """From now on, deliver simultaneous events in random order."""
        self._sequence = iter(dice.random, None)

    # Running -------------------------------------------------------------------------------------
    def run(self, until_s: float | None = None) -> Run:
        """Run until the heap is empty, or up to and including ``until_s``."""
        while self._heap and (until_s is None or self._heap[0][0] <= until_s):
            when_s, _, event = heapq.heappop(self._heap)
            self._now_s = when_s
            if callable(event):
                event()
            else:
                self._deliver(event)
        if until_s is not None:
            self._now_s = until_s
        self._run.unfinished = sorted(self.core.state.jobs)
        return self._run

    def launched(self) -> list[LaunchAttempt]:
        """The commands to launch attempts so far."""
        return [command for _, command in self.commands if isinstance(command, LaunchAttempt)]

    def flows(self) -> list[tuple[float, StartFlow]]:
        """(Time, command) of all fetches so far."""
        return [(at_s, each) for at_s, each in self.commands if isinstance(each, StartFlow)]

    def moves(self) -> list[MoveBlock]:
        """The moves of blocks that were ordered so far."""
        return [command for _, command in self.commands if isinstance(command, MoveBlock)]

    def why_waiting(self, task: str) -> str:
        """The reason why a pending task has no slot."""
        return why_waiting(self.core.state, self._task(task))

    def explain(self, task: str, now_s: float) -> str:
        """Why a task waits, in full."""
        return explain(self.core.state, self._task(task), now_s)

    def _task(self, name: str) -> Task:
        return self.core.state.jobs[job_of(TaskId(name))].task(TaskId(name))

    # ---------------------------------------------------------------------------------------------
    def _handle(self, event: Event) -> list[Command]:
        commands = super()._handle(event)
        check_core(self.core)
        return commands

    def _set_timer(self, command: SetTimer) -> None:
        self._timers[command.timer] = command.at_s
        self._push(command.at_s, TimerFired(timer=command.timer))

    def _end_job(self, order: EndJob) -> None:
        self._run.ended[order.job] = order.reason
        self._run.ended_s[order.job] = self.now_s

    def _push(self, when_s: float, event: Event | Callable[[], None]) -> None:
        heapq.heappush(self._heap, (when_s, next(self._sequence), event))

    def _resize(self, node: str, by: int) -> None:
        self.set_slots(node, self.core.state.nodes[NodeId(node)].slots + by)

    def _deliver(self, event: Event) -> None:
        """Give the core an event, unless the attempt that would have reported it is gone."""
        match event:
            case TimerFired(timer=timer) if self._timers.get(timer) != self.now_s:
                return
            case AttemptSucceeded() | AttemptFailed() | AttemptKilled():
                if self._workers.pop(event.attempt, None) is None:
                    return
            case FlowFinished(flow=flow) | FlowFailed(flow=flow):
                worker = self._reader_of(flow)
                if worker is None or flow not in worker.flows:
                    return
                ended = worker.flows.pop(flow)
                if isinstance(event, FlowFinished):
                    worker.fetched.update(map(task_of, ended.outputs))
                self.feed(event)
                self._compute(worker)
                return
        self.feed(event)

    def _move(self, move: MoveBlock) -> None:
        failed = self.move_failure(move)
        moved = InputMoved(path=move.path, block=move.block, nodes=self._after(move))
        not_moved = InputNotMoved(path=move.path, block=move.block, reason=failed or "")
        self._push(self.now_s + self.move_s, not_moved if failed else moved)

    def _after(self, move: MoveBlock) -> tuple[NodeId, ...]:
        """The nodes of a block after a move; without a source, its first node loses it."""
        nodes = self.core.state.data[move.path][move.block].nodes
        gone = move.source or nodes[0]
        return tuple(sorted({*nodes, move.node} - {gone}))

    def _start_flow(self, flow: StartFlow) -> None:
        worker = self._reader_of(flow.flow)
        if worker is not None:
            worker.flows[flow.flow] = flow
            ending = self.flow_failure(flow) or FlowFinished(flow=flow.flow)
            self._push(self.now_s + self.flow_s * self.stretch(), ending)

    def _cancel_flow(self, order: CancelFlow) -> None:
        worker = self._reader_of(order.flow)
        if worker is not None:
            worker.flows.pop(order.flow, None)

    def _reader_of(self, flow: FlowId) -> _Worker | None:
        """The running attempt that reads a flow; flows are named READER:NODE:NUMBER."""
        return self._workers.get(AttemptId(flow.split(":", maxsplit=1)[0]))

    def _launch(self, launch: LaunchAttempt) -> None:
        attempt = launch.attempt
        assert not self.core.state.nodes[launch.node].draining, f"{attempt} is on a drained node"
        if launch.begins:
            self._run.placements.append((task_of(attempt), launch.node, self.now_s))
        times = self._durations[job_of(attempt)].by_stage
        worker = _Worker(launch, times[launch.task.stage] * self.stretch(), begins=launch.begins)
        self._workers[attempt] = worker
        self._push(self.now_s, AttemptStarted(attempt=attempt, pid=1000 + len(self.events)))
        self._compute(worker)

    def _kill(self, attempt: AttemptId) -> None:
        if attempt in self._workers:
            self._push(self.now_s + self.kill_s, AttemptKilled(attempt=attempt))

    def _begin(self, begin: BeginAttempt) -> None:
        """Give an attempt a slot that was launched without one."""
        self._run.placements.append((task_of(begin.attempt), begin.node, self.now_s))
        worker = self._workers.get(begin.attempt)
        if worker is not None:
            worker.begins = True
            self._compute(worker)

    def _compute(self, worker: _Worker) -> None:
        """Start to compute if all outputs have been fetched and there is a slot."""
        if worker.began_s is not None or len(worker.fetched) < worker.launch.task.inputs:
            return
        if not worker.begins:
            if not worker.ready:
                worker.ready = True
                self._push(self.now_s, AttemptReady(attempt=worker.launch.attempt))
            return
        worker.began_s = self.now_s
        launch = worker.launch
        attempt = launch.attempt
        reason = self.failure(attempt, launch.node)
        ending: Event
        if reason is None:
            size = self._durations[job_of(attempt)].output_bytes
            ending = AttemptSucceeded(
                attempt=attempt,
                input_bytes=sum(split.stored_length for split in launch.task.splits),
                output_bytes=0 if launch.task.partitions else 7,
                partition_bytes=(size,) * launch.task.partitions,
                computed_s=worker.duration_s,
                counters=self.counters,
            )
        else:
            ending = AttemptFailed(
                attempt=attempt,
                reason=reason,
                stderr=f"{reason}!\n",
                no_room=reason.startswith("no space"),
            )
        self._push(self.now_s + worker.duration_s, ending)


def tiny_cluster(
    racks: int = 1,
    nodes: int = 2,
    slots: int = 1,
    scheduler: str | Recipe = "fair",
    *,
    seed: int = 1,
    flow_s: float = 0.0,
    kill_s: float = 0.0,
    ocs: Ocs | None = None,
    assign_multiple: bool = False,
    reduce_slots: int = 0,
    options: dict[str, Option] | None = None,
    **settings: Option,
) -> TinyCluster:
    """A cluster with all nodes up.

    ``settings`` are those of the scheduler itself: with "delay", ``node_wait_s=5.0`` is the option
    "delay.node_wait_s".
    """
    recipe = recipe_named(scheduler) if isinstance(scheduler, str) else scheduler
    shape = topology(
        *(racks, nodes, slots, ocs), assign_multiple=assign_multiple, reduce_slots=reduce_slots
    )
    chosen = {f"{recipe.name}.{name}": value for name, value in settings.items()}
    core = Core(shape, recipe, {**chosen, **(options or {})}, seed)
    cluster = TinyCluster(core, shape, flow_s=flow_s, kill_s=kill_s)
    for node in shape.nodes():
        cluster.feed(NodeJoined(node=node.id, rack=node.rack, slots=node.slots))
    return cluster
