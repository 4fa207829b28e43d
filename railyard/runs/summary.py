"""How jobs on a cluster ended, the summary of the run (``summary.json``), and its table for people.

The figures are those of the jobs that were asked for; jobs that generate input or check output
appear only in the table's times and among the processes.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from railyard.cluster.errors import RailyardError, printable
from railyard.cluster.ids import JobId, job_of
from railyard.cluster.topology import Topology
from railyard.cluster.units import (
    format_count,
    format_digits,
    format_duration,
    format_number,
    format_share,
    format_size,
    size_unit,
    time_unit,
)
from railyard.jobs.plan import Verdict
from railyard.resourcemanager.core.records import TaskFailure
from railyard.resourcemanager.process.messages import GetReport, JobEnded, Report
from railyard.runs.clusters import Session
from railyard.runs.figures import (
    fidelity_words,
    figure_unit,
    figure_words,
    is_trusted,
    moved_words,
    own_counters,
)
from railyard.terminal.tables import Column, cell, plain_console, plain_numbers, show_table

if TYPE_CHECKING:
    from rich.text import Text


#: Lines at the end of an attempt's standard error that are shown.
_STDERR_LINES = 15
#: Letters of a line that are shown.
_LETTERS_MAX = 400


class JobFailed(RailyardError):
    """A job did not end well; the text is a report for whoever wrote the job."""

    def __init__(self, name: str, ended: JobEnded) -> None:
        super().__init__(failure_report(name, ended))
        self.ended = ended


@dataclass(frozen=True, kw_only=True)
class Result:
    """How a requested job ended."""

    name: str
    steps: tuple[JobEnded, ...]  #: the ends of its steps, at least one
    verdict: Verdict | None  #: None: it failed, or there is nothing to check its output against

    @property
    def ended(self) -> JobEnded:
        """The end of its last step, or of the one that failed."""
        return self.steps[-1]

    @property
    def verified(self) -> bool | None:
        """Whether its output is right; None if that is not known."""
        if not self.ended.ok:
            return False
        return None if self.verdict is None else self.verdict.ok


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How jobs ended."""

    results: tuple[Result, ...]  #: in the order in which the jobs were submitted
    helpers: tuple[JobEnded, ...]  #: the jobs that prepared and checked

    @property
    def failure(self) -> JobFailed | None:
        """The failure of the first job that failed."""
        failed = (JobFailed(one.name, one.ended) for one in self.results if not one.ended.ok)
        return next(failed, None)

    @property
    def verified(self) -> bool | None:
        """Whether all outputs are right; None if no output was checked."""
        known = [result.verified for result in self.results if result.verified is not None]
        return all(known) if known else None

    def measured_jobs(self) -> tuple[tuple[JobId, ...], ...]:
        """The jobs that the summary is about: the steps of each, one after the other."""
        return tuple(tuple(step.job for step in result.steps) for result in self.results)

    def all_jobs(self) -> tuple[JobId, ...]:
        """These, and those that prepared and checked."""
        measured = (step for steps in self.measured_jobs() for step in steps)
        return (*measured, *(end.job for end in self.helpers))


def failure_report(name: str, end: JobEnded) -> str:
    """Why a job failed: the reason, then the task that broke, where, and what it wrote."""
    lines = [f"{printable(name)} ({end.job}) failed: {printable(end.reason)}"]
    if end.failures:
        lines += _describe(end.failures[-1])
        if others := [f"{failure.attempt} on {failure.node}" for failure in end.failures[:-1]]:
            lines.append(f"  {len(others)} more failed attempts: {', '.join(others)}")
    return "\n".join(lines)


def _describe(failure: TaskFailure) -> Iterator[str]:
    where = f"attempt {failure.attempt} on {failure.node}"
    yield f"  task {failure.task}, {where}: {printable(failure.reason)}"
    written = failure.stderr.strip("\n").split("\n")
    if written != [""]:
        yield "  its standard error ends with:"
        yield from (f"    {printable(line, _LETTERS_MAX)}" for line in written[-_STDERR_LINES:])


# The machine --------------------------------------------------------------------------------------
_PERIOD_S = 0.5


class MachineWatch:
    """Takes samples from now on, as long as the session is served."""

    def __init__(self, session: Session) -> None:
        self._load_max = 0.0
        self._free_bytes_before = self._free_bytes_min = _free_bytes()
        self._look()
        session.reactor.call_every(_PERIOD_S, self._look)

    def figures(self) -> dict[str, Any]:
        """The samples' figures; they count all processes of the machine."""
        self._look()
        return {
            "cpus": len(os.sched_getaffinity(0)),
            "load_max": self._load_max,  #: the average over a minute, as uptime says it
            "memory_bytes_max": self._free_bytes_before - self._free_bytes_min,
        }

    def _look(self) -> None:
        self._load_max = max(self._load_max, os.getloadavg()[0])
        self._free_bytes_min = min(self._free_bytes_min, _free_bytes())


def _free_bytes() -> int:
    import psutil  # the command is quicker to start without it

    return int(psutil.virtual_memory().available)


# Summary and table --------------------------------------------------------------------------------
#: Columns of a table of jobs, by the keys of ``after_the_first``'s jobs.
JOB_COLUMNS = {
    "after_s": Column("submitted", time_unit, rank=1),
    "jct_s": Column("job time", time_unit),
    "cct_s": Column("shuffle time", time_unit, rank=2),
    "input_bytes": Column("input", size_unit, rank=4),
    "shuffle_bytes": Column("shuffle", size_unit, rank=3),
    "shuffle_skew": Column("its skew", plain_numbers, rank=7),
    "output_bytes": Column("output", size_unit, rank=6),
}


def make_summary(session: Session, workload: str, outcome: Outcome) -> dict[str, Any]:
    """The summary of a run that has ended."""
    wanted = GetReport(jobs=outcome.measured_jobs())
    summary = session.link("resourcemanager").ask(wanted, Report).summary
    ours = set(outcome.all_jobs())
    return {
        **summary,
        "workload": workload,
        "processes": [
            row
            for row in session.folder.processes()
            if row["role"] != "Attempt" or job_of(row["name"]) in ours
        ],
        "deaths": session.deaths(),
        "verified": outcome.verified,
    }


def after_the_first(jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Jobs of a summary with ``after_s``: how long after the first one each was submitted."""
    begin_s = min((job["submitted_s"] for job in jobs), default=0.0)
    return [job | {"after_s": job["submitted_s"] - begin_s} for job in jobs]


def print_summary(
    summary: dict[str, Any],
    result: Result,
    ends: Mapping[str, JobEnded],
    output: str,
    topology: Topology,
) -> None:
    """Print the table that ends the run of one job; ``ends``: of all steps, by their names."""
    [job] = summary["jobs"]

    def both(size_bytes: int) -> str:
        return f"{format_size(size_bytes)} ({format_size(size_bytes / topology.scale)} real)"

    skew = ""
    if job["shuffle_skew"] is not None:
        skew = f", skew {format_digits(job['shuffle_skew'])} over the racks' links"
    tasks = f"{format_count(job['maps'], 'map')}, {format_count(job['reduces'], 'reduce')}"
    rows = [
        ("workload", f"{summary['workload']} on {topology.name}, {schedulers_of(summary)}"),
        ("input", both(job["input_bytes"])),
        ("shuffle", both(job["shuffle_bytes"]) + skew),
        ("output", f"{both(job['output_bytes'])} in {output}"),
        ("job time", _times(job, result, ends)),
        ("tasks", f"{tasks}; {attempts_of(summary['tasks'])}"),
        *_counters([job]),
        *_common_rows(summary),
    ]
    if result.verdict is not None:
        rows.append(("verified" if result.verdict.ok else "WRONG", result.verdict.detail))
        rows += [("", line) for line in result.verdict.highlights]
    print_rows(rows)


def _times(job: dict[str, Any], result: Result, ends: Mapping[str, JobEnded]) -> str:
    """Times of the job, its steps, its coflow, and the jobs that prepared and checked."""
    cct_s = job["cct_s"]
    steps: list[str] = []
    others: list[str] = []
    for name, end in ends.items():
        of = steps if end in result.steps else others
        of.append(f"{name} {format_duration(end.jct_s)}")
    if len(steps) > 1:
        longest = "" if cct_s is None else f"; the longest shuffle took {format_duration(cct_s)}"
        within = f" ({', '.join(steps)}{longest})"
    else:
        within = "" if cct_s is None else f", of which its shuffle took {format_duration(cct_s)}"
    around = f"  (besides: {', '.join(others)})" if others else ""
    return f"{format_duration(job['jct_s'])}{within}{around}"


def print_mix(summary: dict[str, Any], outcome: Outcome, topology: Topology) -> None:
    """Print a table of a mix's jobs, and their common numbers below it."""
    jobs = after_the_first(summary["jobs"])
    table = [
        [
            job["name"],
            *(job[key] for key in JOB_COLUMNS),
            job["maps"] + job["reduces"],
            _verdict(result),
        ]
        for job, result in zip(jobs, outcome.results, strict=True)
    ]
    tasks = Column("tasks", plain_numbers, rank=5)
    columns = (Column("job"), *JOB_COLUMNS.values(), tasks, Column(""))
    show_table(plain_console(), columns, table, elsewhere="--json")
    jct_s, cct_s = summary["jct_s"], summary["cct_s"]
    rows = [
        ("workload", f"{summary['workload']} on {topology.name}, {schedulers_of(summary)}"),
        ("makespan", format_duration(summary["makespan_s"])),
        ("job time", f"mean {_time_or_dash(jct_s['mean'])}, p95 {_time_or_dash(jct_s['p95'])}"),
        ("shuffle", f"mean {_time_or_dash(cct_s['mean'])}, p95 {_time_or_dash(cct_s['p95'])}"),
        ("attempts", attempts_of(summary["tasks"])),
        *_counters(summary["jobs"]),
        *_common_rows(summary),
    ]
    print_rows(rows)


def print_rows(rows: Iterable[tuple[str, str]]) -> None:
    """Print lines of a summary, each with its label."""
    for label, text in rows:
        click.echo(f"{label:<11}{printable(text)}")


def _time_or_dash(seconds: float | None) -> str:
    return "-" if seconds is None else format_duration(seconds)


def _verdict(result: Result) -> Text:
    if not result.ended.ok:
        return cell("FAILED", "red")
    if result.verdict is None:
        return cell("")
    if result.verdict.ok:
        return cell("verified", "green")
    return cell(f"WRONG: {result.verdict.detail}", "red")


def usage_rows(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Bytes that were moved, and the share of slots x time that was held, and computed in."""
    yield "moved", moved_words(summary["bytes"])
    used, computing = summary["slot_utilization"], summary["compute_utilization"]
    yield "slots", f"{_used(used)}, {format_share(computing)} computing"
    if layers := summary.get("layer_utilization"):
        yield "switches", ", ".join(f"{layer} {_used(n)}" for layer, n in layers.items())


def _used(share: float) -> str:
    return f"{format_share(share)} used"


def figure_rows(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """The policies' own figures, a row each."""
    for policy, of in summary.get("figures", {}).items():
        words = (f"{figure_words(name)} {figure_unit(name, n).show(n)}" for name, n in of.items())
        yield "figures", f"{policy}: {', '.join(words)}"


def _common_rows(summary: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield "map input", _shares(summary["locality"])
    yield from usage_rows(summary)
    yield from figure_rows(summary)
    if summary["deaths"]:
        yield "died", _died(summary["deaths"])
    if "fidelity" in summary:
        yield "machine", _machine(summary["machine"], summary["fidelity"])
        busy = "" if is_trusted(summary) else ": this machine is too busy to trust the times"
        yield "fidelity", fidelity_words(summary["fidelity"]) + busy


def _counters(jobs: Iterable[dict[str, Any]]) -> list[tuple[str, str]]:
    """A row for each job whose code counted something."""
    many = [
        (job["name"], ", ".join(f"{name} {format_number(count)}" for name, count in own.items()))
        for job in jobs
        if (own := own_counters(job))
    ]
    named = len({name for name, _ in many}) > 1
    return [("counters", f"{name}: {text}" if named else text) for name, text in many]


def schedulers_of(summary: dict[str, Any]) -> str:
    """The scheduler and the flow scheduler of a run."""
    return f"scheduler {summary['scheduler']}, flows {summary['flow_scheduler']}"


def attempts_of(tasks: dict[str, int], *also: str) -> str:
    """How many attempts were launched, and how many of them were odd."""
    names = ("failed", "killed", *also)
    odd = [f"{tasks[name]} {name}" for name in names if tasks[name]]
    return ", ".join([format_count(tasks["launched"], "attempt"), *odd])


def _shares(counts: dict[str, int]) -> str:
    total = sum(counts.values())
    words = {"node": "on the map's node", "rack": "in its rack", "remote": "further away"}
    shares = (f"{format_share(n / total)} {words[level]}" for level, n in counts.items() if n)
    return ", ".join(shares)


def _died(deaths: list[dict[str, Any]]) -> str:
    """Which daemons died meanwhile, how often, and how each did last."""
    times = Counter(row["name"] for row in deaths)
    how = {row["name"]: row["how"] for row in deaths}
    return ", ".join(
        f"{name} ({how[name]})" if count == 1 else f"{name} {count} times ({how[name]})"
        for name, count in times.items()
    )


def _machine(machine: dict[str, Any], fidelity: dict[str, Any]) -> str:
    """How busy the machine was, and what attempts waited for it."""
    launch_s, permit_s = fidelity["launch_s"], fidelity["permit_s"]
    words = (
        f"load at most {format_digits(machine['load_max'])} "
        f"on {format_count(machine['cpus'], 'CPU')}, "
        f"{format_size(machine['memory_bytes_max'])} of memory; "
        f"an attempt waited {format_duration(launch_s['mean'])} to start "
        f"(at most {format_duration(launch_s['max'])}), "
        f"{format_duration(permit_s['mean'])} to compute"
    )
    if fidelity["silent_daemons"]:
        words += f"; {format_count(fidelity['silent_daemons'], 'daemon')} silent for a while"
    return words
