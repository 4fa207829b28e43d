"""``railyard run``, ``compare``, ``chaos``, ``simulate``, ``reproduce`` and ``up``: what runs jobs.

Standard output has the results; how far it is goes to standard error.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from click.core import ParameterSource

from railyard.cli.exitstatus import Status
from railyard.cluster.config import ClusterConfig
from railyard.cluster.errors import UsageError, require_once
from railyard.cluster.faults import GROUPS, KINDS
from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.topologyfile import SHORT
from railyard.cluster.units import (
    PERCENT,
    format_count,
    format_duration,
    format_number,
    format_share,
    format_size,
    time_unit,
)
from railyard.gateway.address import LOOPBACK, gateway_lines, listen, origins_of
from railyard.runs.figures import require_figures, require_trusted
from railyard.runs.folder import code_state, say_written, write_json, write_text
from railyard.runs.home import current_folder, daemons_of
from railyard.runs.requests import (
    CLUSTER,
    FEW_SEEDS,
    INPUT,
    PLACE,
    ReproduceRequest,
    RunRequest,
    one,
    several_flow_schedulers,
)
from railyard.terminal.notices import State, watching
from railyard.terminal.options import (
    COUNT,
    Command,
    TextPairs,
    command,
    new_folder,
    option,
    writable_file,
)
from railyard.terminal.progress import progress_view

if TYPE_CHECKING:
    from railyard.api.results import Comparison
    from railyard.jobs.workloads.coflows import CoflowTrace
    from railyard.runs.simulation import Simulated
    from railyard.simulator.coflows import CoflowRun

#: A shorter time gives no daemon the time to come back.
_EVERY_S_MIN = 0.05
_EVERY_S_MAX = 3600.0


def _names(_: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise UsageError(f"{option.opts[0]} {text}: need names with commas between")
    return names


@command(RunRequest, f"words output fetch_to params user queue strict {CLUSTER} results {INPUT}")
def run(request: RunRequest) -> None:
    """Run a job, or several at once, and check the output.

    JOB is terasort, wordcount, topwords, query, or a Python file of yours: ./my_job.py, or
    ./my_job.py:MyJob if it has several.  It runs on the cluster that is up, or else on one that is
    started for it and removed afterwards.

    Of several jobs more can be said, each for itself: terasort,size=2GB,submit=5s,times=3 (also
    reduces, user, queue, param.NAME).  mix,jobs=20,sizes=1GB+2GB,window=30s draws jobs by the seed
    (also of=terasort+wordcount, users, queues, reduces), and a file jobs.toml has a table [[job]]
    for each.  Schedulers that plan ahead get forecasts of them, with their measured sizes:
    recurring=0.5 predicts half of them, size_error=0.1 wrongly; inputs=own makes one for each.
    skew=1.2 spreads generated input over the racks by Zipf's law, skew_ratio=8 so that the rack
    with most has 8 times as much as that with least.  docs/workloads.md has all of these words.
    """
    from railyard.runs.work import require_well, run_on, session_for, work_for

    up = current_folder()
    if up is None:
        config = request.config()
    else:
        config = ClusterConfig.load(up)
        request.require_like(config)
    work = work_for(request, config, up)
    with progress_view() as view, session_for(up, config, view) as session:
        ran = run_on(session, work, view, request.results)
    work.show(ran.summary, config.topology)
    if request.json_file is not None:
        write_json(ran.summary, request.json_file)
    if request.results is not None and ran.unwritten is None:
        from railyard.report.pages import finish_folder

        finish_folder(request.results, ran.summary, config.topology)
    say_written(request.results, request.json_file)
    require_well(ran, work.name)
    if request.strict:
        require_trusted([ran.summary])
    require_figures([ran.summary])


@command(
    RunRequest,
    "words schedulers clocks seeds strict durability "
    f"flow_schedulers scheduler_options seed exact on results {INPUT}",
    schedulers=option(
        "--schedulers",
        default="fair,delay,capacity",
        metavar="NAME,...",
        callback=_names,
        help='The others are measured against the first.  "delay + sjf" is one with its flow '
        "scheduler.  Default: fair,delay,capacity.",
    ),
    flow_schedulers=several_flow_schedulers(),
    seeds=option(
        "--seeds",
        type=COUNT,
        metavar="N",
        help=f"Runs of each.  Default: 1 emulated, {FEW_SEEDS} simulated.",
    ),
)
def compare(request: RunRequest) -> None:
    """Run the same jobs under several schedulers: what differs, beyond chance; with --out a page.

    JOB is what railyard run takes: terasort wordcount, or terasort,size=2GB,times=3, or
    mix,jobs=20,window=30s, or jobs.toml.  With --clock virtual it may be a workload for the
    simulator: railyard workloads lists them.
    """
    from railyard.runs.work import NotVerified

    comparison = carry_out(replace(request, simulated=FEW_SEEDS))
    bad = [run for run in comparison.runs if run.verified is False]
    if bad:
        runs = format_count(len(bad), "run")
        raise NotVerified(f"{runs} had jobs that failed or have wrong output")
    if request.strict:
        require_trusted(run.summary for run in comparison.runs)


def carry_out(request: RunRequest) -> Comparison:
    """Carry out a comparison; print its table, write its files."""
    from railyard.api.studies import compared

    comparison = compared(request)
    click.echo(str(comparison))
    if request.json_file is not None:
        comparison.save_json(request.json_file)
    if comparison.folder is not None:
        comparison.write_page()
    say_written(comparison.folder, request.json_file)
    require_figures(run.summary for run in comparison.runs)
    return comparison


@dataclass(frozen=True, kw_only=True)
class ChaosRequest(RunRequest):
    """Arguments and options of ``railyard chaos``."""

    kills: int = option(
        "--kills", type=COUNT, default=20, help="Faults of all kinds together; default: 20."
    )
    every_s: float = option(
        "--every",
        type=click.FloatRange(min=_EVERY_S_MIN, max=_EVERY_S_MAX),
        metavar="S",
        default=1.0,
        help="Seconds from one fault to the next, on average; default: 1.",
    )
    kinds: str = option(
        "--kinds",
        metavar="KIND,...",
        default="all",
        help=f"Of {', '.join((*GROUPS, *KINDS))}; kill: all that begin so. Default: all.",
    )

    def chosen_kinds(self) -> tuple[str, ...]:
        """The kinds of faults.  Raises ``UsageError`` for those that cannot be."""
        from railyard.chaos.plan import kinds_named, possible_kinds

        if self.restart == "never":
            raise UsageError("--restart never: need on-failure: what is killed is to come back")
        return kinds_named(self.kinds, possible_kinds(self.place))

    def cluster(self, kinds: tuple[str, ...]) -> ClusterConfig:
        """The cluster's configuration, with a gateway if one is to be killed."""
        port = 0 if "kill-gateway" in kinds else None  # 0: any that is free
        return msgspec.structs.replace(self.config(), http=port)


@command(ChaosRequest, f"words kills every_s kinds params {CLUSTER} {INPUT}")
def chaos(request: ChaosRequest) -> int:
    """Run a job while daemons, attempts, links and disks fail by seed, and compare its output.

    JOB is as railyard run takes it, or several of them.  It runs on a cluster of its own, first
    without faults; then again and again until all faults have been done and recovered from.  Each
    fault is a line: when, what, and how long it took until the daemon answered again, the block had
    its replicas again, or the task ran again.

    Each output is compared byte for byte with that of the run without faults.  Small files are
    stored meanwhile; one that was acknowledged must be there in the end.  The exit status is 6 if
    anything differs, 1 if a job failed or something did not recover.
    """
    from railyard.chaos.plan import plan_faults
    from railyard.chaos.runs import (
        as_json,
        heading,
        line_of,
        run_under_faults,
        show_report,
        without_faults,
    )
    from railyard.runs.clusters import own_session
    from railyard.runs.work import work_for

    kinds = request.chosen_kinds()
    config = request.cluster(kinds)
    plan = plan_faults(config.seed, config.topology, kinds, request.kills, request.every_s)
    work_for(request, config, None)  # mistakes are found before anything is started
    with own_session(config) as session:
        with progress_view() as view:
            kind = without_faults(session, request, view)
        click.echo(heading())
        report = run_under_faults(
            session, [kind], plan, lambda one: click.echo(line_of(one)), config.seed
        )
    show_report(report)
    if request.json_file is not None:
        write_json({"seed": config.seed, "kinds": kinds} | as_json(report), request.json_file)
    if report.differing:
        return Status.DIFFERS
    return Status.FAILED if report.failures or report.unrecovered else Status.OK


# In virtual time ----------------------------------------------------------------------------------
#: The set-up of the literature: a port of 1 Gbps for each of the trace's racks.
_PORTS = "ports-150x1"
#: What only jobs use of a topology.
_OF_TASKS = ("compute.", "storage.", "client.")


def simulate_coflows(request: RunRequest) -> None:
    """Run a trace of coflows under each of the flow schedulers; print a table."""
    from railyard.jobs.workloads.coflows import coflow_trace
    from railyard.netemu.schedulers import flow_scheduler
    from railyard.runs.config import warn_of_missing_circuits
    from railyard.simulator.coflows import CoflowRun

    schedulers = [flow_scheduler(name) for name in request.flow_schedulers or ("maxmin",)]
    require_once((scheduler.name for scheduler in schedulers), "--flow-scheduler")
    trace = coflow_trace(request.words[0])
    if request.first is not None:
        trace = trace.first(request.first)
    place = _topology(request, trace)
    warn_of_missing_circuits(place, [scheduler.name for scheduler in schedulers])
    summaries = []
    for scheduler in schedulers:
        run = CoflowRun(trace, place, scheduler)
        cpu_s = _run(run, scheduler.name)
        summaries.append(run.summary() | {"workload": request.words[0], "cpu_s": cpu_s})
    _show(trace, place, summaries)
    if request.json_file is not None:
        write_json(summaries[0] if len(summaries) == 1 else summaries, request.json_file)


def _run(run: CoflowRun, name: str) -> float:
    """Run to the end with progress shown; returns CPU seconds."""

    def state() -> State:
        done, total = run.finished, len(run.records)
        flows, now_s = run.fabric.open_flows, run.fabric.now_s
        words = f"{name}  {done}/{total} coflows  {flows} flows  at {format_duration(now_s)}"
        return State(done, total, words)

    with watching(state) as watch:
        begun_s = time.process_time()
        run.run(lambda _: watch())
        return time.process_time() - begun_s


def _topology(request: RunRequest, trace: CoflowTrace) -> Topology:
    """The topology that was asked for, or else a port for each of the trace's racks."""
    for key, _ in request.network:
        full = SHORT.get(key, key)
        if full.startswith(_OF_TASKS) or full.endswith(".slots"):
            right = "need --scheduler too"
            raise UsageError(f"--network {key}: coflows alone have no tasks and files: {right}")
    if request.topology is not None:
        return request.place
    network: TextPairs = request.network
    racks = load_topology(_PORTS).racks.count
    if racks != trace.racks and not any(key == "racks.count" for key, _ in network):
        network = (("racks.count", str(trace.racks)), *network)
    return load_topology(_PORTS, network)


def _show(trace: CoflowTrace, topology: Topology, summaries: list[dict[str, Any]]) -> None:
    from railyard.terminal.tables import Column, plain_console, show_table

    sent = format_size(sum(coflow.size_bytes for coflow in trace.coflows))
    coflows, flows = format_count(len(trace.coflows), "coflow"), format_count(trace.width, "flow")
    title = f"{trace.name}: {coflows}, {flows}, {sent}, on {topology.name}"
    of_cct = time_unit(max(summary["cct_s"]["p99"] or 0.0 for summary in summaries))
    columns = [
        Column("flow scheduler"),
        Column("CCT mean", lambda _: of_cct),
        Column("CCT median", lambda _: of_cct, rank=1),
        Column("CCT p95", lambda _: of_cct),
        Column("CCT p99", lambda _: of_cct, rank=2),
        Column("last end", time_unit, rank=3),
        Column("network used", lambda _: PERCENT, rank=4),
        Column("CPU time", time_unit, rank=5),
    ]
    rows = [
        [
            summary["flow_scheduler"],
            *(summary["cct_s"][key] for key in ("mean", "p50", "p95", "p99")),
            summary["makespan_s"],
            summary["network_utilization"],
            summary["cpu_s"],
        ]
        for summary in summaries
    ]
    show_table(plain_console(), columns, rows, title=title, elsewhere="--json")


def _show_simulated(done: Simulated) -> None:
    """Print the table that ends ``railyard simulate``."""
    from railyard.runs.summary import (
        attempts_of,
        figure_rows,
        print_rows,
        schedulers_of,
        usage_rows,
    )

    run, summary, cpu_s = done.simulation, done.summary, done.cpu_s
    jobs, topology = summary["jobs"], run.config.topology
    failed = sum(not job["ok"] for job in jobs)
    fast = format_number(summary["makespan_s"] / cpu_s if cpu_s else 0.0)
    locality = summary["locality"]
    maps = sum(locality.values()) or 1
    words = {"node": "on the map's node", "rack": "in its rack", "remote": "further away"}
    rows = [
        ("workload", f"{summary['workload']} on {topology.name}, {schedulers_of(summary)}"),
        ("jobs", format_count(len(jobs), "job") + (f", {failed} failed" if failed else "")),
        ("makespan", format_duration(summary["makespan_s"])),
        ("job time", _spread(summary["jct_s"])),
        ("shuffles", _spread(summary["cct_s"])),
        ("tasks", attempts_of(summary["tasks"], "copies")),
        ("map input", ", ".join(f"{format_share(locality[k] / maps)} {words[k]}" for k in words)),
        ("skew", _spread(summary["shuffle_skew"], format_number)),
        *usage_rows(summary),
        *figure_rows(summary),
        ("simulated", f"in {format_duration(cpu_s)} of CPU time, {fast} times as fast"),
    ]
    broken = [job for job in run.core.records.values() if job.ok is False]
    rows += [("FAILED", f"{job.name}: {job.reason}") for job in broken[:5]]
    print_rows(rows)


def _spread(values: dict[str, float | None], show: Callable[[float], str] = format_duration) -> str:
    """Mean and percentiles as text, without unknown ones."""
    known = [(name, value) for name, value in values.items() if value is not None]
    return ", ".join(f"{name} {show(value)}" for name, value in known) or "none"


#: A workload of this kind is coflows alone, unless a scheduler for jobs is named.
_COFLOWS = "coflow-benchmark"
#: What can be said of coflows alone.
_OF_COFLOWS = ("words", "flow_schedulers", "first", "json_file", "topology", "network")


@command(
    RunRequest,
    "words schedulers first behaviour faults "
    f"flow_schedulers scheduler_options seed seeds exact on results {INPUT}",
    words=option(
        "--workload",
        required=True,
        metavar="NAME[:FILE][,KEY=VALUE...]",
        callback=one,
        help="One that railyard workloads lists, or jobs as railyard run takes them: terasort, "
        "wordcount,size=2GB,times=3, mix,jobs=20, jobs.toml.  coflow-benchmark:FILE without "
        "--scheduler is coflows alone.",
    ),
    schedulers=option(
        "--scheduler",
        metavar="NAME",
        multiple=True,
        help='Default: fair; railyard schedulers lists them.  "delay + sjf" names a flow '
        "scheduler, too.  Repeat it to compare several.",
    ),
    flow_schedulers=several_flow_schedulers(),
)
def simulate(request: RunRequest) -> int:
    """Run a workload in virtual time, under the same schedulers as real jobs.

    A trace of coflows runs alone, without tasks; by default on one port of 1 Gbps for each rack of
    the trace.  With several flow schedulers, the JSON file has a list of summaries.

    Several runs, of schedulers or seeds, are spread over this machine's cores, and shown as
    railyard compare does.
    """
    if request.words[0].split(":")[0] == _COFLOWS and not request.schedulers:
        _require_only(_OF_COFLOWS)
        simulate_coflows(request)
        return 0
    several = len(request.schedulers) > 1 or len(request.flow_schedulers) > 1
    if several or request.seeds is not None or request.on is not None:
        return 0 if carry_out(request).ok else 1
    from railyard.api.studies import simulated

    done, run = simulated(request)
    if request.json_file is not None:
        write_json(run.summary, request.json_file)
    _show_simulated(done)
    say_written(run.folder, request.json_file)
    require_figures([run.summary])
    return 0 if run.ok else 1


def _require_only(names: tuple[str, ...]) -> None:
    """Raise ``UsageError`` if another option was typed."""
    context = click.get_current_context()
    for param in context.command.params:
        name = param.name or ""
        typed = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if typed and name not in names:
            raise UsageError(f"{param.opts[0]}: coflows alone have none: need --scheduler too")


# Papers' experiments ------------------------------------------------------------------------------
@command(
    ReproduceRequest,
    "paper figures wanted_seeds quick cases changed json_file results on",
    results=option(
        "--out",
        metavar="DIR",
        callback=new_folder,
        help="Write numbers, a picture of each figure and all runs' summaries to a new folder.",
    ),
)
def reproduce(request: ReproduceRequest) -> None:
    """Run a paper's experiments in virtual time and print each number beside the paper's.

    Without FIGURE all of them are run; what several of them need is run once.  Tables say what is
    smaller than in the paper.
    """
    from railyard.api.studies import reproduced

    done = reproduced(request)
    done.show()
    runs = sum(len(each) for each in done.found.values())
    click.echo(f"{runs} runs of {format_duration(done.cpu_s)} of CPU time in all")
    if request.json_file is not None:
        write_json(done.numbers, request.json_file)
    if request.results is not None:
        done.save(request.results)
    require_figures(done.summaries())


@click.command(cls=Command)
@click.argument(
    "folder", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path)
)
@click.option(
    "--add",
    "added",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="First record the numbers of what railyard reproduce --json wrote; repeatable.",
)
@click.option(
    "--output", metavar="FILE", callback=writable_file, help="Write the page to this file."
)
@click.option(
    "--check",
    type=click.IntRange(min=1),
    metavar="N",
    help="Instead make N recorded numbers again, drawn by the commit's hash; exit status 1 if one"
    " is another.",
)
def validation(
    folder: Path, added: tuple[Path, ...], output: Path | None, check: int | None
) -> None:
    """Print published numbers beside those that DIR has of ours, with verdicts.

    DIR has a file of records for each paper, which --add brings up to date.
    """
    from railyard.experiments.validation import NotAsRecorded, checked, page, record

    for file in added:
        record(file, folder)
    if check is not None:
        if output is not None:
            raise UsageError("--check makes no page: need it without --output")
        wrong = 0
        for each in checked(folder, code_state(), check):
            wrong += not each.holds
            click.echo(str(each))
        if wrong:
            raise NotAsRecorded(f"{wrong} of these are not as recorded")
        return
    text = page(folder)
    if output is None:
        click.echo(text, nl=False)
    else:
        write_text(text, output)


# A cluster that is left running -------------------------------------------------------------------
#: Where to answer HTTP: host and port, of which 0 is any that is free.
HttpAddress = tuple[str, int]


def http_address(_: click.Context, option: click.Parameter, value: str) -> HttpAddress | None:
    """An address: of this machine alone unless a host is named; None for "none"."""
    if value in ("auto", "none"):
        return (LOOPBACK, 0) if value == "auto" else None
    host, _colon, port = value.rpartition(":")
    if not (port.isdecimal() and port.isascii() and 0 < int(port) < 2**16):
        right = "auto, none, or a port from 1 to 65535, as in 8088 or 192.168.1.5:8088"
        raise UsageError(f"{option.opts[0]} {value}: need {right}")
    return host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port)


@dataclass(frozen=True, kw_only=True)
class UpRequest(RunRequest):
    """A cluster that is left running, with a gateway."""

    http: HttpAddress | None = option(
        "--http",
        metavar="auto|none|[HOST:]PORT",
        default="auto",
        callback=http_address,
        help="Where the gateway answers HTTP; default: auto, a free port that only this machine "
        "reaches. Any other HOST needs a token, which is printed.",
    )
    http_origins: tuple[str, ...] = option(
        "--http-origins",
        metavar="ORIGIN[,ORIGIN]",
        default="",
        callback=lambda _context, option, typed: origins_of(option.opts[0], typed),
        help="Sites whose pages may read what the gateway answers, such as http://localhost:3000; "
        "default: none.",
    )


@command(UpRequest, f"http http_origins {CLUSTER} {PLACE}")
def up(request: UpRequest) -> None:
    """Start a cluster and leave it running."""
    from railyard.runs.clusters import leave_running

    begun_s = time.monotonic()
    config = request.config()
    if request.http is not None:
        host, port = request.http
        listen(host, port).close()  # says so at once if it is taken
        config = msgspec.structs.replace(config, http=port, http_host=host)
        config = msgspec.structs.replace(config, http_origins=request.http_origins)
    elif request.http_origins:
        raise UsageError("--http-origins: need a gateway: --http none leaves it out")
    cluster = leave_running(config)
    daemons = len(daemons_of(cluster.folder))
    topology = config.topology
    click.echo(
        f"{topology.name} is up after {format_duration(time.monotonic() - begun_s)}: {daemons} "
        f"daemons, {topology.racks.count} racks, {topology.slots} slots, "
        f"scheduler {config.scheduler}.  railyard run JOB uses it, railyard down ends it."
    )
    for line in gateway_lines(cluster.folder):
        click.echo(line)
