"""A cluster in virtual time: the real core and the real fabric, with simulated nodes and disks.

    run = Simulation(config, workload)
    run.run()
    summary = run.summary()

Time jumps from event to event.  All actions of one time run before the network sets new rates.
Never here: decisions, the wall clock, and daemons that die (``railyard.oracles.faults``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import InvariantError
from railyard.cluster.faults import Fault
from railyard.cluster.ids import JobId, job_of
from railyard.cluster.messages import (
    BeginAttempt,
    CancelFlow,
    KillAttempt,
    LaunchAttempt,
    NodeJoined,
    StartFlow,
)
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import names_of_links
from railyard.cluster.units import format_size
from railyard.jobs.workloads.model import Workload
from railyard.netemu.fabric.fabric import MANY_FLOWS, Fabric
from railyard.netemu.model.arrays import instant_s
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.netemu.schedulers.base import Serves
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.core.jobs import Job
from railyard.resourcemanager.core.offers import explain
from railyard.resourcemanager.core.records import JobRecord, one_after_another
from railyard.resourcemanager.core.shuffling.fetches import CancelFetch, StartFetches
from railyard.resourcemanager.driving.coredriver import Log
from railyard.resourcemanager.driving.report import add_figures, add_network, report
from railyard.resourcemanager.interface.commands import CloseCoflow, OpenCoflow
from railyard.resourcemanager.interface.events import JobKilled
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers import recipe_named
from railyard.simulator.behaviour import Behaviour, fetches
from railyard.simulator.blockstore import BlockStore
from railyard.simulator.clock import BatchDriver, EventHeap, EventPriority, VirtualDriver
from railyard.simulator.faults import Faults
from railyard.simulator.network import LinkWatch, SimulatedNetwork
from railyard.simulator.submissions import Submissions
from railyard.simulator.workers import IdealWorkers, NodeManagers, Workers

#: So many timers are waited for that were set after the simulation came to stand still.
_MORE_TIMERS = 1_000
#: So many nodes, links or tasks are named in a reason.
_NAMED = 3


@dataclass(eq=False)
class Standstill:
    """Notices that nothing in a simulation can change any more; explains what each job waits for.

    Nothing goes on by itself once no flow sends and nothing is planned but polls and timers: no
    task computes, no fault begins or ends, no job is to come.  Something may still follow from a
    poll or a timer: an attempt reports its last progress, a policy tires of waiting for a better
    slot.  So each attempt is polled once more, and each timer fires; policies that ask to be woken
    again and again are woken some more.  If all that leads to nothing, it stands still for good.
    """

    _topology: Topology
    _heap: EventHeap
    _driver: VirtualDriver
    _workers: Workers
    since_s: float | None = None  #: when it began; None: something goes on
    _fired_max: int = 0  #: the number of timers fired at which it is for good

    def next_s(self) -> float:
        """Something else than polls and timers would have to happen: when the next of these is.

        Inf: nothing can follow from them.
        """
        heap, driver = self._heap, self._driver
        if self.since_s is None:
            self.since_s = heap.now_s
            self._fired_max = driver.timers_fired + driver.timers_set + _MORE_TIMERS
        if driver.timers_fired > self._fired_max:
            return math.inf
        poll_s = heap.next_s()
        if poll_s <= self.since_s + self._workers.behaviour.progress_s:
            return poll_s
        return heap.next_timer_s()

    def causes(self) -> list[str]:
        """What is missing for good: links that carry nothing, nodes and slots that are lost."""
        topology, fabric = self._topology, self._workers.network.fabric
        stopped = [name for name, rate in fabric.capacities_bytes_per_s().items() if not rate]
        links = names_of_links(stopped, topology.places())
        found = [f"{name} carries nothing" for name in links]
        known = self._driver.core.state.nodes
        for node in topology.nodes():
            has = known.get(node.id)
            if has is None or not has.alive:
                found.append(f"{node.id} is lost")
            elif has.slots < node.slots:
                found.append(f"{node.id} has {has.slots} of {node.slots} slots")
        return found

    def reasons(self) -> dict[JobId, str]:
        jobs = self._driver.core.state.jobs.values()
        return {job.id: self._reason(job) for job in jobs if job.state == "running"}

    # ---------------------------------------------------------------------------------------------
    def _reason(self, job: Job) -> str:
        waits = _some(list(self._waiting_flows(job.id)), "flows wait")
        if (task := job.first_pending()) is not None:
            waits.append(explain(self._driver.core.state, task, self._heap.now_s))
        waits += _some(self.causes(), "links, nodes and slots are missing")
        return "; ".join(waits)

    def _waiting_flows(self, job: JobId) -> Iterator[str]:
        """Of each flow that the job's attempts wait for: whose it is, and which link stops it."""
        workers = self._workers
        for fetch in self._driver.core.shuffle.fetches.values():
            order = fetch.start_order
            if job_of(order.reader) == job and order.src != order.dst:
                yield self._waiting(order.reader, "fetches", order)
        for attempt in workers.running.values():
            if job_of(attempt.id) != job:
                continue
            for doing, flow in attempt.flows():
                if flow in workers.network.flows():
                    yield self._waiting(attempt.id, doing, workers.network.flows()[flow][0])

    def _waiting(self, attempt: str, doing: str, spec: FlowSpec | StartFlow) -> str:
        size = format_size(spec.size_bytes)
        what = f"{attempt} {doing} {size} from {spec.src} to {spec.dst}"
        links = names_of_links(self._stopped_links(spec), self._topology.places())
        over = " and ".join(links)
        return f"{what} over {over}" if over else f"{what}, and may send nothing"

    def _stopped_links(self, spec: FlowSpec | StartFlow) -> list[str]:
        """The links that carry nothing on the ways of a flow, by packets and by circuit."""
        fabric = self._workers.network.fabric
        network, capacities = fabric.network, fabric.capacities_bytes_per_s()
        routes = [network.route(spec.src, spec.dst)]
        if network.ports and "cross_rack" in routes[0].counted_as:
            routes.append(network.circuit(spec.src, spec.dst))
        ways = {number for route in routes for number in route.links}
        return [name for name, n in network.number.items() if n in ways and not capacities[name]]


def _some(found: list[str], rest: str) -> list[str]:
    """The first few of these, and how many there are in all."""
    more = [f"{len(found)} {rest} in all"] if len(found) > _NAMED else []
    return found[:_NAMED] + more


_IDEAL = Behaviour()
#: With so many fetches in a stage on average, compiled loops are cheaper; with so many in all, the
#: network need not wait until it has seen them.
COMPILED_FROM_FETCHES, _MANY_FETCHES = 1_000, 100_000


class Simulation:
    """A run of one workload on one cluster.

    ``recipe`` is used in place of ``config.scheduler``, for a scheduler that is not in the list.
    ``chance`` is the seed of what differs between emulations of one seed, too: ``behaviour``'s
    computing times, and where written blocks go; None: the config's.  ``compiled_from``: from how
    many started flows on compiled loops set the rates, which changes nothing but the CPU time;
    None: as many as usual.  Raises ``UsageError`` if the config names an unknown scheduler.
    """

    # Parts, of which a simulation with more kinds of faults has others
    store_class: type[BlockStore] = BlockStore
    jobs_class: type[Submissions] = Submissions
    links_class: type[LinkWatch] = LinkWatch

    def __init__(
        self,
        config: ClusterConfig,
        workload: Workload,
        behaviour: Behaviour = _IDEAL,
        faults: Sequence[Fault] = (),
        log: Log | None = None,
        recipe: Recipe | None = None,
        chance: int | None = None,
        compiled_from: int | None = None,
    ) -> None:
        topology, seed = config.topology, config.seed
        chance = seed if chance is None else chance
        recipe = recipe or recipe_named(config.scheduler)
        self.config, self.workload, self.behaviour = config, workload, behaviour
        self.chance = chance
        self.heap = EventHeap()
        many = fetches(workload)
        compiled = sum(many) >= COMPILED_FROM_FETCHES * max(1, len(many))
        if compiled_from is None:
            compiled_from = 0 if sum(many) >= _MANY_FETCHES else MANY_FLOWS

        def make_core() -> Core:
            options = config.scheduler_options
            return Core(topology, recipe, options, seed, compile_loops=compiled)

        def make_fabric() -> Fabric:
            return Fabric(
                topology,
                flow_scheduler(config.flow_scheduler),
                compiled_from=compiled_from,
                together_s=behaviour.together_s,
            )

        in_batches = behaviour.is_prompt and not (faults or log)
        self.driver = self._make_driver(make_core, log, in_batches)
        self.network = self._make_network(make_fabric)
        self.store = self.store_class(topology, self.chance, self.heap, self.network)
        self.workers = self._make_workers()
        self.jobs = self.jobs_class(topology, self.driver, self.store, self.workers)
        for node in topology.nodes():
            joined = NodeJoined(node=node.id, rack=node.rack, slots=node.slots)
            self.heap.at(0.0, self.driver.feed, joined, priority=EventPriority.FAULT)
        if isinstance(self.workers, NodeManagers):
            if faults:
                self.workers.expect_repeats()
            self.faults = self._plan_faults(self.workers, faults)
        links = self.core.state.policies.links
        self._links: LinkWatch | None = None
        if links is not None:
            self._links = self.links_class(self.network, self.heap, links, self.driver.feed)
        self._standstill = Standstill(topology, self.heap, self.driver, self.workers)
        self._take_commands()
        # After the nodes have joined, and before the first job is submitted.
        self.heap.at(0.0, self.jobs.send_forecasts, workload.jobs, priority=EventPriority.FAULT)
        self._steps = self._plan_submissions()
        self.heap.at(0.0, self.jobs.report_inputs, priority=EventPriority.FAULT)

    @property
    def core(self) -> Core:
        """The core of the ResourceManager that is there now, or was last."""
        return self.driver.core

    def run(self, watch: Callable[[Simulation], None] = lambda _: None) -> None:
        """Run until all jobs have ended; ``watch`` is called after each step.

        Jobs that can never end, because links, nodes or slots are missing for good, fail.  Raises
        ``InvariantError`` if some can never end although nothing is missing.
        """
        while self.jobs.ended < len(self.workload.jobs):
            self.step()
            watch(self)

    def step(self) -> None:
        """Jump to the time of the next event, and run all that is due then."""
        heap, network = self.heap, self.network
        network_s = network.next_s()
        if self._links is not None:
            self._links.review()
        if network_s == math.inf and heap.only_polls:
            heap_s = self._standstill.next_s()
            if heap_s == math.inf:
                self._fail_waiting_jobs()
                return
        else:
            self._standstill.since_s = None
            if isinstance(self.driver, BatchDriver):
                heap.run_polls(self.core.steady_until_s(), network_s, network.fabric.pass_time)
            heap_s = heap.next_s()
        due_s = min(network_s, heap_s)
        if heap_s - due_s <= instant_s(due_s):  # the same instant: one step for both
            due_s = heap_s
        heap.now_s = due_s
        network.advance()
        heap.run_due()

    def summary(self) -> dict[str, Any]:
        """The results that ``summary.json`` has, except those that only the caller knows."""
        config, driver = self.config, self.driver
        summary = {
            "scheduler": config.scheduler,
            "flow_scheduler": config.flow_scheduler,
            "topology": config.topology.name,
            "workload": self.workload.name,
            "clock": "virtual",
            "seed": config.seed,
            "scale": config.topology.scale,
            **report(self._records(), self.core.state.slot_history, self.heap.now_s),
            "scheduling_s": {"total": driver.deciding_s, "max": driver.deciding_s_max},
            "verified": None,  # a simulation has no output to verify
        }
        add_figures(summary, self.core.state.policies)
        add_network(summary, self.network.stats(), self.network.fabric.network)
        return summary

    # Other parts -------------------------------------------------------------------------------
    def _make_driver(
        self, make_core: Callable[[], Core], log: Log | None, in_batches: bool
    ) -> VirtualDriver:
        kind = BatchDriver if in_batches else VirtualDriver
        return kind(make_core(), self.heap, log)

    def _make_network(self, make_fabric: Callable[[], Fabric]) -> SimulatedNetwork:
        by_name = flow_scheduler(self.config.flow_scheduler).serves is Serves.PRIORITIES
        fetch_s = self.behaviour.fetch_s
        return SimulatedNetwork(make_fabric(), self.heap, fetch_s, names_matter=by_name)

    def _make_workers(self) -> Workers:
        if isinstance(self.driver, BatchDriver):
            return IdealWorkers(*self._for_workers(), driver=self.driver)
        return NodeManagers(*self._for_workers())

    def _for_workers(self) -> tuple[Any, ...]:
        seed, block_bytes = self.config.seed, self.config.topology.storage.block
        where = (self.heap, self.network, self.store)
        return (*where, self.behaviour, seed, self.chance, block_bytes, self.driver.feed)

    def _plan_faults(self, workers: NodeManagers, faults: Sequence[Fault]) -> Faults:
        return Faults(faults, self.config.topology, self.heap, workers)

    # Inside --------------------------------------------------------------------------------------
    def _plan_submissions(self) -> dict[JobId, list[JobId]]:
        """Have all jobs submitted; {first step of a job: all its steps}."""
        steps: dict[JobId, list[JobId]] = {}
        known: dict[str, tuple[JobId, JobId]] = {}  #: {name: the job, and the first of its steps}
        for number, job in enumerate(self.workload.jobs, start=1):
            self.heap.at(0.0, self.jobs.store_input, job, priority=EventPriority.FAULT)
            name = first = JobId(f"j{number}")
            if job.after:
                earlier, first = known[job.after]
                self.jobs.submit_after(earlier, name, job)
            else:
                submit = self.jobs.submit
                self.heap.at(job.submit_s, submit, name, job, priority=EventPriority.ARRIVAL)
            known[job.name] = name, first
            steps.setdefault(first, []).append(name)
        return steps

    def _records(self) -> list[JobRecord]:
        """What the core has recorded of each job; steps of one are put together."""
        records = self.core.records
        return [
            one_after_another([records[step] for step in self._steps[first] if step in records])
            for first in records
            if first in self._steps
        ]

    def _take_commands(self) -> None:
        driver, workers = self.driver, self.workers
        driver.on(LaunchAttempt, workers.launch)
        driver.on(BeginAttempt, workers.begin)
        driver.on(KillAttempt, workers.kill)
        if isinstance(workers, IdealWorkers):
            driver.on(StartFetches, workers.start_fetches)
            driver.on(CancelFetch, self.network.cancel_fetch)
        elif isinstance(workers, NodeManagers):
            driver.on(StartFlow, workers.start_flow)
            driver.on_all(StartFlow, workers.start_flows)
            driver.on(CancelFlow, workers.cancel_flow)
        driver.on(OpenCoflow, lambda order: self.network.open_coflow(order.coflow))
        driver.on(CloseCoflow, lambda order: self.network.close_coflow(order.coflow))

    def _fail_waiting_jobs(self) -> None:
        """Nothing can change any more: all jobs fail with what they wait for."""
        reasons, since_s = self._standstill.reasons(), self._standstill.since_s
        if not (reasons and self._standstill.causes()):
            waits = "\n".join(reasons.values()) or f"{', '.join(self.core.state.jobs)} wait"
            raise InvariantError(f"at {self.heap.now_s:.3f} s nothing will happen: {waits}")
        for job, waits in reasons.items():
            reason = f"since {since_s:.3f} s nothing can change any more: {waits}"
            self.driver.feed(JobKilled(job=job, reason=reason))
