"""Simulating, comparing and repeating papers' experiments, from Python.

Each function makes the request that its command makes of its options.  ``simulated`` and
``compared`` carry requests out; the commands call these, and print what they return.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from railyard.api import arguments
from railyard.api.arguments import AnyJob, job_words
from railyard.api.results import Comparison, Picture, Run, data_frame, preformatted, printed, run_of
from railyard.cluster.errors import UsageError, unknown_name
from railyard.experiments.comparison import Comparison as Comparing
from railyard.experiments.figures import Figure
from railyard.experiments.papers import Paper
from railyard.experiments.papers import paper as paper_named
from railyard.experiments.reproduction import (
    Summaries,
    Value,
    as_json,
    carry_out,
    command_line,
    save_runs,
    show,
    values,
)
from railyard.report.pages import finish_folder
from railyard.report.pictures import draw_published
from railyard.runs.config import require_known_options
from railyard.runs.files import fetched_inputs
from railyard.runs.folder import code_state, write_json
from railyard.runs.requests import CLOCKS, FEW_SEEDS, ReproduceRequest, RunRequest
from railyard.runs.simulation import Simulated, simulate_jobs
from railyard.terminal.notices import notice
from railyard.terminal.options import seeds_in_words

if TYPE_CHECKING:
    from pandas import DataFrame


def simulate(
    *jobs: AnyJob,
    scheduler: str = "fair",
    flow_scheduler: str | None = None,
    topology: str | Path | None = None,
    network: Mapping[str, Any] | None = None,
    inputs: arguments.AnyInput = (),
    size: str | int | None = None,
    reduces: int | None = None,
    seed: int = 1,
    settings: Mapping[str, Any] | None = None,
    behaviour: Mapping[str, Any] | None = None,
    faults: str | None = None,
    first: int | None = None,
    exact: bool = False,
    out: str | Path | None = None,
    progress: bool = False,
) -> Run:
    """Run jobs in virtual time, under one scheduler; nothing is printed.

    - ``jobs``: a workload of the simulator ("corral-w1,jobs=20"), or jobs as ``railyard run`` takes
      them ("terasort", "mix,jobs=20", "jobs.toml"), or ``Job`` classes and objects of your own.
    - ``scheduler``: a name of ``railyard.schedulers()``; "delay + sjf" has its flow scheduler.
    - ``topology``: a name of ``railyard.topologies()`` or a .toml file; default: hybrid-8x4.
    - ``network``: changed figures of the topology, such as {"oversubscription": 10}.
    - ``inputs``: what jobs read that say nothing else: a local file, folder or pattern, several, or
      {name of an input: any of these}.
    - ``size``: of input that is generated for each job, "10GB" or bytes; default: 10 GB.
    - ``settings``: of the scheduler, such as {"delay.node_wait_s": 3}.
    - ``behaviour``: how nodes differ from ideal ones, such as {"stragglers": 0.05}.
    - ``faults``: what goes wrong, such as "node:r0n1@10s+20s".
    - ``first``: only so many of the workload's jobs.
    - ``exact``: simulate each flow, however many there are.
    - ``out``: a new folder for all files of the run, which its timeline needs.

    Raises ``UsageError`` for what does not exist or makes no sense.
    """
    options = arguments.options_of(locals())
    with arguments.notices_as_warnings(progress=progress), job_words(jobs) as jobs_as_words:
        request = arguments.request_of(jobs_as_words.words, **options)
        done, _ = simulated(request)
        workload = jobs_as_words.plain(done.summary["workload"])
        run = run_of(done.summary | {"workload": workload}, request.results)
        _say_what_broke([run])
    return run


def compare(
    *jobs: AnyJob,
    schedulers: str | Iterable[str] = ("fair", "delay", "capacity"),
    clock: Literal["wall", "virtual", "both"] = "both",
    flow_schedulers: str | Iterable[str] = (),
    topology: str | Path | None = None,
    network: Mapping[str, Any] | None = None,
    inputs: arguments.AnyInput = (),
    size: str | int | None = None,
    reduces: int | None = None,
    seed: int = 1,
    seeds: int | None = None,
    settings: Mapping[str, Any] | None = None,
    exact: bool = False,
    out: str | Path | None = None,
    progress: bool = False,
) -> Comparison:
    """Run the same jobs under several schedulers: what differs, beyond chance.

    - ``schedulers``: the others are measured against the first; "delay + sjf" has its flow
      scheduler.
    - ``clock``: "wall" for real processes, "virtual" for simulation, or both, to see whether they
      agree.
    - ``flow_schedulers``: each scheduler with each of them; default: the one that it goes with.
    - ``seed``, ``seeds``: the first seed, and runs of each; default: 1 emulated, 5 simulated.
    - ``out``: a new folder for all files and the page of the comparison.

    The others are those of ``simulate``.  A run with failed jobs or wrong output is marked in all
    that is said of it; see ``ok``.

    Raises ``UsageError`` for what does not exist or makes no sense.
    """
    options = arguments.options_of(locals())
    if clock not in CLOCKS:
        raise UsageError(f"clock = {clock}: need one of {', '.join(CLOCKS)}")
    with arguments.notices_as_warnings(progress=progress), job_words(jobs) as jobs_as_words:
        request = arguments.request_of(
            jobs_as_words.words, clocks=CLOCKS[clock], simulated=FEW_SEEDS, **options
        )
        if not any(request.schedulers):
            raise UsageError("schedulers: there is none: need names, such as fair and corral")
        comparison = compared(request).called(jobs_as_words.plain)
        if comparison.folder is not None:
            comparison.write_page()
        _say_what_broke(comparison.runs)
    return comparison


def simulated(request: RunRequest) -> tuple[Simulated, Run]:
    """Carry out a simulation: its last state, and its results."""
    done = simulate_jobs(request)
    if request.results is not None:
        finish_folder(request.results, done.summary, done.simulation.config.topology)
    return done, run_of(done.summary, request.results)


def compared(request: RunRequest) -> Comparison:
    """Carry out a comparison; ``UsageError`` for an option that would change nothing."""
    idle = {
        "--exact": (request.exact, "virtual"),
        "--strict": (request.strict, "wall"),
        "--durability": (request.durability is not None, "wall"),
    }
    for name, (given, clock) in idle.items():
        if given and clock not in request.clocks:
            raise UsageError(f"{name}: changes nothing here: need --clock {clock} or both")
    with fetched_inputs() as localized:
        comparing = Comparing(request, localized)
        rows = comparing.run()
    return Comparison(
        title=comparing.title, rows=rows, about=comparing.described(), folder=request.results
    )


def _say_what_broke(runs: Iterable[Run]) -> None:
    """Say which policies broke when they were asked for their figures: the results are right."""
    for run in runs:
        if "figures_error" in run.summary:
            notice(run.summary["figures_error"])


# Papers' experiments ------------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reproduction:
    """The figures of a paper with our numbers; as text, what ``railyard reproduce`` prints."""

    paper: str
    seeds: range  #: of each run
    figures: Mapping[str, Figure]
    values: Mapping[str, Sequence[Value]]  #: by figure: a number for each of its lines
    numbers: dict[str, Any]  #: everything, as ``--json`` writes it
    found: Summaries  #: the summaries of all runs, by setup

    @property
    def cpu_s(self) -> float:
        """CPU time of all runs, in seconds."""
        return float(self.numbers["cpu_s"])

    def summaries(self) -> Iterator[dict[str, Any]]:
        """The summaries of all runs."""
        return (summary for runs in self.found.values() for summary in runs)

    def to_pandas(self) -> DataFrame:
        """A row for each number: ours and the paper's, in the row's ``unit``.

        ``ours`` is the mean over seeds, ``published_least`` and ``published_most`` are the ends of
        the paper's range, ``off_by`` is how far the mean lies outside of it.  Raises ``UsageError``
        if pandas is not installed.
        """
        return data_frame(
            {
                "figure": name,
                "case": line["case"],
                "subject": line["subject"],
                "measure": f"less {line['measure']}" if line["lessens"] else line["measure"],
                "unit": line["unit"],
                "ours": line["mean"],
                "ci95_half_width": line["ci95_half_width"],
                "published_least": (line["published"] or {}).get("least"),
                "published_most": (line["published"] or {}).get("most"),
                "off_by": line["off_by"],
                "own": line["own"],
                "base": line["base"],
                "coarse": line["coarse"],
            }
            for name, figure in self.numbers["figures"].items()
            for line in figure["lines"]
        )

    def picture(self, figure: str) -> Picture:
        """A figure: our means and intervals beside the paper's numbers."""
        if figure not in self.figures:
            raise unknown_name("figure", figure, self.figures)
        title = f"{self.figures[figure].where}: {self.figures[figure].title}"
        return Picture(partial(draw_published, title, self.values[figure]))

    def save(self, folder: Path) -> None:
        """Write all numbers, a picture of each figure and each run's summary to a new folder."""
        folder.mkdir()
        write_json(self.numbers, folder / "figures.json")
        for figure in self.figures:
            self.picture(figure).save(folder / f"{figure}.svg")
        save_runs(self.found, folder / "runs")

    def show(self) -> None:
        """Print the tables of all figures."""
        for name, figure in self.figures.items():
            show(figure, self.values[name], self.seeds)

    def __str__(self) -> str:
        return printed(self.show)

    def __repr__(self) -> str:
        return f"<Reproduction of {self.paper}: {', '.join(self.figures)}>"

    def _repr_html_(self) -> str:
        return preformatted(str(self))


def reproduce(
    paper: str,
    *figures: str,
    seeds: int | range | None = None,
    quick: bool = False,
    settings: Mapping[str, Any] | None = None,
    out: str | Path | None = None,
    progress: bool = False,
) -> Reproduction:
    """Run a paper's experiments in virtual time; without ``figures`` all of them.

    - ``paper``: "corral", "tetrium", "joint" and so on, as ``railyard reproduce`` takes them.
    - ``seeds``: how many runs of each setup, or which; default: those that were reported.
    - ``quick``: a smaller version of each figure.
    - ``settings``: other values for settings of the schedulers, such as {"corral.imbalance": 0}.
    - ``out``: a new folder for numbers and summaries.

    Raises ``UsageError`` for a paper or a figure that there is not.
    """
    with arguments.notices_as_warnings(progress=progress):
        request = ReproduceRequest(
            paper=paper,
            figures=figures,
            wanted_seeds=arguments.seeds_of(seeds),
            quick=quick,
            changed=arguments.text_pairs("settings", settings or {}),
            results=None if out is None else arguments.new_folder("out", out),
        )
        done = reproduced(request)
        if request.results is not None:
            done.save(request.results)
    return done


def reproduced(request: ReproduceRequest) -> Reproduction:
    """Carry out a request to run experiments again."""
    chosen = paper_named(request.paper)
    every = chosen.figures(request.quick)
    for name in request.figures:
        if name not in every:
            raise unknown_name(f"figure of {request.paper}", name, every)
    asked = {name: every[name] for name in request.figures or every}
    chosen_lines = {name: figure.only(request.cases) for name, figure in asked.items()}
    figures = {
        name: figure.with_settings(request.changed)
        for name, figure in chosen_lines.items()
        if figure.lines
    }
    if not figures:
        cases = [line.case for figure in asked.values() for line in figure.lines]
        raise unknown_name("case", " ".join(request.cases), dict.fromkeys(cases))
    seeds = _seeds(request, chosen)
    wanted = {setup: seeds for figure in figures.values() for setup in figure.setups()}
    require_known_options(dict.fromkeys(setup.scheduler for setup in wanted), request.changed)
    code = code_state()
    found = carry_out(wanted, request.on)
    results = {name: values(figure, found) for name, figure in figures.items()}
    numbers = {
        "paper": request.paper,
        "title": chosen.title,
        "quick": request.quick,
        "seeds": len(seeds),
        "seed_range": seeds_in_words(seeds),
        "command": command_line(request, seeds_in_words(seeds)),
        "code": code,
        "cpu_s": sum(summary["cpu_s"] for runs in found.values() for summary in runs),
        "figures": {name: as_json(figure, results[name]) for name, figure in figures.items()},
    }
    return Reproduction(
        paper=request.paper,
        seeds=seeds,
        figures=figures,
        values=results,
        numbers=numbers,
        found=found,
    )


def _seeds(request: ReproduceRequest, chosen: Paper) -> range:
    """The seeds of all runs.  A number of them begins with the first that the paper reports."""
    if isinstance(request.wanted_seeds, range):
        return request.wanted_seeds
    usual = chosen.seeds_of(request.quick)
    return range(usual.start, usual.start + (request.wanted_seeds or len(usual)))
