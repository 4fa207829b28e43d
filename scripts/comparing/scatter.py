"""How much a run varies by chance: simulations of it with slightly varied computing times.

When several slots become free at nearly the same time, an emulation gives a task one of them by
chance; on ideal nodes it is always the same one.  From there runs diverge: a map that finds no free
slot beside its block may wait for seconds.  So one simulation is one of many equally likely ones,
and an emulated run must be compared with all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import NodeId
from railyard.jobs.workloads.model import Workload
from railyard.scripts.comparing.metrics import Summary
from railyard.scripts.comparing.placed import last_node
from railyard.scripts.simulating.sweep import sweep
from railyard.scripts.simulating.workers import Workers
from railyard.simulator.cluster import Simulation
from railyard.simulator.heap import EventPriority
from railyard.simulator.memory import few_collections
from railyard.simulator.nodes.behaviour import Behaviour

#: Simulations of each emulated run.
SIMULATIONS = 20
#: Sigma of their computing times: about 2 ms of a map, the usual lateness of an emulation.
VARIANCE = 0.002


@dataclass(frozen=True, kw_only=True)
class Emulated:
    """An emulated run, to be simulated."""

    config: ClusterConfig
    workload: Workload  #: with its blocks where they were (``placed``)
    events: Path  #: its ``events.jsonl``


@dataclass(frozen=True, kw_only=True)
class _Simulated:
    config: ClusterConfig  #: the emulated run's: policies draw from its seed, as they did there
    workload: Workload
    behaviour: Behaviour
    chance: int  #: the seed of what differs from one emulation to the next
    after: NodeId | None  #: the node after which offers go on; None: the first


def scatter(
    runs: Sequence[Emulated], variance: float = VARIANCE, on: Workers | None = None
) -> list[list[Summary]]:
    """Simulate each run ``SIMULATIONS`` times: the same jobs, with offers from the same node on.

    ``variance`` is the sigma of computing times, ``on`` where to simulate (``simulating.sweep``).
    """
    found = sweep(_simulate, [one for run in runs for one in _simulations(run, variance)], on=on)
    return [found[at : at + SIMULATIONS] for at in range(0, len(found), SIMULATIONS)]


def _simulations(run: Emulated, variance: float) -> list[_Simulated]:
    after = last_node(run.workload, run.events)
    return [
        _Simulated(
            config=run.config,
            workload=run.workload,
            behaviour=Behaviour(variance=variance),
            chance=number,
            after=after,
        )
        for number in range(1, SIMULATIONS + 1)
    ]


def _simulate(one: _Simulated) -> Summary:
    simulation = Simulation(one.config, one.workload, one.behaviour, chance=one.chance)
    if one.after is not None:  # once the nodes have joined
        simulation.heap.at(
            0.0, simulation.core.state.start_offers_after, one.after, priority=EventPriority.FAULT
        )
    with few_collections():
        simulation.run()
    return simulation.summary()
