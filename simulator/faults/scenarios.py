"""Random small clusters with random jobs and faults from a seed, and the rules that they keep.

After each event: no slot runs two attempts, the core's invariants hold, and each attempt has read
all of its input and no more.  While flows are open: no link carries more than its capacity.  Links
that a policy looks at are reported once a period, and are known as they are then.  At the end: all
jobs have ended, all slots are free, the output has the workload's size, and the network carried as
many bytes as arrived or were cancelled.
"""

from __future__ import annotations

import functools
import math
import random
from collections import Counter
from collections.abc import Sequence

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import AttemptId, JobId, NodeId, job_of, stage_of, task_index
from railyard.cluster.messages.execution import (
    AttemptFailed,
    AttemptKilled,
    AttemptSucceeded,
    BeginAttempt,
    LaunchAttempt,
    NodeJoined,
    NodeLost,
    SlotsChanged,
)
from railyard.cluster.messaging.wire import Command, Event
from railyard.cluster.topologies.tables import (
    Compute,
    Links,
    Liveness,
    Ocs,
    RackShape,
    Storage,
    SwitchTree,
)
from railyard.cluster.topology import Topology
from railyard.dfs.messages.files import GetUsage, Usage
from railyard.jobs.workloads.model import InputFile, Recurrence, Workload, WorkloadJob, WorkStage
from railyard.netemu.messages import LinksObserved
from railyard.netemu.schedulers import FLOW_SCHEDULERS
from railyard.resourcemanager.driving.coredriver import Log
from railyard.resourcemanager.interface.commands import CommitJob
from railyard.resourcemanager.interface.policies import CopyPolicy
from railyard.resourcemanager.interface.recipe import Option, Recipe, option_names
from railyard.resourcemanager.interface.speculation import Speculation
from railyard.resourcemanager.schedulers import recipe_named
from railyard.simulator.cluster import Simulation
from railyard.simulator.faults import toys
from railyard.simulator.faults.faultspec import random_faults
from railyard.simulator.nodes.behaviour import Behaviour

#: All faults have ended by this time; jobs must end within the second one after it.
FAULTS_END_S = 30.0
JOBS_END_S_MAX = 5000.0
#: Flow schedulers that use circuits.
_CIRCUITS = ("sunflow",)
#: Settings of schedulers that are tried because of what is off, or hardly ever done, by default.
_TRIED: dict[str, Option] = {
    "iridium.move_data": True,
    "shadow.duplicates_max": 1.0,
    "kmn.extra": 1.0,
}
#: Steps between two checks of the links' loads.
_STEPS_PER_LINK_CHECK = 16
#: By how many bytes a link's counter, and by which share a time or a rate, may be off by rounding.
_ROUNDING_BYTES, _ROUNDING = 100, 1e-6


@functools.cache  # the search for other packages' schedulers takes longer than a scenario
def _recipe(scheduler: str) -> Recipe:
    """The recipe of that name; the toys' is found here alone."""
    return toys.RECIPE if scheduler == toys.RECIPE.name else recipe_named(scheduler)


class Scenario:
    """One random simulation.  ``go`` raises ``InvariantError`` if a rule is broken.

    ``shuffle_flows``: see ``Behaviour``.
    """

    def __init__(self, scheduler: str, seed: int, shuffle_flows: int = 0) -> None:
        dice = random.Random(seed)
        topology = _topology(dice)
        config = ClusterConfig(
            topology=topology,
            scheduler=scheduler,
            flow_scheduler=dice.choice(_flow_schedulers(topology)),
            seed=seed,
            scheduler_options=_options(_recipe(scheduler), seed),
        )
        jobs = _jobs(dice)
        if _recipe(scheduler).copies.first_counts is not CopyPolicy.first_counts:
            toss = random.Random(f"{seed} toys")
            racks = topology.racks.count
            jobs = [_in_few_racks(_needing_less(job, toss), racks, toss) for job in jobs]
        if _recipe(scheduler).uses_forecasts and _recipe(scheduler).uses_data:
            toss = random.Random(f"{seed} forecasts")
            jobs = [_predicted(job, toss) for job in jobs]
        self.jobs = Workload(name=f"seed {seed}", source="", jobs=tuple(jobs))
        self._committed_bytes: dict[JobId, int] = {}  #: {job: output of its winners}
        faults = random_faults(dice, topology, FAULTS_END_S)
        self.log: Log | None = None  #: also gets all events, if set
        self._held: dict[NodeId, dict[AttemptId, None]] = {}
        self._slots: dict[NodeId, int] = {}
        self._where: dict[AttemptId, NodeId] = {}
        self._reserved: dict[AttemptId, NodeId] = {}  #: attempts launched without a slot
        self._observed_s = -math.inf  #: when links were reported last
        #: the last check of links with circuits: its time, {link: bytes carried by then},
        #: {link: capacity in bytes/s from then on}
        self._last_check: tuple[float, dict[str, int], dict[str, float]] = (0.0, {}, {})
        recipe = _recipe(scheduler)
        behaviour = msgspec.structs.replace(_behaviour(dice), shuffle_flows=shuffle_flows)
        self.run = Simulation(config, self.jobs, behaviour, faults, self, recipe=recipe)

    def go(self) -> Simulation:
        """Run to the end, checking all rules."""
        run, steps = self.run, 0
        while run.jobs.ended < len(self.jobs.jobs):
            run.step()
            steps += 1
            if run.config.flow_scheduler in _CIRCUITS:
                self._check_circuits()
            elif steps % _STEPS_PER_LINK_CHECK == 0:
                self._check_links()
            if run.heap.now_s > FAULTS_END_S + JOBS_END_S_MAX:
                raise InvariantError(f"jobs go on at {run.heap.now_s:.0f} s")
        while run.core.state.draining:
            run.step()
        self._check_end()
        return run

    # After each event: a ``resourcemanager.driving.coredriver.Log`` ------------------------------
    def write(self, at_s: float, event: Event, commands: Sequence[Command] = ()) -> None:
        """Check the rules after an event and its commands."""
        if self.log is not None:
            self.log.write(at_s, event, commands)
        self.count(event, commands)
        if isinstance(event, LinksObserved):
            self._check_observed()
        self.run.core.check_invariants()

    def count(self, event: Event, commands: Sequence[Command]) -> None:
        """Keep an account of the attempts on each node, independent of the core's."""
        self._count_event(event)
        self._count_commands(commands)

    def _count_event(self, event: Event) -> None:
        match event:
            case NodeJoined(node=node, slots=slots):
                self._held[node], self._slots[node] = {}, slots
            case SlotsChanged(node=node, slots=slots):
                self._slots[node] = slots
            case NodeLost(node=node):
                self._held[node] = {}
            case AttemptSucceeded() | AttemptFailed() | AttemptKilled():
                if self._reserved.pop(event.attempt, None) is None:
                    node = self._where.pop(event.attempt)
                    self._held[node].pop(event.attempt, None)
                if isinstance(event, AttemptSucceeded):
                    self._check_input(event)

    def _count_commands(self, commands: Sequence[Command]) -> None:
        for command in commands:
            match command:
                case LaunchAttempt(attempt=attempt, node=node, begins=False):
                    self._reserved[attempt] = node
                case LaunchAttempt(attempt=attempt, node=node):
                    self._count_held(attempt, node)
                case BeginAttempt(attempt=attempt, node=node):
                    if self._reserved.pop(attempt, "") != node:
                        raise InvariantError(f"{attempt} begins on {node}, where it was not")
                    self._count_held(attempt, node)
                case CommitJob(job=job):
                    self._committed_bytes[job] = self._output_bytes(command)

    def _count_held(self, attempt: AttemptId, node: NodeId) -> None:
        self._where[attempt] = node
        held = self._held[node]
        held[attempt] = None
        if len(held) > self._slots[node]:
            raise InvariantError(f"{node} has {self._slots[node]} slots for {', '.join(held)}")

    def _check_input(self, event: AttemptSucceeded) -> None:
        job = self.run.workers.jobs.get(job_of(event.attempt))
        known = self.run.core.state.jobs.get(job_of(event.attempt))
        if job is None or known is None:
            return  # the job ended before this attempt
        name, task = stage_of(event.attempt).split(".")[1], task_index(event.attempt)
        stage = next(stage for stage in job.job.stages if stage.name == name)
        work = job.stages[name]
        wanted = work.blocks[task][1] if work.blocks else 0
        for source in stage.reads:
            tasks = [t.index for t in known.stages[source].tasks if t.counted]
            wanted += sum(job.stages[source].partition_bytes(t)[task] for t in tasks)
        if event.input_bytes != wanted:
            raise InvariantError(f"{event.attempt} read {event.input_bytes} bytes of {wanted}")

    def _output_bytes(self, command: CommitJob) -> int:
        """Bytes that the winners of a job have written."""
        work = self.run.workers.jobs[command.job].stages
        winners = [(stage_of(name).split(".")[1], task_index(name)) for name in command.winners]
        return sum(work[stage].output_bytes[task] for stage, task in winners)

    def _check_observed(self) -> None:
        """Links are reported once a period, and then nothing known is off by more than a change."""
        run, config = self.run, self.run.core.state.policies.links
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

    # While flows are open, and at the end --------------------------------------------------------
    def _check_links(self) -> None:
        """Sum up the flows' rates on each link, independent of the fabric's own sums."""
        network = self.run.network
        fabric = network.fabric
        load = [0.0] * len(fabric.network.number)
        for flow, rate in fabric.rates_bytes_per_s().items():
            src, dst, _ = network.ends(flow)
            for link in fabric.network.route(src, dst).links:
                load[link] += rate
        for name, capacity in fabric.capacities_bytes_per_s().items():
            carried = load[fabric.network.number[name]]
            if carried > capacity * (1 + 1e-6) + 1e-3:
                raise InvariantError(f"{name} carries {carried} of {capacity} bytes/s")

    def _check_circuits(self) -> None:
        """Each port has at most one circuit, and no link has carried more than it could.

        The fabric alone knows which flows use circuits, so this compares the links' bytes.
        """
        fabric = self.run.network.fabric
        ports = Counter(end for one in fabric.circuits() for end in (f"{one.src} out", one.dst))
        if any(circuits > 1 for circuits in ports.values()):
            raise InvariantError(f"at {fabric.now_s} s ports have {ports} circuits: need one each")
        before_s, before, capacities = self._last_check
        carried = fabric.bytes_by_link()
        for name, bytes_per_s in capacities.items():
            most = bytes_per_s * (fabric.now_s - before_s) * (1 + 1e-6) + _ROUNDING_BYTES
            new = carried[name] - before[name]
            if new > most:
                raise InvariantError(f"{name} has carried {new} bytes where {most} were possible")
        self._last_check = (fabric.now_s, carried, fabric.capacities_bytes_per_s())

    def _check_end(self) -> None:
        run = self.run
        state = run.core.state
        if state.free != state.slots or run.core.fetches or state.jobs:
            raise InvariantError(f"{state.slots - state.free} slots are held at the end")
        self._check_bytes()
        for record, job in zip(run.core.records.values(), self.jobs.jobs, strict=True):
            if record.ok and job.output_bytes:
                usage = run.store.send(GetUsage(path=f"/out/{record.id}"))
                assert isinstance(usage, Usage)
                needs_all = not any(stage.needed for stage in job.stages)
                wanted_bytes = job.output_bytes if needs_all else self._committed_bytes[record.id]
                if usage.stored_bytes != wanted_bytes:
                    written = f"{usage.stored_bytes} bytes of {wanted_bytes}"
                    raise InvariantError(f"{record.id} has written {written}")

    def _check_bytes(self) -> None:
        network = self.run.network
        fabric = network.fabric
        bytes_ = fabric.bytes_by_category()
        carried = bytes_["rack"] + bytes_["cross_rack"]
        under_way = sum(network.ends(flow)[2] for flow in fabric.rates_bytes_per_s())
        least = network.arrived_bytes
        most = least + network.lost_bytes + under_way
        slack = network.opened + 1  # one byte of rounding per flow
        if not least - slack <= carried <= most + slack:
            raise InvariantError(f"{carried} bytes were carried: need {least} to {most}")


# Random clusters and jobs ------------------------------------------------------------------------
def _topology(dice: random.Random) -> Topology:
    """A cluster of up to nine nodes, slow enough that jobs run while there are faults."""
    racks = dice.randint(1, 3)
    kind = dice.choice(("core", "core", "core", "tree", "ocs"))
    tree = SwitchTree(tor=2e8, aggregation=1.5e8, root=1e8, racks_per_aggregation=1)
    delta_s, elephant_bytes = dice.choice((0.0, 0.05)), dice.choice((1, 20_000_000))
    ocs = Ocs(port_bytes_per_s=5e8, delta_s=delta_s, elephant_bytes=elephant_bytes)
    return Topology(
        name="random",
        racks=RackShape(count=racks, nodes=dice.randint(1, 3), slots=dice.randint(1, 2)),
        links=Links(
            nic=dice.choice((5e7, 1e8)), uplink=None if kind == "tree" else dice.choice((5e7, 2e8))
        ),
        tree=tree if kind == "tree" else None,
        ocs=ocs if kind == "ocs" else None,
        storage=Storage(block=100_000_000, replication=dice.randint(1, 3)),
        compute=Compute(map_rate=5e7, reduce_rate=5e7),
        liveness=Liveness(heartbeat=0.5, expiry_s=2.0),
    )


def _flow_schedulers(topology: Topology) -> list[str]:
    """The flow schedulers that fit the topology: circuits need an optical switch."""
    return sorted(name for name in FLOW_SCHEDULERS if name not in _CIRCUITS or topology.ocs)


def _options(recipe: Recipe, seed: int) -> dict[str, Option]:
    """Copies of slow tasks in every third scenario, much sooner than they would be made.

    Settings of ``_TRIED`` count in every other one.
    """
    known = option_names(recipe) if seed % 2 else ()
    options = {name: value for name, value in _TRIED.items() if name in known}
    if Speculation in recipe.with_settings() and not seed % 3:
        options |= {"speculation.on": True, "speculation.after_s": 1.0, "speculation.cap": 0.3}
    return options


def _behaviour(dice: random.Random) -> Behaviour:
    return Behaviour(
        variance=dice.choice((0.0, 0.3)),
        stragglers=dice.choice((0.0, 0.1)),
        failures=dice.choice((0.0, 0.05)),
        launch_s=dice.choice((0.0, 0.2)),
        fetch_s=dice.choice((0.0, 0.01)),
        end_s=dice.choice((0.0, 0.05)),
        progress_s=dice.choice((0.0, 1.0)),
    )


def _jobs(dice: random.Random) -> list[WorkloadJob]:
    jobs = [_job(dice, number) for number in range(dice.randint(1, 4))]
    return sorted(jobs, key=lambda job: job.submit_s)


def _job(dice: random.Random, number: int) -> WorkloadJob:
    """Maps with or without an input file, then none, one or two stages of reduces."""
    files: tuple[InputFile, ...] = ()
    maps = dice.randint(1, 6)
    if dice.random() < 0.8:
        size_bytes = dice.randint(1, maps * 100_000_000)
        path = f"/in/{number}"
        files = (InputFile(path=path, size_bytes=size_bytes, block_bytes=100_000_000),)
        maps = files[0].blocks
    paths = tuple(file.path for file in files)
    stages = [
        WorkStage(name="m", files=paths, tasks=maps, output_bytes=_size(dice), task_s=dice.random())
    ]
    reads = "m"
    for name in ("r", "s")[: dice.choice((0, 1, 1, 1, 2))]:
        tasks = dice.randint(1, 3)
        weights = tuple(dice.random() + 0.01 for _ in range(tasks)) if dice.random() < 0.3 else ()
        stages.append(
            WorkStage(
                name=name, reads=(reads,), tasks=tasks, output_bytes=_size(dice), weights=weights
            )
        )
        reads = name
    return WorkloadJob(
        name=f"job-{number}",
        user=dice.choice("ab"),
        queue="default",
        submit_s=dice.uniform(0, 10),
        stages=tuple(stages),
        files=files,
    )


def _needing_less(job: WorkloadJob, dice: random.Random) -> WorkloadJob:
    """The same job, with some stages of which a few tasks are enough for those that read them."""
    read = {name for stage in job.stages for name in stage.reads}
    stages = [
        msgspec.structs.replace(stage, needed=dice.randint(1, stage.tasks))
        if dice.random() < 0.3 and stage.name in read
        else stage
        for stage in job.stages
    ]
    return msgspec.structs.replace(job, stages=tuple(stages))


def _in_few_racks(job: WorkloadJob, racks: int, dice: random.Random) -> WorkloadJob:
    """The same job, more often than not with most of its input in one rack."""
    if dice.random() < 0.3:
        return job
    most = dice.randrange(racks)
    shares = tuple((0.1 + 0.9 * racks * (rack == most)) / racks for rack in range(racks))
    shares = tuple(share / sum(shares) for share in shares)
    files = tuple(msgspec.structs.replace(file, shares=shares) for file in job.files)
    return msgspec.structs.replace(job, files=files)


def _predicted(job: WorkloadJob, dice: random.Random) -> WorkloadJob:
    """The same job, predicted to come when it does or later."""
    submit_s = max(0.0, job.submit_s + dice.uniform(-2, 20))
    return msgspec.structs.replace(job, recurrence=Recurrence(name=job.name, submit_s=submit_s))


def _size(dice: random.Random) -> int:
    return dice.choice((0, dice.randint(1, 1000), dice.randint(1, 300_000_000)))
