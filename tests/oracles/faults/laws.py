"""The laws that every schedule of faults keeps.

After each event:
    slots     no node has more attempts than slots, by an account of our own and by the core's
    timers    each timer that the core has set fires at its time, or once there is a core again
    state     all that the core knows fits together (``resourcemanager.core.invariants``): all
              that the event can have touched, and everything every few events
    input     an attempt that succeeded has read all its input, the output of each task once
    winners   a job is committed once, with one winner for each task of its last stages
    commits   a commit is called failed only if it was not done
    observed  links are reported once a period, and are known as they are then
While flows are open, every few steps, and always where there are circuits:
    links     no link carries more than faults have left of its capacity, no port has two circuits
When a daemon was restarted:
    replay    the journal leads to the same commands, and to the same state
    launches  no attempt is launched a second time (``simulator.workers``)
    grants    each flow goes on from what it was granted by all networks before (``network``)
At the end:
    jobs      all jobs have ended, all slots are free, no fetch is open
    bytes     as many bytes were carried as have arrived or were cancelled
    output    a job that ended well has written the workload's size, and says so
    replicas  each replica on a disk that can be reached is known, if its file is there

What there is by events and commands is counted here, independent of the core's own accounts.

Never here: what runs, and what goes wrong.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import AttemptId, JobId, NodeId, job_of, task_of, task_place
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
    NodeJoined,
    NodeLost,
    NodeRestarted,
    SlotsChanged,
    StartFlow,
)
from railyard.cluster.messaging.wire import Command, Event
from railyard.dfs.messages import GetStatus, GetUsage, Status, Usage
from railyard.jobs.workloads.model import Workload, WorkloadJob
from railyard.netemu.messages import LinksObserved
from railyard.oracles.faults.blockstore import FaultyBlockStore
from railyard.oracles.faults.network import FaultyNetwork
from railyard.oracles.faults.schedules import CIRCUITS
from railyard.oracles.invariants import check_core
from railyard.resourcemanager.core.files import success_file
from railyard.resourcemanager.interface.commands import CloseCoflow, CommitJob, OpenCoflow, SetTimer
from railyard.resourcemanager.interface.events import JobCommitFailed, TimerFired
from railyard.simulator.simulation import Simulation

#: By how much a clock may be off by rounding.
_ROUNDING_S = 1e-6


class SlotAccount:
    """The attempts on each node by events and commands alone, whatever the core says."""

    def __init__(self) -> None:
        self._held: dict[NodeId, dict[AttemptId, None]] = {}
        self._slots: dict[NodeId, int] = {}
        self._where: dict[AttemptId, NodeId] = {}
        self._reserved: dict[AttemptId, NodeId] = {}  #: attempts launched without a slot

    def count(self, event: Event, commands: Sequence[Command]) -> None:
        """Follow an event; ``InvariantError`` if a node has more attempts than slots."""
        match event:
            case NodeJoined(node=node, slots=slots):
                self._held[node], self._slots[node] = {}, slots
            case SlotsChanged(node=node, slots=slots):
                self._slots[node] = slots
            case NodeLost(node=node) | NodeRestarted(node=node):
                self._held[node] = {}
            case AttemptSucceeded() | AttemptFailed() | AttemptKilled():
                if self._reserved.pop(event.attempt, None) is None:
                    where = self._where.pop(event.attempt, None)  # None: it is sent again
                    if where is not None:
                        self._held[where].pop(event.attempt, None)
        for command in commands:
            self._count_command(command)

    def _count_command(self, command: Command) -> None:
        match command:
            case LaunchAttempt(attempt=attempt, node=node, begins=False):
                self._reserved[attempt] = node
            case LaunchAttempt(attempt=attempt, node=node):
                self._count_held(attempt, node)
            case BeginAttempt(attempt=attempt, node=node):
                if self._reserved.pop(attempt, "") != node:
                    raise InvariantError(f"{attempt} begins on {node}, where it was not")
                self._count_held(attempt, node)

    def _count_held(self, attempt: AttemptId, node: NodeId) -> None:
        self._where[attempt] = node
        held = self._held[node]
        held[attempt] = None
        if len(held) > self._slots[node]:
            raise InvariantError(f"{node} has {self._slots[node]} slots for {', '.join(held)}")


class TimerAccount:
    """The timers that the core has set and that have not fired.

    ``up_s``: since when there is a core that knows of them.
    """

    def __init__(self, up_s: float = -math.inf) -> None:
        self._up_s = up_s
        self._due_s: dict[str, float] = {}

    def count(self, event: Event, commands: Sequence[Command]) -> None:
        """Follow an event; a timer that is set anew is not due before."""
        if isinstance(event, TimerFired):
            self._due_s.pop(event.timer, None)
        for command in commands:
            if isinstance(command, SetTimer):
                self._due_s[command.timer] = command.at_s

    def check(self, now_s: float) -> None:
        """Raise ``InvariantError`` if a timer should have fired by now."""
        for timer, at_s in self._due_s.items():
            if max(at_s, self._up_s) < now_s - _ROUNDING_S:
                raise InvariantError(f"timer {timer} was set for {at_s} s: it is {now_s} s")


# Jobs that an event can have changed --------------------------------------------------------------
#: {class of events or commands: the field that has the name of what it is about, if it is about one
#: job; "": it is about none}
_ABOUT = {
    **dict.fromkeys((AttemptProgressed, AttemptReady, AttemptSucceeded), "attempt"),
    **dict.fromkeys((AttemptFailed, AttemptKilled), "attempt"),
    **dict.fromkeys((LaunchAttempt, BeginAttempt, KillAttempt), "attempt"),
    **dict.fromkeys((FlowFinished, FlowFailed, StartFlow, CancelFlow), "flow"),
    **dict.fromkeys((OpenCoflow, CloseCoflow), "coflow"),
    **dict.fromkeys((AttemptStarted, TimerFired, SetTimer), ""),
}


def touched_jobs(event: Event, commands: Sequence[Command]) -> set[JobId] | None:
    """The jobs that an event and its commands are about; None: any job may be touched.

    Whatever this misses is found by a check of everything, a few events later.
    """
    jobs: set[JobId] = set()
    for each in (event, *commands):
        field = _ABOUT.get(type(each))
        if field is None:
            return None
        if field:
            jobs.add(job_of(getattr(each, field)))
    return jobs


# The laws -----------------------------------------------------------------------------------------
#: Events between two checks of everything that the core knows.
_EVENTS_PER_FULL_CHECK = 8
#: Steps between two checks of the links' loads.
_STEPS_PER_LINK_CHECK = 16
#: By how many bytes a link's counter, and by which share a time or a rate, may be off by rounding.
_ROUNDING_BYTES, _ROUNDING = 100, 1e-6


class Laws:
    """The laws of one run.  Each check raises ``InvariantError`` with what is wrong."""

    def __init__(self, run: Simulation, jobs: Workload) -> None:
        self.slots = SlotAccount()
        self._timers = TimerAccount()
        self._events = 0
        self.is_late: Callable[[], bool] = lambda: False  #: whether events come late just now
        self._run = run
        self._jobs = jobs
        self._has_circuits = run.config.flow_scheduler in CIRCUITS
        self._committed_bytes: dict[JobId, int] = {}  #: {job: output of its winners}
        self._observed_s = -math.inf  #: when links were reported last
        self._steps = 0
        #: the last check of links with circuits: its time, {link: bytes carried by then},
        #: {link: capacity in bytes/s from then on}
        self._last_check: tuple[float, dict[str, int], dict[str, float]] = (0.0, {}, {})
        self._was_stopped = False  #: whether the network was, since the last check of links

    # After each event ----------------------------------------------------------------------------
    def check(self, event: Event, commands: Sequence[Command]) -> None:
        """After an event and its commands."""
        self.slots.count(event, commands)
        self._timers.count(event, commands)
        if not self.is_late():
            self._timers.check(self._run.heap.now_s)
        if isinstance(event, AttemptSucceeded):
            self._check_input(event)
        elif isinstance(event, LinksObserved) and not self.is_late():
            self._check_observed()
        elif isinstance(event, JobCommitFailed):
            self._check_not_committed(event.job)
        for command in commands:
            if isinstance(command, CommitJob):
                self._check_winners(command)
        self._events += 1
        every = self._events % _EVENTS_PER_FULL_CHECK == 0
        check_core(self._run.core, None if every else touched_jobs(event, commands))

    def restarted(self, journal: Sequence[tuple[Event, Sequence[Command]]]) -> None:
        """The core was rebuilt: what is in no journal has not happened."""
        self.slots = SlotAccount()
        self._timers = TimerAccount(self._run.heap.now_s)
        for event, commands in journal:
            self.slots.count(event, commands)
            self._timers.count(event, commands)
        check_core(self._run.core)
        self._observed_s = -math.inf

    def _check_input(self, event: AttemptSucceeded) -> None:
        job = self._run.workers.jobs.get(job_of(event.attempt))
        known = self._run.core.state.jobs.get(job_of(event.attempt))
        if job is None or known is None:
            return  # the job ended before this attempt
        name, task = task_place(event.attempt)
        work = job[name]
        wanted = work.blocks[task][1] if work.blocks else 0
        for source in work.reads:
            for other in known.stages[source].tasks:
                if other.counted:
                    wanted += job[source].partition_bytes(other.index)[task]
        if event.input_bytes != wanted:
            raise InvariantError(f"{event.attempt} read {event.input_bytes} bytes of {wanted}")

    def _check_winners(self, command: CommitJob) -> None:
        job = self._run.core.state.jobs[command.job]
        last = [stage for stage in job.stages.values() if not stage.readers]
        wanted = [task.id for stage in last for task in stage.tasks]
        winners = [task_of(attempt) for attempt in command.winners]
        if sorted(winners) != sorted(wanted):
            raise InvariantError(f"{command.job} is committed with {winners}: need one each")
        work = self._run.workers.jobs[command.job]
        output = map(task_place, command.winners)
        self._committed_bytes[command.job] = sum(
            [work[stage].output_bytes[task] for stage, task in output]
        )

    def _check_not_committed(self, job: JobId) -> None:
        if self._is_committed(job):
            raise InvariantError(f"{job} is committed, and its commit is called failed")

    def _is_committed(self, job: JobId) -> bool:
        store = self._run.store
        is_down = isinstance(store, FaultyBlockStore) and store.is_down
        answer = None if is_down else store.send(GetStatus(path=success_file(f"/out/{job}")))
        return isinstance(answer, Status) and answer.status is not None

    def _check_observed(self) -> None:
        """Links are reported once a period, and then nothing known is off by more than a change."""
        run, config = self._run, self._run.core.state.policies.links
        if config is None:
            raise InvariantError("links are reported, and no policy uses the network")
        now_s = run.heap.now_s
        if now_s < self._observed_s + config.period_s * (1 - _ROUNDING):
            raise InvariantError(f"links are reported at {self._observed_s} s and {now_s} s")
        self._observed_s = now_s
        fabric = run.network.fabric
        capacities, free = fabric.capacities_bytes_per_s(), fabric.free_bytes_per_s()
        for name, link in run.core.state.links.items():
            off = abs(link.free_bytes_per_s - free[name])
            most = (config.change + _ROUNDING) * capacities[name]
            if link.capacity_bytes_per_s != capacities[name] or off > most:
                raise InvariantError(f"{name} is known as {link}, and has {free[name]} bytes/s")

    # While flows are open ------------------------------------------------------------------------
    def check_step(self) -> None:
        """After each step: of the network."""
        self._steps += 1
        network = self._run.network
        if isinstance(network, FaultyNetwork) and network.is_stopped:
            self._was_stopped = True
        elif self._has_circuits:
            self._check_circuits()
        elif self._steps % _STEPS_PER_LINK_CHECK == 0:
            self._check_links()

    def _check_links(self) -> None:
        """Sum up the flows' rates on each link, independent of the fabric's own sums."""
        network = self._run.network
        fabric = network.fabric
        load = [0.0] * len(fabric.network.number)
        for flow, rate in fabric.rates_bytes_per_s().items():
            spec, _ = network.flows()[flow]
            for link in fabric.network.route(spec.src, spec.dst).links:
                load[link] += rate
        for name, capacity in fabric.capacities_bytes_per_s().items():
            left = self._run.faults.capacity_of(name)
            if capacity > left:
                raise InvariantError(f"{name} has {capacity} bytes/s: faults have left {left}")
            carried = load[fabric.network.number[name]]
            if carried > capacity * (1 + 1e-6) + 1e-3:
                raise InvariantError(f"{name} carries {carried} of {capacity} bytes/s")

    def _check_circuits(self) -> None:
        """Each port has at most one circuit, and no link has carried more than it could.

        The fabric alone knows which flows use circuits, so this compares the links' bytes.
        """
        fabric = self._run.network.fabric
        ports = Counter(end for one in fabric.circuits() for end in (f"{one.src} out", one.dst))
        if any(circuits > 1 for circuits in ports.values()):
            raise InvariantError(f"at {fabric.now_s} s ports have {ports} circuits: need one each")
        before_s, before, capacities = self._last_check
        if self._was_stopped:  # it has received other capacities at any time since then
            self._was_stopped, capacities = False, {}
        network = self._run.network
        carried = (network if isinstance(network, FaultyNetwork) else fabric).bytes_by_link()
        for name, bytes_per_s in capacities.items():
            most = bytes_per_s * (fabric.now_s - before_s) * (1 + 1e-6) + _ROUNDING_BYTES
            new = carried[name] - before[name]
            if new > most:
                raise InvariantError(f"{name} has carried {new} bytes where {most} were possible")
        self._last_check = (fabric.now_s, carried, fabric.capacities_bytes_per_s())

    # At the end ----------------------------------------------------------------------------------
    def check_end(self) -> None:
        """Once all jobs have ended, and all daemons are up."""
        run = self._run
        check_core(run.core)
        state = run.core.state
        if state.free != state.slots or run.core.shuffle.fetches or state.jobs:
            raise InvariantError(f"{state.slots - state.free} slots are held at the end")
        self._check_bytes()
        if len(run.core.records) != len(self._jobs.jobs):
            raise InvariantError(f"{len(run.core.records)} jobs of {len(self._jobs.jobs)} ran")
        for record in run.core.records.values():
            job = self._jobs.jobs[int(record.id[1:]) - 1]
            if record.ok and job.output_bytes:
                self._check_output(record.id, job)
        self._check_replicas()

    def _check_output(self, name: JobId, job: WorkloadJob) -> None:
        if not self._is_committed(name):
            raise InvariantError(f"{name} ended well, and its output does not say so")
        usage = self._run.store.send(GetUsage(path=f"/out/{name}"))
        assert isinstance(usage, Usage)
        needs_all = not any(stage.needed for stage in job.stages)
        wanted_bytes = job.output_bytes if needs_all else self._committed_bytes[name]
        if usage.stored_bytes != wanted_bytes:
            written = f"{usage.stored_bytes} bytes of {wanted_bytes}"
            raise InvariantError(f"{name} has written {written}")

    def _check_bytes(self) -> None:
        network = self._run.network
        fabric, deaths = network.fabric, 0
        bytes_, least = fabric.bytes_by_category(), fabric.finished_bytes
        if isinstance(network, FaultyNetwork):
            bytes_, least = network.bytes_by_category(), network.arrived_bytes
            deaths = network.deaths
        carried = bytes_["rack"] + bytes_["cross_rack"]
        open_ = network.fabric.rates_bytes_per_s()
        under_way = sum(network.flows()[flow][0].size_bytes for flow in open_)
        most = least + network.lost_bytes + under_way
        slack = network.opened * (1 + deaths) + 1  # one byte of rounding per flow
        if not least - slack <= carried <= most + slack:
            raise InvariantError(f"{carried} bytes were carried: need {least} to {most}")

    def _check_replicas(self) -> None:
        store, nodes = self._run.store, [n.id for n in self._run.config.topology.nodes()]
        for block, known in store.namenode.blocks.blocks.items():
            if not known.complete:
                continue
            there = {
                node for node in nodes if store.disks.has(block, node) and node not in store.down
            }
            forgotten = there - set(known.holders)
            if forgotten:
                raise InvariantError(f"block {block} on {sorted(forgotten)} is forgotten")
