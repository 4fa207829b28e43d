"""The requests of commands that simulate: one run of a workload, or several to be compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

import click

from railyard.cluster.files.lasting import Durability
from railyard.cluster.topology import Topology
from railyard.scripts.clusters.request import DEFAULT_TOPOLOGY, JobsRequest
from railyard.scripts.simulating.workers import Workers, on_option
from railyard.scripts.terminal.options import COUNT, SEED, Settings, settings, settings_of
from railyard.scripts.terminal.request import option

if TYPE_CHECKING:
    from railyard.simulator.nodes.behaviour import Behaviour


def _behaviour() -> type[Behaviour]:
    from railyard.simulator.nodes.behaviour import Behaviour

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
    faults: str | None = None  #: of simulated runs, as ``simulator.faults.faultspec`` reads them
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
        from railyard.scripts.simulating.grain import topology_for

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
