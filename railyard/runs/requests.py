"""What requests have in common: a topology, a cluster to start, jobs and where results go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

import click

from railyard.cluster.config import ClusterConfig, Restart
from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.files import Durability
from railyard.cluster.topology import Topology, load_topology
from railyard.terminal.options import (
    COUNT,
    REDUCES,
    SEED,
    Settings,
    TextPairs,
    argument,
    durability_option,
    new_folder,
    option,
    restart_option,
    seed_range,
    settings,
    settings_of,
    size,
    strict_option,
    text_pairs,
    writable_file,
)

if TYPE_CHECKING:
    from railyard.simulator.behaviour import Behaviour


DEFAULT_TOPOLOGY = "hybrid-8x4"
DEFAULT_SIZE_BYTES = 10 * 10**9


@dataclass(frozen=True, kw_only=True)
class TopologyRequest:
    """The cluster and its network."""

    topology: str | None = option(
        "--topology", metavar="NAME|FILE.toml", help=f"Default: {DEFAULT_TOPOLOGY}."
    )
    network: TextPairs = option(
        "--network",
        metavar="KEY=VALUE",
        callback=text_pairs,
        multiple=True,
        help="A figure of the topology to change: oversubscription=10, delta=1ms, "
        "elephant=1GB, wavelengths=4, ocs=off, background=0.5, or a key of its file such "
        "as racks.count=9, or a link: r3.up=1Gbps, Tokyo.down=50Mbps; repeatable.",
    )

    @cached_property
    def place(self) -> Topology:
        """The topology with its changes; raises ``UsageError`` when it is first asked for."""
        return load_topology(self.topology or DEFAULT_TOPOLOGY, self.network)


@dataclass(frozen=True, kw_only=True)
class InputRequest(TopologyRequest):
    """What jobs read, and a file for the results."""

    size_bytes: int | None = option(
        "--size", callback=size, help="Input to generate for each job; default: 10GB."
    )
    reduces: int | None = option(
        "--reduces",
        type=REDUCES,
        help="Reduces of each job; default: one per block of its input (a job of a mix: two "
        "blocks), at most half of the slots.",
    )
    inputs: tuple[str, ...] = option(
        "--input",
        multiple=True,
        metavar="FILE",
        help="What jobs read that say nothing else: a local file, a folder, a pattern such as "
        "'texts/*.txt', or dfs:/PATH of the cluster that is up, also a list or pattern of these "
        "(dfs:/a,/b or 'dfs:/logs/*'); orders=FILE for a job that names its inputs.  Repeatable.",
    )
    json_file: Path | None = option(
        "--json", callback=writable_file, help="Write the results as JSON to this file."
    )

    @property
    def input_bytes(self) -> int:
        """Input of each job, in the model's bytes."""
        return DEFAULT_SIZE_BYTES if self.size_bytes is None else self.size_bytes


@dataclass(frozen=True, kw_only=True)
class JobsRequest(InputRequest):
    """Jobs, and where their results go."""

    results: Path | None = option(
        "--out",
        metavar="DIR",
        callback=new_folder,
        help="Write everything to a new folder: summaries, events, traces, logs, and the page of "
        "a comparison.",
    )


@dataclass(frozen=True, kw_only=True)
class ClusterRequest(TopologyRequest):
    """A cluster of real processes; None where nothing was typed."""

    scheduler: str | None = option(
        "--scheduler",
        metavar="NAME",
        help='Default: fair; railyard schedulers lists them.  "delay + sjf" names a flow '
        "scheduler, too.",
    )
    flow_scheduler: str | None = option(
        "--flow-scheduler",
        metavar="NAME",
        help="Default: the one that the scheduler goes with, mostly maxmin.",
    )
    scheduler_options: Settings = option(
        "--set",
        metavar="KEY=VALUE",
        callback=settings,
        multiple=True,
        help="A setting of the scheduler, such as delay.node_wait_s=3; repeatable.",
    )
    seed: int | None = option("--seed", type=SEED, help="Default: 1.")
    transport: Literal["ipc", "tcp"] | None = option(
        "--transport",
        type=click.Choice(["ipc", "tcp"]),
        help="How daemons talk: Unix-domain sockets (default) or TCP with CURVE keys.",
    )
    durability: Durability | None = durability_option()
    restart: Restart | None = restart_option()

    def config(self) -> ClusterConfig:
        """The configuration of a new cluster; raises ``UsageError`` for what does not exist."""
        from railyard.runs.config import cluster_config, pair_of, warn_of_idle_priorities

        pair = pair_of(self.scheduler or "fair", self.flow_scheduler)
        warn_of_idle_priorities([pair])
        return cluster_config(
            self.place,
            pair=pair,
            options=self.scheduler_options,
            seed=1 if self.seed is None else self.seed,
            transport=self.transport or "ipc",
            durability=self.durability,
            restart=self.restart,
        )

    def require_like(self, running: ClusterConfig) -> None:
        """Raise ``UsageError`` if what was typed differs from the cluster that is up."""
        scheduler, flows = self._typed()
        pairs = {
            "--scheduler": (scheduler, running.scheduler),
            "--flow-scheduler": (flows, running.flow_scheduler),
            "--transport": (self.transport, running.transport),
            "--durability": (self.durability, running.durability),
            "--restart": (self.restart, running.restart),
        }
        for name, (wanted, has) in pairs.items():
            if wanted is not None and wanted != has:
                raise _another(name, wanted, has)
        self._require_topology_like(running.topology)
        for key, value in self.scheduler_options:
            if running.scheduler_options.get(key) != value:
                raise UsageError(f"--set {key}={value}: the cluster that is up was started without")

    def _typed(self) -> tuple[str | None, str | None]:
        """The scheduler and the flow scheduler that were typed; None where neither was."""
        from railyard.runs.config import pair_of, typed_pair

        if self.scheduler is None:
            return None, self.flow_scheduler
        if self.flow_scheduler is None:
            return typed_pair(self.scheduler)
        return pair_of(self.scheduler, self.flow_scheduler)

    def _require_topology_like(self, running: Topology) -> None:
        if self.topology is None:
            changes = running.name.split(",")[1:]
            for key, value in self.network:
                if f"{key}={value}" not in changes:
                    raise _another("--network", f"{key}={value}", running.name)
        elif self.place != running:
            wanted = ",".join([self.topology, *(f"{key}={value}" for key, value in self.network)])
            raise _another("--topology", wanted, running.name)


def _another(name: str, wanted: str, has: str) -> UsageError:
    right = "leave the option out, or railyard down first"
    return UsageError(f"{name} {wanted}: the cluster that is up has {has}; {right}")


# The option ``--on``: where to simulate, if not on this machine's cores.


_KINDS = ("dask", "ray")


class Workers(NamedTuple):
    """Where to simulate, if not on this machine: a cluster of Dask's or Ray's."""

    kind: str
    address: str


def parse_on(text: str) -> Workers:
    """Take "dask:tcp://host:8786" apart; raises ``UsageError``."""
    kind, _, address = text.partition(":")
    if kind not in _KINDS:
        raise unknown_name("place for --on", kind, _KINDS)
    if not address:
        raise UsageError(f"--on {text}: need an address, as in dask:tcp://10.0.0.1:8786")
    return Workers(kind, address)


def on_option() -> Workers | None:
    """The option that says where to simulate."""
    on: Workers | None = option(
        "--on",
        metavar="dask:ADDRESS|ray:ADDRESS",
        callback=lambda _context, _option, text: None if text is None else parse_on(text),
        help="Simulate there, rather than on this machine's cores.  With --out, it must share "
        "this machine's files.",
    )
    return on


# The requests of commands that simulate: one run of a workload, or several to be compared.


def _behaviour() -> type[Behaviour]:
    from railyard.simulator.behaviour import Behaviour

    return Behaviour


def _tuple(_: click.Context, __: click.Parameter, word: str) -> tuple[str, ...]:
    return (word,)


@dataclass(frozen=True, kw_only=True)
class RunsRequest(JobsRequest):
    """The same jobs under one scheduler or several, with one seed or several."""

    #: how many seeds there are on each clock if no number is asked for
    usual_seeds: ClassVar[Mapping[str, int]] = {"wall": 1, "virtual": 1}

    words: tuple[str, ...]  #: the jobs, or one workload
    schedulers: tuple[str, ...] = ()
    clocks: tuple[str, ...] = ("virtual",)
    durability: Durability | None = None  #: of emulated runs
    behaviour: Behaviour | None = None  #: of simulated nodes; None: ideal ones
    faults: str | None = None  #: of simulated runs, as ``simulator.faults`` reads them
    first: int | None = None  #: only so many of a workload's jobs
    flow_schedulers: tuple[str, ...] = option(
        "--flow-scheduler",
        metavar="NAME",
        multiple=True,
        help="Default: the one that the scheduler goes with, mostly maxmin.  Repeat it to have "
        "each scheduler with each of several.",
    )
    scheduler_options: Settings = option(
        "--set",
        metavar="KEY=VALUE",
        callback=settings,
        multiple=True,
        help="A setting of one of the schedulers, such as delay.node_wait_s=3; repeatable.",
    )
    seed: int = option("--seed", type=SEED, default=1, help="The first seed.  Default: 1.")
    seeds: int | None = option("--seeds", type=COUNT, metavar="N", help="Runs of each.")
    exact: bool = option(
        "--exact",
        is_flag=True,
        default=False,
        help="Simulate each flow, however many there are.  By default, runs of millions of flows "
        "are made coarser, and say so.",
    )
    on: Workers | None = on_option()

    def seeds_on(self, clock: str) -> range:
        """One for each run of each scheduler on a clock."""
        return range(self.seed, self.seed + (self.seeds or self.usual_seeds[clock]))

    @cached_property
    def place(self) -> Topology:
        """The topology with its changes, and as coarse as the workload's tasks."""
        from railyard.runs.config import topology_for

        return topology_for(self.words[0], self.topology or DEFAULT_TOPOLOGY, self.network)

    @property
    def every_seed(self) -> range:
        """Those of all clocks."""
        return max((self.seeds_on(clock) for clock in self.clocks), key=len)


@dataclass(frozen=True, kw_only=True)
class SimulateRequest(RunsRequest):
    """Arguments and options of ``railyard simulate``."""

    words: tuple[str, ...] = option(
        "--workload",
        required=True,
        metavar="NAME[:FILE][,KEY=VALUE...]",
        callback=_tuple,
        help="One that railyard workloads lists, or jobs as railyard run takes them: terasort, "
        "wordcount,size=2GB,times=3, mix,jobs=20, jobs.toml.  coflow-benchmark:FILE without "
        "--scheduler is coflows alone.",
    )
    schedulers: tuple[str, ...] = option(
        "--scheduler",
        metavar="NAME",
        multiple=True,
        help='Default: fair; railyard schedulers lists them.  "delay + sjf" names a flow '
        "scheduler, too.  Repeat it to compare several.",
    )
    first: int | None = option(
        "--first", metavar="N", type=COUNT, help="Only the first N jobs or coflows."
    )
    behaviour: Behaviour | None = option(
        "--behaviour",
        metavar="KEY=VALUE",
        callback=settings_of(_behaviour),
        multiple=True,
        help="How simulated nodes differ from ideal ones: variance=0.3 (lognormal sigma of "
        "computing times), stragglers=0.05, straggler_factor=5, failures=0.01 (shares of "
        "attempts), launch_s=0.2, fetch_s, end_s (latencies), progress_s; to be quick and a bit "
        "off: output_block=2000000000 (writes larger blocks), together_s=0.05 (flows that end so "
        "close end at once); repeatable.  Stragglers on real clusters: --network "
        "compute.stragglers=0.05.",
    )
    faults: str | None = option(
        "--faults",
        metavar="SPEC|SEED",
        help="What goes wrong: node:r0n1@10s+20s,rack:r2@30s+60s,slow:r1n0*4@5s+60s,"
        "link:r3.up*0.2@5s+60s,slots:r3n0*0.5@5s+60s,blocks:r0n0/3@10s, or a number: the seed of "
        "a schedule.",
    )

    @property
    def workload(self) -> str:
        return self.words[0]


# The request of ``railyard compare``.


#: Simulated seeds of each scheduler, if none are asked for: see docs/decisions/comparisons.md.
FEW_SEEDS = 5
CLOCKS = {"wall": ("wall",), "virtual": ("virtual",), "both": ("wall", "virtual")}


def _names(_: click.Context, option: click.Parameter, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise UsageError(f"{option.opts[0]} {text}: need names with commas between")
    return names


def _clocks(_: click.Context, __: click.Parameter, word: str) -> tuple[str, ...]:
    return CLOCKS[word]


@dataclass(frozen=True, kw_only=True)
class CompareRequest(RunsRequest):
    """Arguments and options of ``railyard compare``."""

    usual_seeds = {"wall": 1, "virtual": FEW_SEEDS}

    words: tuple[str, ...] = argument(nargs=-1, required=True, metavar="JOB...")
    schedulers: tuple[str, ...] = option(
        "--schedulers",
        default="fair,delay,capacity",
        metavar="NAME,...",
        callback=_names,
        help='The others are measured against the first.  "delay + sjf" is one with its flow '
        "scheduler.  Default: fair,delay,capacity.",
    )
    clocks: tuple[str, ...] = option(
        "--clock",
        type=click.Choice(list(CLOCKS)),
        default="both",
        callback=_clocks,
        help="Real processes, simulation, or both (the default), to see whether they agree.",
    )
    seeds: int | None = option(
        "--seeds",
        type=COUNT,
        metavar="N",
        help=f"Runs of each.  Default: 1 emulated, {FEW_SEEDS} simulated.",
    )
    strict: bool = strict_option()
    durability: Durability | None = durability_option()

    def __post_init__(self) -> None:
        idle = {
            "--exact": (self.exact, "virtual"),
            "--strict": (self.strict, "wall"),
            "--durability": (self.durability is not None, "wall"),
        }
        for name, (given, clock) in idle.items():
            if given and clock not in self.clocks:
                raise UsageError(f"{name}: changes nothing here: need --clock {clock} or both")


# The request of ``railyard reproduce``.


@dataclass(frozen=True, kw_only=True)
class ReproduceRequest:
    """Arguments and options of ``railyard reproduce``."""

    paper: str = argument(required=True, metavar="PAPER")
    figures: tuple[str, ...] = argument(nargs=-1, metavar="[FIGURE]...")
    seeds: int | range | None = option(
        "--seeds",
        metavar="N|A-B",
        callback=seed_range,
        help="Runs of each setup: N of them, or those with seeds A to B.  Seeds before the usual "
        "ones were used to choose what a paper leaves open.",
    )
    quick: bool = option(
        "--quick", is_flag=True, help="A smaller version of each figure, for a first look."
    )
    cases: tuple[str, ...] = option(
        "--case",
        multiple=True,
        metavar="CASE",
        help="Only lines of this case, which tables have at the left, such as W1; repeatable.",
    )
    changed: TextPairs = option(
        "--set",
        metavar="KEY=VALUE",
        callback=text_pairs,
        multiple=True,
        help="Another value for a setting of the schedulers, such as corral.imbalance=0; "
        "repeatable.",
    )
    json_file: Path | None = option(
        "--json", callback=writable_file, help="Write all numbers to this file."
    )
    results: Path | None = option(
        "--out",
        metavar="DIR",
        callback=new_folder,
        help="Write numbers and summaries of all runs to a new folder.",
    )
    on: Workers | None = on_option()
