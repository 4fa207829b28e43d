"""The runs behind a comparison: which there are, and carrying them out on their clocks.

Emulated runs come one after the other, each on a cluster of its own; simulated ones are spread
over cores.  Everything that could be wrong with the request is found before the first run begins.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.files.lasting import Durability
from railyard.cluster.topology import Topology, load_topology
from railyard.jobs.mixes.mixes import Defaults, Mix, read_mix
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.model import Workload
from railyard.netemu.schedulers import flow_scheduler
from railyard.resourcemanager.interface.recipe import Recipe, option_names
from railyard.resourcemanager.schedulers import recipe_named
from railyard.scripts.comparing.metrics import Contender, Summary
from railyard.scripts.comparing.placed import placed_as_in
from railyard.scripts.comparing.scatter import Emulated, scatter
from railyard.scripts.running.request import DEFAULT_SIZE_BYTES
from railyard.scripts.running.room import require_room_for_mix
from railyard.scripts.running.work import SeveralJobs, run_on, session_for
from railyard.scripts.simulating.sweep import parse_on, sweep
from railyard.scripts.simulating.virtual import VirtualRun, run_virtually
from railyard.scripts.simulating.workloadnames import is_simulators, require_known
from railyard.scripts.terminal.options import (
    DEFAULT_TOPOLOGY,
    ClusterChoice,
    tell_of_missing_circuits,
)
from railyard.scripts.terminal.progress import progress_view
from railyard.simulator.nodes.behaviour import Behaviour


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What was asked for."""

    words: tuple[str, ...]  #: the jobs
    schedulers: tuple[str, ...]
    flow_schedulers: tuple[str, ...]
    clocks: tuple[str, ...]
    seeds: tuple[int, ...]
    size_bytes: int | None = None
    reduces: int | None = None
    scheduler_options: tuple[tuple[str, str], ...] = ()
    topology: str | None = None
    network: tuple[tuple[str, str], ...] = ()
    durability: Durability | None = None  #: of emulated runs
    on: str | None = None  #: where to simulate
    behaviour: Behaviour = field(default_factory=Behaviour)  #: of simulated nodes
    faults: str | None = None  #: of simulated runs: see ``simulator.faultspec``
    first: int | None = None  #: only so many of a workload's jobs


@dataclass(frozen=True, kw_only=True)
class _Run:
    contender: Contender
    config: ClusterConfig  #: with the seed
    results: Path | None


class Comparison:
    """Every contender with every seed; ``folder`` is a new one for what the runs leave.

    Raises ``UsageError`` for what makes no sense.
    """

    def __init__(self, terms: Terms, folder: Path | None) -> None:
        parse_on(terms.on)
        self._terms = terms
        self._folder = folder
        self._scratch = Path()  #: where emulated runs leave what nobody wants to keep
        self._events: dict[tuple[Contender, int], Path] = {}  #: of emulated runs, by seed
        #: of each contender in virtual time that was emulated, too: more simulations, by seed
        self.scatter: dict[Contender, list[list[Summary]]] = {}
        self._topology = load_topology(terms.topology or DEFAULT_TOPOLOGY, terms.network)
        self._runs = list(self._all_runs())
        #: by seed; none for a workload of the simulator's.  Made now, so that what is wrong shows
        self._works: dict[int, SeveralJobs] = {}
        for seed in terms.seeds if not self._is_virtual_only() else ():
            mix = _mix(terms, seed)
            if "wall" in terms.clocks:
                require_room_for_mix(None, mix, self._topology)
            self._works[seed] = SeveralJobs(mix, self._topology, seed)

    @property
    def title(self) -> str:
        """One line: what is run where."""
        return f"{' '.join(self._terms.words)} on {self._topology.name}"

    @property
    def topology(self) -> Topology:
        return self._topology

    def told(self) -> dict[str, Any]:
        """What a reader of the results should know of the runs."""
        return {
            "workload": " ".join(self._terms.words),
            "topology": self._topology.name,
            "about_topology": self._topology.description,
            "racks": self._topology.racks.count,
            "slots": self._topology.slots,
            "scale": self._topology.scale,
            "compute": self._topology.compute.mode,
            "seeds": self._terms.seeds,
            "folders": {
                (run.contender, run.config.seed): run.results
                for run in self._runs
                if run.results is not None
            },
        }

    def run(self) -> dict[Contender, list[Summary]]:
        """Carry all out; the summaries of each contender, by seed."""
        flows = dict.fromkeys(run.contender.flow_scheduler for run in self._runs)
        tell_of_missing_circuits(self._topology, flows)
        if self._folder is not None:
            self._folder.mkdir()
            return self._run_all()
        with tempfile.TemporaryDirectory(prefix="railyard-") as scratch:
            self._scratch = Path(scratch)
            return self._run_all()

    def _run_all(self) -> dict[Contender, list[Summary]]:
        summaries: dict[Contender, list[Summary]] = {run.contender: [] for run in self._runs}
        emulated = [run for run in self._runs if run.contender.clock == "wall"]
        for number, run in enumerate(emulated, start=1):
            told = f"{number} of {len(emulated)}: {run.contender.scheduler}"
            summaries[run.contender].append(self._emulate(run, told))
        simulated = [run for run in self._runs if run.contender.clock == "virtual"]
        workloads = self._workloads_of(simulated)
        for run, summary in zip(simulated, self._simulate(simulated, workloads), strict=True):
            summaries[run.contender].append(summary)
        self._simulate_again(simulated, workloads)
        return summaries

    def _all_runs(self) -> Sequence[_Run]:
        terms = self._terms
        recipes = [recipe_named(name) for name in dict.fromkeys(terms.schedulers)]
        check_options(recipes, terms.scheduler_options)
        return [
            self._one_run(Contender(recipe.name, flow_scheduler(flows).name, clock), recipe, seed)
            for clock in terms.clocks
            for recipe in recipes
            for flows in dict.fromkeys(terms.flow_schedulers)
            for seed in terms.seeds
        ]

    def _one_run(self, contender: Contender, recipe: Recipe, seed: int) -> _Run:
        choice = ClusterChoice(
            topology=self._terms.topology,
            network=self._terms.network,
            scheduler=contender.scheduler,
            flow_scheduler=contender.flow_scheduler,
            scheduler_options=options_of(recipe, self._terms.scheduler_options),
            seed=seed,
            transport=None,
            durability=self._terms.durability,
        )
        run = _Run(contender=contender, config=choice.config(), results=None)
        return run if self._folder is None else replace(run, results=self._folder / _name(run))

    def _is_virtual_only(self) -> bool:
        """Whether it is a workload of the simulator's; raises ``UsageError`` for the wall clock."""
        families = [word for word in self._terms.words if is_simulators(word)]
        if "wall" not in self._terms.clocks:
            for word in self._terms.words:
                require_known(word)
        if not families:
            return False
        if len(self._terms.words) > 1:
            raise UsageError(f"{families[0]}: is a whole workload: need nothing beside it")
        if "wall" in self._terms.clocks:
            raise UsageError(f"{families[0]}: can only be simulated: need --clock virtual")
        told = {"--size": self._terms.size_bytes, "--reduces": self._terms.reduces}
        for option, value in told.items():
            if value is not None:
                raise UsageError(f"{option}: {families[0]} says that itself: need none")
        return True

    def _emulate(self, run: _Run, told: str) -> Summary:
        with progress_view() as view:
            view.say(told)
            with session_for(None, run.config, view) as session:
                work = self._works[run.config.seed]
                results = run.results or self._scratch / _name(run)
                ran = run_on(session, work, view, results)
        self._events[run.contender, run.config.seed] = results / "events.jsonl"
        if ran.unwritten is not None:
            raise ran.unwritten
        return ran.summary

    def _workloads_of(self, runs: Sequence[_Run]) -> list[Workload]:
        """Each run's jobs, with the blocks where they were if they were emulated, too."""
        seeds = dict.fromkeys(run.config.seed for run in runs)
        made = {seed: self._workload(seed) for seed in seeds}
        return [
            made[run.config.seed]
            if (events := self._events_of(run)) is None
            else placed_as_in(made[run.config.seed], events)
            for run in runs
        ]

    def _simulate(self, runs: Sequence[_Run], workloads: Sequence[Workload]) -> list[Summary]:
        if not runs:
            return []
        wanted = [
            VirtualRun(
                config=run.config,
                workload=workload,
                behaviour=self._terms.behaviour,
                faults=self._terms.faults,
                results=None if run.results is None else run.results.absolute(),
            )
            for run, workload in zip(runs, workloads, strict=True)
        ]
        return sweep(run_virtually, wanted, on=self._terms.on)

    def _simulate_again(self, runs: Sequence[_Run], workloads: Sequence[Workload]) -> None:
        """See what chance makes of the runs that were emulated, too."""
        both = [
            (run.contender, Emulated(config=run.config, workload=workload, events=events))
            for run, workload in zip(runs, workloads, strict=True)
            if (events := self._events_of(run)) is not None
        ]
        if not both:
            return
        found = scatter([emulated for _, emulated in both], on=self._terms.on)
        for (contender, _), again in zip(both, found, strict=True):
            self.scatter.setdefault(contender, []).append(again)

    def _events_of(self, run: _Run) -> Path | None:
        """What the same contender left when it was emulated; None if it was not."""
        return self._events.get((replace(run.contender, clock="wall"), run.config.seed))

    def _workload(self, seed: int) -> Workload:
        if seed in self._works:
            made = self._works[seed].workload
        else:
            made = workload(self._terms.words[0], seed)
            racks = self._topology.racks.count
            if made.sites > racks:
                right = f"at least the {made.sites} sites of {made.name}"
                raise UsageError(f"topology {self._topology.name} has {racks} racks: need {right}")
        return replace(made, jobs=made.jobs[: self._terms.first])


def _name(run: _Run) -> str:
    """Of its folder."""
    of = run.contender
    return "-".join([of.scheduler, of.flow_scheduler, of.clock, str(run.config.seed)])


def _mix(terms: Terms, seed: int) -> Mix:
    size_bytes = DEFAULT_SIZE_BYTES if terms.size_bytes is None else terms.size_bytes
    return read_mix(terms.words, Defaults(size_bytes=size_bytes, reduces=terms.reduces), seed)


def _sections(recipe: Recipe) -> set[str]:
    return {name.partition(".")[0] for name in option_names(recipe)}


def options_of(recipe: Recipe, options: Sequence[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Those of the settings that are this scheduler's."""
    own = _sections(recipe)
    return tuple((key, value) for key, value in options if key.partition(".")[0] in own)


def check_options(recipes: Sequence[Recipe], options: Sequence[tuple[str, str]]) -> None:
    """Raise ``UsageError`` for a setting that none of these schedulers has."""
    known = {section for recipe in recipes for section in _sections(recipe)}
    for key, _ in options:
        if key.partition(".")[0] not in known:
            names = [name for recipe in recipes for name in option_names(recipe)]
            raise unknown_name("setting of these schedulers", key, names)
