"""The figures of a run as typed objects: ``summary.json`` with names and types (docs/summary.md).

Bytes are the model's, times are seconds of the model's clock.  None is what is not known, such as
the time of a shuffle that there was none of.  Keys that are not named here are in ``Run.summary``.
"""

from __future__ import annotations

import html
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from railyard.cluster.errors import UsageError, printable
from railyard.cluster.units import format_count, format_duration, format_size
from railyard.experiments.statements import Statement
from railyard.runs.figures import is_trusted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pandas import DataFrame

    from railyard.experiments.contenders import Row


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


class RunRecord(msgspec.Struct, frozen=True, kw_only=True):
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


# Results as pandas' data frames; pandas is an extra: ``pip install railyard[pandas]``.


#: What says which run a row is of.
_KEYS = ("scheduler", "flow_scheduler", "clock", "seed")
_NUMBERS = (
    "slot_utilization",
    "compute_utilization",
    "network_utilization",
    "link_skew",
    "verified",
)


def jobs_frame(runs: Iterable[RunRecord]) -> DataFrame:
    """A row for each job of each run."""
    return _frame(
        [
            _keys(run) | {name: getattr(job, name) for name in JobResult.__struct_fields__}
            for run in runs
            for job in run.jobs
        ]
    )


def runs_frame(runs: Iterable[RunRecord]) -> DataFrame:
    """A row for each run: its own figures, spreads as "jct_s_mean", bytes as "bytes_rack"."""
    return _frame([_keys(run) | _figures(run) for run in runs])


def statements_frame(statements: Sequence[Statement]) -> DataFrame:
    """A row for each statement of a comparison."""
    return _frame(
        [
            {
                "scheduler": one.who.scheduler,
                "flow_scheduler": one.who.flow_scheduler,
                "clock": one.who.clock,
                **one.as_json(),
            }
            for one in statements
        ]
    )


def lines_frame(figures: Mapping[str, Mapping[str, Any]]) -> DataFrame:
    """A row for each line of a paper's figures, as ``reproduce --json`` has them."""
    return _frame(
        [
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
            for name, figure in figures.items()
            for line in figure["lines"]
        ]
    )


def listing_frame(every: Iterable[msgspec.Struct]) -> DataFrame:
    """A row for each struct, with its fields."""
    return _frame([msgspec.structs.asdict(one) for one in every])


def _keys(run: RunRecord) -> dict[str, Any]:
    return {name: getattr(run, name) for name in _KEYS}


def _figures(run: RunRecord) -> dict[str, Any]:
    spreads = {"jct_s": run.jct_s, "cct_s": run.cct_s, "shuffle_skew": run.shuffle_skew}
    parts = {"bytes": run.bytes, "locality": run.locality, "tasks": run.tasks}
    return {
        "makespan_s": run.makespan_s,
        **{
            f"{name}_{part}": getattr(spread, part)
            for name, spread in spreads.items()
            for part in Spread.__struct_fields__
        },
        **{
            f"{name}_{part}": value
            for name, counts in parts.items()
            for part, value in msgspec.structs.asdict(counts).items()
        },
        **{name: getattr(run, name) for name in _NUMBERS},
        "trusted": run.trusted,
    }


def _frame(rows: list[dict[str, Any]]) -> DataFrame:
    try:
        from pandas import DataFrame
    except ImportError:
        raise UsageError("to_pandas: pandas is missing: pip install railyard[pandas]") from None
    return DataFrame(rows)


# Results as text and HTML for notebooks: the same words and tables as on the terminal.


_CLOCKS = {"wall": "emulated", "virtual": "simulated"}


def run_as_html(run: RunRecord) -> str:
    """A run in a few rows."""
    rows = [
        ("workload", f"{run.workload} on {run.topology}, {_CLOCKS[run.clock]}, seed {run.seed}"),
        ("scheduler", f"{run.scheduler} + {run.flow_scheduler}"),
        ("jobs", _jobs(run)),
        ("makespan", format_duration(run.makespan_s)),
        ("job time", _times(run.jct_s.mean, run.jct_s.p95)),
        ("shuffle", _times(run.cct_s.mean, run.cct_s.p95)),
        ("between racks", format_size(run.bytes.cross_rack)),
    ]
    if not run.trusted:
        rows.append(("times", "not to be trusted: the machine was too busy"))
    cells = "".join(
        f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
        f"<td style='text-align:left'>{html.escape(printable(text))}</td></tr>"
        for name, text in rows
    )
    return f"<table>{cells}</table>"


def comparison_as_text(rows: Sequence[Row], title: str) -> str:
    """The tables and statements that the command prints."""
    from railyard.experiments.comparisontable import show

    return printed(lambda: show(rows, title))


def printed(show: Callable[[], object]) -> str:
    """What a function prints."""
    written = io.StringIO()
    with redirect_stdout(written):
        show()
    return written.getvalue().rstrip("\n")


def as_preformatted(text: str) -> str:
    """Text as HTML that keeps its columns."""
    return f"<pre style='line-height:1.2'>{html.escape(text)}</pre>"


def _jobs(run: RunRecord) -> str:
    failed = sum(not job.ok for job in run.jobs)
    wrong = ", output WRONG" if run.verified is False and not failed else ""
    verified = ", output verified" if run.verified else wrong
    count = format_count(len(run.jobs), "job")
    return f"{count}{f', {failed} failed' if failed else ''}{verified}"


def _times(mean_s: float | None, p95_s: float | None) -> str:
    if mean_s is None or p95_s is None:
        return "-"
    return f"mean {format_duration(mean_s)}, p95 {format_duration(p95_s)}"


def listing_as_html(listing: Mapping[str, Any]) -> str:
    """A row for each of what there is, a column for each of its fields."""
    every = list(listing.values())
    if not every:
        return "none"
    names = every[0].__struct_fields__
    head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in names)
    rows = "".join(
        "<tr>"
        + "".join(f"<td style='text-align:left'>{_cell(one, n)}</td>" for n in names)
        + "</tr>"
        for one in every
    )
    return f"<table><tr>{head}</tr>{rows}</table>"


def _cell(one: Any, name: str) -> str:
    value = getattr(one, name)
    text = ", ".join(value) if isinstance(value, tuple) else str(value)
    return html.escape(printable(text, 1000))
