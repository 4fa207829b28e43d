"""Simulating, comparing and repeating papers' experiments, from Python.

Each function makes the request that its command makes of its options.  ``simulated`` and
``compared`` carry requests out; the commands call these, and print what they return.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from railyard.api import arguments
from railyard.api.arguments import job_words
from railyard.api.results import Comparison, Run, run_of
from railyard.cluster.errors import UsageError
from railyard.experiments.comparison import Comparison as Comparing
from railyard.jobs.model import Job
from railyard.report.runpage import finish_folder
from railyard.runs.files import fetched_inputs
from railyard.runs.requests import CLOCKS, FEW_SEEDS, RunRequest
from railyard.runs.simulation import Simulated, simulate_jobs
from railyard.terminal.notices import notice

#: A job: a name with options ("terasort,size=2GB,times=3"), a file, or a class or object of one.
AnyJob = str | Path | Job | type[Job]


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
    with arguments.notices_as_warnings(progress=progress), job_words(jobs) as jobs_as_words:
        request = arguments.request_of(
            jobs_as_words.words,
            scheduler=scheduler,
            flow_scheduler=flow_scheduler,
            topology=topology,
            network=network,
            inputs=inputs,
            size=size,
            reduces=reduces,
            seed=seed,
            settings=settings,
            behaviour=behaviour,
            faults=faults,
            first=first,
            exact=exact,
            out=out,
        )
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
    if clock not in CLOCKS:
        raise UsageError(f"clock = {clock}: need one of {', '.join(CLOCKS)}")
    with arguments.notices_as_warnings(progress=progress), job_words(jobs) as jobs_as_words:
        request = arguments.request_of(
            jobs_as_words.words,
            schedulers=schedulers,
            clocks=CLOCKS[clock],
            flow_schedulers=flow_schedulers,
            topology=topology,
            network=network,
            inputs=inputs,
            size=size,
            reduces=reduces,
            seed=seed,
            seeds=seeds,
            settings=settings,
            exact=exact,
            simulated=FEW_SEEDS,
            out=out,
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
        title=comparing.title,
        rows=rows,
        about=comparing.described(),
        folder=request.results,
    )


def _say_what_broke(runs: Iterable[Run]) -> None:
    """Say which policies broke when they were asked for their figures: the results are right."""
    for run in runs:
        if "figures_error" in run.summary:
            notice(run.summary["figures_error"])
