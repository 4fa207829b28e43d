"""The runs of a comparison, and carrying them out on their clocks.

Emulated runs come one after the other, each on a cluster of its own; simulated ones are spread
over cores.  The request is checked as a whole before the first run begins.

A simulated run depends on its seed alone.  Only an emulated run's twins, which show whether the
clocks agree, begin with the blocks where they were in that run: which node holds a block decides
which maps are local, and depends on which generating task ran where.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import NodeId
from railyard.experiments.contenders import Contender, Row, Twins, labelled, rows_of
from railyard.jobs.workloads.mixes import Defaults, read_mix
from railyard.jobs.workloads.model import InputFile, Workload, WorkloadJob
from railyard.resourcemanager.driving.eventlog import read_log, replay
from railyard.resourcemanager.driving.history import AttemptSpan, History
from railyard.resourcemanager.interface.events import JobSubmitted
from railyard.resourcemanager.schedulers import recipe_named
from railyard.runs.config import (
    Pair,
    cluster_config,
    own_options,
    pairs_of,
    require_known_options,
    warn_of_idle_priorities,
    warn_of_missing_circuits,
)
from railyard.runs.figures import Summary
from railyard.runs.files import Localized
from railyard.runs.folder import EVENTS
from railyard.runs.requests import RunRequest, Workers
from railyard.runs.room import require_memory_for, require_room_for_mix
from railyard.runs.simulation import VirtualRun, run_virtually, say_what_is_coarse, sweep
from railyard.runs.work import SeveralJobs, run_on, session_for
from railyard.runs.workloads import (
    is_simulators,
    require_known,
    require_no_sizes,
    simulators_workload,
)
from railyard.simulator.behaviour import Behaviour
from railyard.simulator.clock import EventPriority, few_collections
from railyard.simulator.simulation import Simulation
from railyard.terminal.progress import progress_view

_Nodes = tuple[NodeId, ...]


def placed_as_in(workload: Workload, events: Path) -> Workload:
    """A workload whose blocks are on the nodes that a run's ``events.jsonl`` names.

    Jobs are known by their names; one that did not run there stays as it is.
    """
    _, rows = read_log(events)
    runs = {
        job.name: [one.nodes for stage in job.stages for one in stage.inputs]
        for noted in rows
        if isinstance(job := noted.event, JobSubmitted)
    }
    jobs = tuple(_placed(job, runs.get(job.name, [])) for job in workload.jobs)
    return replace(workload, jobs=jobs)


def last_node(workload: Workload, events: Path) -> NodeId | None:
    """The node that a run's ResourceManager gave a task last, before the first of these jobs came.

    That is where it goes on with its offers.  None if it had given none.
    """
    names, history = {job.name for job in workload.jobs}, History()
    node: NodeId | None = None
    for step in replay(events):
        if isinstance(step.event, JobSubmitted) and step.event.name in names:
            break
        for what, span in history.take(step.state, step.at_s, step.event, step.commands):
            if isinstance(span, AttemptSpan) and what == "slot":
                node = span.node.id
    return node


def _placed(job: WorkloadJob, nodes: list[_Nodes]) -> WorkloadJob:
    if len(nodes) != sum(file.blocks for file in job.files):
        return job
    files: list[InputFile] = []
    for file in job.files:
        own, nodes = nodes[: file.blocks], nodes[file.blocks :]
        files.append(msgspec.structs.replace(file, nodes=tuple(own)))
    return msgspec.structs.replace(job, files=tuple(files))


# What chance makes of a run -----------------------------------------------------------------------
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


def scatter(
    runs: Sequence[Emulated], variance: float = VARIANCE, on: Workers | None = None
) -> list[list[Summary]]:
    """Simulate each run ``SIMULATIONS`` times: the same jobs, with offers from the same node on.

    When several slots become free at nearly the same time, an emulation gives a task one of them by
    chance; on ideal nodes it is always the same one.  From there runs diverge, so one simulation is
    one of many that are as likely, and an emulated run must be compared with all of them.
    """
    wanted = [
        (run, Behaviour(variance=variance), chance, after)
        for run in runs
        for after in [last_node(run.workload, run.events)]
        for chance in range(1, SIMULATIONS + 1)
    ]
    found = sweep(_simulate, wanted, on=on)
    return [found[at : at + SIMULATIONS] for at in range(0, len(found), SIMULATIONS)]


def _simulate(wanted: tuple[Emulated, Behaviour, int, NodeId | None]) -> Summary:
    """``chance``: the seed of what differs between emulations; the run's own is kept."""
    run, behaviour, chance, after = wanted
    simulation = Simulation(run.config, run.workload, behaviour, chance=chance)
    if after is not None:  # once the nodes have joined
        start = simulation.core.state.start_offers_after
        simulation.heap.at(0.0, start, after, priority=EventPriority.FAULT)
    with few_collections():
        simulation.run()
    return simulation.summary()


# The comparison -----------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class _Run:
    contender: Contender
    config: ClusterConfig  #: with the seed
    results: Path | None  #: a new folder for its files

    @property
    def name(self) -> str:
        """That of its folder."""
        of = self.contender
        return "-".join([of.scheduler, of.flow_scheduler, of.clock, str(self.config.seed)])


class Comparison:
    """Every contender with every seed; raises ``UsageError`` for an invalid request.

    ``localized`` fetches what jobs read of a block store: emulated runs have clusters of their own.
    """

    def __init__(self, request: RunRequest, localized: Localized = lambda mix: mix) -> None:
        self._request = request
        self._topology = request.place
        self._scratch = Path()  #: folder for files of emulated runs that are not kept
        self._events: dict[tuple[Contender, int], Path] = {}  #: files of emulated runs, by seed
        self._runs = self._all_runs()
        #: by seed; none for a workload of the simulator's.  Made now, so that mistakes show
        self._works: dict[int, SeveralJobs] = {}
        for seed in request.every_seed if not self._is_virtual_only() else ():
            defaults = Defaults(
                size_bytes=request.input_bytes, reduces=request.reduces, inputs=request.inputs
            )
            mix = localized(read_mix(request.words, defaults, seed))
            if "wall" in request.clocks:
                names = {run.contender.scheduler for run in self._runs}
                reserves = any(recipe_named(name).reserves for name in names)
                require_room_for_mix(None, mix, self._topology, reserves=reserves)
            self._works[seed] = SeveralJobs(mix, self._topology, seed)

    @property
    def title(self) -> str:
        """One line: the jobs and the topology."""
        return f"{' '.join(self._request.words)} on {self._topology.name}"

    def described(self) -> dict[str, Any]:
        """Facts about the runs for readers of the results."""
        request = self._request
        return {
            "workload": " ".join(request.words),
            "place": self._topology,
            "seeds": {clock: tuple(request.seeds_on(clock)) for clock in request.clocks},
            "folders": {
                (run.contender, run.config.seed): run.results
                for run in self._runs
                if run.results is not None
            },
        }

    def run(self) -> list[Row]:
        """Carry out all runs; returns a row for each contender."""
        flows = dict.fromkeys(run.contender.flow_scheduler for run in self._runs)
        warn_of_missing_circuits(self._topology, flows)
        pairs = [Pair(run.contender.scheduler, run.contender.flow_scheduler) for run in self._runs]
        warn_of_idle_priorities(dict.fromkeys(pairs))
        if self._request.results is not None:
            self._request.results.mkdir()
            return self._run_all()
        with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
            self._scratch = Path(scratch)
            return self._run_all()

    def _run_all(self) -> list[Row]:
        summaries: dict[Contender, list[Summary]] = {run.contender: [] for run in self._runs}
        emulated = [run for run in self._runs if run.contender.clock == "wall"]
        labels = labelled(summaries)
        for number, run in enumerate(emulated, start=1):
            words = f"{number} of {len(emulated)}: {labels[run.contender]}"
            summaries[run.contender].append(self._emulate(run, words))
        simulated = [run for run in self._runs if run.contender.clock == "virtual"]
        seeds = dict.fromkeys(run.config.seed for run in simulated)
        workloads = {seed: self._workload(seed) for seed in seeds}
        wanted = [(run, workloads[run.config.seed]) for run in simulated]
        for run, summary in zip(simulated, self._simulate(wanted), strict=True):
            summaries[run.contender].append(summary)
        return rows_of(summaries, self._twins(emulated) if simulated else {})

    def _all_runs(self) -> list[_Run]:
        request = self._request
        pairs = pairs_of(request.schedulers or ("fair",), request.flow_schedulers)
        names = dict.fromkeys(pair.scheduler for pair in pairs)
        require_known_options(names, request.scheduler_options)
        runs = [
            _Run(
                contender=Contender(pair.scheduler, pair.flow_scheduler, clock),
                config=cluster_config(
                    self._topology,
                    pair=pair,
                    options=own_options(pair.scheduler, request.scheduler_options),
                    seed=seed,
                    durability=request.durability,
                ),
                results=None,
            )
            for clock in request.clocks
            for pair in pairs
            for seed in request.seeds_on(clock)
        ]
        folder = request.results
        return [replace(run, results=folder / run.name) for run in runs] if folder else runs

    def _is_virtual_only(self) -> bool:
        """Whether it is a workload of the simulator's; raises ``UsageError`` for the wall clock."""
        words, clocks = self._request.words, self._request.clocks
        families = [word for word in words if is_simulators(word)]
        if "wall" not in clocks:
            for word in words:
                require_known(word)
        if not families:
            return False
        if len(words) > 1:
            raise UsageError(f"{families[0]}: is a whole workload: need nothing beside it")
        if "wall" in clocks:
            raise UsageError(f"{families[0]}: can only be simulated: need --clock virtual")
        require_no_sizes(self._request, families[0])
        return True

    def _emulate(self, run: _Run, words: str) -> Summary:
        with progress_view() as view:
            view.say(words)
            with session_for(None, run.config, view) as session:
                work = self._works[run.config.seed]
                results = run.results or self._scratch / run.name
                ran = run_on(session, work, view, results)
        self._events[run.contender, run.config.seed] = results / EVENTS
        if ran.unwritten is not None:
            raise ran.unwritten
        return ran.summary

    def _simulate(self, runs: Sequence[tuple[_Run, Workload]]) -> list[Summary]:
        if not runs:
            return []
        wanted = [
            VirtualRun(
                config=run.config,
                workload=workload,
                behaviour=self._request.behaviour,
                faults=self._request.faults,
                results=None if run.results is None else run.results.absolute(),
            )
            for run, workload in runs
        ]
        if not self._request.exact:
            wanted = [run.fitted() for run in wanted]
            say_what_is_coarse(wanted)
        return sweep(run_virtually, wanted, on=self._request.on)

    def _twins(self, emulated: Sequence[_Run]) -> dict[Contender, list[Twins]]:
        if not emulated:
            return {}
        runs = [
            Emulated(config=run.config, workload=placed_as_in(workload, events), events=events)
            for run in emulated
            for workload in [self._workload(run.config.seed)]
            for events in [self._events[run.contender, run.config.seed]]
        ]
        twins = [
            run if run.results is None else replace(run, results=Path(f"{run.results}-twin"))
            for run in emulated
        ]
        firsts = self._simulate([(run, of.workload) for run, of in zip(twins, runs, strict=True)])
        found: dict[Contender, list[Twins]] = {}
        others = scatter(runs, on=self._request.on)
        for run, first, further in zip(emulated, firsts, others, strict=True):
            found.setdefault(run.contender, []).append(Twins(first=first, others=further))
        return found

    def _workload(self, seed: int) -> Workload:
        if seed in self._works:
            made = self._works[seed].workload
        else:
            made = simulators_workload(self._request.words[0], self._topology, seed)
        made = replace(made, jobs=made.jobs[: self._request.first])
        if "virtual" in self._request.clocks and self._request.on is None:
            require_memory_for(made, min(len(self._runs), os.cpu_count() or 1))
        return made
