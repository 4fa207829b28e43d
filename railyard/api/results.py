"""What runs and comparisons return: their figures as typed objects, tables and pictures.

A run is ``summary.json`` with names and types (docs/summary.md).  Bytes are the model's, times are
seconds of the model's clock.  None is what is not known, such as the time of a shuffle that there
was none of.  Keys that are not named here are in ``Run.summary``.
"""

from __future__ import annotations

import html
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from railyard.cluster.errors import UsageError, printable, unknown_name
from railyard.cluster.units import format_count, format_duration, format_size
from railyard.experiments.contenders import CLOCK_WORDS, Row
from railyard.experiments.statements import Statement, as_json, show, statements
from railyard.gateway.page.theme import DARK, LIGHT
from railyard.report.pictures import (
    Curve,
    Draw,
    completion_panels,
    draw_bars,
    draw_cdf,
    draw_run,
    panels_of,
    render,
    themed,
)
from railyard.report.recordedrun import Results
from railyard.runs.figures import METRICS, is_trusted
from railyard.runs.folder import naming, write_json

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


_CELL_LETTERS_MAX = 1000


def data_frame(rows: Iterable[dict[str, Any]]) -> DataFrame:
    """A frame of these rows; pandas is an extra: ``pip install railyard[pandas]``."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise UsageError("to_pandas: pandas is missing: pip install railyard[pandas]") from None
    return DataFrame(list(rows))


def html_table(rows: Iterable[Sequence[Any]], heading: Sequence[str] = ()) -> str:
    """A table; the first of a row is its name, unless there is a heading."""
    head = "".join(map(_heading, heading))
    cells = (
        [_cell(value) if heading or at else _heading(value) for at, value in enumerate(row)]
        for row in rows
    )
    body = "".join(f"<tr>{''.join(of_row)}</tr>" for of_row in cells)
    return f"<table>{f'<tr>{head}</tr>' if head else ''}{body}</table>"


def printed(show: Callable[[], object]) -> str:
    """What a function prints."""
    written = io.StringIO()
    with redirect_stdout(written):
        show()
    return written.getvalue().rstrip("\n")


def preformatted(text: str) -> str:
    """Text as HTML that keeps its columns."""
    return f"<pre style='line-height:1.2'>{html.escape(text)}</pre>"


def _heading(name: str) -> str:
    return f"<th style='text-align:left'>{html.escape(name)}</th>"


def _cell(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return f"<td style='text-align:left'>{html.escape(printable(text, _CELL_LETTERS_MAX))}</td>"


# The runs -----------------------------------------------------------------------------------------
#: What says which run a row is of.
_KEYS = ("scheduler", "flow_scheduler", "clock", "seed")
_NUMBERS = (
    "slot_utilization",
    "compute_utilization",
    "network_utilization",
    "link_skew",
    "verified",
    "trusted",
)


@dataclass(frozen=True)
class Picture:
    """A picture.  A notebook shows it; ``figure`` is matplotlib's, to be changed."""

    draw: Draw

    def figure(self, *, dark: bool = False) -> Figure:
        """Draw it; each call makes a new figure."""
        theme = DARK if dark else LIGHT
        with themed(theme):
            return self.draw(theme)

    def save(self, file: str | Path, *, dark: bool = False) -> None:
        """Write it to a file, NAME.png or NAME.svg; ``UsageError`` for another kind."""
        path = Path(file)
        kind = path.suffix.removeprefix(".")
        if kind not in ("png", "svg"):
            raise UsageError(f"{file}: need a file that ends with .png or .svg")
        with naming(path):
            path.write_bytes(render(self.draw, DARK if dark else LIGHT, kind))

    def _repr_png_(self) -> bytes:
        return render(self.draw, LIGHT, "png")


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """Mean, percentiles and maximum of a quantity; None if there are no values."""

    mean: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    max: float | None = None


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that were read and fetched, by distance, and those between racks by way."""

    local: int  #: stayed on their node
    rack: int  #: within a rack
    cross_rack: int  #: between racks
    eps: int = 0  #: of ``cross_rack``, by packets
    ocs: int = 0  #: by optical circuits
    wan: int = 0  #: between sites


class Locality(msgspec.Struct, frozen=True, kw_only=True):
    """Map attempts by where their input was."""

    node: int
    rack: int
    remote: int


class Attempts(msgspec.Struct, frozen=True, kw_only=True):
    """How many attempts there were."""

    launched: int
    succeeded: int
    failed: int
    killed: int
    copies: int  #: second attempts of running tasks
    copies_chosen: int  #: of these, those whose output counts


class Fidelity(msgspec.Struct, frozen=True, kw_only=True):
    """How well the machine kept up with an emulated run."""

    grant_lag_ms_p99: float  #: 99 % of the network's grants came at most so late
    cpu_saturated: float  #: share of the time with open flows in which all CPUs were busy
    network_away_s: float = 0.0  #: for how long the network was being restarted
    silent_daemons: int = 0  #: how often a NodeManager was silent for long, and was waited for
    #: `mean` and `max` per attempt that succeeded: from the arrival of its order to its first word
    launch_s: dict[str, float] = {}
    #: `mean` and `max` per attempt that succeeded: its waits for permits to compute after that
    permit_s: dict[str, float] = {}


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """What the machine did during an emulated run, with all its programs."""

    cpus: int
    load_max: float  #: largest load average over a minute
    memory_bytes_max: int  #: real bytes by which free memory was less than before, at most


class Process(msgspec.Struct, frozen=True, kw_only=True):
    """A process of an emulated run."""

    role: str  #: such as `NodeManager` or `Attempt`
    name: str
    pid: int


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """A daemon that died during an emulated run."""

    role: str
    name: str
    pid: int
    how: str  #: such as `signal 9`
    next: str  #: what followed


class CoarseRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a simulation was made coarser, as it would have had too many tasks."""

    output_block_bytes: int  #: of written files
    progress_s: float  #: from one report of an attempt's progress to the next
    tasks_in_one: int  #: so many blocks, at most, were read by one task
    off: dict[str, float]  #: shares by which mean times were off at most, in 19 of 20 workloads


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """A job of a run."""

    id: str  #: "j3"
    name: str  #: "terasort-2"
    submitted_s: float
    finished_s: float | None
    jct_s: float | None  #: job completion time: from submission to end
    cct_s: float | None  #: coflow completion time: of its longest shuffle
    input_bytes: int
    shuffle_bytes: int
    cross_rack_shuffle_bytes: int
    shuffle_skew: float | None  #: of its shuffle over the racks' links; 1: even
    output_bytes: int
    maps: int
    reduces: int
    slot_s: float  #: for which its attempts held slots
    computed_s: float  #: for which those that succeeded computed
    reduce_s: float | None  #: mean of a reduce
    ok: bool | None  #: None: it has not ended
    reason: str = ""  #: why it failed, if it did
    #: waits of its attempts for the machine, added up; of an emulated run
    machine_s: float | None = None
    counters: dict[str, int] = {}  #: what its tasks counted, each task once
    steps: tuple[str, ...] = ()  #: ids of its steps, if it ran in several


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one or several jobs under a scheduler, on either clock."""

    scheduler: str
    flow_scheduler: str
    topology: str
    workload: str
    clock: str  #: "wall": real processes; "virtual": simulated
    seed: int
    scale: int  #: bytes of the model per real byte
    makespan_s: float  #: from the first job's submission to the last one's end
    jct_s: Spread  #: of jobs that succeeded
    cct_s: Spread  #: of coflows
    shuffle_skew: Spread
    bytes: Moved
    locality: Locality
    tasks: Attempts
    link_skew: float | None = None  #: bytes of the busiest link between racks over the least busy
    slot_utilization: float  #: share of slots x time that attempts held
    compute_utilization: float | None = None  #: share of slots x time in which they computed
    network_utilization: float | None = None  #: share of the capacity between racks
    #: the policies' own figures: {policy: {name: value}}
    figures: dict[str, dict[str, float]] = {}
    figures_error: str | None = None  #: which policy broke when it was asked for its figures
    #: of each layer of a tree of switches, the share of its capacity x makespan that was used
    layer_utilization: dict[str, float] = {}
    scheduling_s: dict[str, float] = {}  #: CPU time of decisions: `total` and `max`
    cpu_s: float | None = None  #: CPU time of a simulation, where it was one of several
    coarse: CoarseRun | None = None  #: None: exact, or emulated
    fidelity: Fidelity | None = None  #: None: simulated
    machine: Machine | None = None  #: likewise
    processes: tuple[Process, ...] = ()  #: of an emulated run
    deaths: tuple[Death, ...] = ()  #: likewise
    verified: bool | None = None  #: whether the output is right; None: it could not be checked
    jobs: tuple[JobResult, ...]
    output: str | None = None  #: folder of the block store, of a single job on a ``Cluster``
    folder: Path | None = None  #: with all files of the run; None: none were asked for
    summary: dict[str, Any]  #: everything, as in ``summary.json``

    @property
    def ok(self) -> bool:
        """Whether all jobs succeeded, and no output is wrong."""
        return self.verified is not False and all(job.ok for job in self.jobs)

    @property
    def trusted(self) -> bool:
        """Whether the machine kept up, so that times can be trusted; always if simulated."""
        return is_trusted(self.summary)

    def to_pandas(self) -> DataFrame:
        """A row for each job: its fields, after ``scheduler``, ``clock`` and ``seed``.

        Raises ``UsageError`` if pandas is not installed.
        """
        return data_frame(self.job_rows())

    def job_rows(self) -> list[dict[str, Any]]:
        """A row for each job, with what says which run it is of."""
        return [self._keys() | msgspec.structs.asdict(job) for job in self.jobs]

    def row(self) -> dict[str, Any]:
        """The run's own figures: spreads as "jct_s_mean", bytes as "bytes_rack"."""
        parts = {
            name: getattr(self, name)
            for name in ("jct_s", "cct_s", "shuffle_skew", "bytes", "locality", "tasks")
        }
        return (
            self._keys()
            | {"makespan_s": self.makespan_s}
            | {
                f"{name}_{part}": value
                for name, one in parts.items()
                for part, value in msgspec.structs.asdict(one).items()
            }
            | {name: getattr(self, name) for name in _NUMBERS}
        )

    def _keys(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _KEYS}

    def timeline(self) -> Picture:
        """Jobs over time; with ``out=`` also slots, circuits and links."""
        results = Results(self.folder, self.summary)
        return Picture(partial(draw_run, results, self.makespan_s or 1.0))

    def cdf(self) -> Picture:
        """Distributions of job and coflow completion times."""
        label = f"{self.scheduler}, {CLOCK_WORDS[self.clock]}"
        done = [job for job in self.jobs if job.ok]
        jobs, coflows = (
            Curve(
                label=label,
                colour=0,
                dashed=False,
                times_s=sorted(time_s for time_s in times if time_s is not None),
            )
            for times in ([job.jct_s for job in done], [job.cct_s for job in done])
        )
        return Picture(partial(draw_cdf, panels_of([jobs], [coflows])))

    def _repr_html_(self) -> str:
        failed = sum(not job.ok for job in self.jobs)
        jobs = format_count(len(self.jobs), "job") + (f", {failed} failed" if failed else "")
        if self.verified:
            jobs += ", output verified"
        elif self.verified is False and not failed:
            jobs += ", output WRONG"
        how = f"{CLOCK_WORDS[self.clock]}, seed {self.seed}"
        rows = {
            "workload": f"{self.workload} on {self.topology}, {how}",
            "scheduler": f"{self.scheduler} + {self.flow_scheduler}",
            "jobs": jobs,
            "makespan": format_duration(self.makespan_s),
            "job time": _times(self.jct_s),
            "shuffle": _times(self.cct_s),
            "between racks": format_size(self.bytes.cross_rack),
        }
        if not self.trusted:
            rows["times"] = "not to be trusted: the machine was too busy"
        return html_table(rows.items())


def _times(spread: Spread) -> str:
    if spread.mean is None or spread.p95 is None:
        return "-"
    return f"mean {format_duration(spread.mean)}, p95 {format_duration(spread.p95)}"


def run_of(summary: dict[str, Any], folder: Path | None = None, output: str | None = None) -> Run:
    """The run that a summary describes; ``folder`` has its files."""
    own = {"summary": summary, "folder": folder, "output": output}
    return msgspec.convert(summary | own, Run)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison:
    """The same jobs under several schedulers.  As text it is what ``railyard compare`` prints."""

    title: str  #: the jobs and the topology
    rows: Sequence[Row]  #: one for each contender: a scheduler with a flow scheduler on a clock
    about: Mapping[str, Any]  #: facts about the runs, for the page
    folder: Path | None  #: with all files of the runs; None: none were asked for

    @cached_property
    def runs(self) -> tuple[Run, ...]:
        """All runs: contender by contender, then by seed."""
        folders = self.about["folders"]
        return tuple(
            run_of(summary, folders.get((row.contender, summary["seed"])))
            for row in self.rows
            for summary in row.runs
        )

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """What is said of each scheduler against the first one of its clock.

        Of a statement, ``words`` is the sentence, ``verdict`` whether it is better, worse, or may
        be chance, ``change`` has the ratio and its interval.
        """
        return statements(self.rows).every

    def called(self, plain: Callable[[str], str]) -> Comparison:
        """The same, with its title and its workload's name changed."""
        about = {**self.about, "workload": plain(self.about["workload"])}
        return replace(self, title=plain(self.title), about=about)

    @property
    def ok(self) -> bool:
        """Whether all jobs of all runs succeeded, and no output is wrong."""
        return all(run.ok for run in self.runs)

    def run(self, scheduler: str, *, clock: str | None = None, seed: int | None = None) -> Run:
        """The first run of a scheduler ("delay", or "delay + sjf"), on this clock, with this seed.

        Raises ``UsageError`` if there is none.
        """
        rows = [row for row in self.rows for _ in row.runs]
        for run, row in zip(self.runs, rows, strict=True):
            is_of_it = scheduler in (row.label, row.contender.scheduler)
            if is_of_it and clock in (None, run.clock) and seed in (None, run.seed):
                return run
        there = dict.fromkeys(f"{r.scheduler} {r.clock} with seed {r.seed}" for r in self.runs)
        raise UsageError(f"run of {scheduler}: there is none such; there are: {', '.join(there)}")

    def to_pandas(self, of: Literal["runs", "jobs", "statements"] = "runs") -> DataFrame:
        """A row for each run, for each job of each run, or for each statement.

        Raises ``UsageError`` if pandas is not installed.
        """
        if of == "jobs":
            return data_frame(row for run in self.runs for row in run.job_rows())
        if of == "statements":
            return data_frame(
                {name: getattr(one.who, name) for name in _KEYS[:3]} | one.as_json()
                for one in self.statements
            )
        if of == "runs":
            return data_frame(run.row() for run in self.runs)
        raise UsageError(f"to_pandas of {of}: need runs, jobs or statements")

    def cdf(self) -> Picture:
        """Distributions of job and coflow completion times: a curve for each contender."""
        return Picture(partial(draw_cdf, completion_panels(self.rows)))

    def bars(self, metric: str = "jct_s.mean") -> Picture:
        """One metric of each contender, such as "makespan_s", "cct_s.p95", "cross_rack_bytes".

        Raises ``UsageError`` for a metric that there is not.
        """
        metrics = {metric.key: metric for metric in METRICS}
        if metric not in metrics:
            raise unknown_name("metric", metric, metrics)
        return Picture(partial(draw_bars, self.rows, metrics[metric], statements(self.rows)))

    def write_page(self) -> Path:
        """Draw and write the page of ``railyard compare --out``; returns its path.

        Raises ``UsageError`` without ``out=``, since the runs left no files then.
        """
        from railyard.report.pages import write_page

        if self.folder is None:
            raise UsageError("write_page: the runs left no files: need out=FOLDER")
        write_page(self.folder, self.rows, self.about)
        return self.folder / "index.html"

    def save_json(self, file: str | Path) -> None:
        """Write what ``railyard compare --json`` does; raises ``NotWritten``."""
        write_json(as_json(self.rows), Path(file))

    def __str__(self) -> str:
        return printed(lambda: show(self.rows, self.title))

    def __repr__(self) -> str:
        return f"<Comparison of {self.title}: {len(self.runs)} runs>"

    def _repr_html_(self) -> str:
        return preformatted(str(self))
