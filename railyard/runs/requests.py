"""What is asked for of jobs: one request for all commands and functions that run some.

Its fields are the commands' options, each declared once; a command picks those that it has.  What
was not typed is None, or empty.  Values are parsed and checked before there is a request.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from railyard.cluster.config import ClusterConfig, Restart
from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.files import Durability
from railyard.cluster.processes import user_name
from railyard.cluster.topology import Topology
from railyard.terminal.options import (
    COUNT,
    REDUCES,
    SEED,
    Settings,
    TextPairs,
    argument,
    name,
    new_folder,
    option,
    seed_range,
    settings,
    settings_of,
    size,
    text_pairs,
    writable_file,
)

if TYPE_CHECKING:
    from railyard.simulator.behaviour import Behaviour

DEFAULT_TOPOLOGY = "hybrid-8x4"
DEFAULT_SIZE_BYTES = 10 * 10**9
#: Simulated seeds of each scheduler in a comparison, if no number is asked for.
FEW_SEEDS = 5
CLOCKS = {"wall": ("wall",), "virtual": ("virtual",), "both": ("wall", "virtual")}
_PLACES = ("dask", "ray")

#: Fields that several commands have as options.
PLACE = "topology network"
INPUT = f"size_bytes reduces inputs json_file {PLACE}"
CLUSTER = "schedulers flow_schedulers scheduler_options seed transport durability restart"


class Workers(NamedTuple):
    """Where to simulate, if not on this machine: a cluster of Dask's or Ray's."""

    kind: str
    address: str


def parse_on(text: str) -> Workers:
    """Take "dask:tcp://host:8786" apart; raises ``UsageError``."""
    kind, _, address = text.partition(":")
    if kind not in _PLACES:
        raise unknown_name("place for --on", kind, _PLACES)
    if not address:
        raise UsageError(f"--on {text}: need an address, as in dask:tcp://10.0.0.1:8786")
    return Workers(kind, address)


def one(_: click.Context, __: click.Parameter, word: str | None) -> tuple[str, ...]:
    """The value of an option that can't be repeated, of a field that may have several."""
    return () if word is None else (word,)


def several_flow_schedulers() -> Any:
    """The option --flow-scheduler of commands that run several."""
    return option(
        "--flow-scheduler",
        metavar="NAME",
        multiple=True,
        help="Default: the one that the scheduler goes with, mostly maxmin.  Repeat it to have "
        "each scheduler with each of several.",
    )


def _behaviour() -> type[Behaviour]:
    from railyard.simulator.behaviour import Behaviour

    return Behaviour


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """Jobs, what they run on, under which schedulers, and where their results go."""

    words: tuple[str, ...] = argument(nargs=-1, required=True, metavar="JOB...", value=())
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
    params: TextPairs = option(
        "--param",
        callback=text_pairs,
        multiple=True,
        help="A parameter of the job, such as min_letters=12.  Repeatable.",
    )
    user: str = option(
        "--user", default=user_name, callback=name, help="Owner of the job; default: you."
    )
    queue: str = option(
        "--queue", default="default", callback=name, help="Its queue or pool; default: default."
    )
    first: int | None = option(
        "--first", metavar="N", type=COUNT, help="Only the first N jobs or coflows."
    )

    # What they run on -----------------------------------------------------------------------------
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
    schedulers: tuple[str, ...] = option(
        "--scheduler",
        metavar="NAME",
        callback=one,
        value=(),
        help='Default: fair; railyard schedulers lists them.  "delay + sjf" names a flow '
        "scheduler, too.",
    )
    flow_schedulers: tuple[str, ...] = option(
        "--flow-scheduler",
        metavar="NAME",
        callback=one,
        value=(),
        help="Default: the one that the scheduler goes with, mostly maxmin.",
    )
    scheduler_options: Settings = option(
        "--set",
        metavar="KEY=VALUE",
        callback=settings,
        multiple=True,
        help="A setting of the scheduler, such as delay.node_wait_s=3; repeatable.",
    )
    seed: int | None = option("--seed", type=SEED, help="The first seed.  Default: 1.")
    seeds: int | None = option("--seeds", type=COUNT, metavar="N", help="Runs of each.")
    simulated: int = 1  #: seeds on the virtual clock, if no number is asked for

    # Real processes -------------------------------------------------------------------------------
    transport: Literal["ipc", "tcp"] | None = option(
        "--transport",
        type=click.Choice(["ipc", "tcp"]),
        help="How daemons talk: Unix-domain sockets (default) or TCP with CURVE keys.",
    )
    durability: Durability | None = option(
        "--durability",
        type=click.Choice(["fast", "safe"]),
        help="safe (default): files are on the disk before they are acknowledged.  fast: they "
        "outlive any process, but not a power cut.",
    )
    restart: Restart | None = option(
        "--restart",
        type=click.Choice(["never", "on-failure"]),
        help="on-failure (default): a daemon that died is restarted, unless it dies again and "
        "again.  never: a NodeManager, DataNode or gateway stays dead, and without any other the "
        "cluster ends.",
    )
    strict: bool = option(
        "--strict",
        is_flag=True,
        default=False,
        help="Exit status 5 if the machine was too busy for the times of an emulated run to be "
        "trusted.",
    )

    # Simulation -----------------------------------------------------------------------------------
    clocks: tuple[str, ...] = option(
        "--clock",
        type=click.Choice(list(CLOCKS)),
        default="both",
        value=("virtual",),
        callback=lambda _context, _option, word: CLOCKS[word],
        help="Real processes, simulation, or both (the default), to see whether they agree.",
    )
    exact: bool = option(
        "--exact",
        is_flag=True,
        default=False,
        help="Simulate each flow, however many there are.  By default, runs of millions of flows "
        "are made coarser, and say so.",
    )
    behaviour: Behaviour | None = option(
        "--behaviour",
        metavar="KEY=VALUE",
        callback=settings_of(_behaviour),
        multiple=True,
        value=None,
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
    on: Workers | None = option(
        "--on",
        metavar="dask:ADDRESS|ray:ADDRESS",
        callback=lambda _context, _option, text: None if text is None else parse_on(text),
        help="Simulate there, rather than on this machine's cores.  With --out, it must share "
        "this machine's files.",
    )

    # Results --------------------------------------------------------------------------------------
    output: str | None = option(
        "--output", metavar="PATH", help="Folder of the block store for the output."
    )
    fetch_to: Path | None = option(
        "--get", metavar="DIR", callback=new_folder, help="Fetch the output to a new folder."
    )
    json_file: Path | None = option(
        "--json", callback=writable_file, help="Write the results as JSON to this file."
    )
    results: Path | None = option(
        "--out",
        metavar="DIR",
        callback=new_folder,
        help="Write everything to a new folder: summaries, events, traces, logs, and the page of "
        "a comparison.",
    )

    @property
    def input_bytes(self) -> int:
        """Input of each job, in the model's bytes."""
        return DEFAULT_SIZE_BYTES if self.size_bytes is None else self.size_bytes

    @cached_property
    def place(self) -> Topology:
        """The topology with its changes, and as coarse as the tasks of the first workload.

        Raises ``UsageError`` when it is first used.
        """
        from railyard.runs.config import topology_for

        workload = self.words[0] if self.words else ""
        return topology_for(workload, self.topology or DEFAULT_TOPOLOGY, self.network)

    @property
    def first_seed(self) -> int:
        """The seed, or the usual one."""
        return 1 if self.seed is None else self.seed

    def seeds_on(self, clock: str) -> range:
        """One for each run of each scheduler on a clock."""
        count = self.seeds or (self.simulated if clock == "virtual" else 1)
        return range(self.first_seed, self.first_seed + count)

    @property
    def every_seed(self) -> range:
        """Those of all clocks."""
        return max((self.seeds_on(clock) for clock in self.clocks), key=len)

    def config(self) -> ClusterConfig:
        """The configuration of a new cluster; raises ``UsageError`` for what does not exist."""
        from railyard.runs.config import cluster_config, pairs_of, warn_of_idle_priorities

        pair = pairs_of(self.schedulers or ("fair",), self.flow_schedulers)[0]
        warn_of_idle_priorities([pair])
        return cluster_config(
            self.place,
            pair=pair,
            options=self.scheduler_options,
            seed=self.first_seed,
            transport=self.transport or "ipc",
            durability=self.durability,
            restart=self.restart,
        )

    def require_like(self, running: ClusterConfig) -> None:
        """Raise ``UsageError`` if what was typed differs from the cluster that is up."""
        from railyard.runs.config import pairs_of, typed_pair

        scheduler, flows = None, next(iter(self.flow_schedulers), None)
        if self.schedulers and flows is None:
            scheduler, flows = typed_pair(self.schedulers[0])
        elif self.schedulers:
            [(scheduler, flows)] = pairs_of(self.schedulers, self.flow_schedulers)
        typed = {
            "--scheduler": (scheduler, running.scheduler),
            "--flow-scheduler": (flows, running.flow_scheduler),
            "--transport": (self.transport, running.transport),
            "--durability": (self.durability, running.durability),
            "--restart": (self.restart, running.restart),
        }
        for typed_as, (wanted, has) in typed.items():
            if wanted is not None and wanted != has:
                raise _another(typed_as, wanted, has)
        self._require_topology_like(running.topology)
        for key, value in self.scheduler_options:
            if running.scheduler_options.get(key) != value:
                raise UsageError(f"--set {key}={value}: the cluster that is up was started without")

    def _require_topology_like(self, running: Topology) -> None:
        changes = [f"{key}={value}" for key, value in self.network]
        if self.topology is None:
            for change in changes:
                if change not in running.name.split(",")[1:]:
                    raise _another("--network", change, running.name)
        elif self.place != running:
            raise _another("--topology", ",".join([self.topology, *changes]), running.name)


def _another(name: str, wanted: str, has: str) -> UsageError:
    right = "leave the option out, or railyard down first"
    return UsageError(f"{name} {wanted}: the cluster that is up has {has}; {right}")


@dataclass(frozen=True, kw_only=True)
class ReproduceRequest(RunRequest):
    """A paper's experiments."""

    paper: str = argument(required=True, metavar="PAPER")
    figures: tuple[str, ...] = argument(nargs=-1, metavar="[FIGURE]...")
    wanted_seeds: int | range | None = option(
        "--seeds",
        metavar="N|A-B",
        callback=seed_range,
        help="Runs of each setup: N of them, or those with seeds A to B.  Seeds before the usual "
        "ones were used to choose what a paper leaves open.",
    )
    quick: bool = option(
        "--quick",
        is_flag=True,
        default=False,
        help="A smaller version of each figure, for a first look.",
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
