"""``railyard plan``: which racks each predicted job of a workload gets, and when, as a file.

Standard output has a summary of the plan; the plan itself is a TOML file.  Beside a run, a job's
end is compared as its time from arrival to completion, which in a plan has the time of jobs before
it on its racks, and the penalty for data out of balance, in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import click

from railyard.cluster.errors import COUNT_MAX, UsageError, printable
from railyard.cluster.inputfile import read_json
from railyard.cluster.topology import Topology
from railyard.cluster.units import (
    format_count,
    format_digits,
    format_duration,
    format_share,
    format_size,
)
from railyard.runs.folder import write_json
from railyard.runs.requests import DEFAULT_SIZE_BYTES, PLACE, RunRequest, one
from railyard.terminal.options import command, option, settings_of, writable_file

if TYPE_CHECKING:
    from railyard.jobs.workloads.model import Workload
    from railyard.resourcemanager.schedulers.corral.latency import (
        JobProfile,
        PlanOptions,
        RackCluster,
    )
    from railyard.resourcemanager.schedulers.corral.planner import Plan, Scenario


def load_summary(path: Path) -> dict[str, Any]:
    """A run's summary; raises ``UsageError`` if the file is none."""
    summary = read_json(path)
    if not isinstance(summary, dict) or "jobs" not in summary:
        raise UsageError(f"{path}: no jobs: need a run's summary.json")
    return summary


def beside_run(plan: Plan, summary: dict[str, Any]) -> dict[str, Any]:
    """Planned and actual times of jobs, and how much they differ.

    Raises ``UsageError`` if the run has none of the plan's jobs.
    """
    ran = {job["name"]: job for job in summary["jobs"] if job["ok"]}
    jobs = [
        {
            "name": job.name,
            "racks": len(job.racks),
            "latency_s": job.latency_s,
            "planned_s": job.end_s - job.arrive_s,
            "actual_s": ran[job.name]["jct_s"],
        }
        for job in plan.jobs
        if job.name in ran
    ]
    if not jobs:
        raise UsageError("the run has none of the plan's jobs: need a run of the same workload")
    return {
        "makespan_s": summary["makespan_s"],
        "completion_s": fmean(job["actual_s"] for job in jobs),
        "mean_error": fmean(abs(job["planned_s"] / job["actual_s"] - 1) for job in jobs),
        "later": fmean(job["planned_s"] > job["actual_s"] for job in jobs),
        "jobs": jobs,
    }


def _options() -> type[PlanOptions]:
    from railyard.resourcemanager.schedulers.corral.latency import PlanOptions

    return PlanOptions


@dataclass(frozen=True, kw_only=True)
class PlanRequest(RunRequest):
    """A workload, or earlier runs, and how they are planned."""

    runs: Path | None = option(
        "--runs",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Instead of a workload: earlier runs of recurring jobs, a JSON line each.",
    )
    day: int | None = option(
        "--day",
        type=click.IntRange(min=0, max=COUNT_MAX),
        help="With --runs: which to plan; 0 = a Monday.",
    )
    scenario: Scenario | None = option(
        "--scenario",
        type=click.Choice(["batch", "online"]),
        help="batch: all at once, least makespan; online: as they come, least average completion "
        "time. Default: batch if all come at once.",
    )
    options: PlanOptions = option(
        "--set",
        metavar="KEY=VALUE",
        callback=settings_of(_options),
        multiple=True,
        help="imbalance=0: no penalty for data out of balance; shuffle_in_waves=false; slots=1: "
        "tasks a machine runs at once; repeatable.",
    )
    plain: bool = option(
        "--plain", is_flag=True, help="Try every allocation, as published: minutes."
    )
    bound: bool = option(
        "--bound", is_flag=True, help="Say how far from the best plan it is at most."
    )
    beside: Path | None = option(
        "--beside",
        metavar="SUMMARY",
        type=click.Path(dir_okay=False, path_type=Path),
        help="A run of these jobs (summary.json, or what simulate --json wrote): planned and "
        "actual times.",
    )
    plan_file: Path = option(
        "--output", default="plan.toml", callback=writable_file, help="Default: plan.toml."
    )


@command(
    PlanRequest,
    f"words runs day seed scenario options plain bound beside plan_file json_file {PLACE}",
    words=option(
        "--workload",
        metavar="NAME",
        callback=one,
        help="Jobs to plan: railyard workloads lists them; or a mix, as railyard run takes it.",
    ),
)
def plan(request: PlanRequest) -> None:
    """Plan ahead which racks each job gets, and when, as Corral does.

    Planned are a workload's jobs that were predicted (recurring=1 makes all of them so), with the
    sizes and times that were predicted; others are ad hoc, and not in the plan.
    """
    import msgspec

    from railyard.resourcemanager.schedulers.corral import planner
    from railyard.resourcemanager.schedulers.corral.latency import RackCluster

    run = load_summary(request.beside) if request.beside is not None else None
    jobs = _jobs(request)
    aim = request.scenario or ("online" if any(job.arrive_s > 0 for job in jobs) else "batch")
    cluster = RackCluster.of(request.place, request.options.slots)
    made = planner.plan(jobs, cluster, aim, request.options, plain=request.plain)
    of_runs = f"{request.runs}, day {request.day}"
    origin = f"{request.words[0]}, seed {request.first_seed}" if request.words else of_runs
    made = msgspec.structs.replace(made, workload=origin, topology=request.place.name)
    planner.save_plan(made, request.plan_file)
    figures = _figures(jobs, made)
    if request.bound:
        figures |= _bound(jobs, cluster, request.options, made)
    if run is not None:
        figures["run"] = beside_run(made, run)
    _show(made, figures, request.plan_file)
    if request.json_file is not None:
        write_json(figures, request.json_file)


def _jobs(request: PlanRequest) -> list[JobProfile]:
    from railyard.resourcemanager.schedulers.corral import latency

    runs, day = request.runs, request.day
    workload = next(iter(request.words), None)
    if (workload is None) == (runs is None):
        raise UsageError("plan: need --workload NAME or --runs FILE, one of the two")
    if (runs is None) != (day is None):
        raise UsageError("plan: need --runs FILE and --day N together")
    if workload is not None:
        made = _workload(workload, request.first_seed, request.place)
        jobs = latency.predicted_profiles(made.jobs, request.place.compute)
        if not jobs:
            right = "a workload with recurring jobs, as with recurring=1"
            raise UsageError(f"workload {workload}: nothing was predicted: need {right}")
        return jobs
    assert runs is not None
    assert day is not None
    known = latency.load_runs(runs)
    named = dict.fromkeys(run.job for run in known)
    jobs = [job for name in named if (job := latency.predict(known, name, day)) is not None]
    if not jobs:
        raise UsageError(f"{runs}: no run before day {day}: need a later day")
    return jobs


def _workload(text: str, seed: int, topology: Topology) -> Workload:
    """A workload of the simulator, or a measured mix of real jobs."""
    if text.partition(",")[0] != "mix" and not text.endswith(".toml"):
        from railyard.jobs.workloads.catalog import workload

        return workload(text, seed)
    from railyard.jobs.workloads.mixes import Defaults
    from railyard.runs.workloads import measured_jobs

    return measured_jobs([text], Defaults(size_bytes=DEFAULT_SIZE_BYTES), topology, seed)


def _figures(jobs: Sequence[JobProfile], plan: Plan) -> dict[str, Any]:
    widths = sorted(len(job.racks) for job in plan.jobs)
    return {
        "scenario": plan.scenario,
        "workload": plan.workload,
        "topology": plan.topology,
        "jobs": len(plan.jobs),
        "makespan_s": plan.makespan_s,
        "completion_s": plan.completion_s,
        "racks": {"min": widths[0], "p50": widths[len(widths) // 2], "max": widths[-1]},
        "input_bytes": sum(job.input_bytes for job in jobs),
        "input_cov": _cov(jobs, plan),
    }


def _cov(jobs: Sequence[JobProfile], plan: Plan) -> float:
    """How unevenly the first replicas lie on the racks: standard deviation / mean."""
    import numpy as np

    stored = dict.fromkeys((f"r{number}" for number in range(plan.racks)), 0.0)
    sizes = {job.name: job.input_bytes for job in jobs}
    for job in plan.jobs:
        for rack in job.racks:
            stored[rack] += sizes[job.name] / len(job.racks)
    on_racks = np.array(list(stored.values()))
    return float(on_racks.std() / on_racks.mean()) if on_racks.any() else 0.0


def _bound(
    jobs: Sequence[JobProfile], cluster: RackCluster, options: PlanOptions, plan: Plan
) -> dict[str, Any]:
    from railyard.resourcemanager.schedulers.corral import planner

    problem = planner.problem_of(jobs, cluster, plan.scenario, options)
    if plan.scenario == "batch":
        bound_s, cost_s = planner.lp_batch(problem), plan.makespan_s
    else:
        bound_s = planner.online_bound(problem, plan.completion_s, plan.makespan_s)
        cost_s = plan.completion_s
    return {"bound_s": bound_s, "above_bound": cost_s / bound_s - 1}


def _show(plan: Plan, figures: dict[str, Any], output: Path) -> None:
    racks, jobs = figures["racks"], format_count(len(plan.jobs), "job")
    spread = f"{format_digits(figures['input_cov'])} of the mean"
    rows = [
        ("plan", f"{output}: {jobs} of {plan.workload}"),
        ("cluster", f"{plan.topology}, {plan.racks} racks"),
        ("racks", f"{racks['min']} to {racks['max']} a job, half of them at most {racks['p50']}"),
        ("input", f"{format_size(figures['input_bytes'])}; racks' shares deviate by {spread}"),
        ("makespan", format_duration(plan.makespan_s)),
        ("average", f"{format_duration(plan.completion_s)} from arrival to completion"),
    ]
    if "bound_s" in figures:
        what = "a makespan" if plan.scenario == "batch" else "an average"
        least, above = format_duration(figures["bound_s"]), format_share(figures["above_bound"])
        rows.append(("bound", f"no plan has {what} below {least}; this one is {above} above"))
    if run := figures.get("run"):
        whole, average = format_duration(run["makespan_s"]), format_duration(run["completion_s"])
        off, later = format_share(run["mean_error"]), format_share(run["later"])
        ends = f"planned ends of jobs are {off} off on average, {later} too late"
        rows.append(("run", f"makespan {whole}, average {average}; {ends}"))
    for name, text in rows:
        click.echo(f"{name:<10} {printable(text)}")
