"""Notices that nothing in a simulation can change any more, and says what each job waits for.

Nothing goes on by itself once no flow sends and nothing is planned but looks and timers: no task
computes, no fault begins or ends, no job is to come.  Something may still follow from a look or a
timer: an attempt reports its last progress, a policy tires of waiting for a better slot.  So each
attempt looks once more, and each timer fires; policies that ask to be woken again and again are
woken some more.  If all that leads to nothing, the simulation stands still for good.

Never here: what becomes of the jobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from railyard.cluster.ids import JobId, job_of
from railyard.cluster.messages.execution import StartFlow
from railyard.cluster.topologies.linknames import names_of_links
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_size
from railyard.netemu.model.flows import FlowSpec
from railyard.resourcemanager.core.state.jobs import Job
from railyard.simulator.driver import VirtualDriver
from railyard.simulator.heap import EventHeap
from railyard.simulator.nodes.workers import Workers

#: So many timers are waited for that were set after the simulation came to stand still.
_MORE_TIMERS = 1_000
#: So many nodes, links or tasks are named in a reason.
_NAMED = 3


class Standstill:
    """Of one simulation."""

    def __init__(
        self, topology: Topology, heap: EventHeap, driver: VirtualDriver, workers: Workers
    ) -> None:
        self._topology = topology
        self._heap = heap
        self._driver = driver
        self._workers = workers
        self.since_s: float | None = None  #: when it began; None: something goes on
        self._fired_max = 0  #: the number of timers fired at which it is for good

    def is_over(self) -> None:
        """Something goes on."""
        self.since_s = None

    def next_s(self) -> float:
        """Something else than looks and timers would have to happen: when the next of these is.

        Inf: nothing can follow from them.
        """
        heap, driver = self._heap, self._driver
        if self.since_s is None:
            self.since_s = heap.now_s
            self._fired_max = driver.timers_fired + driver.timers_set + _MORE_TIMERS
        if driver.timers_fired > self._fired_max:
            return math.inf
        look_s = heap.next_s()
        if look_s <= self.since_s + self._workers.behaviour.progress_s:
            return look_s
        return heap.next_timer_s()

    def causes(self) -> list[str]:
        """What is missing for good: links that carry nothing, nodes and slots that are gone."""
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
        """What each job that runs waits for."""
        jobs = self._driver.core.state.jobs.values()
        return {job.id: self._reason(job) for job in jobs if job.state == "running"}

    # ---------------------------------------------------------------------------------------------
    def _reason(self, job: Job) -> str:
        waits = _some(list(self._waiting_flows(job.id)), "flows wait")
        firsts = ((stage, stage.pending.first()) for stage in job.stages.values())
        pending = (stage.tasks[first].id for stage, first in firsts if first is not None)
        if (task := next(pending, None)) is not None:
            waits.append(self._driver.core.explain(task, self._heap.now_s))
        waits += _some(self.causes(), "links, nodes and slots are missing")
        return "; ".join(waits)

    def _waiting_flows(self, job: JobId) -> Iterator[str]:
        """Of each flow that the job's attempts wait for: whose it is, and which link stops it."""
        workers = self._workers
        for fetch in self._driver.core.fetches.values():
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
        if network.ports and routes[0].crosses_racks:
            routes.append(network.circuit(spec.src, spec.dst))
        ways = {number for route in routes for number in route.links}
        return [name for name, n in network.number.items() if n in ways and not capacities[name]]


def _some(found: list[str], rest: str) -> list[str]:
    """The first few of these, and how many there are in all."""
    more = [f"{len(found)} {rest} in all"] if len(found) > _NAMED else []
    return found[:_NAMED] + more
